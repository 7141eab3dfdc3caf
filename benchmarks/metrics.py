"""How fast metrics of deletion are, beside a loop over graphs and samples that gives the same values.

    python benchmarks/metrics.py [--graphs 200] [--samples 50] [--rounds 3] [--json FILE]

Robust fidelity of random explanations of BA-2Motifs, GCN target, one process, one thread. The loop
draws the same random numbers, deletes the same edges of one graph at a time and calls the model.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from hpme.data import load_dataset
from hpme.metrics import hard_masks, robust_fidelity, truth_sizes
from hpme.models import Recipe, TargetGNN, load_or_train
from hpme.models.freezing import frozen

SEED, ALPHA1, ALPHA2 = 0, 0.1, 0.9


def timed(run: Callable[[], Tensor], rounds: int) -> tuple[float, Tensor]:
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        values = run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), values


def batched(
    model: TargetGNN, explanations: list[Explanation], sizes: Tensor, samples: int
) -> Tensor:
    result = robust_fidelity(model, explanations, sizes, samples=samples, seed=SEED)
    return torch.stack([result.plus.per_graph, result.minus.per_graph])


@torch.no_grad()
def one_by_one(
    model: TargetGNN, explanations: list[Explanation], sizes: Tensor, samples: int
) -> Tensor:
    masks = hard_masks(explanations, sizes, seed=SEED)
    keys = []
    for explanation in explanations:
        low, high = explanation.edge_index.min(0).values, explanation.edge_index.max(0).values
        keys.append(torch.unique(low * explanation.num_nodes + high, return_inverse=True)[1])
    generator = torch.Generator().manual_seed(SEED)
    torch.randperm(sum(int(pair.max()) + 1 for pair in keys), generator=generator)
    values = torch.zeros(2, len(explanations), dtype=torch.double)
    with frozen(model):
        for side in (0, 1):
            for number, explanation in enumerate(explanations):
                x, edge_index = explanation.x, explanation.edge_index
                batch = torch.zeros(len(x), dtype=torch.long)
                pair, mask = keys[number], masks[number]
                pairs = int(pair.max()) + 1
                before = model(x, edge_index, batch).softmax(1)[0]
                label = int(before.argmax())
                for _ in range(samples):
                    noise = torch.rand(pairs, generator=generator)[pair]
                    kept = ~(mask & (noise < ALPHA1)) if side == 0 else mask | (noise < ALPHA2)
                    after = model(x, edge_index[:, kept], batch).softmax(1)[0]
                    values[side, number] += float(before[label] - after[label]) / samples
    return values


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_dataset("ba-2motifs")
    model, _ = load_or_train(dataset, "gcn", recipe=Recipe(max_steps=300))
    graphs = [dataset[int(i)] for i in dataset.explained(SEED, options.graphs)]
    generator = torch.Generator().manual_seed(SEED)
    explanations = [
        Explanation(
            x=graph.x,
            edge_index=graph.edge_index,
            edge_mask=torch.rand(graph.num_edges, generator=generator),
        )
        for graph in graphs
    ]
    arguments = (model, explanations, truth_sizes(graphs), options.samples)
    batched(*arguments)  # warm up
    fast, values = timed(lambda: batched(*arguments), options.rounds)
    slow, expected = timed(lambda: one_by_one(*arguments), 1)
    difference = float((values - expected).abs().max())
    print(
        f"robust fidelity, {len(graphs)} graphs x {options.samples} samples: batched {fast:.2f} s, "
        f"one by one {slow:.1f} s, {slow / fast:.0f}x faster; largest difference {difference:.1e}"
    )
    if options.json:
        result = {"batched": fast, "one_by_one": slow, "largest_difference": difference}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    if difference > 1e-4:
        raise SystemExit("the values differ")


if __name__ == "__main__":
    main()
