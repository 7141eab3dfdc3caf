"""Templates of Markdown, LaTeX and HTML; whatever is in a name stays text."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "[": "{[}",  # else an argument of the line break before it
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "—": "---",
    "β": r"$\beta$",
    "\n": " ",
}
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$#])")


def escape_latex(text: str) -> str:
    """Text for LaTeX."""
    return "".join(_LATEX.get(character, character) for character in text)


def escape_markdown(text: str) -> str:
    """Text for Markdown, in tables too; HTML in it stays text."""
    flat = " ".join(text.split())
    return _MARKDOWN.sub(r"\\\1", html.escape(flat, quote=False))


def fill(template: str, **values: Any) -> str:
    """A template with values filled in, each escaped for the format of the template.

    Args:
        template: Name of a file in ``templates``, such as ``table.md.j2``.
        values: What the template asks for.
    """
    return _environment(template.split(".")[1]).get_template(template).render(values)


_ESCAPES: dict[str, Callable[[str], str]] = {
    "html": html.escape,
    "md": escape_markdown,
    "tex": escape_latex,
}
_DELIMITERS: dict[str, Any] = {
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "block_start_string": "<%",
    "block_end_string": "%>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}
"""In LaTeX braces are everywhere."""


@functools.cache
def _environment(suffix: str) -> Environment:
    escape = _ESCAPES[suffix]
    return Environment(
        loader=PackageLoader("hpme.paper"),
        autoescape=True,
        # Before jinja's own escaping, which is for HTML and leaves alone what is markup already.
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(str(value))),
        trim_blocks=True,
        keep_trailing_newline=True,
        **(_DELIMITERS if suffix == "tex" else {}),
    )
