"""Whether regions keep the risk they are guaranteed to, and how large they must be for it.

    python benchmarks/guarantee.py [--sets ba-2motifs,benzene] [--attribution n,amide]
        [--admet AMES,BBB_Martins] [--graphs 200] [--new 400] [--splits 100] [--json FILE]

HPME is fitted to some graphs; the losses of others at every threshold are computed once. Then these
are split in two at random, again and again: the threshold is calibrated on one half, and the loss
it has on the other half is the risk. The scores of occlusion and integrated gradients, divided by
the highest of their graph, and random numbers are treated the same way, with the same transplants
and no more nodes than HPME's pool has. ``reached`` is the share of splits in which ``alpha`` could
be reached at all; sizes are of these, and mean nothing beside those of other splits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from real_molecules import node_scores
from torch import Tensor

from hpme.bench.outcome import without_ground_truth
from hpme.bench.run import dataset_and_target
from hpme.errors import InputError
from hpme.explainers import EXPLAINERS, HPMEExplainer
from hpme.explainers.hpme.guarantee import POINTS, calibrated, grid, not_carried
from hpme.explainers.hpme.method.pool import top_nodes
from hpme.explainers.hpme.transplants import Transplants

PAPER = (
    *("ba-2motifs", "ba-houseandgrid", "ba-motif-volume", "ba-motif-counting"),
    *("benzene", "fluoride-carbonyl"),
)
ALPHAS = (0.05, 0.1, 0.2)
OTHERS: dict[str, dict[str, Any]] = {"occlusion": {"unit": "node"}, "integratedgradients": {}}
Case = tuple[str, Any, list[Any], dict[str, Any]]


def paper_sets(names: list[str], count: int) -> Iterator[Case]:
    for name in names:
        dataset, target = dataset_and_target(name, None, None, "gcn", 0, None)
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))
        graphs = without_ground_truth([dataset[int(i)] for i in order[:count]])
        regression = dataset.info.task == "regression"
        mode = "regression" if regression else "multiclass_classification"
        yield name, target.model, graphs, {"mode": mode}


def attribution_sets(names: list[str], count: int) -> Iterator[Case]:
    from search import attribution_case

    for name in names:
        case = attribution_case(name, 0, 0, count, odd=True)
        yield name, case.model, case.fit, {"mode": case.mode}


def endpoints(names: list[str], count: int) -> Iterator[Case]:
    import trust

    for case in trust.endpoints(names, ["trained"])(0):
        yield case.name, case.model, case.graphs[:count], {}


def losses(
    explainer: HPMEExplainer, model: Any, graphs: list[Any], facts: dict[str, Any]
) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Thresholds, losses and sizes of every method on graphs."""
    scores: dict[str, Tensor] = {}
    for name, options in OTHERS.items():
        other = EXPLAINERS[name](**options)
        found = other.fit(model, graphs, progress=False, **facts).explain(
            model, graphs, progress=False
        )
        parts = [node_scores(one).double() for one in found]
        scores[name] = torch.cat([(part / part.max().clamp(min=1e-12)) for part in parts])
    generator = torch.Generator().manual_seed(0)
    scores["random"] = torch.rand(len(scores["occlusion"]), generator=generator).double()
    columns: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {}

    def ask(transplants: Transplants, _: Any, rows: Tensor) -> list[None]:
        every, count = transplants.graphs, transplants.count
        importance = explainer._ranked(transplants.score, every)[0]
        own = every.batch < count
        thresholds = grid(importance[transplants.pool & ~own])
        regions = [
            explainer._with_needed(t)._ranked(transplants.score, every)[1]
            for t in thresholds.tolist()
        ]
        columns.setdefault("hpme", []).append(asked(transplants, thresholds, regions))
        for name, score in scores.items():
            whole = transplants.with_hosts(score[rows])
            best = top_nodes(whole.unsqueeze(0), every, transplants.mix.m)
            tried = torch.linspace(0, 1, POINTS).double()
            shown = [best.keep[0] & ((whole > t) | (best.order[0] == 0)) for t in tried.tolist()]
            columns.setdefault(name, []).append(asked(transplants, tried, shown))
        return [None]

    store = explainer._leveled(model, None).read(graphs)
    explainer._by_parts(model, store, ask)
    return {
        name: (some[0][0], *(torch.cat([one[i] for one in some], 1) for i in (1, 2)))
        for name, some in columns.items()
    }


