"""Whether HPME's warnings can be believed: models with and without an explanation.

    python benchmarks/trust.py FILE [--planted] [--cases TEXT] [--sets n,amide-class]
        [--admet AMES,...] [--networks "trained;head permuted;random weights"] [--seeds 0-9]
        [--graphs 200]
        [--paper ba-2motifs,ba-2motifs:gin,ba-shapes-links:dgcnn:planted,benzene:gin::3]
        [--targets 0]
    python benchmarks/trust.py FILE --show [--half even]

Every fit is written to FILE as a line, with its report; ``--show`` makes a table of them, with what
today's bounds say. Bounds are chosen on odd seeds, even ones are for reporting.

- ``--cases``: only those whose names contain it.
- ``--planted``: random graphs with a planted pair of nodes. Models that read the pair and nothing
  else, with sure and with nearly equal probabilities; a model that counts edges, one that counts
  nodes, a hash of the graph, one that learned random labels of 40 graphs by heart; a hash and
  graphs that are given three times.
- ``--sets``: molecules of ``$HPME_DATA_DIR/attribution`` and a trained GINE, its logits times 0.1;
  shuffled labels, its head permuted, random weights, one that ignores bonds, a constant.
- ``--admet``: endpoints of ADMET-AI (needs what ``benchmarks/grafts.py`` does) on drugs of its
  table, AMES on molecules of ``$HPME_DATA_DIR/ames``; the first network, its head permuted, its
  weights drawn at random. "head permuted, both classes", and the same of random weights, also
  moves the last bias so that half of the molecules are predicted either way.
- ``--paper``: targets of the benchmark (dataset, model, variant, seed of the target), with the
  seeds ``--targets`` where they name none, and the edge AUC.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from real_molecules import Gine, read, train
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, global_add_pool
from torch_geometric.utils import erdos_renyi_graph, to_undirected

from hpme.bench.experiment import Experiment, parse_seeds
from hpme.bench.outcome import explain
from hpme.bench.run import dataset_and_target
from hpme.data import GraphStore
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.report import FitReport
from hpme.explainers.shared.replicas import ReplicaModel, explained_output, without_pair
from hpme.metrics import explanation_auc

FAITHFUL, NULL, OPEN = "faithful", "null", "open"
CLASSES = {"mode": "multiclass_classification"}


@dataclass(frozen=True)
class Case:
    """A model, graphs to draw from, and whether there is something to explain."""

    name: str
    kind: str
    model: Any
    graphs: Any
    facts: dict[str, Any] = field(default_factory=dict)
    count: int | None = None
    copies: int = 1
    judged: int = 100


# Planted pairs ####################################################################################


class Pair(nn.Module):
    """Whether two nodes of the first kind are joined, as logits of a given size."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Two logits per graph."""
        red = x[:, 0]
        joined = torch.zeros_like(red).index_add(0, edge_index[1], red[edge_index[0]]) * red
        yes = (global_add_pool(joined.unsqueeze(1), batch) > 0).float() - 0.5
        return torch.cat([-yes, yes], 1) * self.size


class Count(nn.Module):
    """Whether a graph has more edges, or nodes, than usual."""

    def __init__(self, edges: bool, usual: float) -> None:
        super().__init__()
        self.edges, self.usual = edges, usual

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Two logits per graph."""
        per_node = torch.bincount(edge_index[1], minlength=len(x)).to(x)
        each = per_node if self.edges else torch.ones_like(per_node)
        more = (global_add_pool(each.unsqueeze(1), batch) - self.usual) / 5
        return torch.cat([-more, more], 1)


class Hash(nn.Module):
    """A number that changes beyond recognition with every node and edge."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Two logits per graph."""
        own = x @ torch.tensor([1.0, 2.3, 3.7, 5.1])
        heard = own + 0.7 * torch.zeros_like(own).index_add(0, edge_index[1], own[edge_index[0]])
        total = 3 * global_add_pool((heard * 12.9898).sin().unsqueeze(1) * 43.7, batch)
        return torch.cat([total.sin(), -total.sin()], 1) * 3


