"""Results on disk: one file per experiment, found again by its key."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from hpme.bench.experiment import Experiment, canonical_json
from hpme.bench.record import Failure, Record
from hpme.storage import read_json, write_atomically

logger = logging.getLogger("hpme")


class ResultStore:
    """A folder of results; a kill at any moment leaves every file whole or absent.

    Args:
        folder: Holds ``results/<key>.json`` and ``failures/<key>.json``.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, experiment: Experiment) -> Path:
        """Where the result of an experiment is stored."""
        return self.folder / "results" / f"{experiment.key}.json"

    def failure_path(self, experiment: Experiment) -> Path:
        """Where the failure of an experiment is stored."""
        return self.folder / "failures" / f"{experiment.key}.json"

    def get(self, experiment: Experiment) -> Record | None:
        """The intact result of an experiment; ``None`` if there is none, so that it must be run."""
        path = self.path(experiment)
        try:
            record = Record.from_bytes(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:  # StorageError is one
            logger.warning("'%s' is damaged and will be computed again: %s", path, error)
            return None
        return record if record.experiment.key == experiment.key else None

    def put(self, record: Record) -> None:
        """Stores a result, and forgets that the experiment failed before."""
        write_atomically(self.path(record.experiment), record.to_bytes())
        self.failure_path(record.experiment).unlink(missing_ok=True)

    def put_failure(self, experiment: Experiment, failure: Failure) -> None:
        """Stores why an experiment failed; it is tried again in the next run."""
        content = {"key": experiment.key, "experiment": experiment.to_dict(), **asdict(failure)}
        write_atomically(self.failure_path(experiment), canonical_json(content))

    def records(self) -> Iterator[Record]:
        """All intact results, in the order of their keys."""
        for path in sorted((self.folder / "results").glob("*.json")):
            try:
                yield Record.from_bytes(path.read_bytes())
            except OSError as error:
                logger.warning("'%s' is left out: %s", path, error)

    def failures(self) -> Iterator[dict[str, str]]:
        """All failures, in the order of their keys."""
        for path in sorted((self.folder / "failures").glob("*.json")):
            try:
                yield dict(read_json(path.read_bytes()))
            except (OSError, ValueError, TypeError) as error:
                logger.warning("'%s' is left out: %s", path, error)
