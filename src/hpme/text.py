"""Text of others, such as names in tables, fit to be shown and to be written."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterable
from itertools import chain
from typing import Any, TextIO

_COMPUTED = ("=", "+", "-", "@", "\t", "\r")


def one_line(text: str, *, keep: str = "") -> str:
    """Text with a space in place of every control character but those to ``keep``."""
    return "".join(
        letter if letter in keep or unicodedata.category(letter) not in ("Cc", "Cs") else " "
        for letter in text
    )


def write_csv(file: TextIO, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> int:
    """Writes a table with a quote before what would be computed; returns the number of rows."""
    writer, count = csv.writer(file), -1
    for row in chain([header], rows):
        cells = (f"'{v}" if isinstance(v, str) and v.startswith(_COMPUTED) else v for v in row)
        writer.writerow(cells)
        count += 1
    return count