class Memory(nn.Module):
    """A GIN large enough to learn labels by heart."""

    def __init__(self) -> None:
        super().__init__()
        widths = [(4, 64), (64, 64), (64, 64)]
        self.convs = nn.ModuleList(
            GINConv(nn.Sequential(nn.Linear(a, 64), nn.ReLU(), nn.Linear(64, b))) for a, b in widths
        )
        self.head = nn.Linear(64, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Two logits per graph."""
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        out: Tensor = self.head(global_add_pool(x, batch))
        return out


def planted_graphs(count: int, seed: int) -> list[Data]:
    """Random graphs of 12 to 20 nodes of four kinds; every other one has two red nodes joined."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for number in range(count):
            size = int(torch.randint(12, 21, (1,), generator=generator))
            edge_index = erdos_renyi_graph(size, 0.15)
            kind = torch.randint(1, 4, (size,), generator=generator)
            kind[0] = 0
            ends = torch.tensor([[0], [1 + number % 2]])
            kind[int(ends[1])] = 0
            pair = ends if number % 2 else torch.tensor([[0], [2]])
            edge_index = edge_index[:, ~((edge_index[0] < 2) & (edge_index[1] < 2))]
            edge_index = to_undirected(torch.cat([edge_index, pair], 1), num_nodes=size)
            if number % 2:
                kind[1], kind[2] = kind[2].clone(), 0
            x = torch.nn.functional.one_hot(kind, 4).float()
            found.append(Data(x=x, edge_index=edge_index))
    return found


def by_heart(graphs: list[Data], seed: int) -> nn.Module:
    """A GIN that was trained on random labels of all of the graphs."""
    batch = GraphStore.from_graphs(graphs).batch()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, y = Memory(), torch.randint(2, (len(graphs),))
        optimiser = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(300):
            loss = nn.functional.cross_entropy(model(batch.x, batch.edge_index, batch.batch), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


def planted(seed: int) -> Iterator[Case]:
    graphs = planted_graphs(400, 1000 + seed)
    edges = sum(g.num_edges for g in graphs) / len(graphs)
    nodes = sum(g.num_nodes for g in graphs) / len(graphs)
    yield Case("planted pair", FAITHFUL, Pair(6.0), graphs, CLASSES)
    yield Case("planted pair, p = 0.5 +- 0.001", FAITHFUL, Pair(0.004), graphs, CLASSES)
    yield Case("planted pair, 40 graphs", FAITHFUL, Pair(6.0), graphs, CLASSES, 40)
    yield Case("counts edges", NULL, Count(True, edges), graphs, CLASSES)
    yield Case("counts nodes", NULL, Count(False, nodes), graphs, CLASSES)
    yield Case("hash", NULL, Hash(), graphs, CLASSES)
    yield Case("hash, each graph three times", NULL, Hash(), graphs, CLASSES, 25, 3)
    some = [graphs[i] for i in order(graphs, seed)[:40]]
    yield Case("random labels of 40 graphs by heart", NULL, by_heart(some, seed), some, CLASSES)
    shuffled = [graphs[i] for i in order(graphs, seed)]
    some, others = shuffled[:120], shuffled[120:]
    by_rote = by_heart(some, seed)
    yield Case("random labels of 120 graphs by heart", NULL, by_rote, some, CLASSES)
    yield Case("random labels of 120 other graphs by heart", OPEN, by_rote, others, CLASSES)
    some = [graphs[i] for i in order(graphs, seed)[:300]]
    by_rote = by_heart(some, seed)
    yield Case("random labels of 300 graphs by heart", NULL, by_rote, some, CLASSES, 300)


# Molecules ########################################################################################


class Scaled(nn.Module):
    """The logits of another model, times a number."""

    def __init__(self, model: nn.Module, factor: float) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor) -> Tensor:
        """What it says."""
        out: Tensor = self.model(x, edge_index, batch, edge_attr) * self.factor
        return out


class NoBonds(nn.Module):
    """A model that sees every atom as if it were alone: the first layer and the head of another."""

    def __init__(self, model: Gine) -> None:
        super().__init__()
        self.first, self.head = model.first, model.head

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor) -> Tensor:
        """The same for any bonds."""
        out: Tensor = self.head(global_add_pool(self.first(x).relu(), batch))
        return out


@torch.no_grad()
def permuted(model: nn.Module, head: str, seed: int) -> nn.Module:
    """The model itself, the weights of its head in another order."""
    generator = torch.Generator().manual_seed(seed)
    for weight in model.get_submodule(head).parameters():
        shuffled = torch.randperm(weight.numel(), generator=generator)
        weight.copy_(weight.flatten()[shuffled].view_as(weight))
    return model


@torch.no_grad()
def drawn(model: nn.Module, seed: int) -> nn.Module:
    """The model itself with random weights."""
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.copy_(torch.randn(weight.shape, generator=generator) * weight.shape[1] ** -0.5)
    return model


