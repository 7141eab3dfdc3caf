"""Results: what is kept of an experiment, where on disk, and which experiments have none yet."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hpme.bench.experiment import Experiment, canonical_json
from hpme.errors import InputError, StorageError
from hpme.execute.jobs import Failure
from hpme.storage import read_json, write_atomically

logger = logging.getLogger("hpme")


@dataclass(frozen=True)
class Record:
    """The result of an experiment; plain values only.

    All but ``cost`` and ``versions`` is the same in every run of the same experiment.

    Args:
        experiment: What was run.
        values: Metrics by name; ``None`` if undefined.
        spread: Standard deviation over graphs of the metrics that are a mean over graphs.
        undefined: For every value that is ``None``, the reason.
        context: What the values depend on beyond the experiment: ``rule``, ``variant`` and ``size``
            of the dataset, number of explained ``graphs`` and of ``companions``, all arguments of
            the explainer (``config``), where its pool ratio is from (``pool_ratio_source``), its
            ``report`` on the fit, the target's ``target_metrics``, and ``target_model_metrics`` of
            the copy that was explained in place of the target, if any. ``exhibits`` is what
            pictures are drawn from, if the experiment asks for it.
        cost: Seconds to fit, to explain and to compute metrics, CPU seconds of the three together
            and of the explainer alone, passes of the target over the graphs, and peak memory.
        versions: Versions of the software.
    """

    experiment: Experiment
    values: dict[str, float | None]
    spread: dict[str, float]
    undefined: dict[str, str]
    context: dict[str, Any]
    cost: dict[str, Any]
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values, with a digest of all the others."""
        content: dict[str, Any] = json_values(
            {**asdict(self), "experiment": self.experiment.to_dict(), "key": self.experiment.key}
        )
        return {**content, "sha256": _digest(content)}

    def to_bytes(self) -> bytes:
        """Content of a result file."""
        return canonical_json(self.to_dict())

    @classmethod
    def from_bytes(cls, content: bytes) -> Record:
        """The record of a result file.

        Raises:
            StorageError: If the content is damaged or of another version.
        """
        try:
            values = read_json(content)
            return cls.from_dict(values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StorageError(f"not an intact result: {error}") from error

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Record:
        """The record :meth:`to_dict` came from.

        Raises:
            InputError: If it was changed since.
        """
        values = dict(content)
        if values.pop("sha256", None) != _digest(values):
            raise InputError("its content does not fit its sha256")
        experiment = Experiment.from_dict(values.pop("experiment"))
        if values.pop("key") != experiment.key:
            raise InputError("its key is of another version of hpme")
        return cls(experiment=experiment, **values)


def json_values(value: Any) -> Any:
    """Plain JSON values; a number that is not finite becomes ``None``."""
    if isinstance(value, Mapping):
        return {str(key): json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(content)).hexdigest()


class ResultStore:
    """A folder of results; a kill at any moment leaves every file whole or absent.

    Args:
        folder: Holds ``results/<key>.json`` and ``failures/<key>.json``.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, experiment: Experiment, kind: str = "results") -> Path:
        """Where the result of an experiment is stored, or its failure (``"failures"``)."""
        return self.folder / kind / f"{experiment.key}.json"

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
        self.path(record.experiment, "failures").unlink(missing_ok=True)

    def put_failure(self, experiment: Experiment, failure: Failure) -> None:
        """Stores why an experiment failed; it is tried again in the next run."""
        content = {"key": experiment.key, "experiment": experiment.to_dict(), **asdict(failure)}
        write_atomically(self.path(experiment, "failures"), canonical_json(content))

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


@dataclass(frozen=True)
class Plan:
    """What is left to do.

    Args:
        experiments: All experiments, each once.
        done: Results that are stored and intact.
        todo: Experiments without one.
    """

    experiments: list[Experiment]
    done: list[Record]
    todo: list[Experiment]

    @classmethod
    def of(cls, experiments: Iterable[Experiment], store: ResultStore) -> Plan:
        """Looks every experiment up in the store.

        A result that has more metrics than an experiment asks for is a result of it, too.
        """
        unique = list({experiment.key: experiment for experiment in experiments}.values())
        found = [store.get(experiment) for experiment in unique]
        if None in found:
            stored: dict[str, list[Record]] = {}
            for record in store.records():
                stored.setdefault(_bare(record.experiment), []).append(record)
            found = [
                record or _covering(experiment, stored.get(_bare(experiment), []))
                for experiment, record in zip(unique, found, strict=True)
            ]
        pairs = list(zip(unique, found, strict=True))
        return cls(
            experiments=unique,
            done=[record for _, record in pairs if record is not None],
            todo=[experiment for experiment, record in pairs if record is None],
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
    wanted = set(experiment.metrics)
    return next((r for r in records if wanted <= set(r.experiment.metrics)), None)
