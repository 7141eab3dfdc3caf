"""Text of others, such as names in tables, fit to be shown."""

from __future__ import annotations

import unicodedata


def one_line(text: str, *, keep: str = "") -> str:
    """Text with a space in place of every control character but those to ``keep``.

    In terminals they would move the cursor or change colours, in SVG files they are errors.
    """
    return "".join(
        letter if letter in keep or unicodedata.category(letter) not in ("Cc", "Cs") else " "
        for letter in text
    )