def molecule_sets(names: list[str]) -> Callable[[int], Iterator[Case]]:
    trained: dict[str, tuple[Any, ...]] = {}
    for name in names:
        graphs, _, y = read(name)
        store = GraphStore.from_graphs(graphs)
        shuffled = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(0))]
        trained[name] = graphs, y, train(store, y)[0], train(store, shuffled)[0]

    def cases(seed: int) -> Iterator[Case]:
        for name, (graphs, y, model, memory) in trained.items():
            facts = {"mode": "regression"} if y.is_floating_point() else CLASSES

            yield Case(f"{name}, trained", FAITHFUL, model, graphs, facts)
            if facts is CLASSES:
                yield Case(f"{name}, logits x 0.1", FAITHFUL, Scaled(model, 0.1), graphs, facts)
            yield Case(f"{name}, shuffled labels", NULL, memory, graphs, facts)
            yield Case(
                f"{name}, head permuted",
                NULL,
                permuted(deepcopy(model), "head", seed),
                graphs,
                facts,
            )
            yield Case(f"{name}, random weights", NULL, drawn(deepcopy(model), seed), graphs, facts)
            yield Case(f"{name}, ignores edges", OPEN, NoBonds(model).eval(), graphs, facts)
            yield Case(f"{name}, constant", NULL, Scaled(model, 0.0), graphs, facts)

    return cases


@torch.no_grad()
def halved(network: Any, task: int, graphs: list[Data]) -> None:
    """Moves the bias of a task so that half of the molecules are predicted either way."""
    from hpme.models.chemprop.files import call

    middle = call(network, Batch.from_data_list(graphs))[:, task].logit().median()
    last = [m for m in network.predictor.modules() if isinstance(m, nn.Linear)][-1]
    last.bias[task] -= middle


def endpoints(names: list[str], kinds: list[str]) -> Callable[[int], Iterator[Case]]:
    from evidence import read as ames

    from hpme.models.chemprop import explained, molecules, read_model

    spec = importlib.util.find_spec("admet_ai")
    assert spec is not None and spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations))) / "resources"
    with (folder / "data" / "drugbank_approved.csv").open() as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    drugs = [text for text in smiles if 5 < len(text) < 45 and "." not in text]
    known = [row["smiles"] for row in ames() if 5 < len(row["smiles"]) < 45]

    def network(name: str) -> tuple[Any, Any]:
        for kind in ("classification", "regression"):
            found, tasks = read_model(folder / "models" / f"admet_{kind}" / "model_0.pt")
            if name in tasks:
                return found, tasks
        raise SystemExit(f"no endpoint {name}")

    def cases(seed: int) -> Iterator[Case]:
        for name in names:
            for kind in kinds:
                found, tasks = network(name)
                if kind.startswith("head permuted"):
                    permuted(found, "predictor", seed)
                if kind.startswith("random weights"):
                    drawn(found, seed)
                table = known if name == "AMES" else drugs  # few drugs are mutagens
                chosen = [table[i] for i in order(table, seed)[:600]]
                model = explained(found, tasks=tasks, target=name)
                graphs = molecules(chosen, found)
                if kind.endswith(", both classes"):
                    halved(found, tasks.index(name), graphs[:300])
                about = FAITHFUL if kind == "trained" else NULL
                yield Case(f"{name}, {kind}", about, model, graphs, judged=40)

    return cases


# Measuring ########################################################################################


