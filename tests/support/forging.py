"""Input that nobody would write, by number: files of explainers, and graphs."""

import copy
import math
import random

import torch
from torch_geometric.data import Data

from contract import FEATURES, make_graph

HUGE = (2**31, 10**18, -(10**18), [10**9], [10**9, 10**9])
VALUES = (
    *(None, True, False, 0, 1, -1, 3, 0.5, math.nan, math.inf, 1e300, "", "graph", "x"),
    *("\x00", "a" * 10_000, [], [1], [[1]], ["a"], {}, {"a": 1}, [None], [[]], [-1]),
)
DTYPES = (torch.half, torch.double, torch.long, torch.int32, torch.bool, torch.bfloat16)


def places(value, at=()):
    """All places inside of nested dictionaries and lists; of long lists the first."""
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value[:4]) if isinstance(value, list) else inside
    for key, part in inside:
        yield (*at, key)
        yield from places(part, (*at, key))


def forged(tensors, meta, number):
    """Tensors and description of an explainer's file, changed in one to three places."""
    choose = random.Random(number)
    tensors, meta = dict(tensors), copy.deepcopy(meta)
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        if tensors and choose.random() < 0.35:
            name = choose.choice(sorted(tensors))
            tensors.update(other(tensors.pop(name), name, choose))
        else:
            change(meta, choose)
    return tensors, meta


def change(meta, choose):
    """Writes something else, or nothing, to a place of a description."""
    *way, last = choose.choice(list(places(meta)))
    spot = meta
    for step in way:
        spot = spot[step]
    if choose.random() < 0.15:
        del spot[last]
        return
    # Large numbers of steps are allowed, and take as long as they take.
    values = VALUES if way[:1] == ["config"] else VALUES + HUGE
    spot[last] = copy.deepcopy(choose.choice(values))


def other(tensor, name, choose):
    """What comes in place of a tensor."""
    number = 10**9 if tensor.dtype not in (torch.bool, torch.uint8, torch.int8) else 1
    wrong = math.nan if tensor.is_floating_point() else -1
    return choose.choice(
        (
            {},
            {name: tensor.to(choose.choice(DTYPES))},
            {name: tensor.unsqueeze(0)},
            {name: torch.full_like(tensor, wrong) if tensor.dtype != torch.bool else ~tensor},
            {name: torch.full_like(tensor, number)},
            {name: tensor.flatten()[:0]},
            {name: tensor.flatten()},
            {f"{name}x": tensor},
            {name: torch.zeros(choose.randrange(4), choose.randrange(4))},
        )
    )


def odd_graph(number):
    """A graph, at the edge of what one is or beyond."""
    choose = random.Random(number)
    random_numbers = torch.Generator().manual_seed(number)
    nodes, edges = choose.choice((0, 1, 2, 3, 7, 12)), choose.choice((0, 1, 2, 9, 30))
    graph = make_graph(number % 1000) if choose.random() < 0.3 else Data()
    if graph.get("x") is None:
        graph.x = torch.randn(nodes, FEATURES, generator=random_numbers)
        ends = torch.randint(max(nodes, 1), (2, edges), generator=random_numbers)
        graph.edge_index = ends if nodes else ends[:, :0]
    for _ in range(choose.choice((0, 1, 1, 1, 2))):
        twisted(graph, choose)
    return graph


def twisted(graph, choose):
    """Changes one thing about a graph."""
    x, edges = graph.get("x"), graph.get("edge_index")
    if not isinstance(x, torch.Tensor) or not isinstance(edges, torch.Tensor):
        return
    count = edges.shape[-1]
    changes = {
        "x": (
            lambda: x.to(choose.choice((*DTYPES, torch.cfloat))),
            lambda: x[:, : choose.randrange(FEATURES)],
            lambda: torch.cat([x, x], dim=-1),
            lambda: x.clone().requires_grad_(),
            lambda: x.t().contiguous().t(),
            lambda: x * choose.choice((0.0, 1e-30, 1e30, math.inf, math.nan)),
            lambda: x.to_sparse(),
            lambda: x.flatten(),
            lambda: x[:1].expand_as(x),
            lambda: x.tolist(),
            lambda: x[:-1],
            lambda: None,
        ),
        "edge_index": (
            lambda: edges.int(),
            lambda: edges.float(),
            lambda: edges.t(),
            lambda: edges + choose.choice((-1, 1, 10**6)),
            lambda: torch.cat([edges, edges], dim=-1),
            lambda: edges[:, :0],
            lambda: edges.flatten(),
            lambda: edges.clone().fill_(0),
            lambda: edges.tolist(),
            lambda: None,
        ),
        "edge_weight": (
            lambda: torch.rand(count),
            lambda: -torch.rand(count),
            lambda: torch.full((count,), math.nan),
            lambda: torch.rand(count + 1),
            lambda: torch.zeros(count),
            lambda: torch.ones(count).long(),
        ),
        "edge_attr": (lambda: torch.rand(count, 2), lambda: torch.rand(count + 1, 2)),
        "anchors": (lambda: torch.tensor([0]), lambda: torch.tensor([99]), lambda: "0"),
        "num_nodes": (lambda: 3, lambda: 10**3),
        "y": (lambda: "a", lambda: torch.rand(3), lambda: None),
        "name": (lambda: "\x00", lambda: 3),
    }
    kinds = list(changes)
    name = choose.choices(kinds, [4, 4, 2, 1, 1, 1, 1, 1])[0]
    try:
        graph[name] = choose.choice(changes[name])()
    except (RuntimeError, TypeError, IndexError):
        return  # twice is too much
