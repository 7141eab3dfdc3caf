"""A report as files: Markdown and LaTeX by page, and one HTML page with all of it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from hpme.bench.markup import escape_html, escape_markdown, to_html, to_latex, to_markdown
from hpme.bench.tables import Table
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


def files_of(pages: Sequence[Page], title: str, introduction: Sequence[Block]) -> dict[str, bytes]:
    """All files of a report by path; the same pages give the same bytes.

    Args:
        pages: The pages.
        title: Title of the report.
        introduction: What stands before them.
    """
    files: dict[str, bytes] = {}
    images: dict[str, str] = {}
    for page in pages:
        for block in page.blocks:
            if isinstance(block, Table):
                files[f"tables/{block.name}.tex"] = to_latex(block).encode()
            elif isinstance(block, Picture):
                for suffix in (".png", ".pdf"):
                    files[f"figures/{block.name}{suffix}"] = render(block.figure, suffix)
                images[block.name] = _data_uri(block, files)
        blocks = [f"# {escape_markdown(page.title)}", *map(_markdown, page.blocks)]
        files[f"{page.name}.md"] = _joined(blocks)
    links = [f"- [{escape_markdown(page.title)}]({page.name}.md)" for page in pages]
    start = [f"# {escape_markdown(title)}", *map(_markdown, introduction)]
    files["index.md"] = _joined([*start, *(["\n".join(links)] if links else [])])
    files["report.html"] = _html(pages, title, introduction, images).encode()
    return files


def _joined(blocks: Iterable[str]) -> bytes:
    return ("\n\n".join(block.strip() for block in blocks) + "\n").encode()


def _markdown(block: Block) -> str:
    if isinstance(block, Table):
        return f"{to_markdown(block)}\n[LaTeX](tables/{block.name}.tex)"
    if isinstance(block, Picture):
        caption = escape_markdown(block.caption)
        return f"![{caption}](figures/{block.name}.png)\n\n{caption}"
    return escape_markdown(block)


def _data_uri(picture: Picture, files: dict[str, bytes]) -> str:
    kind, content = "png", files[f"figures/{picture.name}.png"]
    if picture.chart:
        kind, content = "svg+xml", render(picture.figure, ".svg")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _html(
    pages: Sequence[Page], title: str, introduction: Sequence[Block], images: dict[str, str]
) -> str:
    def block_html(block: Block) -> str:
        if isinstance(block, Table):
            return to_html(block)
        if isinstance(block, Picture):
            caption = escape_html(block.caption)
            return (
                f'<figure class="picture"><img src="{images[block.name]}" alt="{caption}">'
                f"<figcaption>{caption}</figcaption></figure>"
            )
        return f"<p>{escape_html(block)}</p>"

    style = resources.files("hpme.viz").joinpath("results.css").read_text("utf-8")
    links = "".join(f'<a href="#{page.name}">{escape_html(page.title)}</a>' for page in pages)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape_html(title)}</title>",
        f"<style>\n{style}</style>",
        "</head>",
        "<body>",
        f"<header><h1>{escape_html(title)}</h1></header>",
        f"<nav>{links}</nav>" if links else "",
        "<main>",
        *map(block_html, introduction),
    ]
    for page in pages:
        parts += [
            f'<section id="{page.name}">',
            f"<h2>{escape_html(page.title)}</h2>",
            *map(block_html, page.blocks),
            "</section>",
        ]
    return "\n".join([*(part for part in parts if part), "</main>", "</body>", "</html>"]) + "\n"
