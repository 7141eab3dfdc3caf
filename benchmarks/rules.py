"""The rulebook on models whose reasons are known, or that chemists know.

    python benchmarks/rules.py planted [--sets ba-2motifs,benzene] [--targets 0,1,2]
    python benchmarks/rules.py admet [--half odd] [--graphs 3639]
    python benchmarks/rules.py gine [--half odd]
    python benchmarks/rules.py values [--sets n,crippen]
        all with [--seed 0] [--graphs 1000] [--json FILE] [--pictures DIR]

``planted``: the paper's targets, one for each seed in ``--targets``; ``found`` says whether what
the set was made of is among the conditions. ``admet``: the first AMES network of ADMET-AI, with
what ``benchmarks/grafts.py`` needs. ``gine``: a GINE trained on the Ames table as in
``benchmarks/real_molecules.py``. Of both, rules are learned from molecules of one half of the
table, 30 % of them unseen, and measured also on molecules of that half that were not given at all;
beside them a list of Kazius's toxicophores and a linear model on the same conditions. ``values``:
a GINE for the number of nitrogens, and the paper's model of Crippen's logP.

HPME is fitted to 300 graphs without labels. Settings were chosen on molecules of odd index; those
of even index are for reporting; ``--cache`` may hold an explainer that was fitted to the others.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor
from torch_geometric.data import Data

from hpme.bench.run import dataset_and_target
from hpme.data.molecules.smiles import from_smiles
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme import rules as learning
from hpme.explainers.hpme.decisions import DecisionList, decide
from hpme.explainers.hpme.rulebook import Condition, Rule, RuleBook
from hpme.graphs import GraphStore
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
        any("F" in n for n in r.names) and any("=O" in n or "O=" in n for n in r.names)
        for r in rules
    ),
}


class Spy:
    """Keeps the conditions that a rulebook is made of."""

    def __init__(self) -> None:
        self.conditions: list[Condition] = []
        self.original = learning.Learner.conditions
        learning.Learner.conditions = lambda *given: self.keep(*given)  # type: ignore[method-assign]

    def keep(self, *given: Any) -> Any:
        """As the learner does."""
        found = self.original(*given)
        self.conditions = found[0]
        return found


def fitted(model: Any, graphs: Sequence[Any], seed: int, path: Path | None, **how: Any) -> Any:
    if path is not None and path.exists():
        return HPMEExplainer.load(path)
    explainer = HPMEExplainer(seed=seed).fit(model, graphs[:FIT], progress=False, **how)
    if path is not None:
        explainer.save(path)
    return explainer


def learned(
    name: str, explainer: Any, model: Any, graphs: Sequence[Any], options: Any, **how: Any
) -> tuple[RuleBook, float]:
    start = time.process_time()
    book = explainer.rules(model, graphs, progress=False, **how)
    seconds = time.process_time() - start
    print(f"{name}: rules in {seconds:.0f} s of CPU\n{book}", flush=True)
    if options.pictures is not None:
        book.draw(options.pictures / f"rules-{name}.svg")
    return book, seconds


def beside(
    book: RuleBook,
    spy: Spy,
    known: Sequence[Any],
    said: Tensor,
    others: Sequence[Any],
    truth: Tensor,
) -> dict[str, float]:
    """A linear model on the same conditions: the share it gives, or the variance it explains."""
    tables = []
    for graphs in (known, others):
        read = book.vocabulary.read(GraphStore.from_graphs(graphs))
        kept = [one for one in spy.conditions if not one.absent]
        tables.append(torch.stack([one.holds(read) for one in kept], 1).double())
    model = Ridge(10.0) if said.is_floating_point() else LogisticRegression(C=0.1, max_iter=500)
    return {"conditions": len(kept), "linear": model.fit(tables[0], said).score(tables[1], truth)}


# Planted reasons ##################################################################################


def planted(name: str, target_seed: int, options: Any) -> dict[str, Any]:
    dataset, target = dataset_and_target(name, VARIANTS.get(name), None, "gcn", target_seed, None)
    generator = torch.Generator().manual_seed(options.seed)
    order = torch.randperm(len(dataset), generator=generator).tolist()
    graphs = [
        Data(**{k: graph[k] for k in INPUTS if k in graph})
        for graph in (dataset[i] for i in order[: options.graphs])
    ]
    explainer = fitted(target.model, graphs, options.seed, None)
    book, seconds = learned(f"{name}-{target_seed}", explainer, target.model, graphs, options)
    found = bool(EXPECTED[name](book.rules))
    print(f"found what the set was made of: {found}", flush=True)
    return book.to_dict() | {"found": found, "cpu_seconds": seconds}


# Ames #############################################################################################


def ames(half: str, seed: int) -> tuple[list[str], list[int]]:
    """Molecules of one half of the table in random order, and whether they are mutagens."""
    from rdkit import Chem

    with (Path(os.environ["HPME_DATA_DIR"]) / "ames" / "ames.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if int(r["index"]) % 2 == (half == "odd")]
    mols = [Chem.MolFromSmiles(row["smiles"]) for row in rows]
    rows = [r for r, m in zip(rows, mols, strict=True) if m is not None and m.GetNumAtoms() > 1]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).tolist()
    return [rows[i]["smiles"] for i in order], [int(rows[i]["active"]) for i in order]


def toxicophores(smiles: Sequence[str], classes: Tensor, count: int) -> tuple[float, int]:
    """Fidelity of a list of Kazius's toxicophores, learned in the same way from the first ones."""
    from grafts import TOXICOPHORES, alerts
    from rdkit import Chem

    found = [alerts(Chem.MolFromSmiles(text)) for text in smiles]
    has = torch.tensor([[name in kinds for kinds in found] for name in TOXICOPHORES])
    has = torch.stack([has, ~has], 1).flatten(0, 1)
    cost, free = torch.full((len(has),), learning.COST), torch.zeros(len(has), 2).bool()
    wanted = torch.eye(2, dtype=torch.double)[classes]
    book = DecisionList(has[:, :count], cost, wanted[:count], True, free, 10).learn()
    said = decide(book.rules, book.default, has)
    return float((said == classes)[count:].double().mean()), len(book.rules)


