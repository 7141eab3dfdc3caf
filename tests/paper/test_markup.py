"""Tables as text: every format shows the same, and no name breaks out of its cell."""

import html.parser
import re

import pytest

from hpme.paper.shared.document import (
    Column,
    Entry,
    Footnotes,
    Table,
    escape_latex,
    escape_markdown,
    fill,
)

NASTY = [
    "<script>alert(1)</script>",
    "a_b&c",
    "50% $x^2$ #1 ~ {z}",
    "p|q",
    r"back\slash",
    "*b* `c`",
]


def table_with(name, group=""):
    entries = (Entry("0.9 ± 0.1", best=True, paper="0.8 ± 0.2", mark="a"), Entry("< 0.1"))
    return Table(
        name="t",
        caption=f"Caption {name}",
        corner="Method",
        columns=(Column(name, group), Column("other ↓", group)),
        rows=((name, entries),),
        notes=(f"Note {name}",),
        marks=(("a", f"Mark {name}"),),
    )


class Texts(html.parser.HTMLParser):
    """All tags, and all text, of an HTML document."""

    def __init__(self, content):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts = [], []
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data.strip())


@pytest.mark.parametrize("name", NASTY)
def test_html_shows_names_as_they_are(name):
    seen = Texts(fill("table.html.j2", table=table_with(name)))
    assert set(seen.tags) <= {
        "figure", "figcaption", "div", "table", "thead", "tbody", "tr", "th", "td", "p", "b",
        "sup", "span",
    }  # fmt: skip
    assert seen.texts.count(name) == 2  # heading and row
    assert f"Caption {name}" in seen.texts and f"Note {name}" in seen.texts


@pytest.mark.parametrize("name", NASTY)
def test_latex_leaves_no_special_character(name):
    text = escape_latex(name)
    bare = re.sub(r"\\text[a-z]+\{\}|\\[{}$&#%_]|\{\[\}", "", text)
    assert not re.search(r"[\\{}$&#%_^~<>]", bare)
    rows = (
        fill("table.tex.j2", table=table_with(name))
        .split("\\midrule\n")[1]
        .split("\\bottomrule")[0]
    )
    assert len(re.findall(r"(?<!\\)&", rows)) == 2  # three cells


@pytest.mark.parametrize("name", NASTY)
def test_markdown_keeps_its_columns(name):
    lines = fill("table.md.j2", table=table_with(name)).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 3
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}
    assert "<script>" not in "".join(lines)


def test_markdown_of_text():
    assert escape_markdown("a_b&c <i>\n x") == r"a\_b&amp;c &lt;i&gt; x"


def test_all_formats_say_the_same():
    table = table_with("name", group="both")
    markdown, latex, page = (
        fill("table.md.j2", table=table),
        fill("table.tex.j2", table=table),
        fill("table.html.j2", table=table),
    )
    assert "| **0.9 ± 0.1**<sup>a</sup><br>0.8 ± 0.2 | &lt; 0.1 |" in markdown
    assert "| Method | both: name | both: other ↓ |" in markdown
    assert r"\makecell{\textbf{0.9 $\pm$ 0.1}\textsuperscript{a}\\" in latex
    assert r"\multicolumn{2}{c}{both}" in latex and r"\cmidrule(lr){2-3}" in latex
    assert "<td><b>0.9 ± 0.1</b><sup>a</sup>" in page
    assert '<th colspan="2" scope="colgroup">both</th>' in page
    for text in (markdown, latex, page):
        assert "Note name" in text and "Mark name" in text and "Caption name" in text


def test_latex_braces_and_environments_close():
    text = fill("table.tex.j2", table=table_with("a_b&c", group="x"))
    assert re.findall(r"\\begin\{(\S+?)\}", text) == ["table*", "tabular", "minipage"]
    assert re.findall(r"\\end\{(\S+?)\}", text) == ["tabular", "minipage", "table*"]
    bare = re.sub(r"\\\\|\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")


def test_letters_of_footnotes():
    footnotes = Footnotes()
    assert [footnotes[text] for text in ("x", "y", "y")] == ["a", "b", "b"]
    assert [footnotes[str(i)] for i in range(26)][-4:] == ["y", "z", "aa", "ab"]
    assert list(footnotes.items())[:2] == [("x", "a"), ("y", "b")]
