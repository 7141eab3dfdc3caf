"""Verdicts on a published model whose reasons chemists know, and on networks that learned nothing.

    python benchmarks/evidence.py [--models real,permuted,random,constant] [--molecules 150]
        [--halves odd,even] [--background 300] [--networks 1] [--seed 0] [--cache DIR]
        [--json FILE]

Needs what ``benchmarks/grafts.py`` does. The first AMES network of ADMET-AI is explained by HPME,
fitted to random molecules of the Ames table; then verdicts of mutagens that it knows and that have
exactly one kind of toxicophore are counted. The same is done with its weights drawn at random, with
the weights of its head permuted, and with a last layer of zeros, which is a constant. With
``--networks 5`` the trained one is the ensemble. Settings were chosen on molecules of odd index;
those of even index are for reporting.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from grafts import TASK, Model, alerts
from rdkit import Chem, RDLogger
from torch import nn

from hpme.explainers import HPMEExplainer
from hpme.models.chemprop import Ensemble, explained, molecules

NUMBERS = ("carried", "lost", "effect", "random", "removal", "size", "grafted")


def changed(network: Any, kind: str) -> Any:
    """The network as it is, or one of those that learned nothing."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        if kind == "random":
            for weight in network.parameters():
                if weight.dim() > 1:
                    drawn = torch.randn(weight.shape, generator=generator)
                    weight.copy_(drawn * weight.shape[1] ** -0.5)
        if kind == "permuted":
            for weight in network.predictor.parameters():
                order = torch.randperm(weight.numel(), generator=generator)
                weight.copy_(weight.flatten()[order].view_as(weight))
        if kind == "constant":
            linear = [m for m in network.predictor.modules() if isinstance(m, nn.Linear)]
            linear[-1].weight.zero_()
    return network


def read() -> list[dict[str, Any]]:
    with (Path(os.environ["HPME_DATA_DIR"]) / "ames" / "ames.csv").open() as file:
        rows = list(csv.DictReader(file))
    read = [{**row, "mol": Chem.MolFromSmiles(row["smiles"])} for row in rows]
    return [row for row in read if row["mol"] is not None and row["mol"].GetNumAtoms() > 1]


def fitted(name: str, model: Any, graphs: list[Any], cache: Path | None, seed: int) -> Any:
    path = None if cache is None else cache / f"{name}.safetensors"
    if path is not None and path.exists():
        return HPMEExplainer.load(path)
    start = time.process_time()
    explainer = HPMEExplainer(seed=seed).fit(model, graphs, progress=False)
    print(f"{name}: {time.process_time() - start:.1f} CPU-seconds for {len(graphs)} molecules")
    assert explainer.report is not None
    print(explainer.report.summary(), flush=True)
    if path is not None:
        explainer.save(path)
    return explainer


def count(explainer: HPMEExplainer, model: Any, graphs: list[Any]) -> dict[str, Any]:
    start = time.process_time()
    quality = explainer.quality(model, graphs)
    seconds = time.process_time() - start
    found = {name: [getattr(q, name) for q in quality] for name in NUMBERS}
    return {
        "molecules": len(graphs),
        "verdicts": dict(Counter(q.verdict for q in quality)),
        "mixed as graphs": sum(value == 0 for value in found["grafted"]),
        "seconds": seconds,
        **{k: statistics.fmean([v for v in some if v == v] or [0.0]) for k, some in found.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="real,permuted,random,constant")
    parser.add_argument("--molecules", type=int, default=150)
    parser.add_argument("--halves", default="odd,even")
    parser.add_argument("--background", type=int, default=300)
    parser.add_argument("--networks", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="folder for fitted explainers")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    RDLogger.DisableLog("rdApp.*")
    rows, trained = read(), Model(1)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).tolist()
    background = [rows[i]["smiles"] for i in order[: options.background]]
    others = [rows[i] for i in order[options.background :] if rows[i]["active"] == "1"]
    results = {}
    for kind in options.models.split(","):
        networks = Model(options.networks).networks if kind == "real" else Model(1).networks
        network = changed(networks[0], kind)
        whole = Ensemble(networks) if len(networks) > 1 else network
        model = explained(whole, tasks=trained.tasks, target=TASK)
        graphs = molecules(background, network)
        name = kind if len(networks) == 1 else f"{kind} {len(networks)}"
        explainer = fitted(name, model, graphs, options.cache, options.seed)
        for half in filter(None, options.halves.split(",")):
            own = [row for row in others if int(row["index"]) % 2 == (half == "odd")]
            own = [row for row in own if len(alerts(row["mol"])) == 1][: 2 * options.molecules]
            p = trained([row["mol"] for row in own])
            known = [row["smiles"] for row, one in zip(own, p, strict=True) if one > 0.5]
            chosen = molecules(known[: options.molecules], network)
            results[f"{kind}, {half}"] = found = count(explainer, model, chosen)
            print(f"{kind}, {half}: {found}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
