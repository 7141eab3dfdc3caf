"""What every metric returns: a number, or NaN and the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor


class MetricValue(float):
    """A float that knows why it is NaN.

    It behaves like any float; :attr:`reason` is ``None`` if the metric is defined.

    Args:
        value: The value; NaN if the metric is undefined.
        reason: Why it is undefined.
    """

    __slots__ = ("reason",)
    reason: str | None

    def __new__(cls, value: float, reason: str | None = None) -> MetricValue:
        """NaN and a reason go together; one without the other is a mistake of the metric."""
        self = super().__new__(cls, value)
        if math.isnan(self) != (reason is not None):
            raise ValueError("a reason is needed for NaN, and only for NaN")
        self.reason = reason
        return self

    @classmethod
    def undefined(cls, reason: str) -> MetricValue:
        """NaN with the reason."""
        return cls(math.nan, reason)

    def __getnewargs__(self) -> tuple[float, str | None]:  # type: ignore[override]
        return float(self), self.reason

    def __repr__(self) -> str:
        number = float(self)
        return repr(number) if self.reason is None else f"MetricValue(nan, reason={self.reason!r})"


@dataclass(frozen=True, eq=False)
class GraphScores:
    """A metric with one value per graph.

    Args:
        per_graph: The values, in the order of the graphs; NaN where undefined.
        why: Why values are undefined; the reason of :attr:`mean` if all are.
    """

    per_graph: Tensor
    why: str

    @property
    def mean(self) -> MetricValue:
        """Mean over the graphs with a value."""
        return self._of(torch.mean)

    @property
    def std(self) -> MetricValue:
        """Population standard deviation over the graphs with a value."""
        return self._of(partial(torch.std, unbiased=False))

    @property
    def count(self) -> int:
        """Number of graphs with a value."""
        return int((~self.per_graph.isnan()).sum())

    def __float__(self) -> float:
        return float(self.mean)

    def _of(self, statistic: Callable[[Tensor], Tensor]) -> MetricValue:
        if not self.count:
            return MetricValue.undefined(self.why)
        return MetricValue(float(statistic(self.per_graph[~self.per_graph.isnan()])))
