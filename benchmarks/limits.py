"""What limits HPME on a dataset: how far could any scorer get, and does the hard mix see the truth?

    python benchmarks/limits.py --datasets benzene,crippen --seeds 100-104

For every dataset: the AUC of HPME; the AUC of an edge MLP on the same node embeddings that is
*trained on the ground truth* of the graphs it is scored on (no scorer of this form can do better);
and what the hard mix says (disagreement and loss, low is good, on the same draws of other graphs)
about the pool HPME chose, the ground truth, the ground truth with its neighbours, and random
selections, all of the same size.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.bench import Experiment, parse_seeds
from hpme.bench.outcome import Outcome, explain, without_ground_truth
from hpme.bench.run import dataset_and_target
from hpme.data import GraphStore
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.search.criterion import criterion
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.parametric import EdgeMLP
from hpme.metrics import edge_auc, explanation_auc
from hpme.models.freezing import frozen
from hpme.paper.shared.suite import VARIANTS

SELECTIONS = ("chosen", "ground truth", "with neighbours", "random")


def ceiling(context: Context, truth: Tensor, steps: int = 400) -> float:
    """AUC of an edge MLP fitted to the ground truth itself."""
    graphs = context.store.batch()
    mlp = EdgeMLP(context.h.shape[1], generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(mlp.parameters(), lr=0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        logits = mlp(context.h, graphs.edge_index)
        F.binary_cross_entropy_with_logits(logits, truth.to(logits.dtype)).backward()
        optimiser.step()
    return float(edge_auc(mlp(context.h, graphs.edge_index).detach(), truth))


def hard_mix(outcome: Outcome, context: Context, marked: Tensor) -> Tensor:
    """Criterion of :data:`SELECTIONS`, ``[4, 2]``."""
    explainer = outcome.explainer
    assert isinstance(explainer, HPMEExplainer) and explainer.pool is not None
    generator = torch.Generator().manual_seed(0)
    mix = explainer.hard_mix(context, generator)
    source, target = mix.graphs.edge_index
    near = marked.index_add(0, target, marked[source]).clamp(max=1)
    noise = torch.rand(marked.shape, generator=generator)
    chosen = mix.scores(explainer.pool)[0]
    scores = torch.stack([chosen, marked + 0.1 * noise, marked + 0.3 * near + 0.1 * noise, noise])
    return criterion(mix, mix.select(scores), mix.draw(4))


def measure(dataset: str, seed: int, target_seed: int) -> dict[str, float]:
    """All numbers of one dataset and seed."""
    variant = VARIANTS.get(dataset)
    experiment = Experiment(dataset, "hpme", seed, variant=variant, target_seed=target_seed)
    outcome = explain(experiment, *dataset_and_target(*experiment.target))
    everything = outcome.graphs + outcome.companions
    model = outcome.target.model
    with frozen(model), torch.enable_grad():
        context = Context.build(
            model,
            GraphStore.from_graphs(without_ground_truth(everything)),
            batch_size=512,
            mode=outcome.mode,
        )
        explained = replace(context, store=context.store.subset(torch.arange(len(outcome.graphs))))
        explained = replace(explained, h=context.h[: len(explained.store.x)])
        truth = torch.cat([graph.edge_mask for graph in outcome.graphs])
        marked = torch.cat([graph.node_mask for graph in everything]).float()
        values = hard_mix(outcome, context, marked)
        result = {
            "HPME": float(explanation_auc(outcome.explanations, outcome.graphs)),
            "ceiling": ceiling(explained, truth),
        }
    for name, (disagreement, loss) in zip(SELECTIONS, values.tolist(), strict=True):
        result[f"{name}, disagreement"] = disagreement
        result[f"{name}, loss"] = loss
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default="benzene,alkane-carbonyl,fluoride-carbonyl,crippen")
    parser.add_argument("--seeds", default="0")
    parser.add_argument(
        "--target-seed", type=int, default=0, help="seed the target is trained with"
    )
    parser.add_argument("--out", type=Path, help="also write the table here, as Markdown")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = parse_seeds(arguments.seeds)
    heads = ["dataset", "HPME", "ceiling", *SELECTIONS]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for dataset in arguments.datasets.split(","):
        runs = [measure(dataset, seed, arguments.target_seed) for seed in seeds]
        mean = {name: statistics.fmean(run[name] for run in runs) for name in runs[0]}
        cells = [dataset, f"{mean['HPME']:.3f}", f"{mean['ceiling']:.3f}"]
        for name in SELECTIONS:
            cells.append(f"{mean[f'{name}, disagreement']:.2f} / {mean[f'{name}, loss']:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
        print("\n".join(lines), flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
