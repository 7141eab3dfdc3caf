"""What pages say about results, and where in the tables that stands.

``docs/results/claims.toml`` repeats pieces of pages with a source in place of each number. What
stands there on the page has to be what the table has, so new results change pages and not claims.
``python tests/support/claims.py`` shows both; ``--write`` puts the tables' numbers into the pages.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpme.bench.store import ResultStore
from hpme.paper.shared.cells import Results
from hpme.paper.shared.document import MISSING, Column, Entry, Table
from hpme.paper.shared.names import OURS, method_title
from hpme.paper.suites import SUITES, pages_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
BEST_OTHER = "best other"
"""In place of a row's title: the best row that is not HPME in any form."""
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
SOURCE = re.compile(r"\{([^{}]+)\}")
SOURCED = re.compile(r"(?<![\d.])-?\d\.\d{3}(?!\d)")
"""Numbers that need a source; others may have one."""
NUMBER = r"(?<![\d.])[-+]?\d+(?:\.\d+)?(?:\s±\s\d+(?:\.\d+)?)?"


def _mean(text: str | None) -> str:
    return (text or MISSING).split(" ± ")[0]


PARTS: dict[str, Callable[[str, Entry], str]] = {
    "mean": lambda row, entry: _mean(entry.text),
    "±": lambda row, entry: entry.text,
    "paper": lambda row, entry: _mean(entry.paper),
    "paper ±": lambda row, entry: entry.paper or MISSING,
    "name": lambda row, entry: row,
}
"""What of a cell is said."""
COUNTS: dict[str, Callable[[float, float], bool]] = {
    "reaches paper": operator.ge,
    "above paper": operator.gt,
    "beside paper": lambda ours, paper: True,
}
"""In how many columns a row is so, by the means that are printed."""


@dataclass(frozen=True)
class Claim:
    """A piece of a page with sources in braces, and names of the tables they are in."""

    text: str
    tables: Sequence[str]


@dataclass(frozen=True)
class Said:
    """What a page says at one place, and what the tables have."""

    claim: Claim
    source: str
    span: tuple[int, int]
    text: str
    found: str  # or why there is nothing
    known: bool = True  # whether there is such a place

    @property
    def problem(self) -> str | None:
        """What is wrong, if anything is."""
        if self.text == self.found:
            return None
        return f"{self.claim.text}\n    says {self.text}; {self.source} is {self.found}"


def read_claims() -> dict[str, list[Claim]]:
    """Claims of every page."""
    pages = tomllib.loads((RESULTS / "claims.toml").read_text("utf-8"))
    return {
        page: [Claim(text, part["tables"]) for part in parts for text in part["said"]]
        for page, parts in pages.items()
    }


def read_tables() -> dict[str, Table]:
    """Tables of the committed records by name."""
    results = Results.read(ResultStore(RESULTS / "records"), SUITES)
    blocks = [block for page in pages_of(results, results.shown) for block in page.blocks]
    return {block.name: block for block in blocks if isinstance(block, Table)}


def lookup(source: str, tables: Sequence[Table]) -> str:
    """What tables have at ``what: row / column`` or ``what: row / group / column``.

    ``@ suite`` behind it leaves the tables of that suite alone.

    Raises:
        LookupError: If there is no such place, or more than one.
    """
    source, _, suite = source.partition(" @ ")
    tables = [table for table in tables if table.name.startswith(suite)]
    what, _, place = source.rpartition(": ")
    row, *path = place.split(" / ")
    if what in COUNTS:
        return str(_count(row, COUNTS[what], tables))
    places = [
        (table, number)
        for table in tables
        for number, column in enumerate(table.columns)
        if path in ([column.title], [column.group, column.title])
    ]
    if len(places) != 1:
        raise LookupError(f"in {len(places)} columns")
    ((table, number),) = places
    cells = {title: entries[number] for title, entries in table.rows}
    if row == BEST_OTHER:
        row = _best_other(cells, table.columns[number])
    if row not in cells:
        raise LookupError(f"in no row; there are {', '.join(cells)}")
    if (what or "mean") not in PARTS:
        raise LookupError(f"nothing a cell has; that is {', '.join(PARTS)}")
    return PARTS[what or "mean"](row, cells[row])


