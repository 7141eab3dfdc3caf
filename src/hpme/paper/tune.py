"""Settings of the baselines: one grid for each, run on a seed that nothing is reported on.

And ways to choose among them by what they were measured to give.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy import stats

from hpme.bench import Record, ResultStore
from hpme.errors import InputError
from hpme.explainers import MetaGNNExplainer, explainer_class
from hpme.explainers.hpme.search.criterion import joint_rank
from hpme.explainers.shared.options import parameters_of
from hpme.paper.shared.blocks import score_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block, Column, Entry, Table
from hpme.paper.shared.names import PRINTED, dataset_title, explainer_title
from hpme.paper.shared.suite import GRAPH_DATASETS, Options, Suite, each, together

Rule = Literal["default", "chosen", "oracle"]
"""How a setting is found.

``default`` is one for all datasets, that of the explainer itself. ``chosen`` is one for each
dataset, found without ground truth: that whose hard mixes keep predictions best, by
:func:`~hpme.explainers.hpme.search.criterion.criterion`. ``oracle`` is one for each dataset, found
by the AUC itself, which nobody can do who does not know the answer.
"""
LEVEL_RANKS = 0.5
"""Difference of mean ranks that says nothing."""

VALUES = ("auc", "choice_disagreement", "choice_loss", "choice_fidelity")
"""What is known of every setting, in this order."""
DESIGN = (
    (0.003, 0.01, 0),
    *((0.03, 0.01, 1), (0.03, 1.0, 0)),
    *((0.1, 0.01, 0), (0.1, 0.01, 1)),
    *((0.3, 0.01, 1), (0.3, 1.0, 0)),
)
"""Weights of size and entropy, and whether training is short (0) or long (1).

