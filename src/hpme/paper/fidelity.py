"""SimOAR and robust fidelity."""

from __future__ import annotations

from collections.abc import Sequence

from hpme.bench.experiment import GROUND_TRUTH, Experiment
from hpme.paper.shared.blocks import graph_means
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block
from hpme.paper.shared.numbers import paper_table
from hpme.paper.shared.results import Results
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import Suite, experiments_of

BOUNDS = (GROUND_TRUTH, "random")
"""What the paper's methods should lie between."""
OF_CLASSES = ("gnnexplainer", "pgexplainer", "mixupexplainer", "proxyexplainer", "hpme")
OF_VALUES = ("mixupexplainer", "regexplainer", "hpme")


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """Methods for classification are others than those for regression."""
    classification = ("alkane-carbonyl", "ba-housegrid")
    regression = ("house-orgrid-volume", "ba-motif-volume")
    metrics = ("simoar", "robust_fidelity", "fidelity", "precision")
    return [
        *experiments_of(classification, (*BOUNDS, *OF_CLASSES), seeds, metrics=metrics),
        *experiments_of(regression, (*BOUNDS, *OF_VALUES), seeds, metrics=metrics),
    ]


def blocks(cells: Cells, _: Results) -> list[Block]:
    """The paper's measures by task, then all others."""
    main = ("simoar", "robust_fidelity_plus", "robust_fidelity_minus")
    first, *rest = graph_means(cells, "SimOAR and robust fidelity", main, paper_table("fidelity"))
    others = ("simoar_random", "simoar_empty", "fidelity_plus", "fidelity_minus", "precision")
    caption = "Further measures of the same explanations"
    more = score_table("fidelity-more", caption, cells, others, spread="graphs")
    return [first, *([more] if more.columns else []), *rest]


SUITE = Suite("fidelity", "SimOAR and robust fidelity", experiments, blocks=blocks)
