"""What is explained beyond plain graphs: nodes, links, heterogeneous graphs.

Links twice: as in the paper, by robust fidelity and with the labels of SEAL; and by what the target
reads, which is labels that tell distances, marked ends, or a planted cycle.
"""

from __future__ import annotations

from dataclasses import replace

from hpme.bench.experiment import ALL_EDGES, GROUND_TRUTH
from hpme.paper.shared.blocks import annex, evidence_tables, score_page
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block
from hpme.paper.shared.names import BY_NODES, OURS, OWN_SIZE, PRINTED, dataset_title
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import Suite, each, together

NODES = ("ba-shapes", "ba-community", "tree-grid")
NODE_METHODS = (
    *("random", "grad", "gnnexplainer", "pgexplainer", "mixupexplainer"),
    *("occlusion", "integratedgradients", "distilled-occlusion", "best-attribution"),
    *(PRINTED, OURS),
)
THREE = (0, 1, 2)
"""Seeds of targets."""
LINKS = [f"{name}-links" for name in NODES]
LINK_METHODS = ("random", "pgexplainer", PRINTED, OURS)
"""There is no ground truth: HPME chooses the pooled size itself, as printed it is told a half."""
HETERO_METHODS = (
    *("random", "grad", "integratedgradients", "occlusion"),
    *("distilled-occlusion", "gnnexplainer", "pgexplainer", "hpme"),
)
SEAL_METHODS = (ALL_EDGES, "random", "occlusion", "pgexplainer", PRINTED, OURS)
DELETION = ("fidelity", "robust_fidelity")
COLUMNS = ("fidelity_plus", "fidelity_minus", "robust_fidelity_plus", "robust_fidelity_minus")
PARTS = {
    "planted": ("Planted cycles, edge ROC-AUC", ("auc",)),
    "planted-deletion": ("Planted cycles, deletion", COLUMNS),
    "ends": ("Marked ends, deletion", COLUMNS),
    "": ("Labels of SEAL, deletion", COLUMNS),
}
"""Variant, then what a table shows of it; its caption and metrics."""
NODE_NOTE = (
    "Methods that are told the size pool half of the nodes of Tree-Grid. The share of the ground "
    "truth (its 0.9-quantile, as on other datasets) would be all of them: three of ten explained "
    "ego graphs are nothing but ground truth, and no explanation of these can be wrong."
)
NOTE = (
    "Fid+ and Fid- delete all of the explanation, or all of the rest; robust ones a tenth of it. "
    "All edges: the whole subgraph is the explanation, so Fid+ is what the prediction loses "
    "without any edge. Where that is next to nothing, edges cannot explain it."
)


def node_blocks(cells: Cells, results: Results) -> list[Block]:
    """Tables, and what to know about the size that is told."""
    show = score_page("Edge ROC-AUC, node classification", ["auc"], "nodes")
    return [NODE_NOTE, *show(cells, results)]


def seal_blocks(cells: Cells, _: Results) -> list[Block]:
    """A table for every target, the planted ones by ground truth and by deletion."""
    found: list[Block] = []
    for name, (caption, metrics) in PARTS.items():
        variant = name.partition("-")[0] or None
        some = [
            replace(cell, column=dataset_title(cell.template.dataset))
            for cell in cells.every
            if cell.template.variant == variant
        ]
        part, title = Cells(cells.suite, tuple(some)), f"{cells.suite}-{name or 'drnl'}"
        notes = [NOTE] if metrics == COLUMNS else []
        table = score_table(title, caption, part, metrics, notes=notes)
        if table.columns:
            found.append(table)
    return [*found, *evidence_tables(cells), *annex(cells)]


NODE_SUITE = Suite(
    "nodes",
    "Edge ROC-AUC for node classification",
    together(
        each(NODES, NODE_METHODS, targets=THREE),
        each(NODES, ["occlusion"], options=[BY_NODES], targets=THREE),
        each(NODES, [OURS], options=[OWN_SIZE], targets=THREE),
    ),
    node_blocks,
)
LINK_SUITE = Suite(
    "links",
    "Robust fidelity for link prediction",
    each(LINKS, LINK_METHODS, model="dgcnn", metrics=("robust_fidelity",)),
    score_page(
        "Robust fidelity, link prediction",
        ("robust_fidelity_plus", "robust_fidelity_minus"),
        "links",
        spread="graphs",
    ),
)
SEAL_SUITE = Suite(
    "seal",
    "Links whose explanation can be right or wrong",
    together(*(
        each(LINKS, methods, model="dgcnn", variant=variant, metrics=metrics)
        for variant, methods, metrics in (
            (None, SEAL_METHODS, DELETION),
            ("ends", SEAL_METHODS, DELETION),
            ("planted", (GROUND_TRUTH, *SEAL_METHODS), ("auc", *DELETION)),
        )
    )),
    seal_blocks,
)  # fmt: skip
HETERO_SUITE = Suite(
    "hetero",
    "Edge ROC-AUC for heterogeneous graphs",
    together(
        each(("hetero-motifs", "hetero-fraud"), HETERO_METHODS, model="hetero", targets=THREE)
    ),
    score_page("Edge ROC-AUC, heterogeneous graphs", ["auc"]),
)
