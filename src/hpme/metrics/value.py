"""What every metric returns: a number, or NaN and the reason why there is none."""

from __future__ import annotations

import math


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
