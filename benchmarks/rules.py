"""The rulebook on sets whose reasons are known: what it says, and its fidelity on unseen graphs.

    python benchmarks/rules.py [--sets ba-2motifs,benzene] [--targets 0,1,2] [--seed 0]
        [--graphs 1000] [--json FILE] [--pictures DIR]

The paper's targets, one for each seed in ``--targets``, are explained by HPME, which learns from
300 graphs without labels; rules are learned from 70 % of the graphs and measured on the rest.
``found`` says whether what the set was made of is among the conditions.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from torch_geometric.data import Data

from hpme.bench.run import dataset_and_target
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.rulebook import Rule
from hpme.paper.shared.suite import VARIANTS

INPUTS = ("x", "edge_index", "edge_attr", "smiles")
FIT = 300


def has_forms(rule: Rule, *forms: nx.Graph) -> bool:
    return all(any(nx.is_isomorphic(g, form) for g in rule.graphs) for form in forms)


HOUSE, CYCLE, GRID = nx.house_graph(), nx.cycle_graph(5), nx.grid_2d_graph(3, 3)
EXPECTED: dict[str, Any] = {
    "ba-2motifs": lambda rules: (
        any(has_forms(r, HOUSE) for r in rules) and any(has_forms(r, CYCLE) for r in rules)
    ),
    "ba-houseandgrid": lambda rules: any(has_forms(r, HOUSE, GRID) for r in rules),
    "benzene": lambda rules: any(r.names == ("c1ccccc1",) for r in rules),
    "alkane-carbonyl": lambda rules: any(
        any("F" in n for n in r.names) and any("C=O" in n or "O=C" in n for n in r.names)
        for r in rules
    ),
}


def run(
    name: str, target_seed: int, seed: int, count: int, pictures: Path | None
) -> dict[str, Any]:
    dataset, target = dataset_and_target(name, VARIANTS.get(name), None, "gcn", target_seed, None)
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    graphs = [
        Data(**{k: graph[k] for k in INPUTS if k in graph})
        for graph in (dataset[i] for i in order[:count])
    ]
    start = time.process_time()
    explainer = HPMEExplainer(seed=seed).fit(target.model, graphs[:FIT], progress=False)
    fitted = time.process_time()
    book = explainer.rules(target.model, graphs, progress=False)
    done = time.process_time()
    spent = f"fit {fitted - start:.0f} s, rules {done - fitted:.0f} s of CPU"
    print(f"{name}, target {target_seed}: {spent}", flush=True)
    print(book, flush=True)
    if pictures is not None:
        book.draw(pictures / f"rules-{name}-{target_seed}.svg")
    found = bool(EXPECTED[name](book.rules))
    print(f"found what the set was made of: {found}", flush=True)
    return book.to_dict() | {"found": found, "cpu_seconds": done - fitted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(EXPECTED))
    parser.add_argument("--targets", default="0", help="seeds that targets were trained with")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--pictures", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name in arguments.sets.split(","):
        for seed in map(int, arguments.targets.split(",")):
            found = run(name, seed, arguments.seed, arguments.graphs, arguments.pictures)
            results.setdefault(name, {})[seed] = found
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
