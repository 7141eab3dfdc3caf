"""Checks of constructor arguments that explainers share."""

from __future__ import annotations

from hpme.errors import InputError


def at_least(name: str, value: float, minimum: float) -> None:
    """Raises :class:`InputError` if an option is too small."""
    if not value >= minimum:
        raise InputError(f"{name} must be at least {minimum}, got {value}")


def positive(name: str, value: float) -> None:
    """Raises :class:`InputError` if an option is not above zero."""
    if not value > 0:
        raise InputError(f"{name} must be above 0, got {value}")
