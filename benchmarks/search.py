"""What every part of HPME's search gains and costs, on four groups of models.

    python benchmarks/search.py [--variants "full,no chain"] [--groups paper,gin,attribution,ames]
        [--targets 0-2] [--seeds 0] [--graphs 100] [--half odd] --out FILE

Groups: the paper's graph datasets with a GCN; GINs on four of them; the attribution sets, see
``benchmarks/real_molecules.py``; toxicophores of ADMET-AI's AMES network, see
``benchmarks/grafts.py`` (left out without Chemprop). A variant changes one part of the search,
"one chain + no host" changes two.
AUC is that of edges, of atoms for the last two groups. Passes are forward passes of the model over
the graphs. Results are appended to a file of JSON lines, and what is in it is not computed again;
``--table`` prints it. Graphs of odd number decided what stays; those of even number are for
reporting.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import real_molecules
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor

from hpme.bench.experiment import parse_seeds
from hpme.bench.outcome import counted, without_ground_truth
from hpme.bench.run import dataset_and_target
from hpme.data import DATASETS
from hpme.data.registry import default_root
from hpme.explainers import (
    BestAttributionExplainer,
    DistilledOcclusionExplainer,
    HPMEExplainer,
    OcclusionExplainer,
)
from hpme.explainers.hpme import explainer
from hpme.explainers.hpme.refining import Local
from hpme.explainers.hpme.search import chains, occlusion, representation, subsets
from hpme.metrics import explanation_auc

PAPER = tuple(name for name, info in DATASETS.items() if info.level == "graph")[:13]
GIN = ("ba-motif-counting", "benzene", "alkane-carbonyl", "crippen")
ATTRIBUTION = ("n", "n_minus_o", "amide", "amide-class")
AMES_FIT, AMES_SHOWN = 100, 60
Patches = list[Any]


@dataclass
class Case:
    """A model, graphs to fit on, graphs to explain, and how explanations are judged."""

    group: str
    name: str
    target: int
    model: Any
    fit: list[Any]
    shown: list[Any]
    judge: Callable[[list[Any]], float]
    options: dict[str, Any]
    mode: Any


known_target = lru_cache(None)(dataset_and_target)


def paper_case(
    name: str, model: str, target: int, seed: int, size: int, odd: bool, steps: int | None
) -> Case:
    dataset, trained = known_target(name, None, None, model, target, steps)
    numbers = dataset.explained(seed, 4 * size)
    numbers = numbers[numbers % 2 == odd][:size]
    others = dataset.companions(seed, 4 * size)
    others = others[others % 2 == odd][:size]
    graphs = [dataset[int(i)] for i in numbers]
    shown = without_ground_truth(graphs)
    fit = shown + without_ground_truth([dataset[int(i)] for i in others])
    regression = dataset.info.task == "regression"
    return Case(
        "gin" if model == "gin" else "paper" if name in PAPER else "nodes",
        name, target, trained.model, fit, shown,
        lambda found: float(explanation_auc(found, graphs)),
        {"ratio": dataset.pool_ratio}, "regression" if regression else "multiclass_classification",
    )  # fmt: skip


def attribution_case(name: str, target: int, seed: int, size: int, odd: bool) -> Case:
    graphs, roles, y = real_molecules.read(name)
    folder = default_root() / "models"
    path = folder / f"gine-{name}-{target}.safetensors"
    if path.exists():
        one, outputs = graphs[0], 1 if y.is_floating_point() else 2
        model = real_molecules.Gine(one.x.shape[1], one.edge_attr.shape[1], outputs).eval()
        load_model(model, path)
    else:
        store = real_molecules.GraphStore.from_graphs(graphs)
        model = real_molecules.train(store, y, target)[0]
        folder.mkdir(parents=True, exist_ok=True)
        save_model(model, str(path))
    pick = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed))
    ids = pick[pick % 2 == odd][:size].tolist()
    shown, known = [graphs[i] for i in ids], [roles[i] for i in ids]
    mode = "regression" if y.is_floating_point() else "multiclass_classification"
    return Case(
        "attribution", name, target, model, shown, shown,
        lambda found: real_molecules.node_auc(found, known)["per_graph"], {}, mode,
    )  # fmt: skip


def ames_case(seed: int, odd: bool) -> Case:
    import evidence
    import grafts
    from rdkit import RDLogger

    RDLogger.DisableLog("rdApp.*")
    rows, trained = evidence.read(), grafts.Model(1)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).tolist()
    background = [rows[i] for i in order if int(rows[i]["index"]) % 2 == odd][:AMES_FIT]
    taken = {row["index"] for row in background}
    own = [rows[i] for i in order if int(rows[i]["index"]) % 2 == odd]
    own = [r for r in own if r["active"] == "1" and r["index"] not in taken]
    kinds = [evidence.alerts(row["mol"]) for row in own]
    own = [r for r, kind in zip(own, kinds, strict=True) if len(kind) == 1][: 2 * AMES_SHOWN]
    p = trained([row["mol"] for row in own])
    own = [row for row, one in zip(own, p, strict=True) if one > 0.5][:AMES_SHOWN]
    network = trained.networks[0]
    roles = []
    for row in own:
        atoms = next(iter(evidence.alerts(row["mol"]).values()))
        role = torch.zeros(row["mol"].GetNumAtoms(), dtype=torch.bool)
        roles.append(role.index_fill(0, torch.tensor(sorted(atoms)), True))
    fit = evidence.molecules([row["smiles"] for row in background], network)
    shown = evidence.molecules([row["smiles"] for row in own], network)
    model = evidence.explained(network, tasks=trained.tasks, target=grafts.TASK)
    return Case(
        "ames", "AMES", seed, model, fit, shown,
        lambda found: real_molecules.node_auc(found, roles)["per_graph"], {}, None,
    )  # fmt: skip


# Variants ########################################################################################


def starting(find: Callable[[Any], tuple[Tensor, Tensor]]) -> Callable[[], Patches]:
    """What stands in for occlusion."""
    return lambda: [patch.object(explainer, "occlusion", find)]


def nothing(context: Any) -> tuple[Tensor, Tensor]:
    return torch.zeros(len(context.h)), torch.ones(len(context.store))


def gradients(context: Any) -> tuple[Tensor, Tensor]:
    local = Local("gradient", context.adapter, context.task)
    return local(context.store.batch())[1], torch.ones(len(context.store))


def reading(keep: Callable[[int, int], bool]) -> Patches:
    """Scorers see some of the blocks: features at three depths, layers, embeddings."""
    real = representation.NodeReader.scaled.__func__

    def some(cls: Any, blocks: Any, *given: Any) -> Any:
        reader, last = real(cls, blocks, *given), len(blocks) - 1
        rows = torch.split(reader.map, list(reader.widths))
        kept = torch.cat([row * keep(n, last) for n, row in enumerate(rows)])
        reader.map = kept[:, kept.any(0)]
        return reader

    return [patch.object(representation.NodeReader, "scaled", classmethod(some))]


def ranking(*columns: int) -> Callable[[], Patches]:
    """Pools are judged by some of disagreement, loss and agreement with occlusion."""
    real = chains.joint_rank

    def rank(values: Tensor) -> Tensor:
        return real(values[:, [n for n in columns if n < values.shape[1]]])

    return lambda: [patch.object(chains, "joint_rank", rank)]


def proposing(*kinds: str) -> Callable[[], Patches]:
    """Without some kinds of proposals, whose places others take."""
    real = subsets._grow

    def grow(score: Tensor, graphs: Any, m: Tensor, seeds: Tensor, generator: Any) -> Tensor:
        count = len(score)
        at = torch.arange(count)
        of = {"random": at < 0.8 * count, "free": at >= 0.8 * count}
        left = torch.cat([at[of[kind]] for kind in kinds])
        rows = left[at % len(left)] if len(left) else at  # one region is no proposal
        return real(score[rows], graphs, m, seeds[rows], generator)

    return lambda: [patch.object(subsets, "_grow", grow)]


def constant(module: Any, name: str, value: Any) -> Callable[[], Patches]:
    return lambda: [patch.object(module, name, value)]


def occluding(column: int) -> Patches:
    """Occlusion of nodes (0) or of edges (1) alone."""
    real = occlusion.standardise_in_segment
    return [patch.object(
        occlusion, "standardise_in_segment", lambda both, *given: real(both, *given)[:, [column]]
    )]  # fmt: skip


def searching(**form: int) -> Callable[[], Patches]:
    """A shorter search."""
    real = chains.SubsetSearch
    return lambda: [patch.object(
        explainer, "SubsetSearch", lambda chains, *rest: real(**{"chains": chains, **form})
    )]  # fmt: skip


VARIANTS: dict[str, tuple[dict[str, Any], Callable[[], Patches]]] = {
    "full": ({}, list),
    "no chain": ({}, searching(chains=0)),
    "no occlusion": ({}, starting(nothing)),
    "sees no hops": ({}, lambda: reading(lambda n, last: n not in (1, 2))),
    "sees no layers": ({}, lambda: reading(lambda n, last: n < 3 or n == last)),
    "no random growth": ({}, proposing("free")),
    "random growth alone": ({}, proposing("random")),
    "random hosts": ({"neighbor": "random"}, list),
    "near hosts": ({"neighbor": "near"}, list),
    "one chain": ({"restarts": 1}, list),
    "8 subsets": ({}, searching(subsets=8)),
    "one round": ({}, searching(rounds=1)),
    "four rounds": ({}, searching(rounds=4)),
    "one penalty": ({}, constant(chains, "PENALTIES", (3.0,))),
    "own size": ({"ratio": "auto"}, list),
    "not blended": ({}, constant(chains, "OBJECTION", -9.0)),
    "not refined": ({"refine": None}, list),
    "not judged by occlusion": ({}, ranking(0, 1)),
    "not judged by loss": ({}, ranking(0, 2)),
    "not judged by disagreement": ({}, ranking(1, 2)),
    "gradients in place of occlusion": ({}, starting(gradients)),
    "no host": ({"mixup": False}, list),
    "sees H only": ({}, lambda: reading(lambda n, last: n == last)),
    "32 graphs a round": ({}, constant(chains, "ROUND_GRAPHS", 32)),
    "128 graphs a round": ({}, constant(chains, "ROUND_GRAPHS", 128)),
    "searched with a small own size": ({"ratio": "auto"}, constant(explainer, "LEAST", 0.0)),
    "occlusion of nodes alone": ({}, lambda: occluding(0)),
    "occlusion of edges alone": ({}, lambda: occluding(1)),
    "hosts are not asked whether they tell": ({}, constant(chains.Candidates, "unsure", False)),
}  # fmt: skip
CHEAP: dict[str, Callable[[Case], Any]] = {
    "occlusion of nodes": lambda case: OcclusionExplainer(unit="node"),
    "distilled occlusion": lambda case: DistilledOcclusionExplainer(),
    "best attribution": lambda case: BestAttributionExplainer(**case.options),
}
"""Explainers that stand for less than the search."""


# Running #########################################################################################


@contextmanager
def changed(patches: Patches) -> Iterator[None]:
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


def measure_cheap(case: Case, name: str, seed: int) -> dict[str, Any]:
    found = CHEAP[name](case).set_params(seed=seed)
    with counted(getattr(case.model, "model", case.model)) as passes:
        start = time.process_time()
        known = {} if case.mode is None else {"mode": case.mode}
        if found.needs_fit:
            found.fit(case.model, case.fit, progress=False, **known)
            known = {}
        seen, fitted = passes.over(case.fit), time.process_time() - start
        auc = case.judge(found.explain(case.model, case.shown, progress=False, **known))
    return {"auc": auc, "passes": seen, "cpu": fitted}


def measure(case: Case, variant: str, seed: int) -> dict[str, Any]:
    if variant in CHEAP:
        return measure_cheap(case, variant, seed)
    parts = [VARIANTS[name] for name in variant.split(" + ")]
    options = {name: value for given, _ in parts for name, value in given.items()}
    patches = [one for _, made in parts for one in made()]
    with changed(patches), counted(getattr(case.model, "model", case.model)) as passes:
        start = time.process_time()
        found = HPMEExplainer(seed=seed, score="both", **{**case.options, **options})
        known = {} if case.mode is None else {"mode": case.mode}
        found.fit(case.model, case.fit, progress=False, **known)
        fitted = time.process_time() - start
        seen = passes.over(case.fit)
        aucs = {}
        for score in ("both", "edge", "node"):
            found.score = score
            aucs[score] = case.judge(found.explain(case.model, case.shown, progress=False))
    assert found.report is not None and found.size is not None
    return {
        "auc": aucs["node"], "auc_both": aucs["both"], "auc_edge": aucs["edge"],
        "passes": seen, "cpu": fitted, "ratio": found.size.ratio,
        "effect": found.report.effect, "disagreement": found.report.disagreement,
        "random": found.report.random_disagreement, "agreement": found.report.agreement,
    }  # fmt: skip


def cases(options: argparse.Namespace, target: int, seed: int) -> Iterator[Callable[[], Case]]:
    odd, size, groups = options.half == "odd", options.graphs, options.groups.split(",")
    only = options.sets.split(",") if options.sets else ()

    def asked(group: str, name: str) -> bool:
        return group in groups and (not only or name in only or f"{group}:{name}" in only)

    for group, names, model in (("paper", PAPER, "gcn"), ("gin", GIN, "gin"),
                                ("nodes", ("tree-grid",), "gcn")):  # fmt: skip
        for name in names:
            if asked(group, name):
                yield partial(paper_case, name, model, target, seed, size, odd, options.steps)
    for name in ATTRIBUTION:
        if asked("attribution", name):
            yield partial(attribution_case, name, target, seed, size, odd)
    if "ames" in groups and target == 0:
        yield partial(ames_case, seed, odd)


def table(rows: list[dict[str, Any]], against: str) -> None:
    """Gain of every part: by how much AUC falls without it, on the same cases."""
    by: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        by[row["variant"]][tuple(row["case"])] = row
    whole, groups = by[against], ("paper", "gin", "attribution", "ames", "nodes")
    by |= {
        f"edges by {score}": {c: row | {"auc": row[f"auc_{key}"]} for c, row in whole.items()}
        for score, key in (("nodes and the MLP", "both"), ("the MLP", "edge"))
    }
    print("| variant | " + " | ".join(groups) + " | worst | passes |\n|---|" + "---:|" * 7)
    for variant, found in by.items():
        gain = {c: row["auc"] - whole[c]["auc"] for c, row in found.items() if c in whole}
        cells = []
        for group in groups:
            some = [c for c in gain if c[0] == group]
            level = statistics.fmean([found[c]["auc"] for c in some] or [0.0])
            cells.append(
                f"{level:.3f} ({statistics.fmean(gain[c] for c in some):+.3f}; {len(some)})"
                if some else "-"
            )  # fmt: skip
        worst = min(gain, key=lambda c: gain[c], default=None)
        fall = "" if worst is None else f"{worst[1]} {gain[worst]:+.3f}"
        cost = [found[c]["passes"] / whole[c]["passes"] for c in gain]
        ratio = statistics.fmean(cost) if cost else 0.0
        print(f"| {variant} | " + " | ".join(cells) + f" | {fall} | {ratio:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--groups", default="paper,gin,attribution,ames")
    parser.add_argument("--sets", default="", help="names, or group:name for one of a group")
    parser.add_argument("--targets", default="0")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--steps", type=int, help="of training targets; by default their recipe's")
    parser.add_argument("--half", default="odd", choices=("odd", "even"))
    parser.add_argument("--label", default="", help="put before the names of variants")
    parser.add_argument("--against", default="full")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    if options.out.exists():
        rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    if options.table:
        table([row for row in rows if row["half"] == options.half], options.against)
        return
    done = {
        (row["variant"], *row["case"][:3], row["seed"], row["half"], row["graphs"]) for row in rows
    }
    made: dict[Any, Case] = {}
    order = product(parse_seeds(options.seeds), options.variants.split(","),
                    parse_seeds(options.targets))  # fmt: skip
    for seed, variant, target in order:
        for number, make in enumerate(cases(options, target, seed)):
            key = target, seed, number
            if key not in made:
                try:
                    made[key] = make()
                except ImportError as error:
                    print(f"left out: {error}", flush=True)
                    continue
            case = made[key]
            where = case.group, case.name, case.target
            name = options.label + variant
            if (name, *where, seed, options.half, options.graphs) in done:
                continue
            found = measure(case, variant, seed)
            row = {"variant": name, "case": [*where, seed], "seed": seed,
                   "half": options.half, "graphs": options.graphs, **found}  # fmt: skip
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(name, *where, {k: round(v, 3) for k, v in found.items() if v is not None},
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
