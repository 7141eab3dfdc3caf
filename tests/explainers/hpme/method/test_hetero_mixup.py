import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hetero import make_graphs
from hpme.explainers.hpme.method.mixup import structural_mixup
from hpme.explainers.hpme.method.pool import by_boundary
from hpme.graphs import GraphStore

STORE = GraphStore.from_graphs(make_graphs(6, edge_features=True))


def mixed(seed, attach, share=0.5):
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(6, (2, 5), generator=generator)
    source, host = (STORE.batch(ids, with_pairs=True) for ids in numbers)
    chosen, removed = (
        by_boundary((torch.rand(1, part.num_nodes, generator=generator) < share), part, generator)[
            0
        ]
        for part in (source, host)
    )
    return (
        source,
        chosen,
        host,
        removed,
        structural_mixup(source, chosen, host, removed, generator, attach),
    )


def relations(graphs, edges):
    """How many edges of a batch leave each node by type, with the features of the edges."""
    rows = []
    for edge in edges.nonzero().view(-1).tolist():
        start, end = graphs.edge_index[:, edge].tolist()
        rows.append(
            (start, end, int(graphs.edge_type[edge]), tuple(graphs.edge_attr[edge].tolist()))
        )
    return sorted(rows)


@pytest.mark.parametrize("attach", ["kind", "swap", "rank"])
@given(seed=st.integers(0, 10_000))
def test_every_edge_joins_nodes_of_its_types(attach, seed):
    *_, mix = mixed(seed, attach)
    graphs = mix.graphs
    ends = graphs.schema.ends()[:, graphs.edge_type]
    assert torch.equal(graphs.node_type[graphs.edge_index], ends)
    assert torch.equal(graphs.batch[graphs.edge_index[0]], graphs.batch[graphs.edge_index[1]])


@pytest.mark.parametrize("attach", ["kind", "swap", "rank"])
@given(seed=st.integers(0, 10_000))
def test_inside_and_outside_stay_as_they_were(attach, seed):
    """Edges inside the inserted nodes are the source's, those among the rest the host's."""
    source, chosen, host, removed, mix = mixed(seed, attach)
    inserted = mix.origin >= host.num_nodes
    old = torch.where(inserted, mix.origin - host.num_nodes, mix.origin)
    for part, keep, side in ((source, chosen.keep, inserted), (host, ~removed.keep, ~inserted)):
        expected = relations(part, keep[part.edge_index].all(0))
        graphs = mix.graphs
        both = side[graphs.edge_index].all(0)
        moved = [
            (int(old[a]), int(old[b]), kind, attr) for a, b, kind, attr in relations(graphs, both)
        ]
        assert sorted(moved) == expected


@given(seed=st.integers(0, 10_000))
def test_swap_gives_no_node_more_neighbours_than_it_had(seed):
    source, _, host, _, mix = mixed(seed, "swap")
    total = mix.graphs.num_nodes
    inserted = mix.origin >= host.num_nodes
    old = (mix.origin - host.num_nodes).clamp(min=0)
    now = torch.bincount(mix.pair_index.flatten(), minlength=total)
    then = torch.bincount(source.pairs.index.flatten(), minlength=source.num_nodes)
    assert (now <= then[old])[inserted].all()


@given(seed=st.integers(0, 10_000))
def test_swap_leaves_no_boundary_edge_whose_end_has_a_place(seed):
    """Where the host lost an end of the same type, an inserted end is joined to it."""
    source, chosen, host, removed, mix = mixed(seed, "swap")
    place = {int(node): row for row, node in enumerate(mix.origin)}
    joined = {node for pair in mix.pair_index.T.tolist() for node in pair if cut(mix, pair, host)}
    lost = ends_inside(host, removed.keep)
    for graph, kind, node in ends_inside(source, chosen.keep):
        if any((graph, kind) == other[:2] for other in lost):
            assert place[host.num_nodes + node] in joined


def cut(mix, pair, host):
    """Whether a pair joins an inserted node to one of the host."""
    return len({int(mix.origin[node]) >= host.num_nodes for node in pair}) == 2


def ends_inside(graphs, keep):
    """Graph, type and number of the end inside a subgraph, of all its boundary edges."""
    return [
        (int(graphs.batch[inner]), int(graphs.node_type[inner]), inner)
        for pair in graphs.pairs.index.T.tolist()
        for inner, outer in (pair, pair[::-1])
        if keep[inner] and not keep[outer]
    ]


def test_swap_of_a_graph_with_itself_gives_every_node_its_edges_back():
    """The same nodes go in that came out: every boundary edge finds its like."""
    generator = torch.Generator().manual_seed(0)
    graphs = STORE.batch(with_pairs=True)
    keep = torch.rand(1, graphs.num_nodes, generator=generator) < 0.5
    chosen = by_boundary(keep, graphs, generator)[0]
    mix = structural_mixup(graphs, chosen, graphs, chosen, generator).graphs
    kinds = len(graphs.schema.edge_types)
    count = [torch.bincount(part.edge_type, minlength=kinds) for part in (graphs, mix)]
    lost = count[0] - count[1]  # only where two edges of a type fall together
    assert (lost >= 0).all() and int(lost.sum()) <= 0.2 * graphs.num_edges
