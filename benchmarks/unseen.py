"""Every method on data that nobody developed on, by rules that were written down before any run.

Three sets, each with bases, motifs and rules that no other set here has. Whoever changes a method
after looking at a result has to write new rules.

1. Bowties: cubic random graphs of 16 to 24 nodes. One motif of five nodes hangs on a random node:
   two triangles that share a node (class 1), or a square with a diagonal and a tail (class 0).
   Ground truth are the edges of the motif.
2. Cliques: rings of 20 to 30 nodes with every tenth edge rewired. The value is the number of
   complete graphs of four nodes that hang on them, none to four. Ground truth are their edges.
3. Colours: random trees of 15 to 25 nodes, each with one of four colours. Class 1: some edge joins
   the first and the second colour; class 0: no edge does. Ground truth are these edges.

Nodes have a constant feature in the first two sets and their colour in the third. 1,500 graphs
each; targets are GCNs of three seeds, trained for at most 3,000 steps; explainers have seeds 400
and 401, the methods and settings of the main table that need no tuning, and 200 explained graphs
that seeds below 400 do not draw. ::

    python benchmarks/unseen.py --json unseen.json
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

from hpme.bench import Target, run_on
from hpme.data import GraphDataset, GraphStore
from hpme.data.info import entry, made_by
from hpme.models import Recipe
from hpme.paper.shared.names import LOGIT, method_title
from hpme.paper.table1 import UNTUNED, compared

SIZE, STEPS, TARGETS, SEEDS = 1500, 3000, (0, 1, 2), (400, 401)
BOWTIE = ((0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0))
KITE = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 4))
CLIQUE = tuple((i, j) for i in range(4) for j in range(i))
FIRST, SECOND, COLOURS = 0, 1, 4


def bowties(random: np.random.Generator, number: int) -> Data:
    """The first set."""
    base = nx.random_regular_graph(3, 2 * int(random.integers(8, 13)), seed=number)
    label = number % 2
    return planted(base, [BOWTIE if label else KITE], random, label)


def cliques(random: np.random.Generator, number: int) -> Data:
    """The second set."""
    base = nx.connected_watts_strogatz_graph(int(random.integers(20, 31)), 2, 0.1, seed=number)
    count = int(random.integers(0, 5))
    return planted(base, [CLIQUE] * count, random, float(count))


def colours(random: np.random.Generator, number: int) -> Data:
    """The third set; colours are drawn again until the rule has the label."""
    tree, label = nx.random_labeled_tree(int(random.integers(15, 26)), seed=number), number % 2
    while True:
        colour = random.integers(0, COLOURS, len(tree))
        truth = [(a, b) for a, b in tree.edges if {colour[a], colour[b]} == {FIRST, SECOND}]
        if bool(truth) == bool(label):
            return finished(list(tree.edges), set(truth), np.eye(COLOURS)[colour], label)


def planted(base: nx.Graph, motifs: list[Any], random: np.random.Generator, y: float) -> Data:
    """A base with motifs that hang on random nodes of it."""
    edges, truth, size = list(base.edges), set(), len(base)
    for motif in motifs:
        here = [(a + size, b + size) for a, b in motif]
        truth |= set(here)
        edges += [*here, (int(random.integers(len(base))), size)]
        size += 1 + max(max(pair) for pair in motif)
    return finished(edges, truth, np.ones((size, 1)), y)


def finished(edges: list[Any], truth: set[Any], x: Any, y: float) -> Data:
    """A graph with ground truth, edges in both directions."""
    index = torch.tensor(edges).T
    mask = torch.tensor([pair in truth for pair in edges])
    nodes = torch.zeros(len(x), dtype=torch.bool)
    nodes[index[:, mask].flatten()] = True
    return Data(
        x=torch.tensor(x, dtype=torch.float32),
        edge_index=torch.cat([index, index.flip(0)], dim=1),
        y=torch.tensor([y]),
        edge_mask=mask.repeat(2),
        node_mask=nodes,
    )


SETS = {"Bowties": (bowties, 2), "Cliques": (cliques, None), "Colours": (colours, 2)}


def dataset(title: str) -> GraphDataset:
    """One of the sets."""
    build, classes = SETS[title]
    random = np.random.default_rng(sorted(SETS).index(title))
    graphs = [build(random, number) for number in range(SIZE)]
    info = entry(title, "see benchmarks/unseen.py", partial(made_by, title), num_classes=classes)
    return GraphDataset(GraphStore.from_graphs(graphs), info, "paper", 0)


def main() -> None:
    """Runs everything; a file of results is gone on with."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True, help="where results go")
    path = parser.parse_args().json
    found: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    torch.set_num_threads(1)
    for title in SETS:
        data = dataset(title)
        for seed in TARGETS:
            target = Target.prepare(data, "gcn", seed, recipe=Recipe(max_steps=STEPS))
            asked = compared([data.info.name], UNTUNED, metrics=("auc", "judged"))(SEEDS)
            for e in asked:
                if e.explainer == "grad" and data.info.task == "classification":
                    e = replace(e, options=LOGIT)
                row = method_title(e.explainer or "", e.options)
                name = f"{title}/{row}/{seed}/{e.seed}"
                if f"{name}/auc" in found:
                    continue
                values = run_on(e, data, target)[0].values
                for metric in ("auc", "carried", "lost"):
                    found[f"{name}/{metric}"] = values[metric]
                path.write_text(json.dumps(found, indent=1) + "\n")
            assert target.report is not None
            print(title, seed, target.report.metrics["test"], flush=True)
    print(table(found))


def table(found: dict[str, float]) -> str:
    """Mean over targets and seeds of AUC and of what is carried, for every method and set."""
    rows = dict.fromkeys(key.split("/")[1] for key in found)
    heads = [(title, metric) for title in SETS for metric in ("auc", "carried")]
    lines = ["| | " + " | ".join(f"{title} {metric}" for title, metric in heads) + " |"]
    lines.append("|---" * (len(heads) + 1) + "|")
    for row in rows:
        cells = []
        for title, metric in heads:
            values = [
                value
                for key, value in found.items()
                if key.startswith(f"{title}/{row}/") and key.endswith(f"/{metric}")
                if value is not None
            ]
            cells.append(f"{statistics.fmean(values):.3f}" if values else "-")
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
