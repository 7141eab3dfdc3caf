"""The paper's properties 1 and 2 as they are measured, against counting by hand on small graphs."""

import importlib.util
import itertools
import math
import sys
from collections import defaultdict
from pathlib import Path

import networkx as nx
import pytest
import torch

PATH = Path(__file__).parents[1] / "benchmarks" / "properties.py"
SPEC = importlib.util.spec_from_file_location("benchmark_properties", PATH)
assert SPEC and SPEC.loader
properties = sys.modules[SPEC.name] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(properties)

PAIRS = [
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 5)],
    [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (1, 4), (4, 5)],
    [(0, 1), (1, 2), (2, 3), (3, 4)],
]
POOLED = [[0, 1, 2, 3, 4], [0, 1, 2], [1, 2]]
"""Numbers of the pooled pairs: a five-cycle, a triangle, a path."""


def kept(pairs, chosen):
    return nx.Graph([pair for pair, inside in zip(pairs, chosen, strict=True) if inside])


class Kinds:
    """Subgraphs up to isomorphism, each compared with all that came before."""

    def __init__(self):
        self.known = []

    def __call__(self, graph):
        for number, other in enumerate(self.known):
            if nx.is_isomorphic(graph, other):
                return number
        self.known.append(graph)
        return len(self.known) - 1


def brute(chances):
    """Every edge set of every graph with its chance: joint distribution of graph and kind."""
    kinds, joint = Kinds(), defaultdict(float)
    for number, (pairs, p) in enumerate(zip(PAIRS, chances, strict=True)):
        for chosen in itertools.product([False, True], repeat=len(pairs)):
            chance = math.prod(q if c else 1 - q for q, c in zip(p, chosen, strict=True))
            joint[number, kinds(kept(pairs, chosen))] += chance / len(PAIRS)
    return kinds, joint


def examples(chances):
    return [
        properties.Example(
            torch.tensor(pairs).T,
            6,
            torch.tensor([i in pooled for i in range(len(pairs))]),
            torch.tensor(p, dtype=torch.double),
        )
        for pairs, pooled, p in zip(PAIRS, POOLED, chances, strict=True)
    ]


@pytest.fixture(params=[0.5, 0.9, 0.999], ids="sharp{}".format)
def chances(request):
    """From an edge MLP that knows nothing to one that has nearly learned the pool."""
    q = request.param
    return [
        [q if i in pooled else 1 - q for i in range(len(pairs))]
        for pairs, pooled in zip(PAIRS, POOLED, strict=True)
    ]


@pytest.mark.parametrize("nodes", range(1, 6))
def test_number_of_graphs(nodes):
    every = list(itertools.combinations(range(nodes), 2))
    kinds = Kinds()
    for chosen in itertools.product([False, True], repeat=len(every)):
        graph = kept(every, chosen)
        graph.add_nodes_from(range(nodes))
        kinds(graph)
    assert properties.count_graphs(nodes) == len(kinds.known)
    assert properties.count_graphs(9) == 274_668


def test_information_by_counting(chances):
    kinds, joint = brute(chances)
    graph, kind = defaultdict(float), defaultdict(float)
    for (g, k), chance in joint.items():
        graph[g] += chance
        kind[k] += chance
    by_hand = sum(p * math.log(p / (graph[g] * kind[k])) for (g, k), p in joint.items() if p)
    found = properties.property_2(examples(chances), 10)
    assert found["soft"] == pytest.approx(by_hand, abs=1e-9)
    assert found["pooled"] == pytest.approx(math.log(3))  # three different pools
    assert found["kinds"] == len(kinds.known)
    both = zip(PAIRS, POOLED, strict=True)
    hard = [kinds(kept(pairs, [i in q for i in range(len(pairs))])) for pairs, q in both]
    apart = sum(abs(kind[k] - hard.count(k) / 3) for k in range(len(kinds.known))) / 2
    assert found["delta"] == pytest.approx(apart)
    bce = [
        -sum(math.log(p if i in q else 1 - p) for i, p in enumerate(one))
        for one, q in zip(chances, POOLED, strict=True)
    ]
    assert found["kl"] == pytest.approx(sum(bce) / 3)
    scale = math.log(len(kinds.known) - 1) / math.sqrt(2)
    assert found["bound"] == pytest.approx(math.log(3) + scale * sum(map(math.sqrt, bce)) / 3)
    assert found["soft"] <= found["fannes"] <= found["bound"] + math.log(2)


def test_samples_come_near_to_counting(chances, monkeypatch):
    exact = properties.property_2(examples(chances), 10)
    monkeypatch.setattr(properties, "FEW_EDGES", 0)
    sampled = properties.property_2(examples(chances), 20_000)
    for name in ("soft", "delta"):
        assert sampled[name] == pytest.approx(exact[name], abs=0.02)


def test_entropy_of_pools():
    pools = [one.pool() for one in examples([[0.5] * len(pairs) for pairs in PAIRS])]
    found = properties.property_1([*pools, pools[0]], 5)
    assert found["pooled"] == pytest.approx(-(0.5 * math.log(0.5) + 0.5 * math.log(0.25)))
    assert found["omega"] == pytest.approx(math.log(34)) and found["labelled"] > found["omega"]
    assert found["pooled"] <= min(found["omega"], found["graphs"])


def test_without_its_last_term_the_bound_is_none():
    """One edge or none, d = 2: C is 0, and still what P draws tells the graphs apart."""
    graphs = [
        properties.Example(
            torch.tensor([[0], [1]]), 2, torch.tensor([True]), torch.tensor([p]).double()
        )
        for p in (0.9, 0.5)
    ]
    found = properties.property_2(graphs, 10)
    assert found["pooled"] == found["bound"] == 0
    assert found["bound"] < found["soft"] < found["fannes"]
