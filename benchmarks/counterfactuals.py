"""Counterfactuals of molecules beside exmol, on the same models and molecules.

    python benchmarks/counterfactuals.py [--sets benzene,amide] [--molecules 200] [--rival 20]
        [--json FILE]

``benzene`` is explained on the paper's GCN, ``amide`` (is there one?) on the GINE of
``real_molecules.py``. Reported of the first counterfactual of each molecule: share of molecules
whose class flips, share of results that RDKit reads, median number of changed heavy atoms (removed
and inserted), median Tanimoto similarity (Morgan, radius 2), CPU seconds per molecule without and
with the fit. exmol (``pip install exmol``) runs with its defaults on the first ``--rival``
molecules; without it, or with 0, it is left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from hpme.bench.run import dataset_and_target
from hpme.data import GraphStore, from_smiles
from hpme.data.molecules.chem import read_molecule
from hpme.data.molecules.edits import fingerprint, similarity
from hpme.explainers import HPMEExplainer

INPUTS = ("x", "edge_index", "edge_attr", "smiles")


def prepared(name: str, seed: int) -> tuple[nn.Module, list[Data]]:
    if name == "amide":
        real = importlib.import_module("real_molecules")
        graphs, _, y = real.read("amide-class")
        model, score = real.train(GraphStore.from_graphs(graphs), y)
        print(f"amide: accuracy {score:.4f}", flush=True)
        smiles = real_smiles()
        graphs = [Data(**g.to_dict(), smiles=s) for g, s in zip(graphs, smiles, strict=True)]
    else:
        dataset, target = dataset_and_target(name, None, None, "gcn", 0, None)
        model = target.model
        graphs = [Data(**{k: g[k] for k in INPUTS if k in g}) for g in dataset[:4000]]
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed)).tolist()
    return model, [graphs[i] for i in order]


def real_smiles() -> list[str]:
    import csv
    import gzip
    import os

    path = Path(os.environ["HPME_DATA_DIR"]) / "attribution" / "amide.csv.gz"
    with gzip.open(path, "rt") as file:
        return [row["smiles"] for row in csv.DictReader(file)]


def classes(model: nn.Module, smiles: Sequence[str]) -> list[int]:
    made = from_smiles(list(smiles), [0] * len(smiles), progress=False, on_error="raise")
    graphs = GraphStore.from_graphs(made).batch()
    given = {"edge_attr": graphs.edge_attr} if hasattr(model, "convs") else {}
    with torch.no_grad():
        try:
            output = model(graphs.x, graphs.edge_index, batch=graphs.batch, **given)
        except TypeError:
            output = model(graphs.x, graphs.edge_index, batch=graphs.batch)
    return output.argmax(1).tolist()


def ours(model: nn.Module, graphs: list[Data], count: int, seed: int) -> dict[str, Any]:
    start = time.process_time()
    explainer = HPMEExplainer(seed=seed).fit(model, graphs[:300], progress=False)
    fitted = time.process_time()
    found = explainer.counterfactuals(model, graphs[:count], progress=False)
    done = time.process_time()
    first = [some[0] for some in found if some]
    valid = 0
    for some in found:
        for one in some:
            valid += read_molecule(one.smiles or "") is not None
    texts = [one.smiles or "" for one in first]
    before = classes(model, [g.smiles for g, some in zip(graphs, found, strict=False) if some])
    flipped = sum(a != b for a, b in zip(before, classes(model, texts), strict=True))
    return {
        "flipped": flipped / count,
        "valid": valid / max(1, sum(map(len, found))),
        "changed_atoms": statistics.median(one.size for one in first),
        "similarity": statistics.median(one.similarity or 0.0 for one in first),
        "seconds": (done - fitted) / count,
        "seconds_with_fit": (done - start) / count,
    }


def rival(model: nn.Module, graphs: list[Data], count: int) -> dict[str, Any] | None:
    try:
        exmol = importlib.import_module("exmol")
    except ImportError:
        return None
    near: list[float] = []
    result: dict[str, Any] = {}
    start = time.process_time()

    def ask(smiles: Any, *_: Any) -> Any:
        many = [smiles] if isinstance(smiles, str) else list(smiles)
        import numpy

        return numpy.array(classes(model, many))

    for number, graph in enumerate(graphs[:count], 1):
        space = exmol.sample_space(graph.smiles, ask, batched=True, quiet=True)
        found = [e for e in exmol.cf_explain(space, nmols=1) if not e.is_origin]
        if found:
            own = fingerprint(read_molecule(graph.smiles))
            near.append(similarity(own, fingerprint(read_molecule(found[0].smiles))))
        result = {
            "molecules": number,
            "flipped": len(near) / number,
            "similarity": statistics.median(near) if near else None,
            "seconds": (time.process_time() - start) / number,
        }
        if number % 5 == 0:
            print("exmol so far", result, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="benzene,amide")
    parser.add_argument("--molecules", type=int, default=200)
    parser.add_argument("--rival", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    asked = {name: prepared(name, arguments.seed) for name in arguments.sets.split(",")}
    for name, (model, graphs) in asked.items():
        found = ours(model, graphs, arguments.molecules, arguments.seed)
        results[name] = {"hpme": found | {"molecules": arguments.molecules}}
        print(name, "hpme", found, flush=True)
    for name, (model, graphs) in asked.items():
        results[name]["exmol"] = rival(model, graphs, arguments.rival)
        print(name, "exmol", results[name]["exmol"], flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
