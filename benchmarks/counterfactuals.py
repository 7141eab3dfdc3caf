"""Counterfactuals of molecules beside exmol, on the same models and molecules.

    python benchmarks/counterfactuals.py [--sets benzene,amide,ames] [--molecules 200] [--rival 20]
        [--half even] [--json FILE]

``benzene`` is explained on the paper's GCN, ``amide`` (is there one?) on the GINE of
``real_molecules.py``, ``ames`` on the first AMES network of ADMET-AI, which needs what
``grafts.py`` does: mutagens that it knows, of odd or even index, with other molecules of the table
as donors. Reported of the first counterfactual that is not in the library: share of molecules whose
class flips, share of results that RDKit reads, median number of changed heavy atoms (removed and
inserted), median Tanimoto similarity (Morgan, radius 2), median accessibility; then the share of
edits that are refused before the model is asked, and why, the share of molecules with a near twin
in the library, and CPU seconds per molecule without and with the fit. exmol (``pip install exmol``)
runs with its defaults on the first ``--rival`` molecules; without it, or with 0, it is left out.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import nn
from torch_geometric.data import Data

from hpme.bench.run import dataset_and_target
from hpme.data import GraphStore, from_smiles
from hpme.data.molecules.chem import read_molecule
from hpme.data.molecules.exchanges import accessibility, fingerprint, objection, similarities
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme import molecules

INPUTS = ("x", "edge_index", "edge_attr", "smiles")
Ask = Callable[[Sequence[str]], list[int]]
Prepared = tuple[Any, list[Data], list[Data], Ask]


def prepared(name: str, seed: int, half: str, count: int) -> Prepared:
    """A model, molecules to explain, molecules to fit to and take groups from, and its classes."""
    if name == "ames":
        return mutagens(seed, half, count)
    if name == "amide":
        real = importlib.import_module("real_molecules")
        graphs, _, y = real.read("amide-class")
        model, score = real.train(GraphStore.from_graphs(graphs), y)
        print(f"amide: accuracy {score:.4f}", flush=True)
        path = Path(os.environ["HPME_DATA_DIR"]) / "attribution" / "amide.csv.gz"
        with gzip.open(path, "rt") as file:
            smiles = [row["smiles"] for row in csv.DictReader(file)]
        graphs = [Data(**g.to_dict(), smiles=s) for g, s in zip(graphs, smiles, strict=True)]
    else:
        dataset, target = dataset_and_target(name, None, None, "gcn", 0, None)
        model = target.model
        graphs = [Data(**{k: g[k] for k in INPUTS if k in g}) for g in dataset[:4000]]
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed)).tolist()
    graphs = [graphs[i] for i in order]
    return model, graphs[:count], graphs[:300], lambda smiles: classes(model, smiles)


def mutagens(seed: int, half: str, count: int) -> Prepared:
    grafts, evidence = map(importlib.import_module, ("grafts", "evidence"))
    importlib.import_module("rdkit.RDLogger").DisableLog("rdApp.*")
    chemprop = importlib.import_module("hpme.models.chemprop")
    network = grafts.Model(1)
    rows = [row for row in evidence.read() if int(row["index"]) % 2 == (half == "odd")]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).tolist()
    rows = [rows[i] for i in order]
    donors, others = rows[:300], [row for row in rows[300:] if row["active"] == "1"][: 2 * count]
    p = network([row["mol"] for row in others])
    known = [row["smiles"] for row, one in zip(others, p, strict=True) if one > 0.5][:count]
    model = chemprop.explained(network.networks[0], tasks=network.tasks, target=grafts.TASK)

    def ask(smiles: Sequence[str]) -> list[int]:
        return [int(one > 0.5) for one in network([read_molecule(text) for text in smiles])]

    made = [chemprop.molecules(some, network.networks[0]) for some in (
        known, [row["smiles"] for row in donors])]  # fmt: skip
    return model, made[0], made[1], ask


def classes(model: nn.Module, smiles: Sequence[str]) -> list[int]:
    """What a model for hpme's features says."""
    made = from_smiles(list(smiles), [0] * len(smiles), progress=False, on_error="raise")
    graphs = GraphStore.from_graphs(made).batch()
    given = {"edge_attr": graphs.edge_attr} if hasattr(model, "convs") else {}
    with torch.no_grad():
        try:
            output = model(graphs.x, graphs.edge_index, batch=graphs.batch, **given)
        except TypeError:
            output = model(graphs.x, graphs.edge_index, batch=graphs.batch)
    return output.argmax(1).tolist()


