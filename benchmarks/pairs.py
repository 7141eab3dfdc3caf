"""Why near twins differ in activity: exchanged parts beside attributions of single molecules.

    python benchmarks/pairs.py [--targets CHEMBL1862_Ki,...] [--pairs 200] [--json FILE]

The sets are those of ``$HPME_DATA_DIR/cliffs``. A GINE is trained on four fifths of the molecules
of each target; pairs are those of which at least one molecule was not trained on, with differing
atoms in both, at most 30 % of either. Contributions outside the core are summed: for HPME those of
the exchanged parts, for integrated gradients (zero features as the beginning) and occlusion (an
atom's features set to zero) those of the second molecule's differing atoms minus those of the first
one's, as the data mark them. "predicted" is how often the sign is that of the predicted difference,
"measured" that of the measured one, where ``model`` is what the predictions themselves have. Atom
AUC: differing atoms against all others by absolute contribution, the mean over molecules. HPME is
told the core by RDKit, as the data's marks were made, so that its AUC says how well the two cores
agree, and not how well it finds them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from rdkit import RDLogger
from real_molecules import Gine, train
from torch import Tensor

from hpme.data import GraphStore
from hpme.data.molecules.smiles import from_smiles
from hpme.explainers import HPMEExplainer
from hpme.metrics import edge_auc
from hpme.models.explained import ExplainedModel

MARKED, STEPS = 0.3, 32


def read(name: str) -> tuple[list[str], Tensor, list[dict[str, Any]]]:
    """Molecules, standardised activities, and pairs."""
    folder = Path(os.environ["HPME_DATA_DIR"]) / "cliffs"
    with (folder / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    with gzip.open(folder / f"{name}.json.gz", "rt") as text:
        cliffs = json.load(text)
    y = torch.tensor([float(row["y"]) for row in rows])
    pairs = []
    for one in cliffs:
        for other in one["pairs"]:
            masks = [torch.tensor(other[f"atom_mask_{side}"]).bool() for side in "ij"]
            if all(0 < float(m.float().mean()) <= MARKED for m in masks):
                pairs.append(
                    {
                        "smiles": (one["smiles"], other["smiles"]),
                        "masks": masks,
                        "measured": -other["potency_diff"],
                    }
                )
    return [row["smiles"] for row in rows], (y - y.mean()) / y.std(), pairs


def output(model: Gine, graphs: Any, x: Tensor) -> Tensor:
    out: Tensor = model(x, graphs.edge_index, graphs.batch, graphs.edge_attr)
    return out.view(-1)


def occlusion(model: Gine, store: GraphStore) -> list[Tensor]:
    """How much lower the output is without the features of each atom."""
    found = []
    for number in range(len(store)):
        size = int(store.sizes[number])
        graphs = store.batch(torch.full((size + 1,), number))
        x = graphs.x.view(size + 1, size, -1) * (1 - torch.eye(size + 1)[:, :size]).unsqueeze(2)
        with torch.no_grad():
            values = output(model, graphs, x.view(graphs.x.shape))
        found.append(values[-1] - values[:-1])
    return found


def integrated_gradients(model: Gine, store: GraphStore) -> list[Tensor]:
    """Gradients on the straight way from features of zero, times the features."""
    graphs = store.batch()
    total = torch.zeros_like(graphs.x)
    for step in range(STEPS):
        x = (graphs.x * (step + 0.5) / STEPS).requires_grad_()
        total += torch.autograd.grad(output(model, graphs, x).sum(), x)[0]
    return list((total / STEPS * graphs.x).sum(1).split(store.sizes.tolist()))


def aucs(scores: list[Tensor], masks: list[Tensor]) -> float:
    found = [float(edge_auc(s.abs().double(), m)) for s, m in zip(scores, masks, strict=True)]
    return float(torch.tensor(found).nanmean())


def run(name: str, count: int) -> dict[str, Any]:
    smiles, y, pairs = read(name)
    dataset = from_smiles(smiles, y.tolist(), task="regression", progress=False)
    kept = {graph.smiles: graph for graph in dataset}
    store = GraphStore.from_graphs(list(dataset))
    assert store.y is not None
    model, score = train(store, store.y.view(-1).float())
    with torch.random.fork_rng(devices=[]):  # the same split as in training
        torch.manual_seed(0)
        Gine(store.x.shape[1], store.edge_attr.shape[1], 1)
        order = torch.randperm(len(store))
    listed = [graph.smiles for graph in dataset]
    fresh = {listed[i] for i in order[: len(store) // 5].tolist()}
    seen, test = set(), []
    for pair in pairs:
        a, b = pair["smiles"]
        if a in kept and b in kept and (a in fresh or b in fresh) and (b, a) not in seen:
            seen.add((a, b))
            test.append(pair)
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(test), generator=generator)[:count].tolist()
    test = [test[i] for i in chosen]
    first, second = ([kept[p["smiles"][side]] for p in test] for side in (0, 1))
    known = ExplainedModel(model, mode="regression")
    start = time.process_time()
    found = HPMEExplainer().pairs(known, first, second)
    seconds = time.process_time() - start
    predicted = torch.tensor([one.difference for one in found])
    measured = torch.tensor([pair["measured"] for pair in test])
    both = [graph for two in zip(first, second, strict=True) for graph in two]
    masks = [mask for pair in test for mask in pair["masks"]]
    sums = {"hpme": torch.tensor([sum(p.change for p in one.parts) for one in found])}
    nodes = {"hpme": [e.effect.nodes[:, 0] for e in found.explanations()]}
    graphs = GraphStore.from_graphs(both)
    for method, function in (("ig", integrated_gradients), ("occlusion", occlusion)):
        scores = function(model, graphs)
        nodes[method] = scores
        outside = [float(s[m].sum()) for s, m in zip(scores, masks, strict=True)]
        sums[method] = torch.tensor(outside).view(-1, 2) @ torch.tensor([-1.0, 1.0])
    parts = torch.tensor([len(one.parts) for one in found])
    several = parts > 1
    together = torch.tensor([abs(one.interaction) for one in found])
    result: dict[str, Any] = {
        "target": name,
        "R2": score,
        "pairs": len(test),
        "seconds per pair": seconds / max(1, len(test)),
        "several parts": float(several.float().mean()),
        "interaction": float((together / predicted.abs().clamp(min=1e-6))[several].median()),
        "model measured": agreement(predicted, measured),
    }
    for method, total in sums.items():
        result[method] = {
            "predicted": agreement(total, predicted),
            "measured": agreement(total, measured),
            "auc": aucs(nodes[method], masks),
        }
    return result


def agreement(one: Tensor, other: Tensor) -> float:
    return float((one.sign() == other.sign()).float().mean())


def main() -> None:
    folder = Path(os.environ["HPME_DATA_DIR"]) / "cliffs"
    every = sorted(path.stem for path in folder.glob("*.csv"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=",".join(every))
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    RDLogger.DisableLog("rdApp.*")
    rows = []
    for name in options.targets.split(","):
        rows.append(run(name, options.pairs))
        print(rows[-1], flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
