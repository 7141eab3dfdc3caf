"""Explanations of real molecules whose reasons are known atom by atom.

    python benchmarks/real_molecules.py [--sets n,n_minus_o,amide,amide-class] [--seeds 300-302]
        [--graphs 200] [--json FILE]

The sets are those of ``$HPME_DATA_DIR/attribution``. A GINE with bond features is trained on each,
to an R2 or an accuracy of at least .99, and explained by several methods. Node AUC: atoms with a
known role against all others, pooled over atoms and as a mean over molecules; atoms of explainers
that score edges alone count as their heaviest bond. For HPME also the verdicts, the precision of
the pooled atoms, the recall of the union of three alternatives, and the correlation of edge masks
between seeds on the same molecules. ``amide-class`` is the question whether there is an amide.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import os
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINEConv, global_add_pool

from hpme.bench.experiment import parse_seeds
from hpme.data import GraphStore
from hpme.data.molecules.smiles import from_smiles
from hpme.explainers import EXPLAINERS, HPMEExplainer
from hpme.metrics import edge_auc, edge_auc_per_graph

SETS = ("n", "n_minus_o", "amide", "amide-class")
METHODS: dict[str, dict[str, Any]] = {
    "hpme": {},
    "grad": {},
    "pgexplainer": {},
    "occlusion": {"unit": "node"},
    "integratedgradients": {},
}
EPOCHS, BATCH, ENOUGH = 40, 128, 0.99


class Gine(nn.Module):
    """Three GINE layers with bond features, a sum over atoms, a two-layer head."""

    def __init__(self, atoms: int, bonds: int, outputs: int, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(atoms, width)
        self.convs = nn.ModuleList(
            GINEConv(
                nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)),
                edge_dim=bonds,
            )
            for _ in range(3)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in self.convs)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor) -> Tensor:
        """One row per molecule."""
        h = self.first(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = norm(conv(h, edge_index, edge_attr)).relu()
        out: Tensor = self.head(global_add_pool(h, batch))
        return out


def read(name: str) -> tuple[list[Data], list[Tensor], Tensor]:
    """Molecules, the atoms with a role of each, and labels."""
    path = Path(os.environ["HPME_DATA_DIR"]) / "attribution" / f"{name.split('-')[0]}.csv.gz"
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    labels = [float(row["activity"]) for row in rows]
    dataset = from_smiles(
        [row["smiles"] for row in rows], labels, task="regression", on_error="raise", progress=False
    )
    graphs = [
        Data(x=graph.x, edge_index=graph.edge_index, edge_attr=graph.edge_attr) for graph in dataset
    ]
    roles = [torch.tensor([int(v) for v in row["atom_labels"].split()]) != 0 for row in rows]
    y = torch.tensor(labels)
    return graphs, roles, (y > 0).long() if name.endswith("-class") else y


def train(store: GraphStore, y: Tensor, seed: int = 0) -> tuple[Gine, float]:
    """A model, and its R2 or accuracy on a fifth of the molecules it was not trained on."""
    classes = not y.is_floating_point()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        assert store.edge_attr is not None
        model = Gine(store.x.shape[1], store.edge_attr.shape[1], 2 if classes else 1)
        order = torch.randperm(len(store))
        test, known = order[: len(store) // 5], order[len(store) // 5 :]
        optimiser = torch.optim.Adam(model.parameters())
        steps = EPOCHS * -(-len(known) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=steps)
        for _ in range(EPOCHS):
            for ids in known[torch.randperm(len(known))].split(BATCH):
                output = ask(model, store, ids)
                loss = (
                    F.cross_entropy(output, y[ids])
                    if classes
                    else F.mse_loss(output.view(-1), y[ids])
                )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
    model.eval()
    with torch.no_grad():
        output = ask(model, store, test)
    if classes:
        return model, float((output.argmax(1) == y[test]).float().mean())
    error = (output.view(-1) - y[test]).square().mean()
    return model, float(1 - error / y[test].var(unbiased=False))


def ask(model: Gine, store: GraphStore, ids: Tensor) -> Tensor:
    graphs = store.batch(ids)
    assert graphs.edge_attr is not None
    out: Tensor = model(graphs.x, graphs.edge_index, graphs.batch, graphs.edge_attr)
    return out


def node_scores(explanation: Any) -> Tensor:
    """Scores of atoms: the node mask, else the heaviest bond."""
    mask = explanation.get("node_mask")
    if mask is not None:
        return mask.view(-1)
    ends, weight = explanation.edge_index.flatten(), explanation.edge_mask.repeat(2)
    return torch.zeros(len(explanation.x)).scatter_reduce(0, ends, weight, "amax")


def node_auc(explanations: list[Any], roles: list[Tensor]) -> dict[str, float]:
    score, role = torch.cat([node_scores(e) for e in explanations]), torch.cat(roles)
    graph = torch.repeat_interleave(torch.tensor([len(r) for r in roles]))
    single = edge_auc_per_graph(score, role, graph)
    return {
        "pooled": float(edge_auc(score, role)),
        "per_graph": float(single[~single.isnan()].mean()),
    }


def details(
    explainer: HPMEExplainer, model: nn.Module, graphs: list[Data], explanations: list[Any],
    roles: list[Tensor],
) -> dict[str, Any]:  # fmt: skip
    """What only HPME says."""
    quality = explainer.quality(model, graphs)
    found = explainer.alternatives(model, graphs)
    pooled = torch.cat([e.pooled for e in explanations])
    union = torch.cat(
        [
            torch.stack([a.nodes for a in some]).any(0) if some else torch.zeros_like(role)
            for some, role in zip(found, roles, strict=True)
        ]
    )
    role = torch.cat(roles)
    has = torch.repeat_interleave(
        torch.tensor([bool(r.any()) for r in roles]), torch.tensor([len(r) for r in roles])
    )
    verdicts = {
        name: Counter(q.verdict for q, r in zip(quality, roles, strict=True) if bool(r.any()) == b)
        for name, b in (("with", True), ("without", False))
    }
    assert explainer.report is not None
    return {
        "precision": float((pooled & role).sum() / pooled[has].sum().clamp(min=1)),
        "recall": float((pooled & role).sum() / role.sum()),
        "recall_of_alternatives": float((union & role).sum() / role.sum()),
        "verdicts": {name: dict(counts) for name, counts in verdicts.items()},
        "ratio": None if explainer.size is None else explainer.size.ratio,
        "effect": explainer.report.effect,
        "p_value": explainer.report.p_value,
    }


def run(name: str, seeds: list[int], count: int) -> dict[str, Any]:
    graphs, roles, y = read(name)
    store = GraphStore.from_graphs(graphs)
    model, score = train(store, y)
    print(f"{name}: {'R2' if y.is_floating_point() else 'accuracy'} {score:.4f}", flush=True)
    assert score >= ENOUGH, f"a model of {score:.3f} is not worth explaining"
    mode = "regression" if y.is_floating_point() else "multiclass_classification"
    result: dict[str, Any] = {"score": score, "methods": {}}
    masks: list[Tensor] = []
    for method, options in METHODS.items():
        runs = []
        for seed in seeds:
            pick = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed))
            ids = pick[:count].tolist()
            some, known = [graphs[i] for i in ids], [roles[i] for i in ids]
            explainer = EXPLAINERS[method](seed=seed, **options)
            start = time.process_time()
            explainer.fit(model, some, mode=mode, progress=False)
            explanations = explainer.explain(model, some, progress=False)
            seconds = time.process_time() - start
            runs.append({"seed": seed, "cpu_seconds": seconds, **node_auc(explanations, known)})
            if isinstance(explainer, HPMEExplainer):
                runs[-1] |= details(explainer, model, some, explanations, known)
        result["methods"][method] = runs
        means = {key: statistics.fmean(r[key] for r in runs) for key in ("pooled", "per_graph")}
        cost = statistics.fmean(r["cpu_seconds"] for r in runs)
        print(
            f"  {method:20s} pooled {means['pooled']:.3f}  per graph {means['per_graph']:.3f}"
            f"  {cost:.1f} s",
            flush=True,
        )
        if method == "hpme":
            last = runs[-1]
            shown = ("precision", "recall", "recall_of_alternatives", "verdicts", "ratio")
            print("   ", {key: last[key] for key in shown}, flush=True)
    some = [graphs[i] for i in range(count)]  # the same molecules for all seeds
    for seed in seeds:
        fitted = HPMEExplainer(seed=seed).fit(model, some, mode=mode, progress=False)
        masks.append(torch.cat([e.edge_mask for e in fitted.explain(model, some, progress=False)]))
    pairs = [float(torch.corrcoef(torch.stack(p))[0, 1]) for p in itertools.combinations(masks, 2)]
    result["seed_correlation"] = statistics.fmean(pairs) if pairs else None
    print(f"  correlation of HPME's edge masks between seeds {result['seed_correlation']}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="300-302")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = parse_seeds(arguments.seeds)
    results = {name: run(name, seeds, arguments.graphs) for name in arguments.sets.split(",")}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
