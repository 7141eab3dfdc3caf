"""Structural mixup against references that go edge by edge, or by dense matrices."""

from types import SimpleNamespace

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from hpme.data import GraphStore
from hpme.explainers.hpme.method.mixup import structural_mixup
from hpme.explainers.hpme.method.pool import Selection


@st.composite
def graph(draw, min_nodes=1, directed=None):
    nodes = draw(st.integers(min_nodes, 6))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=12, unique=True))
    if directed is False:
        edges = sorted({*edges, *((v, u) for u, v in edges)})
    seed = draw(st.integers(0, 10**6))
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.rand(nodes, 2, generator=generator),
        edge_index=torch.tensor(edges, dtype=torch.long).view(-1, 2).t(),
        edge_attr=torch.rand(len(edges), 2, generator=generator),
        edge_weight=torch.rand(len(edges), generator=generator),
    )


def batch_of(graphs):
    return GraphStore.from_graphs(graphs).batch(with_pairs=True)


def selection(batch, chosen):
    """Selection from lists of local node numbers, best first, one per graph."""
    keep = torch.zeros(batch.num_nodes, dtype=torch.bool)
    order = torch.full((batch.num_nodes,), 10**6)
    for start, nodes in zip(batch.ptr.tolist(), chosen, strict=True):
        for rank, node in enumerate(nodes):
            keep[start + node], order[start + node] = True, rank
    return Selection(keep, order)


def rank_mixup(*arguments):
    return structural_mixup(*arguments, torch.Generator(), attach="rank")


def reference(source, chosen, host, removed):
    """Nodes and edges of one mixup graph, by the words of the docstring."""
    rest = [("host", v) for v in range(host.num_nodes) if v not in removed]
    nodes = rest + [("source", v) for v in chosen]
    place = {("host", v): ("host", v) for v in range(host.num_nodes) if v not in removed}
    for rank, v in enumerate(removed):
        place["host", v] = ("source", chosen[rank % len(chosen)]) if chosen else None
    edges = {}
    for position, (u, v) in enumerate(source.edge_index.t().tolist()):
        if u in chosen and v in chosen:
            edges[("source", u), ("source", v)] = ("source", position, True)
    index = host.edge_index.t().tolist()
    for position in sorted(range(len(index)), key=lambda p: (min(index[p]), max(index[p]))):
        u, v = index[position]
        ends = place["host", u], place["host", v]
        if not (u in removed and v in removed) and None not in ends:
            edges.setdefault(ends, ("host", position, False))
    return nodes, edges


def as_dictionary(mix, sources, hosts):
    """The batch of mixes as one dictionary per graph, in names of the original nodes."""
    source, host = batch_of(sources), batch_of(hosts)
    names = []
    for origin in mix.origin.tolist():
        kind, batch = ("host", host) if origin < host.num_nodes else ("source", source)
        row = origin - (0 if kind == "host" else host.num_nodes)
        names.append((kind, row - int(batch.ptr[batch.batch[row]])))
    pair = mix.per_edge(torch.arange(mix.pair_index.shape[1]))
    result = [SimpleNamespace(nodes=[], edges={}) for _ in hosts]
    for node, number in enumerate(mix.graphs.batch.tolist()):
        result[number].nodes.append(names[node])
    for position, (u, v) in enumerate(mix.graphs.edge_index.t().tolist()):
        number = int(mix.graphs.batch[u])
        assert number == int(mix.graphs.batch[v])
        assert sorted((u, v)) == sorted(mix.pair_index[:, pair[position]].tolist())
        key = names[u], names[v]
        assert key not in result[number].edges, "an edge occurs twice"
        result[number].edges[key] = position, bool(mix.transplanted[pair[position]])
    return result


@st.composite
def mixing(draw, **options):
    count = draw(st.integers(1, 3))
    sources = [draw(graph(**options)) for _ in range(count)]
    hosts = [draw(graph(**options)) for _ in range(count)]

    def some(data):
        order = draw(st.permutations(range(data.num_nodes)))
        return order[: draw(st.integers(0, data.num_nodes))]

    return sources, [some(g) for g in sources], hosts, [some(g) for g in hosts]


