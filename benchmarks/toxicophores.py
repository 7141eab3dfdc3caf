"""Atoms of known toxicophores in mutagens, as HPME and other explainers rank them.

    python benchmarks/toxicophores.py [--members 1] [--fit 300] [--molecules 300] [--half odd]
        [--forms off,gradient,occlusion] [--cache DIR] [--json FILE]

Needs what ``benchmarks/grafts.py`` does. HPME is fitted to random molecules of the Ames table, and
explains others: mutagens that the model knows and that have exactly one kind of toxicophore. Per
molecule: AUC of the toxicophore's atoms against all others, and whether the atom of highest score
is one of them (of several the share). The search is the same for all forms of ``refine``, so it is
done once, and each form chooses its weight with the result. Settings were chosen on molecules of
odd index; those of even index are for reporting.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from evidence import read
from grafts import TASK, TOXICOPHORES, Model, alerts
from rdkit import RDLogger
from torch import Tensor

from hpme.explainers import HPMEExplainer, IntegratedGradientsExplainer, OcclusionExplainer
from hpme.explainers.hpme.base import HPMEBase
from hpme.explainers.hpme.refining import chosen_weight, widened
from hpme.explainers.hpme.search.distil import LinearPool
from hpme.graphs import GraphStore
from hpme.metrics import edge_auc_per_graph
from hpme.models.chemprop import Ensemble, explained, molecules


def fitted(model: Any, graphs: list[Any], path: Path | None, seed: int) -> HPMEExplainer:
    if path is not None and path.exists():
        return HPMEExplainer.load(path)
    explainer = HPMEExplainer(refine=None, seed=seed).fit(model, graphs, progress=False)
    if path is not None:
        explainer.save(path)
    return explainer


def refined(base: HPMEExplainer, form: str, model: Any, graphs: list[Any]) -> HPMEExplainer:
    """What a fit with this form of ``refine`` gives, without another search."""
    explainer = copy.deepcopy(base)
    if form == "off":
        return explainer
    narrow = LinearPool(base.pool.weight.data[:, :-1])
    explainer.refine, explainer.pool = form, None
    generator = torch.Generator().manual_seed(explainer.seed)
    with explainer.context(model, GraphStore.from_graphs(graphs)) as context:
        mix = explainer._with_local(HPMEBase.hard_mix(explainer, context, generator))
        explainer.pool = widened(narrow, mix, chosen_weight(mix, narrow))
    return explainer


def top_inside(score: Tensor, inside: Tensor, graph: Tensor, count: int) -> Tensor:
    """Share of the atoms of highest score that are inside, for every molecule."""
    high = score.new_zeros(count).scatter_reduce(0, graph, score, "amax", include_self=False)
    best = (score >= high[graph]).float()
    sums = torch.zeros(2, count).index_add(1, graph, torch.stack([best * inside, best]))
    return sums[0] / sums[1]


def measure(explanations: list[Any], truth: list[Tensor], kinds: list[str]) -> dict[str, Any]:
    score = torch.cat([e.node_mask.view(-1) for e in explanations])
    graph = torch.repeat_interleave(torch.tensor([len(one) for one in truth]))
    inside = torch.cat(truth)
    auc = edge_auc_per_graph(score, inside, graph)
    top = top_inside(score, inside, graph, len(truth))
    of_kind = {kind: torch.tensor([k == kind for k in kinds]) for kind in TOXICOPHORES}
    return {
        "auc": float(auc.mean()),
        "top": float(top.mean()),
        "kinds": {k: (int(m.sum()), float(auc[m].mean())) for k, m in of_kind.items() if m.any()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=1, help="networks of the ensemble")
    parser.add_argument("--fit", type=int, default=300)
    parser.add_argument("--molecules", type=int, default=300)
    parser.add_argument("--half", default="odd", choices=("odd", "even"))
    parser.add_argument("--forms", default="off,gradient,occlusion")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="folder for fitted explainers")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    RDLogger.DisableLog("rdApp.*")
    rows, trained = read(), Model(options.members)
    networks = trained.networks
    network = networks[0] if len(networks) == 1 else Ensemble(networks)
    model = explained(network, tasks=trained.tasks, target=TASK)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).tolist()
    background = molecules([rows[i]["smiles"] for i in order[: options.fit]], networks[0])
    others = [rows[i] for i in order[500:] if rows[i]["active"] == "1"]
    others = [row for row in others if int(row["index"]) % 2 == (options.half == "odd")]
    found = [(row, alerts(row["mol"])) for row in others]
    found = [(row, kinds) for row, kinds in found if len(kinds) == 1]
    found = [(r, k) for r, k in found if len(*k.values()) < r["mol"].GetNumAtoms()]
    p = trained([row["mol"] for row, _ in found])
    known = [one for one, p in zip(found, p, strict=True) if p > 0.5][: options.molecules]
    graphs = molecules([row["smiles"] for row, _ in known], networks[0])
    kinds = [next(iter(kind)) for _, kind in known]
    truth = [torch.zeros(len(g.x), dtype=torch.bool) for g in graphs]
    for mask, (_, kind) in zip(truth, known, strict=True):
        mask[sorted(*kind.values())] = True
    name = f"toxicophores-{options.members}-{options.fit}-{options.seed}.safetensors"
    path = None if options.cache is None else options.cache / name
    base = fitted(model, background, path, options.seed)
    results: dict[str, Any] = {}

    def show(name: str, explainer: Any, **more: Any) -> None:
        start = time.process_time()
        explanations = explainer.explain(model, graphs, progress=False)
        seconds = (time.process_time() - start) / len(graphs)
        results[name] = {**measure(explanations, truth, kinds), "seconds": seconds, **more}
        print(f"{options.half} {name}: {results[name]}", flush=True)

    for form in options.forms.split(","):
        explainer = refined(base, form, model, background)
        weight = float(explainer.pool.weight.detach()[0, -1])
        show(f"HPME, refine {form}", explainer, weight=weight)
    show("IG", IntegratedGradientsExplainer())
    show("occlusion of atoms", OcclusionExplainer(unit="node"))
    print(f"{len(graphs)} molecules, {statistics.fmean(map(len, truth)):.1f} atoms each")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
