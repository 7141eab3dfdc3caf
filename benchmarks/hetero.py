"""What heterogeneous graphs cost beside homogeneous ones of the same size.

    python benchmarks/hetero.py [--graphs 200] [--rounds 3]

``hetero-motifs`` and ``ba-2motifs`` have 25 nodes and as many edges per graph. Times are processor
time, the least of several rounds taken in turns, so that other programs change them little. A model
with a convolution per edge type is itself slower than a GCN: beside seconds stand those of the
forward passes that the fit asked for, and how much time remains without them.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from hpme.data import load_dataset
from hpme.explainers import HPMEExplainer
from hpme.models import TargetGNN, load_or_train

NAMES = ("ba-2motifs", "hetero-motifs")


class Timed:
    """Adds up the processor time of a model's forward passes."""

    def __init__(self, model: TargetGNN) -> None:
        self.seconds = self.start = 0.0
        model.register_forward_pre_hook(self._enter)
        model.register_forward_hook(self._leave)

    def _enter(self, *_: Any) -> None:
        self.start = time.process_time()

    def _leave(self, *_: Any) -> None:
        self.seconds += time.process_time() - self.start

    def taken(self) -> float:
        """What was added up since the last call."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def measured(name: str, count: int) -> Any:
    """A function that measures a round: fit and explain, each with the forward passes in it."""
    dataset = load_dataset(name)
    model, _ = load_or_train(dataset)
    clock = Timed(model)
    graphs = [dataset[int(i)] for i in dataset.explained(seed=0, count=count)]

    def round_() -> list[float]:
        times = []
        explainer = HPMEExplainer(ratio=dataset.pool_ratio, seed=0)
        for task in (explainer.fit, explainer.explain):
            clock.taken()
            start = time.process_time()
            task(model, graphs, progress=False)
            times += [time.process_time() - start, clock.taken()]
        return times

    return round_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rounds = {name: measured(name, arguments.graphs) for name in NAMES}
    found: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    for _ in range(arguments.rounds):
        for name in NAMES:
            found[name].append(rounds[name]())
    print("| graphs | fit | forward passes in it | explain | forward pass in it |")
    print("|---|---|---|---|---|")
    least = {
        name: [min(column) for column in zip(*rows, strict=True)] for name, rows in found.items()
    }
    for name, times in least.items():
        print(f"| `{name}` | " + " | ".join(f"{seconds:.3f} s" for seconds in times) + " |")
    ratios = [typed / plain for plain, typed in zip(*least.values(), strict=True)]
    print("| ratio | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")
    rest = [[times[at] - times[at + 1] for times in least.values()] for at in (0, 2)]
    for task, (plain, typed) in zip(("fit", "explain"), rest, strict=True):
        print(f"{task} without forward passes: {typed / plain:.2f}")


if __name__ == "__main__":
    main()
