"""Checks of constructor arguments that explainers share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from hpme.errors import InputError
from hpme.limits import MAX_SEED


def check_types(options: Mapping[str, Any], annotations: Mapping[str, str]) -> None:
    """Checks that numbers are of the kind that options are annotated with.

    Args:
        options: Constructor arguments by name.
        annotations: What the signature says about them, as text.

    Raises:
        InputError: If one is not: 1.5 epochs, a ratio of ``True``, a rate of infinity.
    """
    for name, value in options.items():
        kinds = {kind.strip() for kind in annotations.get(name, "").split("|")}
        if not kinds & {"int", "float"} or not isinstance(value, Real):
            continue
        if isinstance(value, bool) and "bool" not in kinds:
            raise InputError(f"{name} must be a number, got {value}")
        if not isinstance(value, Integral) and "float" not in kinds:
            raise InputError(f"{name} must be a whole number, got {value}")
        if not isinstance(value, bool) and math.isinf(value):
            raise InputError(f"{name} must be finite, got {value}")


def check_seed(seed: int) -> None:
    """Raises :class:`InputError` if a seed has more bits than random generators take."""
    if not -MAX_SEED <= seed <= MAX_SEED:
        raise InputError(f"seed must lie between {-MAX_SEED} and {MAX_SEED}, got {seed}")


def at_least(name: str, value: float, minimum: float) -> None:
    """Raises :class:`InputError` if an option is too small."""
    if not value >= minimum:
        raise InputError(f"{name} must be at least {minimum}, got {value}")


def positive(name: str, value: float) -> None:
    """Raises :class:`InputError` if an option is not above zero."""
    if not value > 0:
        raise InputError(f"{name} must be above 0, got {value}")
