"""Results: what is kept of an experiment, where on disk, and which experiments have none yet."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hpme import storage
from hpme.bench.experiment import Experiment
from hpme.errors import InputError, StorageError
from hpme.execute import Failure

OTHER = "other"
"""File of results that were computed for no suite."""
logger = logging.getLogger("hpme")


@dataclass(frozen=True)
class Record:
    """The result of an experiment; plain values only.

    All but ``cost`` and ``versions`` is the same in every run of the same experiment.

    Args:
        values: Metrics by name; ``None`` if undefined.
        spread: Standard deviation over graphs of the metrics that are a mean over graphs.
        undefined: For every value that is ``None``, the reason.
        context: What the values depend on beyond the experiment: ``rule``, ``variant`` and ``size``
            of the dataset, number of explained ``graphs`` and of ``companions``, all arguments of
            the explainer (``config``), where its pool ratio is from (``pool_ratio_source``), its
            ``report`` on the fit, the target's ``target_metrics``, and ``target_model_metrics`` of
            a copy that was explained in its place; ``exhibits`` is what pictures are drawn from.
        cost: Seconds to fit, to explain and to compute metrics, CPU seconds of the three together
            and of the explainer alone, passes of the target over the graphs, and peak memory.
        earlier: Whether the explainer has changed since; not stored.
    """

    experiment: Experiment
    values: dict[str, float | None]
    spread: dict[str, float]
    undefined: dict[str, str]
    context: dict[str, Any]
    cost: dict[str, Any]
    versions: dict[str, str]
    earlier: bool = False

    @property
    def key(self) -> str:
        """That of the experiment when it was run."""
        return self.experiment.earlier_key if self.earlier else self.experiment.key

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values, with a digest of all the others."""
        content = {"experiment": self.experiment.to_dict(), "key": self.key}
        stored = {name: value for name, value in asdict(self).items() if name != "earlier"}
        return storage.sealed(storage.json_values({**stored, **content}))

    def to_bytes(self) -> bytes:
        """The record as a line of a file."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return text.encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Record:
        """The record of a line; a :class:`StorageError` if it is damaged or of another version."""
        try:
            values = storage.unsealed(storage.read_json(content))
            experiment = Experiment.from_dict(values.pop("experiment"))
            key = values.pop("key")
            if key not in (experiment.key, experiment.earlier_key):
                raise InputError("its key is of another version of hpme")
            return cls(experiment=experiment, **values, earlier=key != experiment.key)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StorageError(f"not an intact result: {error}") from error


class ResultStore:
    """A folder of results, a file for each suite; a kill at any moment loses none.

    Lines of files are results, and nothing is stored twice: what several suites share is in the
    file of the one that was run first. A line that is damaged, or torn because its writer was
    killed, is left out, so that its experiment is run again.

    The folder holds ``results/<suite>.jsonl`` and ``failures/<key>.json``; files of single results,
    ``results/<key>.json``, are from older versions and are read, too.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, suite: str = OTHER) -> Path:
        """Where the results of a suite are stored."""
        return self.folder / "results" / f"{suite}.jsonl"

    def failure_path(self, experiment: Experiment) -> Path:
        """Where it is stored why an experiment failed."""
        return self.folder / "failures" / f"{experiment.key}.json"

    def begin(self, suites: Iterable[str]) -> None:
        """Notes that suites are run, even if all their results are there already."""
        for path in map(self.path, suites):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()

    def suites(self) -> set[str]:
        """The suites that were run; none if there are results of which that is not known."""
        names = {path.stem for path in self._files("jsonl")}
        return set() if OTHER in names or self._files("json") else names

    def get(self, experiment: Experiment) -> Record | None:
        """The intact result of an experiment; ``None`` if there is none, so that it must be run."""
        own = (r for r in self._records(experiment.key) if not r.earlier)
        found = [record for record in own if record.experiment.key == experiment.key]
        return found[-1] if found else None

    def put(self, record: Record, suite: str = OTHER) -> None:
        """Stores a result, and forgets that the experiment failed before."""
        storage.append_line(self.path(suite), record.to_bytes())
        self.failure_path(record.experiment).unlink(missing_ok=True)

    def put_failure(self, experiment: Experiment, failure: Failure) -> None:
        """Stores why an experiment failed; it is tried again in the next run."""
        content = {"key": experiment.key, "experiment": experiment.to_dict(), **asdict(failure)}
        storage.write_atomically(self.failure_path(experiment), storage.canonical_json(content))

    def records(self, *, earlier: bool = False) -> Iterator[Record]:
        """All intact results by key; ``earlier`` means also those of explainers changed since."""
        every = [record for record in self._records() if earlier or not record.earlier]
        every.sort(key=lambda record: not record.earlier)
        found = {record.experiment.key: record for record in every}
        return (found[key] for key in sorted(found))

    def failures(self) -> Iterator[dict[str, str]]:
        """All failures, in the order of their keys."""
        for path in sorted((self.folder / "failures").glob("*.json")):
            try:
                yield dict(storage.read_json(path.read_bytes()))
            except (OSError, ValueError, TypeError) as error:
                logger.warning("'%s' is left out: %s", path, error)

    def sort(self, suites: Iterable[str]) -> None:
        """Sorts the lines of files and drops damaged ones, if nobody else can write meanwhile."""
        for path in map(self.path, suites):
            with storage.locked(path) as alone:
                if not alone or not path.is_file():
                    continue
                content, lines = path.read_bytes(), {}
                for line in content.splitlines():
                    try:  # results of other versions are whole as well
                        lines[str(storage.unsealed(storage.read_json(line))["key"])] = line
                    except (ValueError, TypeError, KeyError, AttributeError):
                        logger.warning("a damaged line of '%s' is dropped", path)
                ordered = b"".join(lines[key] + b"\n" for key in sorted(lines))
                if ordered != content:
                    storage.write_atomically(path, ordered)

    def _files(self, suffix: str) -> list[Path]:
        return sorted((self.folder / "results").glob(f"*.{suffix}"))

    def _records(self, key: str = "") -> Iterator[Record]:
        """Intact results, those with a key if one is given; the newest of an experiment last."""
        for path in self._files("json") + self._files("jsonl"):
            try:
                content = path.read_bytes()
            except OSError as error:
                logger.warning("'%s' is left out: %s", path, error)
                continue
            lines = [content] if path.suffix == ".json" else content.splitlines()
            for number, line in enumerate(lines, 1):
                if key.encode() not in line:
                    continue
                try:
                    yield Record.from_bytes(line)
                except StorageError as error:
                    logger.warning("line %d of '%s' is left out: %s", number, path, error)


