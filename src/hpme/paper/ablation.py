"""HPME with a part of it changed or left out."""

from __future__ import annotations

from hpme.paper.shared.blocks import annex
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import method_title
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import Options, Suite, each, together
from hpme.viz.charts import Bar, bar_chart

DATASETS = ("ba-housegrid", "benzene", "ba-motif-volume", "ba-motif-counting")
BY_SEARCH: dict[str, Options] = {
    "HPME": {},
    "not refined": {"refine": 0},
    "any host": {"neighbor": "random"},
    "boundary by rank": {"attach": "rank"},
}
BY_GRADIENT: dict[str, Options] = {
    "HPME by gradient": {},
    "w/o Mix": {"mixup": False},
    "w/o BCE": {"bce_weight": 0.0},
}
"""Loss weights and mixup can be changed here alone."""
NOTE = (
    "HPME searches subsets by default. The paper's two ablations, w/o Mix and w/o BCE, are of "
    "HPME by gradient, whose loss has the terms they leave out; the other three rows change "
    "the default."
)


def blocks(cells: Cells, _: Results) -> list[Block]:
    """A table and the same as bars."""
    titles = {method_title("hpme", options): row for row, options in BY_SEARCH.items()}
    titles |= {method_title("hpme-gradient", options): row for row, options in BY_GRADIENT.items()}
    cells = cells.renamed(titles)
    caption = "Edge ROC-AUC of HPME and its ablations"
    table = score_table("ablation", caption, cells, ["auc"], notes=[NOTE])
    bars: dict[str, dict[str, Bar]] = {column: {} for column in cells.columns}
    for cell in cells.shown():
        stat = cell.stat("auc")
        bars[cell.column][cell.row] = Bar(stat.mean, stat.std)
    caption = "Ablation of HPME; whiskers are standard deviations over seeds."
    return [table, Picture("ablation", caption, bar_chart(bars, ylabel="AUC")), *annex(cells)]


SUITE = Suite(
    "ablation",
    "HPME without mixup, without BCE",
    together(*(
        each([dataset], [method], options=list(rows.values()))
        for dataset in DATASETS
        for method, rows in (("hpme", BY_SEARCH), ("hpme-gradient", BY_GRADIENT))
    )),
    blocks,
)  # fmt: skip
