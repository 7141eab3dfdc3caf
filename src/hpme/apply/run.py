"""All rows of a file to shards: what is there already is not made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from hpme.apply.rows import GraphFile, Part, SmilesTable
from hpme.apply.shards import ShardFolder
from hpme.errors import HPMEError
from hpme.execute import Done, Executor
from hpme.progress import progress_bar

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
                    _check_lost(done, attempts[part.number])
                    waiting = chain([part], waiting)
    skipped = folder.write_skipped()
    return Applied(len(there), sum(there.values()) - skipped, skipped, kept)


def _check_lost(done: Done, attempt: int) -> None:
    """Raises unless the process was lost and the part is worth another try."""
    assert done.failure is not None
    if done.failure.error == LOST and attempt < ATTEMPTS:
        return
    first, last = done.job.ids[:1], done.job.ids[-1:]
    raise HPMEError(
        f"rows {first} to {last} could not be explained: {done.failure.error}: "
        f"{done.failure.message}; all other finished rows are kept"
    )
