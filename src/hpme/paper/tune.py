"""Settings of the baselines: one grid for each, run on a seed that nothing is reported on."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path

from hpme.bench import Record, ResultStore
from hpme.bench.experiment import Experiment
from hpme.errors import InputError
from hpme.paper.shared import tuned
from hpme.paper.shared.blocks import score_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block, Column, Entry, Table
from hpme.paper.shared.names import dataset_title, explainer_title
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, Options, Suite, each

GRAPHS = 100
"""Fewer than what is reported on: an epoch is one step of training for either number."""
METRICS = ("auc", "choice")
DATASETS = CLASSIFICATION + REGRESSION
RULES: dict[str, Callable[[Sequence[Sequence[float]]], int]] = {
    "chosen by the hard mix": tuned.best_mix,
    "chosen by robust fidelity": tuned.best_fidelity,
    "oracle": tuned.best_auc,
}
NOTE = (
    "One seed, 100 graphs. Default: the setting of the explainer. One for all: the setting with "
    "the best mean rank over these datasets; where mean ranks differ by no more than a half, the "
    "one of the highest mean. Chosen: a setting for each dataset, without ground truth. Oracle: "
    "the best setting of each dataset by the ground truth, an upper bound."
)


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """Every setting on every graph dataset."""
    return [
        experiment
        for dataset in DATASETS
        for method, settings in tuned.GRIDS.items()
        for experiment in each(
            [dataset], [method], options=settings, metrics=METRICS, graphs=GRAPHS
        )(seeds)
    ]


def measured(records: Iterable[Record]) -> tuned.Tuning:
    """What results say of every setting.

    Raises:
        InputError: If a setting has none.
    """
    known = {record.experiment.key: record for record in records}
    found: dict[str, dict[str, list[list[float]]]] = {}
    for experiment in experiments(SUITE.seeds):
        if experiment.key not in known:
            raise InputError(f"{experiment} has no result; run `hpme bench tune` to its end")
        values = known[experiment.key].values
        of_method = found.setdefault(experiment.explainer or "", {})
        of_setting = [round(float(values[name] or 0.0), 4) for name in tuned.VALUES]
        of_method.setdefault(experiment.dataset, []).append(of_setting)
    return found


def blocks(cells: Cells, results: Results) -> list[Block]:
    """A summary, and all settings of every method; nothing can be chosen before all are known."""
    try:
        return tables(measured(results.records))
    except InputError as error:
        return [f"{error}.", *score_tables(cells, "Edge ROC-AUC so far, graph {}", ["auc"])]


def tables(tuning: tuned.Tuning) -> list[Block]:
    """What each way of choosing comes to, and the AUC of all settings of every method."""
    found: list[Block] = [_summary(tuning)]
    for method, by_dataset in tuning.items():
        default = default_number(method)
        rows = []
        for number, options in enumerate(tuned.GRIDS[method]):
            values = [settings[number][0] for settings in by_dataset.values()]
            best = [number == tuned.best_auc(settings) for settings in by_dataset.values()]
            entries = [Entry(f"{v:.3f}", b) for v, b in zip(values, best, strict=True)]
            title = _text(options) + (", default" if number == default else "")
            rows.append((title, (*entries, Entry(f"{statistics.fmean(values):.3f}"))))
        columns = [Column(dataset_title(dataset)) for dataset in by_dataset]
        caption = f"Edge ROC-AUC of {explainer_title(method)} with every setting of its grid"
        found.append(
            Table(f"tune-{method}", caption, "Setting", (*columns, Column("mean")), tuple(rows))
        )
    return found


def _summary(tuning: tuned.Tuning) -> Table:
    rows = []
    for method, by_dataset in tuning.items():
        single = default_number(method), tuned.best_rank(by_dataset)
        means = [statistics.fmean(s[number][0] for s in by_dataset.values()) for number in single]
        for rule in RULES.values():
            chosen = (settings[rule(settings)][0] for settings in by_dataset.values())
            means.append(statistics.fmean(chosen))
        texts = (Entry(_text(tuned.GRIDS[method][number])) for number in single)
        rows.append((explainer_title(method), (*(Entry(f"{mean:.3f}") for mean in means), *texts)))
    heads = ("default", "one for all", *RULES, "default setting", "setting of one for all")
    columns = [Column(title) for title in heads]
    caption = "Mean edge ROC-AUC over the graph datasets, by how settings are found"
    return Table("tune", caption, "Method", tuple(columns), tuple(rows), (NOTE,))


def default_number(method: str) -> int:
    """Place of the setting that an explainer has by default."""
    apart = [tuned.apart_from_defaults(method, options) for options in tuned.GRIDS[method]]
    return apart.index({})


def _text(options: Options) -> str:
    plain = options.get("posthoc_options", options)
    return ", ".join(f"{name.removesuffix('_weight')} {value:g}" for name, value in plain.items())


SUITE = Suite(
    "tune",
    "Settings of the baselines",
    experiments,
    blocks,
    seeds=(0,),
    reported=False,
)

if __name__ == "__main__":
    home = resources.files("hpme.paper.shared").joinpath(tuned.FILE)
    text = json.dumps(measured(ResultStore(Path(sys.argv[1])).records()), separators=(",", ":"))
    Path(str(home)).write_text(text + "\n", encoding="utf-8")
