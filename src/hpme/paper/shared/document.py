"""Tables, pictures and pages as data, and as files in Markdown, LaTeX and HTML."""

from __future__ import annotations

import base64
import functools
import html
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from hpme.viz.style import render

ONE_PAGE = "report.html"
"""All pages once more, in one file that needs no other."""
CHARTS, DRAWINGS = "figures", "drawings"
"""Folders of pictures. Where nodes are drawn depends on how the processor rounds."""
MISSING, UNDEFINED, FAILED = "—", "undefined", "failed"


@dataclass(frozen=True)
class Entry:
    """What stands in a cell."""

    text: str  # the value, or why there is none
    best: bool = False
    paper: str | None = None
    mark: str = ""


@dataclass(frozen=True)
class Column:
    """A column; neighbours with the same ``group`` share a heading above theirs."""

    title: str
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table, free of any markup."""

    name: str
    caption: str
    corner: str  # heading of the row titles
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]  # title and cells of every row
    notes: tuple[str, ...] = ()
    marks: tuple[tuple[str, str], ...] = ()  # letter and text of every footnote

    @property
    def identifier(self) -> str:
        """The name as other parts of a document refer to it."""
        return re.sub(r"[^A-Za-z0-9-]", "-", self.name)

    @property
    def groups(self) -> list[tuple[str, int, int]]:
        """Headings above those of the columns, if any: text, first column, and how many."""
        groups: list[tuple[str, int, int]] = []
        for title, members in itertools.groupby(column.group for column in self.columns):
            groups.append((title, sum(span for *_, span in groups), len(list(members))))
        return groups if any(title for title, *_ in groups) else []


class Footnotes(dict[str, str]):
    """Letters of remarks, in the order they are asked for."""

    def __missing__(self, text: str) -> str:
        first, second = divmod(len(self), len(ascii_lowercase))
        self[text] = (ascii_lowercase[first - 1] if first else "") + ascii_lowercase[second]
        return self[text]


_LATEX = {
    **{letter: rf"\{letter}" for letter in "{}$&#%_"},
    "\\": r"\textbackslash{}",
    "[": "{[}",  # else an argument of the line break before it
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
    """A template with values filled in, each escaped for the format of the template."""
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


@dataclass(frozen=True)
class Picture:
    """A figure and what it shows."""

    name: str
    caption: str
    figure: Any
    chart: bool = True  # whether it is lines and text, which scale, rather than drawn graphs

    @property
    def path(self) -> str:
        """Where it stands, without a suffix."""
        return f"{CHARTS if self.chart else DRAWINGS}/{self.name}"


Block = str | Table | Picture
"""A paragraph, a table or a picture."""


@dataclass(frozen=True)
class Page:
    """What belongs to one suite."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def files_of(pages: Sequence[Page], title: str, introduction: str) -> dict[str, bytes]:
    """All files of some pages by path; the same pages give the same bytes."""
    files: dict[str, bytes] = {}
    images: dict[str, str] = {}
    for page in pages:
        for block in page.blocks:
            if isinstance(block, Table):
                files[f"tables/{block.name}.tex"] = fill("table.tex.j2", table=block).encode()
            elif isinstance(block, Picture):
                for suffix in (".png", ".pdf"):
                    files[f"{block.path}{suffix}"] = render(block.figure, suffix)
                kind, content = "png", files[f"{block.path}.png"]
                if block.chart:
                    kind, content = "svg+xml", render(block.figure, ".svg")
                encoded = base64.b64encode(content).decode()
                images[block.name] = f"data:image/{kind};base64,{encoded}"
        files[f"{page.name}.md"] = fill("page.md.j2", page=page).encode()
    whole = {"title": title, "introduction": introduction, "pages": pages}
    files["index.md"] = fill("index.md.j2", **whole).encode()
    files[ONE_PAGE] = fill("one_page.html.j2", images=images, **whole).encode()
    return files
