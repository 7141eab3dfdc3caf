"""Whether transplants tell masks that explain from masks that cannot.

    python benchmarks/judge.py [--sets benzene,ba-2motifs] [--seeds 0-3] [--graphs 60] [--json FILE]

HPME is fitted to the target of each of the paper's sets; then masks are judged in hosts that no
explainer saw, 64 other graphs of the set: the ground truth, and masks that say nothing about the
model. These are all nodes, the degree of nodes, random numbers, all but the ground truth, and the
same subgraph in every graph, a path of three nodes of the commonest kind. Graphs are those with a
ground truth. Settings were chosen on odd seeds; even ones are for reporting.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpme.bench.experiment import Experiment, parse_seeds
from hpme.bench.outcome import explain, without_ground_truth
from hpme.bench.run import dataset_and_target
from hpme.data import GraphStore
from hpme.explainers import HPMEExplainer

SETS = (
    *("ba-2motifs", "ba-houseandgrid", "ba-motif-volume", "ba-motif-counting"),
    *("benzene", "fluoride-carbonyl", "alkane-carbonyl"),
)
HOSTS = 64


def paths(store: GraphStore) -> Tensor:
    """A path of three nodes of the commonest kind in every graph, as far as there is one."""
    graphs = store.batch()
    kind = torch.unique(graphs.x, dim=0, return_inverse=True)[1]
    common = kind == kind.bincount().argmax()
    mask = torch.zeros(graphs.num_nodes)
    for graph in range(graphs.num_graphs):
        inside = (graphs.batch == graph) & common
        inner = inside[graphs.edge_index].all(0)
        source, target = graphs.edge_index[:, inner]
        middle = torch.bincount(source, minlength=graphs.num_nodes)
        if int(middle.max()) >= 2:
            place = int((middle >= 2).nonzero()[0])
            mask[[place, *target[source == place][:2].tolist()]] = 1
        elif bool(inside.any()):
            mask[inside.nonzero()[:1]] = 1
    return mask


def run(name: str, seed: int, count: int) -> dict[str, Any]:
    experiment = Experiment(name, "hpme", seed, graphs=2 * count)
    dataset, target = dataset_and_target(*experiment.target)
    outcome = explain(experiment, dataset, target)
    explainer = outcome.explainer
    assert isinstance(explainer, HPMEExplainer)
    with_truth = [g for g in outcome.graphs if bool(g.node_mask.any())][:count]
    truth = torch.cat([g.node_mask.view(-1) for g in with_truth]).double()
    graphs = without_ground_truth(with_truth)
    store = GraphStore.from_graphs(graphs)
    batch = store.batch()
    generator = torch.Generator().manual_seed(seed)
    fitted = {*outcome.numbers, *dataset.companions(seed, experiment.graphs).tolist()}
    order = torch.randperm(len(dataset), generator=generator).tolist()
    unseen = [i for i in order if i not in fitted][:HOSTS]
    masks = {
        "truth": truth,
        "all": torch.ones_like(truth),
        "degree": torch.bincount(batch.edge_index[0], minlength=len(truth)).double(),
        "random numbers": torch.rand(len(truth), generator=generator),
        "complement": 1 - truth,
        "constant": paths(store),
    }
    start = time.process_time()
    found = explainer.judge(
        target.model, graphs, masks, hosts=without_ground_truth([dataset[i] for i in unseen])
    )
    result = {one.name: one.row() for one in found.masks}
    return {"set": name, "seed": seed, "seconds": time.process_time() - start, "masks": result}


def show(rows: list[dict[str, Any]], half: int) -> str:
    """How often masks are accepted, over seeds of one half."""
    kept = [row for row in rows if row["seed"] % 2 == half]
    counts: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in kept:
        for name, one in row["masks"].items():
            counts[row["set"]][name].append(one["accepted"])
            counts["all sets"][name].append(one["accepted"])
    lines = []
    for name, masks in counts.items():
        cells = ", ".join(f"{k} {sum(v)}/{len(v)}" for k, v in masks.items())
        lines.append(f"{name}: {cells}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="0-3")
    parser.add_argument("--graphs", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in options.sets.split(","):
        for seed in parse_seeds(options.seeds):
            rows.append(run(name, seed, options.graphs))
            for one in rows[-1]["masks"].values():
                words = {k: round(v, 3) if isinstance(v, float) else v for k, v in one.items()}
                print(name, seed, words, flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
    for half, word in ((1, "odd"), (0, "even")):
        print(f"{word} seeds\n{show(rows, half)}")


if __name__ == "__main__":
    main()
