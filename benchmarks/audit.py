"""Does the audit's verdict agree with what models do where only one of two groups occurs?

    python benchmarks/audit.py [--sets ester-benzene,morpholine-benzene] [--seeds 0-2] [--json FILE]

Five GINE of ``real_molecules.py`` for each set of ``$HPME_DATA_DIR/attribution``: one told group A,
one told group B (benzene, by intent), others trained where both groups occur together or not,
which may read either. The audit sees molecules with both or neither alone. A model reads a group if
more than half of the molecules that have it without the other are predicted positive; it needs both
if that holds for neither group, but for molecules with both.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import torch
from real_molecules import ask, train
from torch import Tensor
from torch_geometric.data import Data

from hpme.bench.experiment import parse_seeds
from hpme.data import GraphStore, from_smiles
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.audit import FINDINGS

INPUTS = ("x", "edge_index", "edge_attr", "smiles")


def rows_of(name: str) -> list[dict[str, str]]:
    path = Path(os.environ["HPME_DATA_DIR"]) / "attribution" / f"{name}.csv.gz"
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def run(name: str, count: int, audited: int, seeds: list[int]) -> list[dict[str, Any]]:
    smarts = {row["role"]: row["smarts"] for row in rows_of(f"{name}_smarts")}
    rows = rows_of(f"{name}_smiles")
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).tolist()
    rows = [rows[i] for i in order[:count]]
    made = from_smiles([row["smiles"] for row in rows], [0] * len(rows), progress=False)
    if made.skipped:
        raise SystemExit(f"{name}: {len(made.skipped)} molecules cannot be read")
    graphs = [Data(**{k: g[k] for k in INPUTS}) for g in made]
    store = GraphStore.from_graphs(graphs)
    a, b = (torch.tensor([row[group] == "True" for row in rows]) for group in "AB")
    together = (a == b).nonzero().view(-1)
    everything = torch.arange(len(rows))
    plans = [("A", everything, a, seeds[0]), ("B", everything, b, seeds[0])]
    plans += [(f"together, seed {seed}", together, a, seed) for seed in seeds]
    return [one(name, *plan, store, graphs, a, b, together[:audited], smarts) for plan in plans]


def one(
    name: str, label: str, ids: Tensor, y: Tensor, seed: int, store: GraphStore,
    graphs: list[Data], a: Tensor, b: Tensor, shown: Tensor, smarts: dict[str, str],
) -> dict[str, Any]:  # fmt: skip
    model, score = train(store.subset(ids), y[ids].long(), seed)
    with torch.no_grad():
        positive = ask(model, store, torch.arange(len(store))).argmax(1) == 1
    alone = [float(positive[which].float().mean()) for which in (a & ~b, b & ~a)]
    behaviour: str = FINDINGS[alone[0] > 0.5, alone[1] > 0.5]
    if max(alone) <= 0.5 < float(positive[a & b].float().mean()):
        behaviour = "needs both"
    some = [graphs[i] for i in shown.tolist()]
    explainer = HPMEExplainer(seed=seed).fit(model, some[:300], progress=False)
    found = explainer.audit(model, some, smarts["A"], smarts["B"])
    result = {"set": name, "trained": label, "accuracy": score, "A only": alone[0],
              "B only": alone[1], "behaviour": behaviour, **found.to_dict()}  # fmt: skip
    print(name, label, f"accuracy {score:.3f}, positive with A only {alone[0]:.2f}, B only "
          f"{alone[1]:.2f}: {behaviour}; audit: {found}", flush=True)  # fmt: skip
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="ester-benzene,morpholine-benzene")
    parser.add_argument("--molecules", type=int, default=4000, help="to train on")
    parser.add_argument("--audited", type=int, default=500)
    parser.add_argument("--seeds", default="0-2", help="of models and explainers")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = parse_seeds(arguments.seeds)
    results: list[dict[str, Any]] = []
    for name in arguments.sets.split(","):
        results += run(name, arguments.molecules, arguments.audited, seeds)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    agree = sum(r["behaviour"] == r["verdict"] for r in results)
    print(f"the verdict agrees with behaviour for {agree} of {len(results)} models")


if __name__ == "__main__":
    main()