def _best_other(cells: Mapping[str, Entry], column: Column) -> str:
    means = {
        row: _sign(column) * float(_mean(entry.text))
        for row, entry in cells.items()
        if not row.startswith(method_title(OURS)) and re.match(NUMBER, entry.text)
    }
    return max(means, key=lambda row: means[row], default=BEST_OTHER)


def _count(row: str, holds: Callable[[float, float], bool], tables: Sequence[Table]) -> int:
    """How often it holds; the paper knows HPME in one form, so all are compared with that."""
    ours = method_title(OURS)
    pairs = [
        (_sign(column) * float(_mean(entry.text)), _sign(column) * float(_mean(printed.paper)))
        for table in tables
        if (rows := dict(table.rows)).get(row)
        for column, entry, printed in zip(
            table.columns, rows[row], rows[ours if row.startswith(ours) else row], strict=True
        )
        if printed.paper and re.match(NUMBER, entry.text)
    ]
    return sum(holds(*pair) for pair in pairs)


def _sign(column: Column) -> int:
    return -1 if "↓" in column.title else 1


def match(
    page: str, claims: Sequence[Claim], tables: Mapping[str, Table]
) -> tuple[list[Said], list[str]]:
    """Everything claims say about the text of a page, and all that is wrong."""
    said: list[Said] = []
    problems = []
    for claim in claims:
        places = [*re.finditer(_pattern(claim.text), page)]
        if len(places) != 1:
            problems.append(f"{claim.text}\n    is on the page {len(places)} times")
            continue
        for number, source in enumerate(SOURCE.findall(claim.text), 1):
            known = True
            try:
                found = lookup(source, [tables[name] for name in claim.tables])
            except LookupError as error:
                known = False
                found = f"in no table {error}" if isinstance(error, KeyError) else str(error)
            text = " ".join(places[0][number].split())
            said.append(Said(claim, source, places[0].span(number), text, found, known))
    problems += [one.problem for one in said if one.problem]
    prose = CODE.sub(lambda code: " " * len(code[0]), page)
    for one in SOURCED.finditer(prose):
        times = sum(s.span[0] <= one.start() and one.end() <= s.span[1] for s in said)
        if times != 1:
            around = " ".join(page[max(one.start() - 40, 0) : one.end() + 40].split())
            problems.append(f"{one[0]} has {times} sources: {around}")
    return said, problems


def _pattern(text: str) -> str:
    """A claim as a regular expression; where lines break and what is bold does not matter."""
    literals, sources = SOURCE.split(text)[::2], SOURCE.findall(text)
    found = [re.sub(r"(?:\\\s)+", r"\\s+", re.escape(literal)) for literal in literals]
    kinds = [r"[^|*\n]+?" if source.startswith("name: ") else NUMBER for source in sources]
    holes = [rf"(?:\*\*)?({kind})(?:\*\*)?" for kind in kinds]
    return "".join(part for pair in zip(found, [*holes, ""], strict=True) for part in pair)


def updated(page: str, said: Sequence[Said]) -> str:
    """The page with what the tables have; a cell without a number is left to its reader."""
    for one in sorted(said, key=lambda one: one.span, reverse=True):
        fits = one.source.startswith("name: ") or re.fullmatch(NUMBER, one.found)
        if one.known and one.problem and fits:
            page = page[: one.span[0]] + one.found + page[one.span[1] :]
    return page


def main(*options: str) -> int:
    """Shows all claims; how many problems there are."""
    tables, count = read_tables(), 0
    for name, claims in read_claims().items():
        path = ROOT / name
        page = path.read_text("utf-8")
        said, problems = match(page, claims, tables)
        print(f"\n{name}")
        for one in said:
            print(f"  {one.text:15} {one.found + ' !' * bool(one.problem):15} {one.source}")
        if "--write" in options:
            path.write_text(updated(page, said), "utf-8")
            _, problems = match(path.read_text("utf-8"), claims, tables)
        print("".join(f"\n{problem}\n" for problem in problems), end="")
        count += len(problems)
    return count


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
