"""Distribution shift: how far mixup graphs and the ground truth are from the graph."""

from __future__ import annotations

from collections.abc import Sequence

from hpme.bench.experiment import GROUND_TRUTH, Experiment
from hpme.paper.shared.blocks import graph_means
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block
from hpme.paper.shared.numbers import paper_note, paper_table
from hpme.paper.shared.results import Results
from hpme.paper.shared.suite import Suite, experiments_of

OF_CLASSES = ("ba-housegrid", "ba-houseandgrid", "benzene", "fluoride-carbonyl")
OF_VALUES = ("ba-motif-volume", "ba-motif-counting", "crippen", "triangles")
COMMON = (GROUND_TRUTH, "pgexplainer", "mixupexplainer")


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """The table of the main text is a part of the two in the appendix."""
    metrics = ("shift",)
    return [
        *experiments_of(OF_CLASSES, (*COMMON, "proxyexplainer", "hpme"), seeds, metrics=metrics),
        *experiments_of(OF_VALUES, (*COMMON, "regexplainer", "hpme"), seeds, metrics=metrics),
    ]


def blocks(cells: Cells, _: Results) -> list[Block]:
    """Tables by task, and where the paper contradicts itself."""
    caption = (
        "Cosine similarity and Euclidean distance of graph representations to those of the graph"
    )
    paper = {**paper_table("shift-classification"), **paper_table("shift-regression")}
    note = paper_note("shift")
    found = graph_means(cells, caption, ("cosine", "euclidean"), paper)
    return [*found, *([note] if note else [])]


SUITE = Suite(
    "shift",
    "Distance of graphs to mixup graphs and to the ground truth",
    experiments,
    blocks=blocks,
)
