"""From scores, or from sets of nodes, to pooled nodes and their order."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from hpme.data import GraphStore
from hpme.explainers.hpme.method.pool import by_boundary, top_nodes


def make_batch(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for nodes in sizes:
        index = torch.randint(nodes, (2, 2 * nodes), generator=generator)
        index = to_undirected(index) if seed % 2 else index.unique(dim=1)
        graphs.append(Data(x=torch.rand(nodes, 2, generator=generator), edge_index=index))
    return GraphStore.from_graphs(graphs).batch()


def ring():
    index = to_undirected(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    return GraphStore.from_graphs([Data(x=torch.ones(4, 1), edge_index=index)]).batch()


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.integers(1, 3),
    st.integers(0, 1000),
    st.booleans(),
)
def test_ranks_are_sorts_graph_by_graph(sizes, rows, seed, ties):
    batch = make_batch(sizes, seed)
    generator = torch.Generator().manual_seed(seed)
    score = torch.randn(rows, batch.num_nodes, generator=generator)
    score = score.round() if ties else score
    m = torch.randint(1, 5, (len(sizes),), generator=generator)
    chosen = top_nodes(score, batch, m)
    rank, top = chosen.order, chosen.keep
    for row in range(rows):
        for number, size in enumerate(sizes):
            start = int(batch.ptr[number])
            mine = score[row, start : start + size]
            order = sorted(range(size), key=lambda i, mine=mine: (-float(mine[i]), i))
            expected = [order.index(i) for i in range(size)]
            assert rank[row, start : start + size].tolist() == expected
            wanted = [r < int(m[number]) for r in expected]
            assert top[row, start : start + size].tolist() == wanted


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(0, 1000), st.integers(1, 3))
def test_ranked_by_edges_that_leave(sizes, seed, rows):
    batch = make_batch(sizes, seed)
    generator = torch.Generator().manual_seed(seed)
    keep = torch.rand(rows, batch.num_nodes, generator=generator) < 0.5
    chosen = by_boundary(keep, batch, generator)
    assert torch.equal(chosen.keep, keep)
    for row in range(rows):
        picked = chosen[row]
        for number in range(batch.num_graphs):
            nodes = [v for v in range(batch.num_nodes)
                     if batch.batch[v] == number and keep[row, v]]  # fmt: skip
            leaving = {
                v: sum(u == v and not keep[row, w] for u, w in batch.edge_index.t().tolist())
                for v in nodes
            }
            order = sorted(nodes, key=lambda v: int(picked.order[v]))
            assert [int(picked.order[v]) for v in order] == list(range(len(nodes)))
            counts = [leaving[v] for v in order]
            assert counts == sorted(counts, reverse=True)


def test_breaks_ties_at_random():
    batch = ring()
    generator = torch.Generator().manual_seed(0)
    keep = torch.ones(200, 4, dtype=torch.bool)
    first = by_boundary(keep, batch, generator).order.argmin(1)
    assert torch.bincount(first, minlength=4).min() > 20


@pytest.mark.parametrize("seed", [0, 1])
def test_repeats_with_its_generator(seed):
    batch = ring()
    keep = torch.ones(5, 4, dtype=torch.bool)
    orders = [by_boundary(keep, batch, torch.Generator().manual_seed(seed)).order for _ in range(2)]
    assert torch.equal(*orders)
