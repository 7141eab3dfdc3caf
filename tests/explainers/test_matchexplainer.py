"""MatchExplainer against loops over graphs, references and nodes, and on planted motifs."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import remove_isolated_nodes, subgraph, to_undirected

from contract import call, fitted, make_graph, make_graphs, make_target
from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers import MatchExplainer
from hpme.explainers.matchexplainer import Induced, Twins, greedy_match
from planted import MarkedEdges, marked_graphs


def slow_match(distance, count):
    """Rows matched one by one: the closest pair, then the closest of what is left."""
    rows, columns = set(range(distance.shape[0])), set(range(distance.shape[1]))
    chosen = []
    while len(chosen) < count and rows and columns:
        value, row, column = min((float(distance[r, c]), r, c) for r in rows for c in columns)
        if value == float("inf"):
            break
        chosen.append(row)
        rows.remove(row)
        columns.remove(column)
    return sorted(chosen)


def test_greedy_match_against_a_loop():
    generator = torch.Generator().manual_seed(0)
    distance = torch.rand(20, 6, 5, generator=generator)
    distance[3, 2:], distance[4, :, 1:], distance[5] = torch.inf, torch.inf, torch.inf
    count = torch.randint(1, 8, (20,), generator=generator)
    expected = [slow_match(d, int(k)) for d, k in zip(distance, count, strict=True)]
    chosen = greedy_match(distance.clone(), count, torch.zeros(20, 1))
    assert [row.nonzero().flatten().tolist() for row in chosen] == expected
    assert [len(e) for e in expected[3:6]] == [min(2, int(count[3])), 1, 0]


def test_pairs_that_differ_by_rounding_are_matched_in_their_order():
    distance = torch.tensor([[[2.0 + 1e-6, 9.0], [2.0, 9.0], [2.1, 9.0]]])
    count = torch.tensor([1])
    for tie, expected in ((0.0, [1]), (1e-5, [0])):
        chosen = greedy_match(distance.clone(), count, torch.tensor([[tie]]))
        assert chosen[0].nonzero().flatten().tolist() == expected


def test_twins_are_chosen_together_and_anchors_alone():
    h = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1e-7], [0.0, 1.0], [0.0, 0.0]]])
    real = torch.tensor([[True, True, True, True, False]])
    chosen = torch.tensor([[True, False, False, False, False]])
    twins = Twins.of(h, real)
    assert twins.all_of(chosen).tolist() == [[True, False, True, False, False]]
    anchored = twins.without(torch.tensor([[0]]))
    assert anchored.all_of(chosen).tolist() == chosen.tolist()
    assert sorted(twins.order[0].tolist()) == list(range(5))


@pytest.mark.parametrize("shuffled", [False, True])
def test_induced_subgraphs_against_pyg(shuffled):
    graphs = [make_graph(seed, edge_features=True) for seed in range(3)]
    batch = GraphStore.from_graphs(graphs).batch()
    owner = torch.tensor([2, 0, 0, 1])
    chosen = torch.zeros(4, 8, dtype=torch.bool)
    chosen[0, [0, 1, 5]] = chosen[1, [0, 1, 2, 3]] = chosen[2, [4]] = chosen[3, [2, 3, 6]] = True
    if shuffled:  # edges of different graphs among each other
        order = torch.randperm(batch.edge_index.shape[1], generator=torch.Generator())
        batch = type(batch)(batch.x, batch.edge_index[:, order], batch.batch, 3,
                            edge_attr=batch.edge_attr[order])  # fmt: skip
    induced = Induced.by(chosen, owner, batch)
    for number, graph in enumerate(owner.tolist()):
        nodes = chosen[number].nonzero().flatten()
        data = graphs[graph]
        edge_index, attr = subgraph(
            nodes, data.edge_index, data.edge_attr, relabel_nodes=True, num_nodes=data.num_nodes
        )
        x = data.x[nodes]
        if edge_index.numel():
            edge_index, attr, kept = remove_isolated_nodes(edge_index, attr, len(nodes))
            x = x[kept]
        mine = induced.graphs.batch == number
        edges = mine[induced.graphs.edge_index[0]]
        assert torch.equal(induced.graphs.x[mine], x)
        ours = induced.graphs.edge_index[:, edges] - induced.graphs.ptr[number]
        pairs = zip(ours.t().tolist(), induced.graphs.edge_attr[edges].tolist(), strict=True)
        assert sorted(pairs) == sorted(zip(edge_index.t().tolist(), attr.tolist(), strict=True))
    assert torch.equal(induced.graphs.edge_attr, batch.edge_attr[induced.edges])
    assert induced.nodes.numel() == int(chosen.sum())


def slow_explanation(model, graph, references, k):
    """Share of references whose matched subgraph holds each edge, and the best subgraph."""

    def embed(data):
        return model.node_embeddings(data.x, data.edge_index)

    y = model(graph.x, graph.edge_index).argmax()
    share, best = torch.zeros(graph.num_edges), (float("inf"), None)
    for reference in references:
        distance = (embed(graph).unsqueeze(1) - embed(reference)).norm(dim=2)
        matched = embed(graph)[slow_match(distance, k)]
        twins = (embed(graph).unsqueeze(1) - matched).norm(dim=2).amin(1) < 1e-6
        nodes = twins.nonzero().flatten()
        inside = torch.isin(graph.edge_index, nodes).all(0)
        share += inside / len(references)
        edge_index, _ = subgraph(nodes, graph.edge_index, relabel_nodes=True)
        x = graph.x[nodes]
        if edge_index.numel():
            edge_index, _, kept = remove_isolated_nodes(edge_index, num_nodes=len(nodes))
            x = x[kept]
        loss = -float(model(x, edge_index).log_softmax(1)[0, y])
        best = min(best, (loss, sorted(nodes.tolist())))
    return share, best[1]


@torch.no_grad()
def test_explanation_against_loops():
    model, graphs = make_target("gcn").eval(), make_graphs(seeds=range(12))
    explainer = MatchExplainer(k=3, references=4).fit(model, graphs, progress=False)
    explanations = explainer.explain(model, graphs, progress=False)
    logits = torch.cat([model(g.x, g.edge_index) for g in graphs])
    head_input = []
    handle = model.out.register_forward_pre_hook(lambda _, inputs: head_input.append(inputs[0]))
    for graph in graphs:
        model(graph.x, graph.edge_index)
    handle.remove()
    h = torch.cat(head_input)
    checked = 0
    for number, graph in enumerate(graphs):
        same = (logits.argmax(1) == logits[number].argmax()).nonzero().flatten().tolist()
        same.remove(number)
        nearest = sorted(same, key=lambda other: float((h[other] - h[number]).norm()))[:4]
        if not nearest:
            continue
        share, best = slow_explanation(model, graph, [graphs[i] for i in nearest], 3)
        torch.testing.assert_close(explanations[number].edge_mask, share)
        assert explanations[number].pooled.nonzero().flatten().tolist() == best
        checked += 1
    assert checked > 6


class NodeFeatures(nn.Module):
    """Node embeddings are the features; the class is the sign of their sum."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]))

    def forward(self, x, edge_index, batch, edge_weight=None):
        return self.head(global_add_pool(x, batch))


