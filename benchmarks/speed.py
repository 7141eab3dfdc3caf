"""How fast HPME is, as ratios measured side by side in one process, on one thread.

    python benchmarks/speed.py [--graphs 200] [--rounds 7] [--explanations] [--json FILE]
        [--chemprop MODEL.pt --smiles TABLE.csv]

Epochs: one pass of HPME's objective (pooling, mixup, edge MLP, forward and backward of the target)
over all graphs, one pass of PyG's PGExplainer loop, and the floor: one forward and backward of the
target on the same graphs. Every method: CPU seconds of one more epoch of its training (for
GNNExplainer, which does not learn, of its descent) and of explaining a graph with the default
settings, on the same graphs, both also in floors. Inference: seconds per graph of HPME, of PyG's
PGExplainer and GNNExplainer, of Captum where it is installed, and the floor, one forward, each five
times in a row, as in a loop over batches; the same of HPME on a GINE of five layers and 300
channels with 1,000 molecules, and with ``--chemprop`` on that model. ``--explanations`` measures
nothing else.
Fits: how many forward passes of the target on the same graphs a whole fit takes, with a given
ratio, with one that is chosen, and on molecules. Start: CPU seconds of ``hpme --version``. All are
CPU seconds of one thread: other work on the machine hardly changes them. With ``--scaling`` the
cost per graph and the peak memory of fits on 200, 2,000 and 20,000 graphs, each in a process of its
own.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.explain import CaptumExplainer, Explainer, GNNExplainer, PGExplainer
from torch_geometric.nn import GINEConv, global_mean_pool

from hpme.data import GraphDataset, GraphStore, load_dataset
from hpme.errors import HPMEError, MissingPackageError
from hpme.explainers import EXPLAINERS, HPMEExplainer, HPMEPrintedExplainer, RandomExplainer
from hpme.explainers.hpme.method.pool import Pool, PoolSize
from hpme.explainers.hpme.method.training import Objective, train
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.parametric import EdgeMLP
from hpme.models import Recipe, TargetGNN, load_or_train
from hpme.models.freezing import frozen

CONFIG = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}


ROW = 5
"""Times in a row that an explanation is measured."""
SLOW = 60.0
"""Methods that learn nothing and typically take that long for 200 graphs explain a few only."""
FEW = 8


def median_seconds(run: Callable[[], object], rounds: int) -> float:
    run()  # warm up
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def side_by_side(
    runs: dict[str, Callable[[], object]], rounds: int, row: int = 1
) -> dict[str, float]:
    """Median seconds of each, measured in turns, so that other work meets all of them alike.

    Of several in a ``row`` those after the first count: caches and memory are then as in a loop.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):  # the first warms up
        for name, run in runs.items():
            if row > 1:
                run()
            start = time.process_time()
            for _ in range(row):
                run()
            if number:
                seconds[name].append((time.process_time() - start) / row)
    return {name: statistics.median(values) for name, values in seconds.items()}


def quick_target(dataset: GraphDataset) -> TargetGNN:
    """Speed does not depend on the weights, so a short training will do."""
    return load_or_train(dataset, "gcn", recipe=Recipe(max_steps=300))[0]