def check(sources, chosen, hosts, removed):
    source, host = batch_of(sources), batch_of(hosts)
    mix = rank_mixup(source, selection(source, chosen), host, selection(host, removed))
    assert mix.graphs.num_graphs == len(sources)
    assert bool((mix.graphs.batch.diff() >= 0).all())
    actual = as_dictionary(mix, sources, hosts)
    for i, (data, keep, other, gone) in enumerate(
        zip(sources, chosen, hosts, removed, strict=True)
    ):
        nodes, edges = reference(data, keep, other, gone)
        assert actual[i].nodes == nodes
        assert actual[i].edges.keys() == edges.keys()
        for key, (position, transplanted) in actual[i].edges.items():
            kind, original, inside = edges[key]
            origin = {"source": data, "host": other}[kind]
            assert transplanted == inside
            assert torch.equal(mix.graphs.edge_attr[position], origin.edge_attr[original])
            assert torch.equal(mix.graphs.edge_weight[position], origin.edge_weight[original])
    rows = torch.cat([host.x, source.x])
    assert torch.equal(mix.graphs.x, rows[mix.origin])
    assert torch.equal(mix.per_node(host.x, source.x), mix.graphs.x)


@given(mixing(directed=False))
def test_undirected_graphs_of_any_size(case):
    check(*case)


@given(mixing())
def test_directed_graphs_of_any_size(case):
    check(*case)


def undirected(nodes, *pairs):
    index = torch.tensor(sorted({*pairs, *((v, u) for u, v in pairs)})).t()
    count = index.shape[1]
    return Data(
        x=torch.rand(nodes, 2), edge_index=index,
        edge_attr=torch.rand(count, 2), edge_weight=torch.rand(count),
    )  # fmt: skip


def test_more_removed_than_inserted():
    """Removed nodes 0, 1, 2 of a star; ranks 0 and 2 fall on inserted node 0 and are merged."""
    host = undirected(4, (3, 0), (3, 1), (3, 2), (0, 1))
    source = undirected(3, (0, 1), (1, 2))
    check([source], [[0, 1]], [host], [[0, 1, 2]])
    batches = batch_of([source]), batch_of([host])
    mix = rank_mixup(
        batches[0], selection(batches[0], [[0, 1]]), batches[1], selection(batches[1], [[0, 1, 2]])
    )
    edges = {tuple(e) for e in mix.graphs.edge_index.t().tolist()}
    assert edges == {(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)}
    assert mix.graphs.edge_index.shape[1] == len(edges)


def test_merged_directed_edges_keep_both_directions():
    """``2 -> 0`` and ``1 -> 2`` fall on one inserted node, which then has both directions."""
    host = Data(x=torch.rand(3, 2), edge_index=torch.tensor([[2, 1], [0, 2]]))
    source = Data(x=torch.rand(1, 2), edge_index=torch.empty(2, 0, dtype=torch.long))
    give, take = batch_of([source]), batch_of([host])
    mix = rank_mixup(give, selection(give, [[0]]), take, selection(take, [[0, 1]]))
    assert sorted(mix.graphs.edge_index.t().tolist()) == [[0, 1], [1, 0]]
    assert mix.pair_index.shape[1] == 1