def motif_graph(seed):
    """A triangle with features of its class on a path of random ones."""
    generator = torch.Generator().manual_seed(seed)
    x = 5 * torch.randn(9, 4, generator=generator)
    sign = 1.0 if seed % 2 else -1.0
    x[:, 0] = 0
    x[6:] = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    x[6, 0] = sign
    path = [(i, i + 1) for i in range(6)]
    edges = torch.tensor([*path, (6, 7), (7, 8), (6, 8)]).t()
    return Data(x=x, edge_index=to_undirected(edges))


def test_finds_the_motif_all_references_share():
    graphs = [motif_graph(seed) for seed in range(10)]
    explainer = MatchExplainer(k=3).fit(NodeFeatures(), graphs, progress=False)
    for graph, explanation in zip(
        graphs, explainer.explain(NodeFeatures(), graphs, progress=False), strict=True
    ):
        truth = (graph.edge_index >= 6).all(0)
        assert torch.equal(explanation.edge_mask, truth.float())
        assert explanation.pooled.nonzero().flatten().tolist() == [6, 7, 8]
        assert torch.equal(explanation.node_mask.flatten(), explanation.pooled.float())


def test_the_graph_itself_is_no_reference():
    model, graphs = make_target("gcn"), make_graphs(seeds=range(8))
    other = make_graph(20)
    without = MatchExplainer(k=3).fit(model, graphs, progress=False)
    with_itself = MatchExplainer(k=3).fit(model, [*graphs, other], progress=False)
    masks = [call(explainer, model, other).edge_mask for explainer in (without, with_itself)]
    assert torch.equal(*masks)


def test_regression_takes_references_of_the_nearest_predictions():
    model, graphs = MarkedEdges(), marked_graphs(16)
    graph, rest = graphs[0], graphs[1:]
    count = [int(g.edge_mask.sum()) for g in graphs]
    near = min(abs(c - count[0]) for c in count[1:])
    nearest = [g for g, c in zip(rest, count[1:], strict=True) if abs(c - count[0]) == near]
    masks = [
        call(
            MatchExplainer(k=3, references=len(nearest)).fit(
                model, references, mode="regression", progress=False
            ),
            model,
            graph,
        ).edge_mask
        for references in (rest, nearest)
    ]
    assert len(nearest) < len(rest)
    torch.testing.assert_close(*masks)


def test_small_references_serve_only_if_there_are_no_others():
    graphs = [motif_graph(seed) for seed in range(4)]
    small = Data(x=graphs[2].x[:2] * 1.01, edge_index=torch.tensor([[0, 1], [1, 0]]))
    explainer = MatchExplainer(k=3).fit(NodeFeatures(), [*graphs, small], progress=False)
    mask = call(explainer, NodeFeatures(), motif_graph(6)).edge_mask
    assert int(mask.sum()) == 6
    explainer = MatchExplainer(k=3).fit(NodeFeatures(), [small], progress=False)
    assert int(call(explainer, NodeFeatures(), motif_graph(6)).pooled.sum()) == 2


def test_options():
    with pytest.raises(InputError, match="references must be at least 1, got 0"):
        MatchExplainer(k=3, references=0)
    for size in ({}, {"k": 3, "ratio": 0.5}):
        with pytest.raises(InputError, match=r"either as ratio=... or as k=..."):
            MatchExplainer(**size)
    assert fitted("matchexplainer").explainer.config()["k"] == 4


def test_graphs_too_large_to_compare_are_refused():
    """Before anything of their size is asked for."""
    nodes = 100_000
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    large = [Data(x=torch.rand(nodes, 3), edge_index=ring) for _ in range(2)]
    model = make_target("gcn")
    explainer = MatchExplainer(k=4).fit(model, large, progress=False)
    with pytest.raises(InputError, match=r"1\.0e\+10 pairs, more than .*index="):
        explainer.explain(model, large[:1], progress=False)
