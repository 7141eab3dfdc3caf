"""Every method on data that nobody developed on, by rules that were written down before any run.

Three sets are generated, each with bases, motifs and rules that no other set here has; six are of
real molecules. Whoever changes a method after looking at a result has to write new rules.

1. Bowties: cubic random graphs of 16 to 24 nodes. One motif of five nodes hangs on a random node:
   two triangles that share a node (class 1), or a square with a diagonal and a tail (class 0).
   Ground truth are the edges of the motif.
2. Cliques: rings of 20 to 30 nodes with every tenth edge rewired. The value is the number of
   complete graphs of four nodes that hang on them, none to four. Ground truth are their edges.
3. Colours: random trees of 15 to 25 nodes, each with one of four colours. Class 1: some edge joins
   the first and the second colour; class 0: no edge does. Ground truth are these edges.
4. Activity cliffs: the three sets of ``$HPME_DATA_DIR/cliffs`` with the most molecules, a GCN for
   the measured affinity. Explained are molecules with a near twin whose affinity differs; ground
   truth are the atoms outside the core that both share, where both have such atoms, at most 30 % of
   either, and the model predicts the difference with the right sign and at least half of its size.
   Of several twins that with the largest difference counts. Edges are ground truth if either end
   is. An explanation says why a value is predicted, not why another molecule has a different one,
   so that AUC says little by itself; what is carried says what the model reads. Another benchmark,
   of pairs, has used these molecules with other models; no method here was changed for it.
5. Published networks: the first of ADMET-AI, for CYP2D6_Veith, Pgp_Broccatelli and Caco2_Wang,
   which nothing here has asked it for, on 600 molecules drawn from all sets of cliffs. Without a
   ground truth, and without methods that need edge weights, which Chemprop does not have. Only
   where Chemprop and the files of ADMET-AI are installed (``make chemprop``).

Nodes have a constant feature in the first two sets and their colour in the third. These have 1,500
graphs each. Targets of the first four are GCNs of three seeds, trained for at most 3,000 steps;
explainers have seeds 400 and 401, the methods and settings of the main table that need no tuning,
HPME as printed in its default, and 200 explained graphs whose numbers 3 divides, which seeds below
100 do not draw; of cliffs all there are, a few dozen. "carried" and "lost" are of transplants into
graphs that no explainer saw. ::

    python benchmarks/unseen.py --json unseen.json

It takes about an hour and a half of one core. For a trial, which must not look at what is
reported: ``--seeds 0 --graphs 12 --size 90 --steps 20 --targets 0``. Several sets can run beside
each other into files of their own (``--sets Bowties,Cliques``); ``--table a.json b.json`` prints
the table of all.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import json
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.bench import Target, run_on
from hpme.bench.experiment import parse_seeds
from hpme.data import GraphDataset, GraphStore
from hpme.data.info import entry, ground_truth_or_all
from hpme.data.molecules.smiles import from_smiles
from hpme.errors import HPMEError
from hpme.explainers import EXPLAINERS
from hpme.models import Recipe, predict
from hpme.paper.shared.names import LOGIT, method_title
from hpme.paper.table1 import UNTUNED, compared

SIZE, STEPS, MOLECULES = 1500, 3000, 600
BOWTIE = ((0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0))
KITE = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 4))
CLIQUE = tuple((i, j) for i in range(4) for j in range(i))
FIRST, SECOND, COLOURS = 0, 1, 4
CLIFFS = ("CHEMBL214_Ki", "CHEMBL233_Ki", "CHEMBL204_Ki")
MARKED, HALF = 0.3, 0.5
"""Of a molecule at most so much is outside the core; of a difference at least so much is
predicted."""
PUBLISHED = {
    "CYP2D6_Veith": "admet_classification",
    "Pgp_Broccatelli": "admet_classification",
    "Caco2_Wang": "admet_regression",
}
TRUTH, NO_TRUTH = ("auc", "nodes", "judged"), ("judged",)
SHOWN = ("auc", "node_auc", "carried", "lost")


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
Prepared = tuple[GraphDataset, Target]


def dataset(title: str, graphs: list[Data], classes: int | None) -> GraphDataset:
    """Graphs as a set of the benchmark, of which numbers that 3 divides are set apart."""

    def build(*_: Any) -> GraphStore:
        raise AssertionError("it is made by benchmarks/unseen.py")

    more: dict[str, Any] = {"num_graphs": len(graphs), "explainable": ground_truth_or_all}
    info = entry(title, "see benchmarks/unseen.py", build, num_classes=classes, **more)
    return GraphDataset(GraphStore.from_graphs(graphs, attributes="all"), info, "paper", 0)


def generated(title: str, size: int, steps: int) -> Callable[[int], Prepared]:
    """One of the first three sets, and its target of every seed."""
    build, classes = SETS[title]
    random = np.random.default_rng(sorted(SETS).index(title))
    data = dataset(title, [build(random, number) for number in range(size)], classes)
    return lambda seed: (data, Target.prepare(data, "gcn", seed, recipe=Recipe(max_steps=steps)))


def molecules_of(name: str) -> tuple[list[str], list[float], list[dict[str, Any]]]:
    """SMILES and affinities of a set of cliffs, and what its molecules differ in from twins."""
    folder = Path(os.environ["HPME_DATA_DIR"]) / "cliffs"
    with (folder / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    with gzip.open(folder / f"{name}.json.gz", "rt") as text:
        twins = json.load(text)
    return [row["smiles"] for row in rows], [float(row["y"]) for row in rows], twins


def cliffs(name: str, size: int, steps: int) -> Callable[[int], Prepared]:
    """Molecules with what they differ in from twins, as far as each target predicts it."""
    smiles, y, twins = molecules_of(name)
    some = slice(None) if size >= SIZE else slice(size)
    read = from_smiles(smiles[some], y[some], task="regression", progress=False)
    graphs = [graph for graph in read if graph.num_edges]
    plain = dataset(name, graphs, None)

    def prepare(seed: int) -> Prepared:
        target = Target.prepare(plain, "gcn", seed, recipe=Recipe(max_steps=steps))
        predicted = predict(target.model, GraphStore.from_graphs(graphs)).view(-1).tolist()
        values = dict(zip((graph.smiles for graph in graphs), predicted, strict=True))
        marked = {one["smiles"]: differing(one, values) for one in twins}
        return dataset(name, [with_truth(graph, marked) for graph in graphs], None), target

    return prepare


def differing(one: dict[str, Any], values: dict[str, float]) -> Tensor | None:
    """Atoms that the twin of the largest difference lacks, of twins that are told apart."""
    best, found = 0.0, None
    for other in one["pairs"]:
        if not {one["smiles"], other["smiles"]} <= set(values):
            continue
        masks = [torch.tensor(other[f"atom_mask_{side}"]).bool() for side in "ij"]
        measured = other["potency_diff"]
        share = (values[one["smiles"]] - values[other["smiles"]]) / measured if measured else 0.0
        fair = all(0 < float(mask.float().mean()) <= MARKED for mask in masks)
        if fair and share >= HALF and abs(measured) > best:
            best, found = abs(measured), masks[0]
    return found


def with_truth(graph: Data, marked: dict[str, Tensor | None]) -> Data:
    """A copy of a molecule that says which of its atoms are ground truth."""
    found, graph = marked.get(graph.smiles), graph.clone()
    none = torch.zeros(int(graph.num_nodes or 0), dtype=torch.bool)
    graph.node_mask = none if found is None else found
    graph.edge_mask = graph.node_mask[graph.edge_index].any(0)
    return graph


def published(task: str, size: int, _: int) -> Callable[[int], Prepared]:
    """A network of ADMET-AI and molecules as it reads them; there is one target only."""
    from chemprop.data import MoleculeDatapoint
    from rdkit import Chem

    from hpme.models.chemprop import explained, molecules, read_model

    spec = importlib.util.find_spec("admet_ai")
    assert spec is not None and spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations))) / "resources/models"
    network, tasks = read_model(sorted((folder / PUBLISHED[task]).glob("model_*.pt"))[0])
    model = explained(network, tasks=tasks, target=task)
    names = sorted((Path(os.environ["HPME_DATA_DIR"]) / "cliffs").glob("*.csv"))
    every = sorted({smiles for name in names for smiles in molecules_of(name.stem)[0]})
    order = np.random.default_rng(0).permutation(len(every))
    mols = [Chem.MolFromSmiles(every[i]) for i in order[: min(size, MOLECULES)]]
    graphs = molecules([MoleculeDatapoint(mol=mol) for mol in mols if mol.GetNumBonds()], network)
    with model.frozen(), torch.no_grad():
        output = model.adapter().predict(model.read(graphs).batch()).view(-1)
    regression = PUBLISHED[task].endswith("regression")
    for graph, value in zip(graphs, output, strict=True):
        graph.y = value.view(1) if regression else (value > 0).long().view(1)
        graph.node_mask = torch.zeros(int(graph.num_nodes or 0), dtype=torch.bool)
        graph.edge_mask = torch.zeros(graph.num_edges, dtype=torch.bool)
    data = dataset(task, graphs, None if regression else 2)
    return lambda _: (data, Target("chemprop", 0, model, None))


def sources(names: list[str]) -> Iterator[tuple[str, Callable[..., Any], tuple[str, ...]]]:
    """Every set by name: how it is made, and what is measured."""
    yield from ((title, generated, TRUTH) for title in SETS if title in names)
    yield from ((title, cliffs, TRUTH) for title in CLIFFS if title in names)
    wanted = [title for title in PUBLISHED if title in names]
    if wanted and not all(map(importlib.util.find_spec, ("chemprop", "admet_ai"))):
        print(f"left out, for want of Chemprop or ADMET-AI: {', '.join(wanted)}")
        return
    yield from ((title, published, NO_TRUTH) for title in wanted)


def main() -> None:
    """Runs everything; a file of results is gone on with."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where results go")
    parser.add_argument("--sets", default=",".join([*SETS, *CLIFFS, *PUBLISHED]))
    parser.add_argument("--targets", default="0-2", help="seeds of the GCNs")
    parser.add_argument("--seeds", default="400-401", help="seeds of explainers")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--table", type=Path, nargs="+", help="show these files, run nothing")
    args = parser.parse_args()
    if args.table:
        found = {k: v for path in args.table for k, v in json.loads(path.read_text()).items()}
        print(table(found))
        return
    path: Path = args.json
    found = json.loads(path.read_text()) if path.exists() else {}
    torch.set_num_threads(1)
    for title, make, metrics in sources(args.sets.split(",")):
        prepare = make(title, args.size, args.steps)
        for seed in parse_seeds(args.targets)[: 1 if make is published else None]:
            run(title, *prepare(seed), seed, metrics, args, found, path)
    print(table(found))