def asked(
    transplants: Transplants, thresholds: Tensor, regions: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    loss = torch.stack([not_carried(transplants, one) for one in regions])
    share = torch.stack([transplants.sizes(one) / transplants.graphs.sizes for one in regions])
    return thresholds, loss, share[:, : transplants.count]


def resampled(
    table: tuple[Tensor, Tensor, Tensor], alpha: float, splits: int
) -> dict[str, float | None]:
    """Risk and size on halves that the threshold was not calibrated on."""
    thresholds, loss, share = table
    count = loss.shape[1]
    risks, sizes, errors = [], [], []
    for split in range(splits):
        order = torch.randperm(count, generator=torch.Generator().manual_seed(split))
        one, other = order[: count // 2], order[count // 2 :]
        try:
            like = (torch.zeros(len(one)), torch.zeros(len(one)))
            found = calibrated(alpha, "carried", thresholds, loss[:, one], share[:, one], like)
        except InputError:
            continue
        place = found.thresholds.index(found.threshold)
        risks.append(float(loss[place, other].mean()))
        sizes.append(float(share[place, other].mean()))
        errors.append(float(loss[place].std() / len(other) ** 0.5))
    if not risks:
        return {"reached": 0.0, "risk": None, "error": None, "size": None}
    risk = torch.tensor(risks)
    # Halves of the same graphs overlap, so splits are no independent samples: the error is that of
    # one test half, averaged over splits.
    error = float(torch.tensor(errors).mean())
    size = float(torch.tensor(sizes).mean())
    return {
        "reached": len(risks) / splits,
        "risk": float(risk.mean()),
        "error": error,
        "size": size,
    }


def run(case: Case, fit: int, splits: int) -> dict[str, Any]:
    name, model, graphs, facts = case
    start = time.process_time()
    explainer = HPMEExplainer().fit(model, graphs[:fit], progress=False, **facts)
    fitted = time.process_time()
    tables = losses(explainer, model, graphs[fit:], facts)
    seconds = time.process_time() - fitted
    ratio = None if explainer.size is None else explainer.size.ratio
    found: dict[str, Any] = {
        "set": name,
        "new": tables["hpme"][1].shape[1],
        "ratio": ratio,
        "fit seconds": fitted - start,
        "loss seconds": seconds,
    }
    for method, table in tables.items():
        count = table[1].shape[1] // 2
        whole = float(table[1][0].mean())
        found[method] = {
            "smallest alpha": (count * whole + 1) / (count + 1),
            **{str(alpha): resampled(table, alpha, splits) for alpha in ALPHAS},
        }
    return found


def line(row: dict[str, Any]) -> str:
    cells = []
    for method in ("hpme", *OTHERS, "random"):
        one = row[method]
        parts = [
            f"{alpha}: {x['risk']:.3f}±{x['error']:.3f} size {x['size']:.2f} ({x['reached']:.0%})"
            if (x := one[str(alpha)])["risk"] is not None
            else f"{alpha}: -"
            for alpha in ALPHAS
        ]
        cells.append(f"  {method} (least {one['smallest alpha']:.3f}): {'; '.join(parts)}")
    return "\n".join([f"{row['set']}, ratio {row['ratio']}, {row['new']} new graphs", *cells])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="")
    parser.add_argument("--attribution", default="")
    parser.add_argument("--admet", default="")
    parser.add_argument("--graphs", type=int, default=200, help="to fit on")
    parser.add_argument("--new", type=int, default=400)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    total, rows = options.graphs + options.new, []
    families = (paper_sets, options.sets), (attribution_sets, options.attribution)
    for family, names in (*families, (endpoints, options.admet)):
        for case in family(names.split(","), total) if names else ():
            rows.append(run(case, options.graphs, options.splits))
            print(line(rows[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
