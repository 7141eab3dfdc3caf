"""Anchors in pooling, proposals and structural mixup: never mixed away."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from hpme.data import GraphStore
from hpme.explainers.hpme.method.mixup import structural_mixup
from hpme.explainers.hpme.method.pool import by_boundary, top_nodes
from hpme.explainers.hpme.search.subsets import _grow


@st.composite
def anchored_graphs(draw, count=2):
    """Connected undirected graphs with one or two anchors each."""
    width = draw(st.integers(1, 2))
    graphs = []
    for _ in range(count):
        nodes = draw(st.integers(2, 8))
        pairs = {(draw(st.integers(0, v - 1)), v) for v in range(1, nodes)}
        node = st.integers(0, nodes - 1)
        pairs |= {(min(p), max(p)) for p in draw(st.lists(st.tuples(node, node), max_size=6))}
        pairs = {(u, v) for u, v in pairs if u != v}
        edges = sorted({*pairs, *((v, u) for u, v in pairs)})
        anchors = draw(st.permutations(range(nodes)))[:width]
        graphs.append(
            Data(
                x=torch.rand(nodes, 1, generator=torch.Generator().manual_seed(len(edges))),
                edge_index=torch.tensor(edges).t(),
                anchors=torch.tensor(anchors),
            )
        )
    return graphs


def batch_of(graphs):
    return GraphStore.from_graphs(graphs).batch(with_pairs=True)


@given(anchored_graphs(3), st.integers(0, 9))
def test_anchors_rank_first(graphs, seed):
    batch = batch_of(graphs)
    score = 1e30 * torch.randn(4, batch.num_nodes, generator=torch.Generator().manual_seed(seed))
    rank = top_nodes(score, batch, batch.sizes).order
    expected = torch.arange(batch.anchors_per_graph).expand_as(batch.anchors)
    assert torch.equal(rank[:, batch.anchors], expected.expand(4, *expected.shape))
    rest = batch.anchor_order == batch.anchors_per_graph
    for graph in range(3):
        inside = rest & (batch.batch == graph)
        order = rank[0, inside].argsort()
        assert torch.equal(score[0, inside][order], score[0, inside].sort(descending=True).values)


@given(anchored_graphs(2), st.integers(0, 9))
def test_subsets_grow_from_the_anchors(graphs, seed):
    batch, generator = batch_of(graphs), torch.Generator().manual_seed(seed)
    m = torch.full((2,), 4).minimum(batch.sizes)
    keep = _grow(
        torch.zeros(6, batch.num_nodes), batch, m, torch.ones(6, 2, dtype=torch.long), generator
    )
    assert bool(keep[:, batch.anchors].all())
    for row in keep:
        reached = torch.zeros_like(row).index_fill(0, batch.anchors.flatten(), True)
        for _ in range(batch.num_nodes):
            source, target = batch.edge_index
            reached[target[reached[source] & row[target]]] = True
        assert torch.equal(row, row & reached)


@given(anchored_graphs(2), st.integers(0, 99), st.sampled_from(["swap", "rank"]))
def test_the_anchor_of_the_host_is_replaced(graphs, seed, attach):
    source, host = batch_of(graphs[:1]), batch_of(graphs[1:])
    generator = torch.Generator().manual_seed(seed)
    sizes = [1 + seed % batch.num_nodes for batch in (source, host)]
    chosen, removed = (
        by_boundary(
            top_nodes(
                torch.rand(1, batch.num_nodes, generator=generator),
                batch,
                torch.tensor([max(size, batch.anchors_per_graph)]),
            ).keep,
            batch,
            generator,
        )[0]
        for batch, size in zip((source, host), sizes, strict=True)
    )
    mix = structural_mixup(source, chosen, host, removed, generator, attach)
    mixed = mix.graphs
    assert torch.equal(mix.origin[mixed.anchors], source.anchors + host.num_nodes)
    # What may hang on an anchor: what hung on that anchor of the host, and on nothing else.
    for ours, theirs, here in zip(
        source.anchors[0].tolist(), host.anchors[0].tolist(), mixed.anchors[0].tolist(), strict=True
    ):
        ends = mixed.edge_index[1, mixed.edge_index[0] == here]
        outer = {int(o) for o in mix.origin[ends] if o < host.num_nodes}
        before = host.edge_index[1, host.edge_index[0] == theirs]
        boundary = {int(v) for v in before[~removed.keep[before]]}
        if attach == "swap":
            own = source.edge_index[1, source.edge_index[0] == ours]
            assert outer <= boundary
            assert len(outer) == min(len(boundary), int((~chosen.keep[own]).sum()))
        else:
            assert boundary <= outer
            assert outer == boundary or int(removed.keep.sum()) > int(chosen.keep.sum())


def test_centre_meets_centre_in_a_known_case():
    """Two stars with a tail: the tail of the host hangs on the centre of the source."""

    def star(anchor):
        edges = [(0, 1), (0, 2), (0, 3), (3, 4)]
        edges += [(v, u) for u, v in edges]
        return Data(x=torch.arange(5.0).view(-1, 1), edge_index=torch.tensor(edges).t(),
                    anchors=torch.tensor([anchor]))  # fmt: skip

    source, host = batch_of([star(0)]), batch_of([star(0)])
    keep = torch.tensor([True, True, False, False, False])
    generator = torch.Generator().manual_seed(0)
    chosen = by_boundary(keep[None], source, generator)[0]
    mix = structural_mixup(source, chosen, host, chosen, generator)
    found = {tuple(sorted(pair)) for pair in mix.origin[mix.graphs.edge_index].t().tolist()}
    # 0-4 are nodes of the host, 5-9 of the source; 5 is the inserted centre, 6 its leaf.
    assert found == {(5, 6), (2, 5), (3, 5), (3, 4)}
    assert mix.origin[mix.graphs.anchors].tolist() == [[5]]


@pytest.mark.parametrize(
    ("anchors", "message"),
    [
        ([torch.tensor([5]), torch.tensor([0])], "out of range in graph 0"),
        ([torch.tensor([0]), torch.tensor([0, 1])], "graph 1 has 2 anchors"),
        ([torch.tensor([0]), None], "graph 1 has no anchors"),
        ([torch.tensor([0.0]), torch.tensor([0])], "LongTensor"),
        ([torch.arange(3), torch.arange(3)], "all two"),
    ],
)
def test_unusable_anchors_are_named(anchors, message):
    graphs = [
        Data(x=torch.ones(5, 1), edge_index=torch.tensor([[0], [1]]), anchors=value)
        for value in anchors
    ]
    with pytest.raises(ValueError, match=message):
        GraphStore.from_graphs(graphs)


def test_stores_carry_anchors():
    graphs = [
        Data(x=torch.ones(n, 1), edge_index=torch.tensor([[0], [1]]), anchors=torch.tensor([a, 0]))
        for n, a in ((3, 2), (4, 1), (5, 3))
    ]
    store = GraphStore.from_graphs(graphs)
    assert store.anchors.tolist() == [[2, 0], [1, 0], [3, 0]]
    assert store.batch(torch.tensor([2, 0])).anchors.tolist() == [[3, 0], [7, 5]]
    assert store.subset(torch.tensor([1])).anchors.tolist() == [[1, 0]]
    assert store.batch().anchor_order.tolist() == [1, 2, 0, 1, 0, 2, 2, 1, 2, 2, 0, 2]