@dataclass(frozen=True)
class Plan:
    """What is left to do."""

    experiments: list[Experiment]  # all of them, each once
    done: list[Record]  # results that are stored and intact
    todo: list[Experiment]  # those without one

    @classmethod
    def of(cls, experiments: Iterable[Experiment], store: ResultStore) -> Plan:
        """Looks every experiment up in the store, where results may have further metrics."""
        unique = list({experiment.key: experiment for experiment in experiments}.values())
        stored: dict[str, list[Record]] = {}
        for record in store.records():
            stored.setdefault(_bare(record.experiment), []).append(record)
        found = {e.key: _covering(e, stored.get(_bare(e), [])) for e in unique}
        return cls(
            experiments=unique,
            done=[record for record in found.values() if record is not None],
            todo=[experiment for experiment in unique if found[experiment.key] is None],
        )

    @property
    def targets(self) -> list[Experiment]:
        """For every target that is needed, the first experiment that needs it."""
        first: dict[object, Experiment] = {}
        for experiment in self.todo:
            first.setdefault(experiment.target, experiment)
        return list(first.values())


def _bare(experiment: Experiment) -> str:
    """Key of an experiment whatever its metrics."""
    return replace(experiment, metrics=()).key


def _covering(experiment: Experiment, records: Iterable[Record]) -> Record | None:
    """A record with the metrics of an experiment, if possible with these alone."""
    wanted = set(experiment.metrics)
    enough = [record for record in records if wanted <= set(record.experiment.metrics)]
    return max(enough, key=lambda record: record.experiment.key == experiment.key, default=None)