def ours(asked: Prepared, seed: int, show: int, quick: bool) -> dict[str, Any]:
    model, graphs, donors, ask = asked
    refused: Counter[str | None] = Counter()

    def counted(before: Any, after: Any) -> str | None:
        why = objection(before, after)
        refused[why] += 1
        return why

    molecules.objection = counted  # type: ignore[assignment]
    start = time.process_time()
    options = {"restarts": 1} if quick else {}
    explainer = HPMEExplainer(seed=seed, **options)
    explainer.fit(model, donors[:40] if quick else donors, progress=False)
    fitted = time.process_time()
    found = explainer.counterfactuals(model, graphs, n=3, donors=donors, progress=False)
    done = time.process_time()
    for graph, some in list(zip(graphs, found, strict=True))[:show]:
        print(graph.smiles, *some, sep="\n    ")
    new = [[one for one in some if not one.known] for some in found]
    first = [some[0] for some in new if some]
    every = [one for some in found for one in some]
    valid = sum(read_molecule(one.smiles or "") is not None for one in every)
    before = ask([g.smiles for g, some in zip(graphs, new, strict=True) if some])
    after = ask([one.smiles or "" for one in first])
    flipped = sum(a != b for a, b in zip(before, after, strict=True))
    total = sum(refused.values())
    return {
        "molecules": len(graphs),
        "flipped": flipped / len(graphs),
        "valid": valid / max(1, len(every)),
        "changed_atoms": statistics.median(one.size for one in first),
        "similarity": statistics.median(one.similarity or 0.0 for one in first),
        "accessibility": statistics.median(one.accessibility or 0.0 for one in first),
        "twins": sum(any(one.known for one in some) for some in found) / len(graphs),
        "refused": 1 - refused.pop(None, 0) / max(1, total),
        "why": {str(name): count / total for name, count in refused.most_common()},
        "seconds": (done - fitted) / len(graphs),
        "seconds_with_fit": (done - start) / len(graphs),
    }


def rival(asked: Prepared, count: int) -> dict[str, Any] | None:
    try:
        exmol = importlib.import_module("exmol")
    except ImportError:
        return None
    near: list[float] = []
    hard: list[float] = []
    refused = 0
    result: dict[str, Any] = {}
    start = time.process_time()

    def ask(smiles: Any, *_: Any) -> Any:
        return numpy.array(asked[3]([smiles] if isinstance(smiles, str) else list(smiles)))

    for number, graph in enumerate(asked[1][:count], 1):
        space = exmol.sample_space(graph.smiles, ask, batched=True, quiet=True)
        found = [e for e in exmol.cf_explain(space, nmols=1) if not e.is_origin]
        if found:
            own, other = (read_molecule(text) for text in (graph.smiles, found[0].smiles))
            near.append(similarities(own, [fingerprint(other)])[0])
            hard.append(accessibility(other) or 0.0)
            refused += objection(own, other) is not None
        result = {
            "molecules": number,
            "flipped": len(near) / number,
            "similarity": statistics.median(near) if near else None,
            "accessibility": statistics.median(hard) if hard else None,
            "would be refused": refused / max(1, len(near)),
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
    parser.add_argument("--half", default="even", choices=["odd", "even"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="molecules to print")
    parser.add_argument("--quick", action="store_true", help="a short fit to 40 molecules")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name in arguments.sets.split(","):
        asked = prepared(name, arguments.seed, arguments.half, arguments.molecules)
        results[name] = {"hpme": ours(asked, arguments.seed, arguments.show, arguments.quick)}
        print(name, "hpme", results[name]["hpme"], flush=True)
        results[name]["exmol"] = rival(asked, arguments.rival) if arguments.rival else None
        print(name, "exmol", results[name]["exmol"], flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
