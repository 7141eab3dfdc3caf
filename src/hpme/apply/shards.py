"""Shards of a table, and all rows of a file to them: what is there already is not made again."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpme.apply.rows import GraphFile, Part, SmilesTable
from hpme.data.molecules.columns import SKIPPED as COLUMNS
from hpme.data.molecules.columns import SkippedRow
from hpme.errors import HPMEError, InputError, StorageError, optional_module
from hpme.execute import Executor
from hpme.progress import progress_bar
from hpme.storage import read_json, write_atomically
from hpme.text import write_csv

logger = logging.getLogger("hpme")
META = b"hpme"
SETTINGS, SKIPPED = "_apply.json", "_skipped.csv"  # readers of Parquet leave these alone
DIGITS = 16
"""Of a shard's SHA-256, in its name: enough to tell damage."""
OURS = re.compile(rf"part-\d{{6,}}-[0-9a-f]{{{DIGITS}}}\.parquet")
"""What shards are called; nothing else is removed."""


def arrow(name: str = "pyarrow") -> Any:
    """A module of PyArrow, imported when it is first needed."""
    return optional_module(name, "Parquet files need PyArrow ({error})", "parquet")


@dataclass(frozen=True)
class Lists:
    """A list per row: values laid end to end, and how many belong to every row."""

    values: Tensor
    counts: Tensor


Column = Lists | Tensor | Sequence[int] | Sequence[str] | None
"""One value per row; nothing at all where ``None``."""


class ShardRows:
    """Rows of the shard of a part, added a batch at a time."""

    def __init__(self, part: Part) -> None:
        pa = self._pa = arrow()
        columns = {
            "id": pa.int64(),
            "name": part.names is not None and pa.string(),
            "smiles": part.smiles is not None and pa.string(),
            "prediction": pa.list_(pa.float32()),
            "class": pa.int32(),
            "pooled_nodes": pa.list_(pa.int32()),
            "edge_weights": pa.list_(pa.float32()),
            "node_weights": pa.list_(pa.float32()),
            "verdict": pa.string(),
            "rest_nodes": pa.list_(pa.int32()),
        }
        self._part = part
        self._batches: list[Any] = []
        self._schema = pa.schema([(name, kind) for name, kind in columns.items() if kind])

    def add(self, columns: dict[str, Column]) -> None:
        """Adds rows."""
        rows = len(columns["id"])  # type: ignore[arg-type]
        arrays = [_array(self._pa, columns[c.name], c.type, rows) for c in self._schema]
        self._batches.append(self._pa.record_batch(arrays, schema=self._schema))

    def encoded(self, skipped: Sequence[SkippedRow], settings: dict[str, Any]) -> bytes:
        """Content of the file of the shard; its description lists rows that were skipped."""
        meta = {
            "shard": self._part.number,
            "input_rows": len(self._part),
            "skipped": [astuple(row) for row in skipped],
            "settings": settings,
        }
        rows = self._pa.Table.from_batches(self._batches, schema=self._schema)
        sink = io.BytesIO()
        # Dictionaries do not pay for numbers that hardly repeat.
        arrow("pyarrow.parquet").write_table(
            rows.replace_schema_metadata({META: json.dumps(meta)}),
            sink,
            use_dictionary=["verdict"],
            write_statistics=["id"],
        )
        return sink.getvalue()


def _array(pa: Any, column: Column, kind: Any, rows: int) -> Any:
    if column is None:
        return pa.nulls(rows, kind)
    if isinstance(column, Lists):
        places = torch.cat([column.counts.new_zeros(1), column.counts.cumsum(0)])
        values = _numbers(pa, column.values, kind.value_type)
        return pa.ListArray.from_arrays(_numbers(pa, places, pa.int32()), values)
    if kind == pa.string():
        texts = [text.encode() for text in column]  # type: ignore[union-attr]
        ends = torch.tensor([0, *map(len, texts)]).cumsum(0)
        given = [pa.py_buffer(ends.int().numpy()), pa.py_buffer(b"".join(texts))]
        return pa.Array.from_buffers(kind, rows, [None, *given])
    return _numbers(pa, torch.as_tensor(column), kind)


def _numbers(pa: Any, values: Tensor, kind: Any) -> Any:
    """An array without copying; ``pa.array`` would import pandas, where it is installed."""
    kinds = {pa.int32(): torch.int32, pa.int64(): torch.int64, pa.float32(): torch.float32}
    row = values.detach().cpu().to(kinds[kind]).contiguous()
    return pa.Array.from_buffers(kind, len(row), [None, pa.py_buffer(row.numpy())])


