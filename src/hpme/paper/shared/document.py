"""A report as files: Markdown and LaTeX by page, and one HTML page with all of it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hpme.paper.shared.markup import fill
from hpme.paper.shared.tables import Table
from hpme.viz.render import render


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
