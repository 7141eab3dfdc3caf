"""Constructor arguments: what each may be is declared once, by the annotation it has.

Errors, and the descriptions of :func:`describe_options`, are made from these. Types say what is a
choice, a flag or a number; :obj:`Count` and the others, or a :class:`Constraint` in ``Annotated``,
which numbers it may be.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from hpme.errors import InputError

_KINDS = {
    int: ("a whole number", Integral),
    float: ("a number", Real),
    str: ("a text", str),
    dict: ("a dictionary", Mapping),
    list: ("a list", list | tuple),
}


@dataclass(frozen=True)
class Constraint:
    """What an argument may be."""

    kind: type | None = None  # its type; of a ``float`` any real number will do
    least: float | None = None  # the lowest number
    above: float | None = None  # all numbers are higher
    most: float | None = None  # the highest number
    below: float | None = None  # all numbers are lower
    choices: tuple[Any, ...] = ()  # values to choose from, for a ``kind`` of ``None``
    words: tuple[str | None, ...] = ()  # in place of a value of the kind, such as "auto"
    reason: str = ""  # why nothing of another kind may be given, where that is not obvious

    def check(self, name: str, value: Any) -> None:
        """Raises :class:`InputError` if an argument is something else."""
        if (value is None or isinstance(value, str)) and value in self.words:
            return
        wrong = self._wrong(value)
        if wrong:
            given = repr(value) if isinstance(value, str) else value
            reason = f": {self.reason}" if self.reason and isinstance(value, str) else ""
            raise InputError(f"{name} must {wrong}, got {given}{reason}")

    def _wrong(self, value: Any) -> str:
        """What the value must be and is not, if anything."""
        if self.kind is None:
            known = isinstance(value, str | bool | Real) and value in self.choices
            return "" if known else f"be one of {self.choices}"
        text, kind = _KINDS[self.kind]
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"be {text}"
        if not isinstance(value, Real):
            return ""
        if abs(value) > LARGEST and not math.isnan(value):
            return "be finite"
        # Written so that NaN, of which nothing is true, is refused.
        inside = (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )
        return "" if inside else self._bounds

    @property
    def _bounds(self) -> str:
        """Where numbers must lie; upper bounds alone are not needed."""
        low = self.above if self.least is None else self.least
        high = self.below if self.most is None else self.most
        if low is None:
            return ""
        if high is None:
            return f"be {'above' if self.least is None else 'at least'} {low}"
        ends = "(" if self.least is None else "[", ")" if self.most is None else "]"
        return f"lie in {ends[0]}{low}, {high}{ends[1]}"

    def __str__(self) -> str:
        if self.kind is None:
            text = " or ".join(repr(value) for value in self.choices)
        else:
            bounds = self._bounds.replace("be at", "of at").removeprefix("be ").removeprefix("lie ")
            text = f"{_KINDS[self.kind][0]} {bounds}".strip()
        return " or ".join([text, *(repr(word) for word in self.words)])


def whole(least: int | None = None, **others: Any) -> Constraint:
    """A whole number; the others are fields of :class:`Constraint`, as below."""
    return Constraint(int, least=least, **others)


def real(**others: Any) -> Constraint:
    """A finite number."""
    return Constraint(float, **others)


def one_of(*choices: Any, **others: Any) -> Constraint:
    """One of several values."""
    return Constraint(choices=choices, **others)


LARGEST = 3e38
"""Single precision has no larger numbers."""
Count = Annotated[int, whole(1)]
"""At least one."""
FromZero = Annotated[int, whole(0)]
Positive = Annotated[float, real(above=0)]
Weight = Annotated[float, real(least=0)]
"""Of a term in a sum; 0 leaves it out."""
Share = Annotated[float, real(above=0, most=1)]
"""A part of a whole that is not empty."""


def at_least(name: str, value: int, minimum: int) -> None:
    """Raises :class:`InputError` if an argument of a method is no whole number, or too small."""
    whole(minimum).check(name, value)


def check_options(kind: type, options: Mapping[str, Any]) -> None:
    """Raises :class:`InputError` if an argument of a class is not what its annotation says."""
    known = constraints_of(kind)
    for name, value in options.items():
        if name in known:
            known[name].check(name, value)


def set_options(thing: Any, params: Mapping[str, Any]) -> None:
    """Makes an object anew with other constructor arguments; what it learned is forgotten."""
    valid = thing.option_names()
    for name in params:
        if name not in valid:
            raise InputError(
                f"{type(thing).__name__} has no argument '{name}'; valid: {', '.join(valid)}"
            )
    if params:
        options = {**thing.get_params(), **params}
        type(thing)(**options)  # refuses before anything here has changed
        thing.__init__(**options)


@cache
def constraints_of(kind: type) -> Mapping[str, Constraint]:
    """What the arguments of a class may be, those passed on to base classes included."""
    found: dict[str, Constraint] = {}
    for base in reversed(kind.__mro__):
        try:
            hints = get_type_hints(vars(base).get("__init__", type), include_extras=True)
        except NameError:  # a name in them is not known at runtime
            continue
        for name, annotation in hints.items():
            constraint = constraint_of(annotation)
            if constraint is not None:
                found[name] = constraint
    return found


def constraint_of(annotation: Any) -> Constraint | None:
    """What an argument with an annotation may be; ``None`` if anything."""
    kind, parts = get_origin(annotation) or annotation, get_args(annotation)
    if kind in (Union, UnionType):  # a kind, and words in place of it
        first = constraint_of(parts[0])
        words = [word for part in parts[1:] for word in get_args(part) or (None,)]
        return None if first is None else replace(first, words=tuple(words))
    if kind is Annotated:
        return next((one for one in parts if isinstance(one, Constraint)), None)
    if kind is bool:
        return one_of(True, False)
    if kind is Literal:
        return one_of(*parts)
    return Constraint(kind) if kind in _KINDS else None


def parameters_of(kind: type) -> dict[str, inspect.Parameter]:
    """Keyword arguments of a class, those passed on to base classes included."""
    found: dict[str, inspect.Parameter] = {}
    for base in reversed(kind.__mro__):
        if "__init__" in vars(base):
            parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            found.update({p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY})
    return found


class Option(NamedTuple):
    """A constructor argument, for people: its default, what it may be, and what it means."""

    name: str
    default: Any
    constraint: str
    meaning: str


def describe_options(kind: type) -> list[Option]:
    """All constructor arguments of an explainer; what they mean is taken from docstrings."""
    table, meanings = constraints_of(kind), dict[str, str]()
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(vars(base).get("__doc__") or "")
        section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
        if section:
            entries = r"^    (\w+): (.*?)(?=^    \S|\Z)"
            for name, meaning in re.findall(entries, section[1], re.DOTALL | re.MULTILINE):
                meanings[name] = " ".join(meaning.split())
    return [
        Option(name, parameter.default, str(table.get(name, "")), meanings.get(name, ""))
        for name, parameter in parameters_of(kind).items()
    ]