def mutagens(name: str, options: Any) -> dict[str, Any]:
    smiles, labels = ames(options.half, options.seed)
    if name == "admet":
        from grafts import TASK, Model

        from hpme.models.chemprop import explained, molecules

        trained = Model(1)
        model = explained(trained.networks[0], tasks=trained.tasks, target=TASK)
        graphs = molecules(smiles, trained.networks[0])
    else:
        from real_molecules import train

        graphs = list(from_smiles(smiles, labels, progress=False, on_error="raise"))
        graphs = [Data(**{k: graph[k] for k in INPUTS}) for graph in graphs]
        model, score = train(GraphStore.from_graphs(graphs), torch.tensor(labels))
        print(f"accuracy of the GINE on a fifth of the molecules: {score:.3f}", flush=True)
    store = GraphStore.from_graphs(graphs)
    adapter = model.adapter() if name == "admet" else None
    spy = Spy()
    count = min(options.graphs, round(0.8 * len(graphs)))
    cache = None if options.cache is None else options.cache / f"{name}-{options.half}.safetensors"
    explainer = fitted(model, graphs, options.seed, cache)
    book, seconds = learned(name, explainer, model, graphs[:count], options)
    classes = []
    with torch.no_grad():
        for ids in torch.arange(len(store)).split(256):
            batch = store.batch(ids)
            if adapter is not None:
                classes.append((adapter.predict(batch).view(-1) > 0).long())
            else:
                output = model(batch.x, batch.edge_index, batch.batch, batch.edge_attr)
                classes.append(output.argmax(1))
    truth = torch.cat(classes)
    said = book.predict(graphs[count:])
    share, rules = toxicophores(smiles, truth, count)
    result = {
        "half": options.half,
        "graphs": count,
        "others": len(graphs) - count,
        "fidelity on others": float((said == truth[count:]).double().mean()),
        "majority": float((truth[count:] == truth[:count].mode().values).double().mean()),
        "toxicophores": share,
        "toxicophore rules": rules,
        **beside(book, spy, graphs[:count], truth[:count], graphs[count:], truth[count:]),
    }
    print(result, flush=True)
    return book.to_dict() | result | {"cpu_seconds": seconds}


# Values ###########################################################################################


def values(name: str, options: Any) -> dict[str, Any]:
    if name == "crippen":
        dataset, target = dataset_and_target(name, VARIANTS.get(name), None, "gcn", 0, None)
        model, how = target.model, {"mode": "regression"}
        graphs = [Data(**{k: graph[k] for k in INPUTS if k in graph}) for graph in dataset]
    else:
        from real_molecules import read, train

        graphs, _, y = read(name)
        model, score = train(GraphStore.from_graphs(graphs), y)
        print(f"R2 of the GINE for {name}: {score:.4f}", flush=True)
        how = {"mode": "regression"}
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(options.seed))
    graphs = [graphs[i] for i in order.tolist()]
    count, spy = min(options.graphs, round(0.8 * len(graphs))), Spy()
    others = graphs[count : 2 * count]
    explainer = fitted(model, graphs, options.seed, None, **how)
    book, seconds = learned(name, explainer, model, graphs[:count], options)
    model.eval()
    outputs = []
    with torch.no_grad():
        for graph in (graphs[:count], others):
            batch = GraphStore.from_graphs(graph).batch()
            more = (batch.edge_attr,) if name != "crippen" else ()
            outputs.append(model(batch.x, batch.edge_index, batch.batch, *more).view(-1))
    known, truth = outputs
    error = (book.predict(others) - truth).square().mean()
    result = {
        "graphs": count,
        "others": len(others),
        "R2 on others": float(1 - error / truth.var(unbiased=False)),
        **beside(book, spy, graphs[:count], known, others, truth),
    }
    print(result, flush=True)
    return book.to_dict() | result | {"cpu_seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("planted", "admet", "gine", "values"))
    parser.add_argument("--sets")
    parser.add_argument("--targets", default="0", help="seeds that targets were trained with")
    parser.add_argument("--half", default="odd", choices=("odd", "even"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--cache", type=Path, help="folder for fitted explainers")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    if options.what == "planted":
        for name in (options.sets or ",".join(EXPECTED)).split(","):
            for seed in map(int, options.targets.split(",")):
                results[f"{name}, target {seed}"] = planted(name, seed, options)
    elif options.what == "values":
        for name in (options.sets or "n,crippen").split(","):
            results[name] = values(name, options)
    else:
        results[options.what] = mutagens(options.what, options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
