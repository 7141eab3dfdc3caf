"""What is kept of an experiment, and how it is written so that damage shows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hpme.bench.experiment import Experiment, canonical_json
from hpme.errors import InputError, StorageError
from hpme.storage import read_json


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
        cost: Seconds to fit, to explain and to compute metrics, CPU seconds of the three together,
            and peak memory.
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


@dataclass(frozen=True)
class Failure:
    """Why there is no record.

    Args:
        error: Kind of error.
        message: Its message.
        trace: Where it happened.
    """

    error: str
    message: str
    trace: str = ""


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
