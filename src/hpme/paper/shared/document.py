"""A report as data and as files: tables, pictures and pages in Markdown, LaTeX and HTML."""

from __future__ import annotations

import base64
import functools
import html
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from hpme.viz.render import render

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


@dataclass(frozen=True)
class Picture:
    """A figure and what it shows.

    Args:
        name: Name of its files.
        caption: What it shows.
        figure: A matplotlib figure.
        chart: Whether it is lines and text, which scale, rather than many small shapes.
    """

    name: str
    caption: str
    figure: Any
    chart: bool = True


Block = str | Table | Picture
"""A paragraph, a table or a picture."""


@dataclass(frozen=True)
class Page:
    """What belongs to one suite.

    Args:
        name: Name of its file.
        title: Its heading.
        blocks: Its content.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]


def files_of(pages: Sequence[Page], title: str, introduction: Sequence[str]) -> dict[str, bytes]:
    """All files of a report by path; the same pages give the same bytes.

    Args:
        pages: The pages.
        title: Title of the report.
        introduction: Paragraphs before them.
    """
    files: dict[str, bytes] = {}
    images: dict[str, str] = {}
    for page in pages:
        for block in page.blocks:
            if isinstance(block, Table):
                files[f"tables/{block.name}.tex"] = fill("table.tex.j2", table=block).encode()
            elif isinstance(block, Picture):
                for suffix in (".png", ".pdf"):
                    files[f"figures/{block.name}{suffix}"] = render(block.figure, suffix)
                images[block.name] = _data_uri(block, files)
        files[f"{page.name}.md"] = fill("page.md.j2", page=page).encode()
    report = {"title": title, "introduction": introduction, "pages": pages}
    files["index.md"] = fill("index.md.j2", **report).encode()
    files["report.html"] = fill("report.html.j2", images=images, **report).encode()
    return files


def _data_uri(picture: Picture, files: dict[str, bytes]) -> str:
    kind, content = "png", files[f"figures/{picture.name}.png"]
    if picture.chart:
        kind, content = "svg+xml", render(picture.figure, ".svg")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
