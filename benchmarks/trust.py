"""Whether HPME's warnings can be believed: a table of models with and without an explanation.

    python benchmarks/trust.py [--sets n,n_minus_o,amide,amide-class] [--paper benzene,triangles]
        [--seeds 0-2] [--graphs 200] [--json FILE]

On molecules of ``$HPME_DATA_DIR/attribution``: a trained GINE, one trained on shuffled labels, one
that ignores bonds, and one that always says the same. On datasets of the paper and of links: their
targets. For each the share of seeds whose report warns, beside what the explanations are worth on
graphs the fit never saw: how much nearer to the prediction pooled nodes bring hosts than random
ones (mean of ``quality``'s ``carried``), and the share of graphs whose prediction they carry.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from real_molecules import SETS, Gine, read, train
from torch import Tensor, nn
from torch_geometric.nn import global_add_pool

from hpme.bench.experiment import Experiment, parse_seeds
from hpme.bench.outcome import explain
from hpme.bench.run import dataset_and_target
from hpme.data import GraphStore
from hpme.explainers import HPMEExplainer


class NoBonds(nn.Module):
    """A model that sees every atom as if it were alone: the first layer and the head of another."""

    def __init__(self, model: Gine) -> None:
        super().__init__()
        self.first, self.head = model.first, model.head

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor) -> Tensor:
        """The same for any bonds."""
        out: Tensor = self.head(global_add_pool(self.first(x).relu(), batch))
        return out


class Constant(nn.Module):
    """A model that has one answer to everything."""

    def __init__(self, model: Gine) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor) -> Tensor:
        """The answer, from a pass through the layers so that there are embeddings."""
        out: Tensor = self.model(x, edge_index, batch, edge_attr) * 0 + 1
        return out


def molecules(name: str) -> Iterator[tuple[str, nn.Module, list[Any], str]]:
    graphs, _, y = read(name)
    store = GraphStore.from_graphs(graphs)
    mode = "regression" if y.is_floating_point() else "multiclass_classification"
    model, _ = train(store, y)
    shuffled = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(0))]
    yield "trained", model, graphs, mode
    yield "shuffled labels", train(store, shuffled)[0], graphs, mode
    yield "ignores edges", NoBonds(model).eval(), graphs, mode
    yield "constant", Constant(model).eval(), graphs, mode


def measured(
    model: nn.Module, graphs: list[Any], fresh: list[Any], mode: Any, seed: int
) -> dict[str, Any]:
    explainer = HPMEExplainer(seed=seed).fit(model, graphs, mode=mode, progress=False)
    quality = explainer.quality(model, fresh)
    assert explainer.report is not None
    return {
        "seed": seed,
        "warns": bool(explainer.report.warnings),
        "effect": explainer.report.effect,
        "p_value": explainer.report.p_value,
        "agreement": explainer.report.agreement,
        "kept": statistics.fmean(q.carried for q in quality),
        "carried": statistics.fmean(q.verdict in ("carried", "several") for q in quality),
    }


def of_parts(name: str, seed: int, count: int) -> dict[str, Any]:
    """Of predictions for nodes or links: held-out ones of the same graph stand for fresh graphs."""
    options = {"ratio": "auto"}
    experiment = Experiment(name, "hpme", seed, graphs=count, options=options)
    explainer = explain(experiment, *dataset_and_target(*experiment.target)).explainer
    assert isinstance(explainer, HPMEExplainer) and explainer.report is not None
    report = explainer.report
    return {
        "seed": seed,
        "warns": bool(report.warnings),
        "effect": report.effect,
        "p_value": report.p_value,
        "agreement": report.agreement,
        "kept": report.effect,
        "carried": float("nan"),
    }


def save(results: dict[str, Any], path: Path | None) -> None:
    if path is not None:  # after every set, so that a kill loses one at most
        path.write_text(json.dumps(results, indent=1) + "\n")


def show(title: str, runs: list[dict[str, Any]]) -> None:
    mean = {k: statistics.fmean(r[k] for r in runs) for k in ("warns", "effect", "kept", "carried")}
    print(
        f"{title:36s} warns {mean['warns']:.0%}  effect {mean['effect']:.2f}  "
        f"p up to {max(r['p_value'] for r in runs):.2g}  on fresh graphs: kept {mean['kept']:.2f}, "
        f"carried {mean['carried']:.0%}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--paper", default="")
    parser.add_argument("--seeds", default="0-2")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds, count = parse_seeds(arguments.seeds), arguments.graphs
    results: dict[str, list[dict[str, Any]]] = {}
    for name in filter(None, arguments.sets.split(",")):
        for kind, model, graphs, mode in molecules(name):
            results[f"{name}, {kind}"] = runs = []
            for seed in seeds:
                order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed))
                fitted, fresh = ([graphs[i] for i in part] for part in order[: 2 * count].chunk(2))
                runs.append(measured(model, fitted, fresh, mode, seed))
            show(f"{name}, {kind}", runs)
        save(results, arguments.json)
    for name in filter(None, arguments.paper.split(",")):
        results[name] = runs = []
        dataset, target = dataset_and_target(*Experiment(name, "hpme", 0).target)
        if dataset.info.level != "graph":
            runs += [of_parts(name, seed, count) for seed in seeds]
            show(name, runs)
            continue
        store = GraphStore.from_graphs(dataset)
        regression = dataset.info.task == "regression"
        mode = "regression" if regression else "multiclass_classification"
        for seed in seeds:
            order = torch.randperm(len(store), generator=torch.Generator().manual_seed(seed))
            fitted, fresh = (store.subset(part) for part in order[: 2 * count].chunk(2))
            runs.append(measured(target.model, fitted, fresh, mode, seed))
        show(name, runs)
        save(results, arguments.json)
    save(results, arguments.json)


if __name__ == "__main__":
    main()
