"""How HPME depends on an option."""

from __future__ import annotations

from collections.abc import Callable

from hpme.paper.shared.annex import annex
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.comparison import scores_of
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import OURS, method_title
from hpme.paper.shared.numbers import paper_table
from hpme.paper.shared.remarks import join_words
from hpme.paper.shared.results import Results
from hpme.paper.shared.scores import score_table
from hpme.viz.charts import Curve, sensitivity_chart


def sensitivity(
    option: str, xlabel: str, *, mark_truth: bool = False
) -> Callable[[Cells, Results], list[Block]]:
    """A page on an option: AUC as a table, and as curves beside the second-best method.

    Args:
        option: Name of the option.
        xlabel: Its name in the figure.
        mark_truth: Whether to mark the ratio of the ground truth.
    """

    def blocks(cells: Cells, results: Results) -> list[Block]:
        title = results.suites[cells.suite].title
        table = score_table(cells.suite, f"Edge ROC-AUC, {title}", cells, ["auc"])
        curves, sources = [], []
        for column, dataset in cells.columns.items():
            stats = {
                float(cell.template.options[option]): cell.stat("auc")
                for cell in cells.every
                if cell.column == column and option in cell.template.options
            }
            means = {x: stat.mean for x, stat in sorted(stats.items()) if stat.mean is not None}
            if means:
                rival, source = second_best(dataset, results)
                std = [stats[x].std for x in means]
                truth = truth_ratio(dataset, results) if mark_truth else None
                curves.append(Curve(column, list(means), list(means.values()), std, rival, truth))
                sources.append(source)
        pictures = []
        if curves:
            figure = sensitivity_chart(
                curves,
                xlabel=xlabel,
                ylabel="AUC",
                ours=method_title(OURS),
                reference="ratio of the ground truth" if mark_truth else None,
            )
            caption = "Mean over seeds, and its standard deviation as a band."
            known = dict.fromkeys(source for source in sources if source)
            caption += f" Dashed: the second-best method, {join_words(known)}." if known else ""
            pictures.append(Picture(cells.suite, caption, figure))
        return [table, *pictures, *annex(cells)]

    return blocks


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