class ShardFolder:
    """Shards of one run, and what it was run with.

    Args:
        path: The folder.
        settings: What decides about the content of the shards, by name.

    Raises:
        InputError: If the folder has shards of a run with other settings.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, settings
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._check()
        except FileExistsError as error:
            raise InputError(f"'{path}' is a file; name a folder") from error

    def _check(self) -> None:
        file = self.path / SETTINGS
        if file.exists():
            try:
                before = read_json(file.read_bytes())
            except ValueError as error:
                raise InputError(f"'{file}' is damaged; choose another --out") from error
            if not isinstance(before, dict):
                raise InputError(f"'{file}' is not what hpme apply writes; choose another --out")
            other = sorted(
                name for name in {*before, *self.settings}
                if before.get(name) != self.settings.get(name)
            )  # fmt: skip
            if other:
                raise InputError(
                    f"'{self.path}' holds results with another {' and another '.join(other)}; "
                    "choose another --out, or remove it"
                )
        elif any(self.path.glob("*.parquet")) or (self.path / SKIPPED).exists():
            raise InputError(f"'{self.path}' holds results of others; choose another --out")
        else:
            self._write(SETTINGS, json.dumps(self.settings, indent=2).encode())

    def put(self, number: int, content: bytes) -> None:
        """Writes a shard, whole or not at all; its name says what its content is."""
        digest = hashlib.sha256(content).hexdigest()[:DIGITS]
        self._write(f"part-{number:06d}-{digest}.parquet", content)

    def _write(self, name: str, content: bytes) -> None:
        try:
            write_atomically(self.path / name, content)
        except OSError as error:
            raise StorageError(
                f"cannot write '{self.path / name}': {error.strerror or error}; what was written "
                "before is kept: free some space or change the rights, and run the same command "
                "again"
            ) from error

    def done(self) -> dict[int, int]:
        """Input rows of all whole shards; damaged ones are removed, files of others refused."""
        found: dict[int, int] = {}
        for file in self._files():
            content = file.read_bytes()
            whole = file.stem.endswith(hashlib.sha256(content).hexdigest()[:DIGITS])
            meta = _meta(io.BytesIO(content))
            other = whole and meta is not None and meta.get("settings") != self.settings
            if other or meta == {} or not OURS.fullmatch(file.name):
                raise InputError(f"'{file}' is not of this run; move it elsewhere")
            if meta is None or not whole or meta["shard"] in found:
                logger.warning("'%s' is damaged or there twice; it is made again", file)
                os.unlink(file)
            else:
                found[meta["shard"]] = meta["input_rows"]
        for left in self.path.glob(".part-*"):  # of a process that was killed while it wrote
            if OURS.match(left.name[1:]):
                left.unlink(missing_ok=True)
        return found

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("*.parquet"))

    def write_skipped(self) -> int:
        """Lists rows that were left out in a file; returns their number."""
        file = self.path / SKIPPED
        temporary = self.path / f"{SKIPPED}.part"
        try:
            with temporary.open("w", newline="", encoding="utf-8") as text:
                listed = ((_meta(file) or {})["skipped"] for file in self._files())
                count = write_csv(text, COLUMNS, chain.from_iterable(listed))
            os.replace(temporary, file)
        except OSError as error:
            raise StorageError(
                f"cannot write '{file}': {error}; run the same command again"
            ) from error
        if not count:
            file.unlink()
        return count


def _meta(file: Any) -> dict[str, Any] | None:
    """What a shard says about itself, nothing if it is none; ``None`` if it cannot be read."""
    try:
        schema = arrow("pyarrow.parquet").read_schema(file)
        meta: dict[str, Any] = read_json((schema.metadata or {}).get(META, b"{}"))
    except (arrow().ArrowException, ValueError, OSError):
        return None
    return meta


ATTEMPTS = 3
"""How often a part is begun whose process was lost."""
LOST = "WorkerDied"


@dataclass(frozen=True)
class Applied:
    """What came of it.

    Args:
        shards: Shards in the folder.
        explained: Rows in them.
        skipped: Rows that were left out.
        kept: Input rows whose shards were there before.
    """

    shards: int
    explained: int
    skipped: int
    kept: int


def apply(
    rows: SmilesTable | GraphFile,
    folder: ShardFolder,
    executor: Executor,
    *,
    rows_per_shard: int,
    progress: bool = True,
) -> Applied:
    """Explains all rows that are in no shard yet.

    Shards are written as they come, each at once or not at all, by this process alone: whatever
    ends it, a row is in one shard or in none.

    Args:
        rows: Where rows come from.
        folder: Where shards go.
        executor: Does the work; see :class:`~hpme.apply.work.ShardWork`.
        rows_per_shard: Input rows of every shard.
        progress: Whether to show rate and remaining time.

    Raises:
        HPMEError: If a shard cannot be made; the others are kept.
    """
    there = folder.done()
    kept, attempts = sum(there.values()), Counter[int]()
    parts = rows.parts(rows_per_shard)
    waiting: Iterator[Part] = (part for part in parts if part.number not in there)
    running = 0
    with progress_bar("explaining", rows.total, enabled=progress, done=kept, rate=True) as advance:
        while True:
            while executor.free and (part := next(waiting, None)) is not None:
                executor.submit(part)
                running += 1
            if not running:
                break
            for done in executor.wait(1.0):
                running -= 1
                part = done.job
                if done.failure is None:
                    folder.put(part.number, done.result)
                    there[part.number] = len(part)
                    advance(len(part))
                else:
                    attempts[part.number] += 1
                    if done.failure.error != LOST or attempts[part.number] >= ATTEMPTS:
                        raise HPMEError(
                            f"rows {part.ids[:1]} to {part.ids[-1:]} could not be explained: "
                            f"{done.failure.error}: {done.failure.message}; all other finished "
                            "rows are kept"
                        )
                    waiting = chain([part], waiting)
    skipped = folder.write_skipped()
    return Applied(len(there), sum(there.values()) - skipped, skipped, kept)
