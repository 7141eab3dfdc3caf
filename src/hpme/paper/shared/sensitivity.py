"""How HPME depends on an option."""

from __future__ import annotations

from hpme.paper.shared.annex import annex
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.comparison import scores_of
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import OURS, dataset_title, method_title
from hpme.paper.shared.numbers import paper_table
from hpme.paper.shared.remarks import join_words
from hpme.paper.shared.results import Results
from hpme.paper.shared.scores import score_table
from hpme.viz.charts import Curve, sensitivity_chart


def sensitivity(
    cells: Cells, results: Results, option: str, xlabel: str, *, mark_truth: bool = False
) -> list[Block]:
    """AUC by value of an option: a table, and a curve per dataset beside the second-best method.

    Args:
        cells: The cells.
        results: All results, for the other methods.
        option: Name of the option.
        xlabel: Its name in the figure.
        mark_truth: Whether to mark the ratio of the ground truth.
    """
    curves, sources = [], []
    for dataset in dict.fromkeys(cell.template.dataset for cell in cells.every):
        points = {
            float(cell.template.options[option]): cell.stat("auc")
            for cell in cells.every
            if cell.template.dataset == dataset and option in cell.template.options
        }
        known = {x: s.std for x, s in sorted(points.items()) if s.mean is not None}
        if not known:
            continue
        rival, source = second_best(dataset, results)
        sources.append(source)
        curves.append(
            Curve(
                title=dataset_title(dataset),
                x=list(known),
                mean=[mean for x in known if (mean := points[x].mean) is not None],
                std=list(known.values()),
                rival=rival,
                reference=truth_ratio(dataset, results) if mark_truth else None,
            )
        )
    name, title = cells.suite, results.suites[cells.suite].title
    blocks: list[Block] = [score_table(name, f"Edge ROC-AUC, {title}", cells, ["auc"])]
    if curves:
        figure = sensitivity_chart(
            curves,
            xlabel=xlabel,
            ylabel="AUC",
            ours=method_title(OURS),
            reference="ratio of the ground truth" if mark_truth else None,
        )
        known_sources = dict.fromkeys(source for source in sources if source)
        caption = "Mean over seeds, and its standard deviation as a band."
        if known_sources:
            caption += f" Dashed: the second-best method, {join_words(known_sources)}."
        blocks.append(Picture(name, caption, figure))
    return [*blocks, *annex(cells)]


def second_best(dataset: str, results: Results) -> tuple[tuple[str, float] | None, str]:
    """The best other method on a dataset, and where that is known from."""
    scores, source = {}, "as measured here"
    if "table1" in results.cells:
        measured = scores_of(results.cells["table1"].part([dataset]), "auc")
        scores = {row: max(values.values()) for row, values in measured.items()}
        scores.pop(method_title(OURS), None)
    if not scores:
        methods = paper_table("table1").get(dataset, {})
        scores = {method_title(m): v["auc"].mean for m, v in methods.items() if m != OURS}
        source = "as the paper prints it"
    if not scores:
        return None, ""
    best = max(scores, key=lambda row: (scores[row], row))
    return (best, scores[best]), source


def truth_ratio(dataset: str, results: Results) -> float | None:
    """The pooling ratio that comes from the ground truth, if any record was told it."""
    for record in results.records:
        told = record.context.get("pool_ratio_source") == "ground truth"
        if record.experiment.dataset == dataset and told:
            return float(record.context["config"]["ratio"])
    return None
