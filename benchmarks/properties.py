"""Properties 1 and 2 of the paper in numbers.

    python benchmarks/properties.py [--datasets ba-2motifs,ba-housegrid,triangles] [--seed 0]
        [--graphs 200] [--samples 1000] [--json FILE]

G is one of n explained graphs, each as likely. A subgraph is the edges it has, up to what message
passing tells apart, without features: numbers of nodes are names, and with them all would differ.

1. I(G, G_pool) <= H(G_pool) <= log |Omega_k|. The pool is a function of G, so that the first two
   are equal. Omega_k are the graphs of k nodes up to isomorphism, k the largest pool.
2. I(G, G_theta) <= I(G, G_pool) + C E[sqrt(KL(Q || P))], C = log(d - 1) / sqrt(2). P draws each
   edge by its probability alone, so that KL is the summed BCE. The proof has a term h(delta) more,
   the binary entropy of the total variation, which it then leaves out; d is the number of different
   subgraphs. Both are measured, and with them the inequality that the proof starts from.

All in nats. Where a graph has more than 12 edges, what P draws is sampled, so that I(G, G_theta) is
too large rather than too small: with few samples each is alone, and tells its graph.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpme.bench import make_explainer
from hpme.bench.outcome import Target, without_ground_truth
from hpme.data import GraphStore, load_dataset
from hpme.explainers.shared.parametric import EdgeMLP
from hpme.graphs import GraphBatch
from hpme.graphs.patterns import ODD

ROUNDS, FEW_EDGES = 8, 12
PAIRS = {"HPME": "hpme", "HPME as printed": "hpme-printed"}
Kinds = dict[int, float]
"""How likely each kind of subgraph is."""


def count_graphs(nodes: int) -> int:
    """Number of graphs up to isomorphism, by Burnside: averaged over permutations by cycles."""

    def partitions(rest: int, most: int) -> Iterator[list[int]]:
        if rest == 0:
            yield []
        for first in range(min(rest, most), 0, -1):
            yield from ([first, *others] for others in partitions(rest - first, first))

    total = 0
    for cycles in partitions(nodes, nodes):
        orbits = sum(c // 2 for c in cycles)
        orbits += sum(math.gcd(a, b) for i, a in enumerate(cycles) for b in cycles[:i])
        size = math.prod(c**n * math.factorial(n) for c, n in Counter(cycles).items())
        total += math.factorial(nodes) // size * 2**orbits
    return total // math.factorial(nodes)


def codes(pairs: Tensor, keep: Tensor, nodes: int) -> Tensor:
    """Weisfeiler-Lehman codes ``[S]`` of subgraphs with the edges ``keep`` ``[S, E]``."""

    def scrambled(code: Tensor) -> Tensor:
        code = (code ^ (code >> 32)) * ODD
        return (code ^ (code >> 29)) * ODD

    inside, (a, b) = keep.long(), pairs
    code = torch.zeros(len(keep), nodes, dtype=torch.long)
    degree = code.index_add(1, a, inside).index_add(1, b, inside)
    for _ in range(ROUNDS):
        heard = scrambled(code + 1)
        sums = torch.zeros_like(code)
        sums = sums.index_add(1, a, heard[:, b] * inside).index_add(1, b, heard[:, a] * inside)
        code = scrambled(3 * code + sums)
    return (scrambled(code) * (degree > 0)).sum(1)


def drawn(pairs: Tensor, p: Tensor, nodes: int, samples: int, generator: torch.Generator) -> Kinds:
    """Kinds of subgraphs that P draws, each edge by itself: all of them if edges are few."""
    edges = len(p)
    if edges <= FEW_EDGES:
        keep = (torch.arange(2**edges)[:, None] >> torch.arange(edges) & 1).bool()
        weight = torch.where(keep, p, 1 - p).prod(1)
    else:
        keep = torch.rand(samples, edges, generator=generator, dtype=p.dtype) < p
        weight = torch.full((samples,), 1 / samples, dtype=torch.double)
    kind, place = torch.unique(codes(pairs, keep, nodes), return_inverse=True)
    chance = torch.zeros(len(kind), dtype=torch.double).index_add(0, place, weight.double())
    return dict(zip(kind.tolist(), chance.tolist(), strict=True))


def entropy(chances: Kinds) -> float:
    """In nats."""
    return -sum(chance * math.log(chance) for chance in chances.values() if chance > 0)


def mean(found: Sequence[Kinds]) -> Kinds:
    """How likely each kind is where all graphs are as likely."""
    total: Counter[int] = Counter()
    for one in found:
        total.update(one)  # type: ignore[arg-type]
    return {kind: chance / len(found) for kind, chance in total.items()}


def information(found: Sequence[Kinds]) -> float:
    """Mutual information of the graph and the kind of its subgraph."""
    return entropy(mean(found)) - sum(map(entropy, found)) / len(found)


@dataclass(frozen=True)
class Example:
    """A graph: its pairs of nodes, which of them are pooled, and how likely P takes each."""

    pairs: Tensor
    nodes: int
    pooled: Tensor
    p: Tensor

    @property
    def kl(self) -> float:
        """KL(Q || P), the BCE summed over edges."""
        p = self.p.clamp(1e-12, 1 - 1e-12)
        return -float(torch.where(self.pooled, p, 1 - p).log().sum())

    def pool(self) -> Kinds:
        """The kind of the pooled subgraph."""
        return {int(codes(self.pairs, self.pooled[None], self.nodes)): 1.0}


def examples(batch: GraphBatch, keep: Tensor, p: Tensor) -> list[Example]:
    """The graphs of a batch with their pooled nodes, and with the probabilities of all pairs."""
    pairs = batch.pairs.proper.index
    own = batch.batch[pairs[0]]
    parts = [(own == number).nonzero().view(-1) for number in range(batch.num_graphs)]
    return [
        Example(pairs[:, ids] - start, int(size), keep[pairs[:, ids]].all(0), p[ids])
        for ids, start, size in zip(parts, batch.ptr, batch.sizes, strict=True)
    ]


def property_2(graphs: Sequence[Example], samples: int, seed: int = 0) -> dict[str, float]:
    """Both sides of property 2, and what its proof has between them."""
    generator = torch.Generator().manual_seed(seed)
    soft = [drawn(e.pairs, e.p, e.nodes, samples, generator) for e in graphs]
    hard = [e.pool() for e in graphs]
    p, q = mean(soft), mean(hard)
    kinds = {*p, *q}
    delta = sum(abs(p.get(kind, 0.0) - q.get(kind, 0.0)) for kind in kinds) / 2
    binary = entropy({0: delta, 1: 1 - delta})
    root = sum(math.sqrt(e.kl) for e in graphs) / len(graphs)
    most = math.log(max(1, len(kinds) - 1))
    pooled = information(hard)
    return {
        "soft": information(soft), "pooled": pooled, "kinds": len(kinds), "delta": delta,
        "kl": sum(e.kl for e in graphs) / len(graphs), "root": root,
        "fannes": pooled + delta * most + binary,
        "bound": pooled + most * root / math.sqrt(2),
        "graphs": math.log(len(graphs)),
    }  # fmt: skip


def property_1(pools: Sequence[Kinds], largest: int) -> dict[str, float]:
    """The entropy of pooled subgraphs and what bounds it."""
    return {
        "pooled": entropy(mean(pools)),
        "omega": math.log(count_graphs(largest)),
        "labelled": largest * (largest - 1) / 2 * math.log(2),
        "graphs": math.log(len(pools)),
    }


def measured(name: str, seed: int, count: int, samples: int) -> dict[str, Any]:
    """Both properties for the pools and edge MLPs of one dataset, and regions for comparison."""
    dataset = load_dataset(name, progress=False)
    target = Target.prepare(dataset, "gcn")
    graphs = [dataset[int(number)] for number in dataset.explained(seed, count)]
    others = [dataset[int(number)] for number in dataset.companions(seed, count)]
    shown, generator = without_ground_truth([*graphs, *others]), torch.Generator().manual_seed(seed)
    regression = dataset.info.task == "regression"
    mode: Any = "regression" if regression else "multiclass_classification"
    found: dict[str, Any] = {}
    for title, method in PAIRS.items():
        explainer, _ = make_explainer(method, dataset, seed, {})
        explainer.fit(target.model, shown, mode=mode, progress=False)
        store = GraphStore.from_graphs(shown[: len(graphs)])
        with explainer.context(target.model, store, mode=mode) as context:
            mix = explainer.hard_mix(context, generator)
            keep = mix.select(mix.scores(explainer.pool)).keep[0]
            batch = context.store.batch()
            pairs = batch.pairs.proper.index
            fresh = EdgeMLP(mix.h.shape[1], generator=generator)
            with torch.no_grad():
                kinds = {"before": fresh, "after": explainer.edge_mlp}
                p = {k: mlp(mix.h, pairs).sigmoid().double() for k, mlp in kinds.items()}
        sizes = torch.bincount(batch.batch[keep], minlength=len(graphs))
        some = mix.select(torch.rand(1, len(keep), generator=generator)).keep[0]
        truth = torch.cat([graph.node_mask for graph in graphs])
        for label, nodes in ((title, keep), ("random nodes", some), ("ground truth", truth)):
            pools = [e.pool() for e in examples(batch, nodes, p["after"])]
            found[f"1/{label}"] = property_1(pools, int(sizes.max()))
        for time, chance in p.items():
            found[f"2/{title}, {time}"] = property_2(examples(batch, keep, chance), samples, seed)
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """Markdown of what was measured."""
    lines = []
    heads = {
        "1": {"pooled": "H(G_pool) = I(G, G_pool)", "omega": "log \\|Omega_k\\|",
              "labelled": "with numbered nodes", "graphs": "log n"},
        "2": {"soft": "I(G, G_theta)", "pooled": "I(G, G_pool)", "kl": "KL", "delta": "delta",
              "fannes": "proof, with h", "bound": "bound", "graphs": "log n"},
    }  # fmt: skip
    for number, columns in heads.items():
        lines += ["", f"| dataset | subgraph | {' | '.join(columns.values())} |"]
        lines.append("|---" * (len(columns) + 2) + "|")
        for name, rows in found.items():
            for key, values in rows.items():
                if key.startswith(f"{number}/"):
                    cells = " | ".join(f"{values[column]:.2f}" for column in columns)
                    lines.append(f"| {name} | {key[2:]} | {cells} |")
    return "\n".join(lines[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default="ba-2motifs,ba-housegrid,triangles")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    names = args.datasets.split(",")
    found = {name: measured(name, args.seed, args.graphs, args.samples) for name in names}
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
