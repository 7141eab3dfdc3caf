"""Tables as Markdown, LaTeX and HTML; whatever is in a name stays text."""

from __future__ import annotations

import html
import itertools
import re

from hpme.bench.tables import Column, Entry, Table

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


def escape_html(text: str) -> str:
    """Text for HTML, in elements and in attributes."""
    return html.escape(text, quote=True)


def escape_latex(text: str) -> str:
    """Text for LaTeX."""
    return "".join(_LATEX.get(character, character) for character in text)


def escape_markdown(text: str) -> str:
    """Text for Markdown, in tables too; HTML in it stays text."""
    flat = " ".join(text.split())
    return _MARKDOWN.sub(r"\\\1", html.escape(flat, quote=False))


def to_markdown(table: Table) -> str:
    """The table with its caption, and its notes below."""
    heads = [_flat_heading(column) for column in table.columns]
    lines = [
        f"**{escape_markdown(table.caption)}**",
        "",
        _markdown_row([table.corner, *heads]),
        "|" + "---|" * (len(heads) + 1),
    ]
    lines += [
        _markdown_row([title]).rstrip("|").rstrip()
        + "".join(f" | {_markdown_entry(entry)}" for entry in entries)
        + " |"
        for title, entries in table.rows
    ]
    notes = [escape_markdown(note) for note in table.notes]
    notes += [f"<sup>{mark}</sup> {escape_markdown(text)}" for mark, text in table.marks]
    for note in notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def to_latex(table: Table) -> str:
    """A floating table for a document that uses ``booktabs`` and ``makecell``."""
    width = len(table.columns)
    lines = [
        r"\begin{table*}[t]",
        r"\centering",
        r"\small",
        rf"\caption{{{escape_latex(table.caption)}}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9:-]', '-', table.name)}}}",
        rf"\begin{{tabular}}{{l{'c' * width}}}",
        r"\toprule",
    ]
    if any(column.group for column in table.columns):
        cells, rules, start = [""], [], 2
        for group, members in itertools.groupby(table.columns, key=lambda column: column.group):
            span = len(list(members))
            text = escape_latex(group)
            cells.append(text if span == 1 else rf"\multicolumn{{{span}}}{{c}}{{{text}}}")
            rules += [rf"\cmidrule(lr){{{start}-{start + span - 1}}}"] if group else []
            start += span
        lines += [" & ".join(cells) + r" \\", " ".join(rules)]
    heads = [table.corner, *(column.title for column in table.columns)]
    lines += [" & ".join(map(escape_latex, heads)) + r" \\", r"\midrule"]
    lines += [
        " & ".join([escape_latex(title), *map(_latex_entry, entries)]) + r" \\"
        for title, entries in table.rows
    ]
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = [escape_latex(note) for note in table.notes]
    notes += [rf"\textsuperscript{{{mark}}}{escape_latex(text)}" for mark, text in table.marks]
    if notes:
        lines += ["", r"\smallskip", r"\begin{minipage}{\linewidth}\footnotesize"]
        lines += [rf"{note}\par" for note in notes]
        lines.append(r"\end{minipage}")
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


def to_html(table: Table) -> str:
    """A ``figure`` with the table, its caption and notes."""
    parts = [
        f'<figure class="table" id="{_identifier(table.name)}">',
        f"<figcaption>{escape_html(table.caption)}</figcaption>",
        '<div class="scroll"><table>',
        "<thead>",
    ]
    if any(column.group for column in table.columns):
        cells = [f'<th rowspan="2" scope="col">{escape_html(table.corner)}</th>']
        for group, members in itertools.groupby(table.columns, key=lambda column: column.group):
            span = len(list(members))
            cells.append(f'<th colspan="{span}" scope="colgroup">{escape_html(group)}</th>')
        parts.append(f"<tr>{''.join(cells)}</tr>")
        first = ""
    else:
        first = f'<th scope="col">{escape_html(table.corner)}</th>'
    heads = "".join(f'<th scope="col">{escape_html(c.title)}</th>' for c in table.columns)
    parts += [f"<tr>{first}{heads}</tr>", "</thead>", "<tbody>"]
    parts += [
        f'<tr><th scope="row">{escape_html(title)}</th>'
        + "".join(_html_entry(entry) for entry in entries)
        + "</tr>"
        for title, entries in table.rows
    ]
    parts += ["</tbody>", "</table></div>"]
    notes = [escape_html(note) for note in table.notes]
    notes += [f"<sup>{mark}</sup> {escape_html(text)}" for mark, text in table.marks]
    parts += [f'<p class="note">{note}</p>' for note in notes]
    return "\n".join([*parts, "</figure>"]) + "\n"


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", name)


def _flat_heading(column: Column) -> str:
    return f"{column.group}: {column.title}" if column.group else column.title


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(escape_markdown(cell) for cell in cells) + " |"


def _markdown_entry(entry: Entry) -> str:
    text = escape_markdown(entry.text)
    text = f"**{text}**" if entry.best else text
    text += f"<sup>{entry.mark}</sup>" if entry.mark else ""
    return text + (f"<br>{escape_markdown(entry.paper)}" if entry.paper else "")


def _latex_entry(entry: Entry) -> str:
    text = escape_latex(entry.text)
    text = rf"\textbf{{{text}}}" if entry.best else text
    text += rf"\textsuperscript{{{entry.mark}}}" if entry.mark else ""
    if entry.paper is None:
        return text
    return rf"\makecell{{{text}\\{{\scriptsize {escape_latex(entry.paper)}}}}}"


def _html_entry(entry: Entry) -> str:
    text = escape_html(entry.text)
    text = f"<b>{text}</b>" if entry.best else text
    text += f"<sup>{entry.mark}</sup>" if entry.mark else ""
    text += f'<span class="paper">{escape_html(entry.paper)}</span>' if entry.paper else ""
    return f"<td>{text}</td>"
