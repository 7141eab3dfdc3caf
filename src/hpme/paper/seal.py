"""Links by what the target reads: labels that tell distances, marked ends, a planted cycle."""

from __future__ import annotations

from dataclasses import replace

from hpme.bench.experiment import ALL_EDGES, GROUND_TRUTH
from hpme.paper import links
from hpme.paper.shared.blocks import annex, evidence_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block
from hpme.paper.shared.names import OURS, PRINTED, dataset_title
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import Suite, each, together

METHODS = (ALL_EDGES, "random", "occlusion", "pgexplainer", PRINTED, OURS)
DELETION = ("fidelity", "robust_fidelity")
COLUMNS = ("fidelity_plus", "fidelity_minus", "robust_fidelity_plus", "robust_fidelity_minus")
PARTS = {
    "planted": ("Planted cycles, edge ROC-AUC", ("auc",)),
    "planted-deletion": ("Planted cycles, deletion", COLUMNS),
    "ends": ("Marked ends, deletion", COLUMNS),
    "": ("Labels of SEAL, deletion", COLUMNS),
}
"""Variant, then what a table shows of it; its caption and metrics."""
NOTE = (
    "Fid+ and Fid- delete all of the explanation, or all of the rest; robust ones a tenth of it. "
    "All edges: the whole subgraph is the explanation, so Fid+ is what the prediction loses "
    "without any edge. Where that is next to nothing, edges cannot explain it."
)


def blocks(cells: Cells, _: Results) -> list[Block]:
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


SUITE = Suite(
    "seal",
    "Links whose explanation can be right or wrong",
    together(*(
        each([dataset], methods, model="dgcnn", variant=variant, metrics=metrics)
        for dataset in links.DATASETS
        for variant, methods, metrics in (
            (None, METHODS, DELETION),
            ("ends", METHODS, DELETION),
            ("planted", (GROUND_TRUTH, *METHODS), ("auc", *DELETION)),
        )
    )),
    blocks,
)  # fmt: skip
