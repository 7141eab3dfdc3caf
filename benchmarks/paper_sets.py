"""HPME on the paper's graph datasets, with the ground truth's size and with one of its own choice.

    python benchmarks/paper_sets.py [--sets benzene,spmotif] [--seeds 300-304] [--graphs 200]
        [--json FILE]

Per set and seed: edge AUC, CPU seconds, and of the pooled nodes how many are ground truth, beside
the whole pool of the given size. With the given size also the recall of the union of three
alternatives, and the correlation of edge masks between seeds on the same graphs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpme.bench.experiment import Experiment, parse_seeds
from hpme.bench.outcome import Outcome, explain
from hpme.bench.run import dataset_and_target
from hpme.data import DATASETS, GraphStore
from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc

SETS = tuple(name for name, info in DATASETS.items() if info.level == "graph")
SIZES: dict[str, dict[str, Any]] = {"given": {}, "auto": {"ratio": "auto"}}


def pooled_nodes(outcome: Outcome, *, alternatives: bool) -> dict[str, float]:
    """Pooled nodes against those of the ground truth, over graphs that have one."""
    explainer = outcome.explainer
    assert isinstance(explainer, HPMEExplainer) and explainer.size is not None
    truth = [graph.node_mask.view(-1).bool() for graph in outcome.graphs]
    sizes = torch.tensor([len(nodes) for nodes in truth])
    whole = []
    for explanation, m in zip(outcome.explanations, explainer.size(sizes).tolist(), strict=True):
        order = explanation.node_mask.view(-1).argsort(descending=True, stable=True)
        whole.append(torch.zeros(len(order), dtype=torch.bool).index_fill(0, order[:m], True))
    there = torch.cat([nodes.any().expand(len(nodes)) for nodes in truth])
    true = torch.cat(truth)[there]
    pooled = torch.cat([e.pooled for e in outcome.explanations])[there]
    result = {
        "precision": float((pooled & true).sum() / pooled.sum()),
        "recall": float((pooled & true).sum() / true.sum()),
        "outside": int((pooled & ~true).sum()),
        "outside_whole_pool": int((torch.cat(whole)[there] & ~true).sum()),
    }
    if alternatives:
        found = explainer.alternatives(outcome.target.model, outcome.graphs)
        union = [_union([a.nodes for a in some], n) for some, n in zip(found, truth, strict=True)]
        shown = torch.cat(union)[there]
        result["recall_of_alternatives"] = float((shown & true).sum() / true.sum())
    return result


def _union(masks: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack(masks).any(0) if masks else torch.zeros_like(like)


def run(name: str, seeds: list[int], count: int) -> dict[str, Any]:
    """All seeds of one dataset, with both kinds of size."""
    result: dict[str, Any] = {}
    for kind, options in SIZES.items():
        runs: list[dict[str, Any]] = []
        for seed in seeds:
            experiment = Experiment(name, "hpme", seed, graphs=count, options=options)
            dataset, target = dataset_and_target(*experiment.target)
            start = time.process_time()
            outcome = explain(experiment, dataset, target)
            seconds = time.process_time() - start
            assert isinstance(outcome.explainer, HPMEExplainer)
            assert outcome.explainer.size is not None and outcome.explainer.report is not None
            runs.append(
                {
                    "seed": seed,
                    "auc": float(explanation_auc(outcome.explanations, outcome.graphs)),
                    "cpu_seconds": seconds,
                    "ratio": outcome.explainer.size.ratio,
                    "warns": bool(outcome.explainer.report.warnings),
                    **pooled_nodes(outcome, alternatives=kind == "given"),
                }
            )
        result[kind] = runs
        values = [r["auc"] for r in runs]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        means = {key: statistics.fmean(r[key] for r in runs) for key in runs[0] if key != "seed"}
        print(
            f"{name:20s} {kind:6s} AUC {means['auc']:.3f} +- {spread:.3f}  ratio "
            f"{means['ratio']:.2f}  {means['cpu_seconds']:.1f} s  pooled nodes: precision "
            f"{means['precision']:.2f}, recall {means['recall']:.2f}, outside "
            f"{means['outside']:.0f} of {means['outside_whole_pool']:.0f}"
            + (f", union {means['recall_of_alternatives']:.2f}" if kind == "given" else ""),
            flush=True,
        )
    return result


def seed_correlation(name: str, seeds: list[int], count: int) -> float:
    """Mean correlation of edge masks between seeds on the same graphs."""
    dataset, target = dataset_and_target(*Experiment(name, "hpme", seeds[0]).target)
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))[:count]
    store = GraphStore.from_graphs(dataset).subset(order)
    regression = dataset.info.task == "regression"
    masks = []
    for seed in seeds:
        explainer = HPMEExplainer(ratio=dataset.pool_ratio, seed=seed)
        mode = "regression" if regression else "multiclass_classification"
        explainer.fit(target.model, store, mode=mode, progress=False)
        found = explainer.explain(target.model, store, progress=False)
        masks.append(torch.cat([e.edge_mask for e in found]))
    pairs = itertools.combinations(masks, 2)
    return statistics.fmean(float(torch.corrcoef(torch.stack(p))[0, 1]) for p in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="300-304")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--correlate", default="benzene", help="sets whose seeds are compared")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds, count = parse_seeds(arguments.seeds), arguments.graphs
    results: dict[str, Any] = {}
    for name in filter(None, arguments.sets.split(",")):
        results[name] = run(name, seeds, count)
        if arguments.json:  # after every set, so that a kill loses one at most
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    for name in filter(None, arguments.correlate.split(",")):
        value = seed_correlation(name, seeds[:3], count)
        print(f"{name}: correlation of edge masks between seeds {value:.3f}", flush=True)
        results.setdefault(name, {})["seed_correlation"] = value
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
