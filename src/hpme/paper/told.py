"""What the size of the ground truth is worth to the methods that use a size."""

from __future__ import annotations

from hpme.data.dataset import DEFAULT_POOL_RATIO
from hpme.explainers import EXPLAINERS
from hpme.paper.shared.blocks import score_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block
from hpme.paper.shared.names import OURS, OWN_SIZE, PRINTED, explainer_title, method_title
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, Options, Suite, each, together

METHODS = ("matchexplainer", PRINTED, OURS)
NOTE = (
    "Told: the size of the ground truth. Not told: HPME chooses a share from the graphs and the "
    "model alone; MatchExplainer and HPME as printed, which have no way to choose, take "
    f"{DEFAULT_POOL_RATIO:g} everywhere. SubgraphX, which is told it in the main table, is left "
    "out; no other method uses one."
)


def untold(method: str) -> Options:
    """Options of a method that is told nothing about the ground truth."""
    return OWN_SIZE if EXPLAINERS[method].chooses_size else {"ratio": DEFAULT_POOL_RATIO}


def blocks(cells: Cells, _: Results) -> list[Block]:
    """A table for each task."""
    titles = {method_title(name): f"{explainer_title(name)}, told" for name in METHODS}
    titles |= {
        method_title(name, untold(name)): f"{explainer_title(name)}, not told" for name in METHODS
    }
    return [NOTE, *score_tables(cells.renamed(titles), "Edge ROC-AUC, graph {}", ["auc"])]


SUITE = Suite(
    "told",
    "What the size of the ground truth is worth",
    together(*(
        each([dataset], [method], options=[{}, untold(method)])
        for dataset in CLASSIFICATION + REGRESSION
        for method in METHODS
    )),
    blocks,
)  # fmt: skip