Seven of the sixteen combinations: four weights of the size, of which the middle ones meet both
weights of the entropy or both trainings.
"""
BETAS = ((0.01, 300), *((beta, epochs) for beta in (0.1, 0.3, 1.0) for epochs in (100, 300)))
"""Weights of the BCE and epochs of HPME as printed, as many."""


def _penalties(short: int, long: int) -> list[dict[str, Any]]:
    return [
        {"size_weight": size, "entropy_weight": entropy, "epochs": (short, long)[longer]}
        for size, entropy, longer in DESIGN
    ]


GRIDS: dict[str, list[dict[str, Any]]] = {
    "gnnexplainer": _penalties(100, 300),
    "pgexplainer": _penalties(100, 300),
    "tagexplainer": _penalties(100, 300),
    "mixupexplainer": _penalties(50, 150),
    "regexplainer": _penalties(50, 150),
    "proxyexplainer": _penalties(30, 100),
    "metagnn": [{"posthoc_options": options} for options in _penalties(100, 300)],
    PRINTED: [{"bce_weight": beta, "epochs": epochs} for beta, epochs in BETAS],
}
"""As many settings of each method."""

Tuning = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
""":data:`VALUES` of every setting of the grid, by method and dataset."""


def _file() -> Any:
    return resources.files("hpme.paper.shared").joinpath("tuning.json")


@functools.cache
def tuning() -> Tuning:
    """What ``hpme bench tune`` gave when the settings were fixed."""
    found: Tuning = json.loads(_file().read_text("utf-8"))
    return found


def best_rank(scores: Mapping[str, Sequence[Sequence[float]]]) -> int:
    """Number of one setting for all datasets: of the best mean ranks of AUC, the highest mean."""
    auc = np.array([[values[0] for values in settings] for settings in scores.values()])
    ranks = stats.rankdata(-auc, axis=1).mean(0)
    level = ranks <= ranks.min() + LEVEL_RANKS
    return int(np.where(level, auc.mean(0), -1.0).argmax())


def best_mix(settings: Sequence[Sequence[float]]) -> int:
    """Number of the setting whose hard mixes keep predictions best, by the criterion of HPME."""
    return int(joint_rank(torch.tensor([values[1:3] for values in settings])).argmin())


def best_fidelity(settings: Sequence[Sequence[float]]) -> int:
    """Number of the setting of highest robust fidelity, without ground truth."""
    return max(range(len(settings)), key=lambda number: settings[number][3])


def best_auc(settings: Sequence[Sequence[float]]) -> int:
    """Number of the setting with the highest AUC, which nobody finds without the ground truth."""
    return max(range(len(settings)), key=lambda number: settings[number][0])


def setting(method: str, dataset: str, rule: Rule) -> Options:
    """Options of a method on a dataset that differ from its defaults; none where nobody tuned."""
    known = tuning().get(method, {}).get(dataset)
    if rule == "default" or known is None:
        return {}
    choose = {"chosen": best_mix, "oracle": best_auc}[rule]
    return apart_from_defaults(method, GRIDS[method][choose(known)])


def apart_from_defaults(method: str, options: Options) -> Options:
    """Those of some options that a method does not have by default."""
    kind = explainer_class(method)
    if issubclass(kind, MetaGNNExplainer):  # its settings are of what explains the copy
        known = kind().explainer.get_params()
        return {} if options["posthoc_options"].items() <= known.items() else options
    default = parameters_of(kind)
    return {name: value for name, value in options.items() if default[name].default != value}


GRAPHS = 100
"""Fewer than what is reported on: an epoch is one step of training for either number."""
METRICS = ("auc", "choice")
RULES: dict[str, Callable[[Sequence[Sequence[float]]], int]] = {
    "chosen by the hard mix": best_mix,
    "chosen by robust fidelity": best_fidelity,
    "oracle": best_auc,
}
NOTE = (
    "One seed, 100 graphs. Default: the setting of the explainer. One for all: the setting with "
    "the best mean rank over these datasets; where mean ranks differ by no more than a half, the "
    "one of the highest mean. Chosen: a setting for each dataset, without ground truth. Oracle: "
    "the best setting of each dataset by the ground truth, an upper bound."
)
experiments = together(*(
    each(GRAPH_DATASETS, [method], options=settings, metrics=METRICS, graphs=GRAPHS)
    for method, settings in GRIDS.items()
))  # fmt: skip
"""Every setting on every graph dataset."""


def measured(records: Iterable[Record]) -> Tuning:
    """What results say of every setting of each method that was run."""
    known = {record.experiment.key: record for record in records}
    run = {record.experiment.explainer for record in known.values()}
    found: dict[str, dict[str, list[list[float]]]] = {}
    for experiment in experiments(SUITE.seeds):
        if experiment.explainer not in run:
            continue
        if experiment.key not in known:
            raise InputError(f"{experiment} has no result; run `hpme bench tune` to its end")
        values = known[experiment.key].values
        of_method = found.setdefault(experiment.explainer or "", {})
        of_setting = [round(float(values[name] or 0.0), 4) for name in VALUES]
        of_method.setdefault(experiment.dataset, []).append(of_setting)
    return found


def blocks(cells: Cells, results: Results) -> list[Block]:
    """A summary, and all settings of every method; nothing can be chosen before all are known."""
    try:
        return tables(measured(results.records))
    except InputError as error:
        return [f"{error}.", *score_tables(cells, "Edge ROC-AUC so far, graph {}", ["auc"])]


def tables(tuning: Tuning) -> list[Block]:
    """What each way of choosing comes to, and the AUC of all settings of every method."""
    found: list[Block] = [_summary(tuning)]
    for method, by_dataset in tuning.items():
        default = default_number(method)
        rows = []
        for number, options in enumerate(GRIDS[method]):
            values = [settings[number][0] for settings in by_dataset.values()]
            best = [number == best_auc(settings) for settings in by_dataset.values()]
            entries = [Entry(f"{v:.3f}", b) for v, b in zip(values, best, strict=True)]
            title = _text(options) + (", default" if number == default else "")
            rows.append((title, (*entries, Entry(f"{statistics.fmean(values):.3f}"))))
        columns = [Column(dataset_title(dataset)) for dataset in by_dataset]
        caption = f"Edge ROC-AUC of {explainer_title(method)} with every setting of its grid"
        found.append(
            Table(f"tune-{method}", caption, "Setting", (*columns, Column("mean")), tuple(rows))
        )
    return found


def _summary(tuning: Tuning) -> Table:
    rows = []
    for method, by_dataset in tuning.items():
        single = default_number(method), best_rank(by_dataset)
        means = [statistics.fmean(s[number][0] for s in by_dataset.values()) for number in single]
        for rule in RULES.values():
            chosen = (settings[rule(settings)][0] for settings in by_dataset.values())
            means.append(statistics.fmean(chosen))
        texts = (Entry(_text(GRIDS[method][number])) for number in single)
        rows.append((explainer_title(method), (*(Entry(f"{mean:.3f}") for mean in means), *texts)))
    heads = ("default", "one for all", *RULES, "default setting", "setting of one for all")
    columns = [Column(title) for title in heads]
    caption = "Mean edge ROC-AUC over the graph datasets, by how settings are found"
    return Table("tune", caption, "Method", tuple(columns), tuple(rows), (NOTE,))


def default_number(method: str) -> int:
    """Place of the setting that an explainer has by default."""
    apart = [apart_from_defaults(method, options) for options in GRIDS[method]]
    return apart.index({})


def _text(options: Options) -> str:
    plain = options.get("posthoc_options", options)
    return ", ".join(f"{name.removesuffix('_weight')} {value:g}" for name, value in plain.items())


SUITE = Suite("tune", "Settings of the baselines", experiments, blocks, seeds=(0,), reported=False)

if __name__ == "__main__":
    found = {**tuning(), **measured(ResultStore(Path(sys.argv[1])).records())}
    text = json.dumps(found, separators=(",", ":"))
    Path(str(_file())).write_text(text + "\n", encoding="utf-8")