@given(st.data())
def test_equal_sizes_are_the_equation_of_the_paper(data):
    r"""``A' - S' A'* S'^T + S' A* S'^T`` in dense matrices."""
    source, host = data.draw(graph(2)), data.draw(graph(2))
    m = data.draw(st.integers(1, min(source.num_nodes, host.num_nodes)))
    chosen = data.draw(st.permutations(range(source.num_nodes)))[:m]
    removed = data.draw(st.permutations(range(host.num_nodes)))[:m]

    def dense(g):
        weights = torch.zeros(g.num_nodes, g.num_nodes)
        weights[tuple(g.edge_index)] = g.edge_weight
        return weights

    def selector(g, nodes):
        matrix = torch.zeros(g.num_nodes, m)
        matrix[nodes, torch.arange(m)] = 1
        return matrix

    a, b = dense(source), dense(host)
    s, t = selector(source, chosen), selector(host, removed)
    expected = b - t @ (t.t() @ b @ t) @ t.t() + t @ (s.t() @ a @ s) @ t.t()

    give, take = batch_of([source]), batch_of([host])
    mix = rank_mixup(give, selection(give, [chosen]), take, selection(take, [removed]))
    # An inserted node stands where the removed node of its rank stood.
    stands_at = dict(zip(chosen, removed, strict=True))
    place = torch.tensor([
        o if o < host.num_nodes else stands_at[o - host.num_nodes] for o in mix.origin.tolist()
    ])  # fmt: skip
    actual = to_dense_adj(
        place[mix.graphs.edge_index], edge_attr=mix.graphs.edge_weight, max_num_nodes=len(b)
    )[0]
    assert torch.equal(actual, expected)


def test_graphs_without_edge_features():
    plain = Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0, 1], [1, 0]]))
    batch = batch_of([plain, plain])
    chosen = selection(batch, [[0], [1, 2]])
    mix = rank_mixup(batch, chosen, batch, chosen)
    assert mix.graphs.edge_attr is None
    assert mix.graphs.edge_weight is None


# Boundary edges are swapped ######################################################################


@given(mixing(), st.integers(0, 1000))
def test_swap_keeps_both_sides_and_joins_boundary_edges(case, seed):
    sources, chosen, hosts, removed = case
    source, host = batch_of(sources), batch_of(hosts)
    mix = structural_mixup(
        source, selection(source, chosen), host, selection(host, removed),
        torch.Generator().manual_seed(seed),
    )  # fmt: skip
    actual = as_dictionary(mix, sources, hosts)
    for i, graph in enumerate(actual):
        inside = {(u, v) for u, v in graph.edges if u[0] == v[0] == "source"}
        outside = {(u, v) for u, v in graph.edges if u[0] == v[0] == "host"}
        joins = {frozenset((u, v)) for u, v in graph.edges if u[0] != v[0]}
        ours, theirs = set(chosen[i]), set(removed[i])
        edges = [tuple(e) for e in sources[i].edge_index.t().tolist()]
        others = [tuple(e) for e in hosts[i].edge_index.t().tolist()]
        assert inside == {
            (("source", u), ("source", v)) for u, v in edges if u in ours and v in ours
        }
        assert outside == {
            (("host", u), ("host", v)) for u, v in others if u not in theirs and v not in theirs
        }
        offered = [next(iter(ours & pair)) for pair in {frozenset(e) for e in edges}
                   if len(pair) == 2 and len(ours & pair) == 1]  # fmt: skip
        asking = [next(iter(pair - theirs)) for pair in {frozenset(e) for e in others}
                  if len(pair) == 2 and len(theirs & pair) == 1]  # fmt: skip
        assert len(joins) <= len(offered)
        used = {kind: [v for pair in joins for side, v in pair if side == kind]
                for kind in ("source", "host")}  # fmt: skip
        assert all(used["source"].count(v) <= offered.count(v) for v in offered)
        assert set(used["host"]) <= set(asking)
        if asking:  # only joins that fall together are missing
            assert set(used["source"]) == set(offered)


def test_swap_drops_boundary_edges_the_inserted_subgraph_never_had():
    """A path of three into a star of four: one boundary edge offered, three asking, one joined."""
    source, host = undirected(4, (0, 1), (1, 2), (2, 3)), undirected(4, (0, 1), (0, 2), (0, 3))
    give, take = batch_of([source] * 50), batch_of([host] * 50)
    mix = structural_mixup(
        give, selection(give, [[0, 1]] * 50), take, selection(take, [[0]] * 50),
        torch.Generator().manual_seed(0),
    )  # fmt: skip
    partners = set()
    for graph in as_dictionary(mix, [source] * 50, [host] * 50):
        joins = {(u[1], v[1]) for u, v in graph.edges if u[0] == "source" and v[0] == "host"}
        assert len(joins) == 1
        assert next(iter(joins))[0] == 1  # the only inserted node with an edge to the outside
        partners |= joins
    assert partners == {(1, 1), (1, 2), (1, 3)}


