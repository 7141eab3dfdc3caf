"""Tables as data: headings, cells and remarks, free of any markup."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import NamedTuple

MISSING, UNDEFINED, FAILED = "—", "undefined", "failed"


@dataclass(frozen=True)
class Entry:
    """What stands in a cell.

    Args:
        text: The value, or why there is none.
        best: Whether it is the best of its column.
        paper: The paper's value.
        mark: Letters of footnotes.
    """

    text: str
    best: bool = False
    paper: str | None = None
    mark: str = ""


@dataclass(frozen=True)
class Column:
    """A column; neighbours with the same ``group`` share a heading above theirs."""

    title: str
    group: str = ""


class Group(NamedTuple):
    """Neighbouring columns under one heading: its text, their first, and how many they are."""

    title: str
    first: int
    span: int


@dataclass(frozen=True)
class Table:
    """A table, free of any markup.

    Args:
        name: Name of its file.
        caption: What it shows.
        corner: Heading of the row titles.
        columns: Headings.
        rows: Title and cells of every row.
        notes: Remarks on the whole table.
        marks: Letter and text of every footnote.
    """

    name: str
    caption: str
    corner: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    notes: tuple[str, ...] = ()
    marks: tuple[tuple[str, str], ...] = ()

    @property
    def identifier(self) -> str:
        """The name as other parts of a document refer to it."""
        return re.sub(r"[^A-Za-z0-9-]", "-", self.name)

    @property
    def groups(self) -> list[Group]:
        """Headings above those of the columns; none if no column has one."""
        if not any(column.group for column in self.columns):
            return []
        groups: list[Group] = []
        for title, members in itertools.groupby(self.columns, key=lambda column: column.group):
            groups.append(Group(title, sum(g.span for g in groups), len(list(members))))
        return groups


@dataclass
class Footnotes:
    """Gives every remark a letter, the same remark the same one."""

    letters: dict[str, str] = field(default_factory=dict)

    def mark(self, texts: Iterable[str]) -> str:
        """Letters of remarks."""
        return ",".join(self._letter(text) for text in texts)

    def _letter(self, text: str) -> str:
        if text not in self.letters:
            first, second = divmod(len(self.letters), len(ascii_lowercase))
            prefix = ascii_lowercase[first - 1] if first else ""
            self.letters[text] = prefix + ascii_lowercase[second]
        return self.letters[text]

    def list(self) -> tuple[tuple[str, str], ...]:
        """Letters and remarks in the order they came up."""
        return tuple((letter, text) for text, letter in self.letters.items())