def order(graphs: Any, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    found: list[int] = torch.randperm(len(graphs), generator=generator).tolist()
    return found


def measured(case: Case, seed: int, count: int) -> dict[str, Any]:
    """A fit, and the verdicts on as many other graphs."""
    count = case.count or count
    chosen = order(case.graphs, seed)
    fitted = [case.graphs[i] for i in chosen[:count]] * case.copies
    fresh = [case.graphs[i] for i in chosen[count : 2 * count]] or fitted
    start = time.process_time()
    explainer = HPMEExplainer(seed=seed).fit(case.model, fitted, progress=False, **case.facts)
    seconds = time.process_time() - start
    quality = explainer.quality(case.model, fresh[: case.judged])
    assert explainer.report is not None
    return {
        "name": case.name,
        "kind": case.kind,
        "seed": seed,
        "report": explainer.report.to_dict(),
        "verdicts": dict(Counter(q.verdict for q in quality)),
        "seconds": seconds,
    }


def on_target(name: str, target_seed: int, seed: int, count: int) -> dict[str, Any]:
    """A target of the benchmark, and how far the mask agrees with the signed occlusion of edges."""
    of, model, variant = [*name.split(":"), "", ""][:3]
    experiment = Experiment(
        of, "hpme", seed, model=model or "gcn", variant=variant or None, graphs=count,
        target_seed=target_seed, options={"ratio": "auto"},
    )  # fmt: skip
    dataset, target = dataset_and_target(*experiment.target)
    outcome = explain(experiment, dataset, target)
    explainer = outcome.explainer
    assert isinstance(explainer, HPMEExplainer) and explainer.report is not None
    fall, graph = signed_occlusion(explainer, target.model, outcome.graphs)
    mask = torch.cat([e.edge_mask for e in outcome.explanations])
    return {
        "name": name,
        "kind": FAITHFUL,
        "seed": seed,
        "target": target_seed,
        "report": explainer.report.to_dict(),
        "auc": float(explanation_auc(outcome.explanations, outcome.graphs)),
        "occlusion": rank_correlation(mask, fall, graph),
    }


@torch.no_grad()
def signed_occlusion(
    explainer: HPMEExplainer, model: nn.Module, graphs: list[Any]
) -> tuple[Tensor, Tensor]:
    """By how much the explained output falls without each edge, and the graph of each."""
    with explainer.context(model, GraphStore.from_graphs(graphs), **explainer.facts) as context:
        batch = context.store.batch()
        pairs, task = batch.pairs, context.task
        classes = context.prediction[pairs.graph] if task.classification else None
        whole = context.predict(batch)[pairs.graph]
        without = ReplicaModel(context.adapter, batch, {})(pairs.graph, without_pair(pairs))
        kept, left = (explained_output(task, output, classes) for output in (whole, without))
        fall = (kept - left).sum(1) if task.classification else (kept - left).abs().sum(1)
        return pairs.per_edge(fall), batch.edge_batch


def rank_correlation(one: Tensor, other: Tensor, graph: Tensor) -> float:
    """Mean over graphs of Spearman's rank correlation."""
    found = []
    for number in graph.unique().tolist():
        ranks = [v[graph == number].argsort().argsort().double() for v in (one, other)]
        value = float(torch.corrcoef(torch.stack(ranks))[0, 1]) if len(ranks[0]) > 2 else 0.0
        found.append(value)
    return sum(found) / len(found)


# Showing ##########################################################################################


def show(path: Path, half: str | None) -> None:
    """A table of all lines, with what today's bounds say about them."""
    runs = defaultdict(list)
    for line in path.read_text().splitlines():
        run = json.loads(line)
        if half is None or run["seed"] % 2 == (half == "odd"):
            runs[run["kind"], run["name"]].append(run)
    print("| model | warns | says | left | p up to | effect | carried, several or part |")
    print("|---|---|---|---|---|---|---|")
    for (kind, name), some in sorted(runs.items()):
        reports = [FitReport.from_dict(run["report"]) for run in some]
        words = Counter(report.evidence for report in reports)
        verdicts = Counter[str]()
        for run in some:
            verdicts.update(run.get("verdicts", {}))
        sure = sum(verdicts[v] for v in ("carried", "several", "part"))
        share = f"{sure / verdicts.total():.0%}" if verdicts else "-"
        print(
            f"| {kind}: {name} | {sum(bool(r.warnings) for r in reports)} of {len(reports)} | "
            + ", ".join(f"{word} {n}" for word, n in words.items())
            + f" | {sum(r.left for r in reports) / len(reports):.2f} | "
            f"{max(r.p_value for r in reports):.2g} | "
            f"{sum(r.effect for r in reports) / len(reports):.2f} | {share} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--cases", default="", help="part of their names")
    parser.add_argument("--sets", default="")
    parser.add_argument("--admet", default="")
    parser.add_argument("--networks", default="trained;head permuted;random weights")
    parser.add_argument("--paper", default="")
    parser.add_argument("--targets", default="0")
    parser.add_argument("--seeds", default="0-3")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--half", choices=("odd", "even"))
    options = parser.parse_args()
    if options.show:
        show(options.file, options.half)
        return
    torch.set_num_threads(1)
    families: list[Callable[[int], Iterator[Case]]] = [planted] if options.planted else []
    if options.sets:
        families.append(molecule_sets(options.sets.split(",")))
    if options.admet:
        families.append(endpoints(options.admet.split(","), options.networks.split(";")))

    def keep(run: dict[str, Any]) -> None:
        with options.file.open("a") as file:  # after every fit, so that a kill loses one at most
            file.write(json.dumps(run) + "\n")
        said = FitReport.from_dict(run["report"])
        print(run["name"], run["seed"], said.summary(), run.get("verdicts"), flush=True)

    for seed in parse_seeds(options.seeds):
        for family in families:
            for case in family(seed):
                if options.cases in case.name:
                    keep(measured(case, seed, options.graphs))
        for name in filter(None, options.paper.split(",")):
            own = name.split(":")[3:]
            for target in parse_seeds(*own or [options.targets]):
                keep(on_target(name, target, seed, options.graphs))


if __name__ == "__main__":
    main()