def epoch_seconds(
    model: TargetGNN, dataset: GraphDataset, ids: torch.Tensor, rounds: int
) -> dict[str, float]:
    store = GraphStore.from_graphs(dataset).subset(ids)
    generator = torch.Generator().manual_seed(0)
    whole = store.batch()

    def floor() -> None:
        weight = torch.ones(whole.edge_index.shape[1], requires_grad=True)
        model(whole.x, whole.edge_index, batch=whole.batch, edge_weight=weight).sum().backward()

    with frozen(model):
        context = Context.build(model, store, batch_size=len(store))
        size = PoolSize(dataset.pool_ratio)
        mix = HardMix.build(context, size, "random", "swap", generator)
        channels = context.h.shape[1]
        pool, edge_mlp = Pool(channels, generator=generator), EdgeMLP(channels, generator=generator)
        parameters = [*pool.parameters(), *edge_mlp.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=0.01)
        objective = Objective(mix)
        runs = {
            "hpme": lambda: list(train(objective, pool, edge_mlp, optimiser, 1, len(store))),
            "floor": floor,
        }
        seconds = side_by_side(runs, rounds)
    graphs = [dataset[int(i)] for i in ids]
    algorithm = PGExplainer(epochs=10, lr=0.003)
    Explainer(
        model,
        algorithm,
        explanation_type="phenomenon",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    batch = torch.zeros(max(g.num_nodes for g in graphs), dtype=torch.long)

    def pyg_epoch() -> None:
        for graph in graphs:
            algorithm.train(
                0, model, graph.x, graph.edge_index, target=graph.y, batch=batch[: graph.num_nodes]
            )

    seconds["pyg_pgexplainer"] = median_seconds(pyg_epoch, max(1, rounds // 3))
    return seconds


def inference_seconds(
    model: TargetGNN, dataset: GraphDataset, ids: torch.Tensor, rounds: int
) -> dict[str, float]:
    graphs = [dataset[int(i)] for i in ids]
    whole = Batch.from_data_list(graphs)
    hpme = HPMEExplainer(ratio=dataset.pool_ratio, restarts=1)
    hpme.fit(model, graphs)
    pg = PGExplainer(epochs=1)
    pg_explainer = Explainer(
        model, pg, explanation_type="phenomenon", edge_mask_type="object", model_config=CONFIG
    )
    for graph in graphs[:2]:
        zeros = torch.zeros(graph.num_nodes, dtype=torch.long)
        pg.train(0, model, graph.x, graph.edge_index, target=graph.y, batch=zeros)
    gnn_explainer = Explainer(
        model, GNNExplainer(epochs=100), explanation_type="model", edge_mask_type="object",
        model_config=CONFIG,
    )  # fmt: skip

    def one_by_one(explainer: Explainer, part: list, with_target: bool) -> None:
        for graph in part:
            target = {"target": graph.y} if with_target else {}
            zeros = torch.zeros(graph.num_nodes, dtype=torch.long)
            explainer(graph.x, graph.edge_index, batch=zeros, **target)

    @torch.no_grad()
    def floor() -> None:
        model(whole.x, whole.edge_index, batch=whole.batch)

    random, store = RandomExplainer(), GraphStore.from_graphs(graphs)
    gradients = EXPLAINERS["integratedgradients"]()
    few = max(1, rounds // 3)
    runs = {
        "list": lambda: random.explain(model, graphs, progress=False),
        "batch": lambda: random(model, whole.x, whole.edge_index, batch=whole.batch),
        "hpme": lambda: hpme(model, whole.x, whole.edge_index, batch=whole.batch),
        "masks": lambda: hpme.masks(model, store),
        "hpme_list": lambda: hpme.explain(model, graphs, progress=False),
        "gradients": lambda: gradients(model, whole.x, whole.edge_index, batch=whole.batch),
        "floor": floor,
    }
    seconds = side_by_side(runs, rounds, ROW)
    with hpme.on(model) as ask:  # the floor again, since times drift
        asked = {
            "held": lambda: ask.masks(store),
            "held_list": lambda: ask.explain(graphs, progress=False),
            "floor": floor,
        }
        held = side_by_side(asked, rounds, ROW)
    for name in ("held", "held_list"):
        seconds[name] = held[name] * seconds["floor"] / held["floor"]
    if find_spec("captum") is None:
        print("Captum is not installed and left out")
    else:
        captum = Explainer(
            model, CaptumExplainer("IntegratedGradients"), explanation_type="model",
            node_mask_type="attributes", edge_mask_type="object", model_config=CONFIG,
        )  # fmt: skip
        one = median_seconds(lambda: one_by_one(captum, graphs[:FEW], False), few)
        seconds["captum"] = one * len(graphs) / FEW
    seconds["pyg_pgexplainer"] = median_seconds(lambda: one_by_one(pg_explainer, graphs, True), few)
    result = {name: value / len(graphs) for name, value in seconds.items()}
    slow = median_seconds(lambda: one_by_one(gnn_explainer, graphs[:3], False), 1) / 3
    return {**result, "pyg_gnnexplainer": slow}


NAMES = {
    "floor": "one forward pass of the model",
    "held": "HPME, a batch, inside `with explainer.on(model)`",
    "masks": "HPME, a batch",
    "held_list": "HPME, a list of graphs to a list of explanations, inside `with`",
    "hpme_list": "HPME, a list of graphs to a list of explanations",
    "gradients": "hpme's integrated gradients, a batch",
    "captum": "Captum's integrated gradients by PyG's CaptumExplainer, graph by graph",
    "pyg_pgexplainer": "PyG's PGExplainer, graph by graph",
    "pyg_gnnexplainer": "PyG's GNNExplainer, graph by graph, 100 steps",
}


def print_explanations(seconds: dict[str, float]) -> None:
    """One table: what it costs to explain a graph."""
    print("| explaining a graph | us | forward passes | times as long as HPME |")
    print("|---|---:|---:|---:|")
    for key, name in NAMES.items():
        if (cost := seconds.get(key)) is not None:
            ratios = f"{cost / seconds['floor']:,.1f} | {cost / seconds['held']:,.1f}"
            print(f"| {name} | {1e6 * cost:,.0f} | {ratios} |")


class LargeGINE(nn.Module):
    """A model of the size that people train on molecules; its weights do not matter here."""

    def __init__(self, features: int, width: int = 300, layers: int = 5) -> None:
        super().__init__()
        self.embed = nn.Linear(features, width)
        self.layers = nn.ModuleList(
            GINEConv(
                nn.Sequential(
                    nn.Linear(width, 2 * width),
                    nn.BatchNorm1d(2 * width),
                    nn.ReLU(),
                    nn.Linear(2 * width, width),
                ),
                edge_dim=4,
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 2)

    def forward(
        self,
        x: torch.Tensor,
        edge_index: torch.Tensor,
        edge_attr: torch.Tensor,
        batch: torch.Tensor,
    ) -> torch.Tensor:
        """Logits of two classes."""
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h, edge_index, edge_attr).relu()
        return self.head(global_mean_pool(h, batch))


def large_gine() -> tuple[Any, GraphStore]:
    """The model, and 1,000 molecules of Benzene with features of edges."""
    dataset = load_dataset("benzene")
    store = GraphStore.from_graphs(dataset).subset(dataset.explained(0, 1000))
    features = torch.randn(int(store.edge_counts.sum()), 4)
    torch.manual_seed(0)
    model = LargeGINE(store.x.shape[1])
    return model, store.with_attributes(edge={"edge_attr": features})


def chemprop_model(file: Path, table: Path) -> tuple[Any, GraphStore]:
    """A model of Chemprop, and the molecules of a table."""
    from hpme.models.chemprop import explained, molecules, read_model

    model, tasks = read_model(str(file))
    with table.open(newline="") as text:
        smiles = [row["smiles"] for row in csv.DictReader(text)]
    known = explained(model, target=None if not tasks or len(tasks) == 1 else tasks[0])
    return known, known.read(molecules(smiles, model))


def print_larger(name: str, model: Any, store: GraphStore, rounds: int) -> dict[str, float]:
    """What a batch of masks of larger models takes, in forward passes."""
    hpme = HPMEExplainer(ratio=0.3, restarts=0, refine=None)
    hpme.fit(model, store.subset(torch.arange(100)), progress=False)
    with hpme.on(model, level="graph") as ask:
        adapter, whole = ask.model.adapter(), store.batch()

        @torch.no_grad()
        def floor() -> None:
            adapter.predict(whole)

        runs = {"floor": floor, "masks": lambda: ask.masks(store)}
        seconds = side_by_side(runs, rounds, 1)
    ratio = seconds["masks"] / seconds["floor"]
    print(f"{name}: a batch of {len(store)} takes {ratio:.2f} forward passes "
          f"(one of {1e3 * seconds['floor']:.0f} ms)")  # fmt: skip
    return seconds


def larger_models(chemprop: Path | None, smiles: Path | None, rounds: int) -> dict[str, Any]:
    """The same of each larger model that there is data for."""
    found: dict[str, Any] = {}
    try:
        found["gine"] = print_larger("GINE, 5 x 300", *large_gine(), rounds)
    except HPMEError as error:
        print(f"molecules are left out: {error}")
    if chemprop is not None and smiles is not None:
        given = chemprop_model(chemprop, smiles)
        found["chemprop"] = print_larger("Chemprop", *given, rounds)
    return found


def method_seconds(dataset: GraphDataset, ids: torch.Tensor) -> dict[str, dict[str, float | None]]:
    """CPU seconds per epoch (``None`` without training) and per explained graph, all methods."""
    graphs = [dataset[int(i)] for i in ids]
    targets = {name: load_or_train(dataset, name, recipe=Recipe(max_steps=300))[0]
               for name in ("gcn", "gat")}  # fmt: skip
    result: dict[str, dict[str, float | None]] = {}
    for name, kind in EXPLAINERS.items():
        model = targets["gat" if name == "att" else "gcn"]
        options = {"ratio": dataset.pool_ratio} if "ratio" in kind.option_names() else {}
        try:
            kind(**options)
        except MissingPackageError as error:
            print(f"{name} is left out: {error}")
            continue
        slow = not kind.needs_fit and kind.typical_seconds >= SLOW
        some = graphs[:FEW] if slow else graphs
        # HPME's epochs are a small part of its fit, so their difference would be noise.
        learns = "epochs" in kind.option_names() and not name.startswith("hpme")
        fits = {}
        for epochs in (1, 1, 11) if learns else (1,):  # the first warms up
            explainer = kind(**options, **({"epochs": epochs} if learns else {}))
            start = time.process_time()
            explainer.fit(model, some, progress=False)
            if learns and not explainer.needs_fit:
                explainer.explain(model, some, progress=False)
            fits[epochs] = time.process_time() - start
        explainer = explainer if explainer.needs_fit else kind(**options)
        start = time.process_time()
        explainer.explain(model, some, progress=False)
        result[name] = {
            "epoch": (fits[11] - fits[1]) / 10 if learns else None,
            "graph": (time.process_time() - start) / len(some),
        }
    return result


def fit_cost(count: int) -> dict[str, float]:
    """CPU seconds per graph and epoch of training, inference per graph, and peak memory."""
    dataset = load_dataset("ba-2motifs", size=max(count, 1000))
    model = quick_target(load_dataset("ba-2motifs"))
    graphs = dataset[:count]
    explainer = HPMEPrintedExplainer(ratio=dataset.pool_ratio, search_graphs=count, epochs=1)
    explainer.fit(model, graphs)
    explainer.epochs = 5
    start = time.process_time()
    explainer.fit(model, graphs)
    fit = time.process_time() - start
    explainer.epochs = 1
    start = time.process_time()
    explainer.fit(model, graphs)
    epoch = (fit - (time.process_time() - start)) / 4
    start = time.process_time()
    explainer.explain(model, graphs)
    explain = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "graphs": count,
        "epoch_ms_per_graph": 1000 * epoch / count,
        "explain_ms_per_graph": 1000 * explain / count,
        "peak_mib": peak,
    }


def fit_multiple(
    model: TargetGNN, dataset: GraphDataset, ids: torch.Tensor, ratio: float | str, rounds: int
) -> dict[str, float]:
    """CPU seconds of a whole fit, and how many forward passes of the target that is."""
    graphs = [dataset[int(i)] for i in ids]
    whole = Batch.from_data_list(graphs)

    @torch.no_grad()
    def forward() -> None:
        model(whole.x, whole.edge_index, batch=whole.batch)

    before = median_seconds(forward, rounds)
    start = time.process_time()
    HPMEExplainer(ratio=ratio).fit(model, graphs, progress=False)
    seconds = time.process_time() - start
    floor = (before + median_seconds(forward, rounds)) / 2
    return {"cpu_seconds": seconds, "target_forwards": seconds / floor}


def startup() -> dict[str, float]:
    """CPU seconds of ``hpme --version``, the best of three."""
    command = [sys.executable, "-c", "import hpme.cli; hpme.cli.main()", "--version"]
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"cpu_seconds": min(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--explanations", action="store_true", help="only what these cost")
    parser.add_argument("--scaling", action="store_true", help="also 200, 2,000 and 20,000 graphs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--chemprop", type=Path)
    parser.add_argument("--smiles", type=Path)
    parser.add_argument("--one-size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.one_size:
        print(json.dumps(fit_cost(options.one_size)))
        return
    dataset = load_dataset("ba-2motifs")
    model = quick_target(dataset)
    ids = dataset.explained(0, options.graphs)
    if options.explanations:
        print_explanations(inference_seconds(model, dataset, ids, options.rounds))
        larger_models(options.chemprop, options.smiles, options.rounds)
        return
    epoch = epoch_seconds(model, dataset, ids, options.rounds)
    inference = inference_seconds(model, dataset, ids, options.rounds)
    methods = method_seconds(dataset, ids)
    methods["hpme"]["epoch"] = epoch["hpme"]
    for cost in methods.values():
        one = cost["epoch"]
        cost["epoch_floors"] = None if one is None else one / epoch["floor"]
        cost["graph_floors"] = cost["graph"] / inference["floor"]
    fits = {
        "fit": fit_multiple(model, dataset, ids, dataset.pool_ratio, options.rounds),
        "fit_auto": fit_multiple(model, dataset, ids, "auto", options.rounds),
    }
    try:
        molecules = load_dataset("benzene")
    except HPMEError as error:
        print(f"molecules are left out: {error}")
    else:
        chosen = molecules.explained(0, options.graphs)
        fits["fit_molecules"] = fit_multiple(
            quick_target(molecules), molecules, chosen, molecules.pool_ratio, options.rounds
        )
    print(
        f"one epoch over {len(ids)} graphs: HPME {1e3 * epoch['hpme']:.1f} ms, "
        f"{epoch['hpme'] / epoch['floor']:.1f}x the floor ({1e3 * epoch['floor']:.1f} ms), "
        f"{epoch['pyg_pgexplainer'] / epoch['hpme']:.0f}x faster than PyG's PGExplainer"
    )
    print_explanations(inference)
    larger = larger_models(options.chemprop, options.smiles, options.rounds)
    extra = inference["list"] - inference["batch"]
    print(f"a list: {1e6 * extra:.0f} us per graph more than a batch")
    for name, fit in fits.items():
        print(
            f"{name}: {fit['cpu_seconds']:.1f} CPU-seconds, "
            f"{fit['target_forwards']:.0f} forward passes of the target on the same batch"
        )
    start = startup()
    print(f"start: {start['cpu_seconds']:.2f} CPU-seconds")
    print("| method | ms per epoch | x floor | us per explained graph | x floor |")
    print("|---|---|---|---|---|")
    for name, cost in methods.items():
        one, each = cost["epoch"], cost["graph"]
        training = (
            ["-", "-"] if one is None else [f"{1e3 * one:.0f}", f"{cost['epoch_floors']:.1f}"]
        )
        explaining = [f"{1e6 * each:.0f}", f"{cost['graph_floors']:.1f}"]
        print("| " + " | ".join([name, *training, *explaining]) + " |")
    result = {
        "epoch": epoch,
        "inference": inference,
        "larger": larger,
        **fits,
        "startup": start,
        "methods": methods,
    }
    if options.scaling:
        result["scaling"] = []
        for size in (200, 2_000, 20_000):
            command = [sys.executable, __file__, "--one-size", str(size)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            cost = json.loads(done.stdout.splitlines()[-1])
            result["scaling"].append(cost)
            print(
                f"{size} graphs: {cost['epoch_ms_per_graph']:.3f} ms per graph and epoch, "
                f"{cost['explain_ms_per_graph']:.3f} ms per explanation, "
                f"peak {cost['peak_mib']:.0f} MiB"
            )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