def test_swap_keeps_the_degrees_of_inserted_nodes():
    """The other way round: three boundary edges offered, one asking, which serves all three."""
    source, host = undirected(4, (0, 1), (0, 2), (0, 3)), undirected(3, (0, 1), (1, 2))
    both = undirected(5, (0, 1), (0, 2), (3, 4), (4, 0))
    give, take = batch_of([source, both]), batch_of([host, host])
    mix = structural_mixup(
        give, selection(give, [[0], [0, 4]]), take, selection(take, [[0], [0]]),
        torch.Generator().manual_seed(0),
    )  # fmt: skip
    single, pair = as_dictionary(mix, [source, both], [host, host])
    # Three edges to the same node are one; two inserted nodes keep an edge each.
    assert {(u[1], v[1]) for u, v in single.edges if u[0] == "source"} == {(0, 1)}
    joins = {(u[1], v[1]) for u, v in pair.edges if u[0] == "source" and v[0] == "host"}
    assert joins == {(0, 1), (4, 1)}


@given(st.integers(0, 10**6))
def test_ends_meet_by_kind(seed):
    """A pooled star whose rays have all kinds of ends: each finds the host's ray of its kind."""
    generator = torch.Generator().manual_seed(seed)

    def star(center):
        """A centre with four rays: ends of two kinds by edges of two kinds, in any order."""
        order = torch.randperm(4, generator=generator)
        ends = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])[order]
        edges = torch.tensor([[0.0], [0.0], [1.0], [1.0]])[order]
        rays = torch.stack([torch.zeros(4, dtype=torch.long), torch.arange(1, 5)])
        x = torch.cat([torch.full((1, 2), center), ends])
        index = torch.cat([rays, rays.flip(0)], dim=1)
        return Data(x=x, edge_index=index, edge_attr=edges.repeat(2, 1))

    source, host = batch_of([star(2.0)]), batch_of([star(3.0)])
    centre = selection(source, [[0]])
    mix = structural_mixup(source, centre, host, centre, generator, attach="kind")
    assert mix.graphs.edge_attr.shape == (8, 1)
    # The centre of the source has the rays it had at home: the same ends by the same edges.
    rays = mix.graphs.edge_index[0] == int(mix.origin.argmax())

    def seen(graphs, edges):
        ends = graphs.x[graphs.edge_index[1, edges]]
        return sorted(map(tuple, torch.cat([ends, graphs.edge_attr[edges]], dim=1).tolist()))

    assert seen(mix.graphs, rays) == seen(source, source.edge_index[0] == 0)


@given(graph(), graph(), st.data())
def test_by_kind_only_partners_differ_from_swapped(source, host, data):
    """As many boundary edges as by chance; nothing inside or outside changes."""
    ours, theirs = batch_of([source]), batch_of([host])
    chosen = selection(ours, [data.draw(subset(source.num_nodes))])
    removed = selection(theirs, [data.draw(subset(host.num_nodes))])
    kind, swap = (
        structural_mixup(ours, chosen, theirs, removed, None, attach=attach)
        for attach in ("kind", "swap")
    )
    assert torch.equal(kind.graphs.x, swap.graphs.x) and torch.equal(kind.origin, swap.origin)
    inner = kind.pair_index[:, kind.transplanted], swap.pair_index[:, swap.transplanted]
    assert torch.equal(*inner)


def subset(count):
    """Some nodes in any order."""
    return st.permutations(range(count)).flatmap(
        lambda order: st.integers(0, count).map(lambda size: list(order[:size]))
    )