def run(
    title: str,
    data: GraphDataset,
    target: Target,
    number: int,
    metrics: tuple[str, ...],
    args: argparse.Namespace,
    found: dict[str, Any],
    path: Path,
) -> None:
    """All methods on one target; what is there is not computed again."""
    classes, weights = data.info.task == "classification", target.report is not None
    asked = compared([data.info.name], UNTUNED, metrics=metrics, graphs=args.graphs)
    for e in asked(parse_seeds(args.seeds)):
        e = replace(e, target_seed=number)
        if e.explainer == "grad" and classes:
            e = replace(e, options=LOGIT)
        kind = EXPLAINERS.get(e.explainer or "")
        if not weights and (kind is None or kind.needs_weights):
            continue
        name = f"{title}/{method_title(e.explainer or '', e.options)}/{number}/{e.seed}"
        if name in found:
            continue
        try:
            record = run_on(e, data, target)[0]
        except HPMEError as error:
            print(f"{name}: {error}", flush=True)
            continue
        found[name] = {metric: record.values.get(metric) for metric in SHOWN}
        found[name] |= {"graphs": record.context["graphs"], "cpu": record.cost["cpu_seconds"]}
        path.write_text(json.dumps(found, indent=1) + "\n")
    scores = target.report.metrics["test"] if target.report else {}
    print(title, number, scores, flush=True)


def table(found: dict[str, dict[str, Any]]) -> str:
    """Mean over targets and seeds of every metric, for every method and set; and ranks."""
    parts = [name.split("/") for name in found]
    sets, rows = (list(dict.fromkeys(part[i] for part in parts)) for i in (0, 1))
    means: dict[tuple[str, str, str], float] = {}
    for title in sets:
        for row in rows:
            for metric in SHOWN:
                inside = (
                    v.get(metric) for k, v in found.items() if k.startswith(f"{title}/{row}/")
                )
                values = [value for value in inside if value is not None]
                if values:
                    means[title, row, metric] = statistics.fmean(values)
    heads = [(t, m) for t in sets for m in SHOWN if any((t, row, m) in means for row in rows)]
    lines = ["| | " + " | ".join(f"{title} {metric}" for title, metric in heads) + " |"]
    lines.append("|---" * (len(heads) + 1) + "|")
    for row in rows:
        cells = [means.get((title, row, metric)) for title, metric in heads]
        shown = " | ".join("-" if cell is None else f"{cell:.3f}" for cell in cells)
        lines.append(f"| {row} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
