from itertools import combinations

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.utils import to_networkx

from contract import call, make_graph, make_graphs, make_target
from hpme.errors import InputError
from hpme.explainers import SubgraphXExplainer, subgraphx
from hpme.explainers.shared.noise import node_keys
from hpme.explainers.shared.replicas import ReplicaModel
from hpme.explainers.subgraphx import Board, Reward, Tree
from hpme.models.arguments import checked_batch
from hpme.models.explained import ExplainedModel
from hpme.models.output import Task
from planted import MarkedEdges, decided_target, marked_graph, regression_target


def batch_of(graphs, anchors=None):
    batch = Batch.from_data_list(graphs)
    return checked_batch(batch.x, batch.edge_index, batch.batch, anchors=anchors)


def board_of(model, graphs, anchors=None, level="graph"):
    batch = batch_of(graphs, anchors)
    model = ReplicaModel(ExplainedModel(model, level=level).adapter(), batch, {})
    return Board(model, torch.arange(len(graphs)), node_keys(batch, 0))


def subset(board, graph, nodes):
    member = torch.zeros(1, board.width, dtype=torch.bool)
    member[0, list(nodes)] = True
    return member, torch.tensor([graph])


def probability(model, graph, kept, predicted):
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    there = torch.tensor([[float(node in kept)] for node in range(graph.num_nodes)])
    with torch.no_grad():
        return float(model(graph.x * there, graph.edge_index, batch).softmax(1)[0, predicted])


def slow_shapley(model, graph, nodes, hops):
    """The subgraph's Shapley value over all coalitions of the nodes near it."""
    with torch.no_grad():
        batch = torch.zeros(graph.num_nodes, dtype=torch.long)
        predicted = int(model(graph.x, graph.edge_index, batch).argmax())
    shape = to_networkx(graph, to_undirected=True)
    distance = nx.multi_source_dijkstra_path_length(shape, set(nodes))
    players = [node for node, steps in distance.items() if 0 < steps <= hops]
    far = set(range(graph.num_nodes)) - set(players) - set(nodes)
    value = 0.0
    for size in range(len(players) + 1):
        coalitions = list(combinations(players, size))
        for coalition in coalitions:
            kept = far | set(coalition)
            gain = probability(model, graph, kept | set(nodes), predicted) - probability(
                model, graph, kept, predicted
            )
            value += gain / len(coalitions) / (len(players) + 1)
    return value


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_reward_is_the_shapley_value(hops):
    model, graphs = decided_target(), make_graphs(seeds=range(2))
    board = board_of(model, graphs)
    outputs = board.model.whole()[1]
    reward = Reward(board, Task("multiclass_classification"), outputs.argmax(1), 3000, hops)
    for graph, nodes in ((0, {2, 5}), (1, {3, 4}), (1, {0, 1})):
        expected = slow_shapley(model, graphs[graph], nodes, hops)
        assert abs(expected) > 0.05
        assert float(reward(*subset(board, graph, nodes))) == pytest.approx(expected, abs=0.004)


def test_regression_rewards_are_absolute():
    model, graphs = regression_target(), make_graphs(seeds=range(2))
    board = board_of(model, graphs)
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            model.out.weight *= sign
        reward = Reward(board, Task("regression"), None, 20, 3)
        values.append(float(reward(*subset(board, 1, {0, 1, 2}))))
    assert values[0] > 0
    assert values[1] == pytest.approx(values[0], abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_the_largest_connected_part_is_kept(seed):
    graphs = [make_graph(seed, 9), make_graph(seed + 20, 7)]
    board = board_of(make_target("gcn"), graphs)
    generator = torch.Generator().manual_seed(seed)
    member = board.real & (torch.rand(2, board.width, generator=generator) < 0.6)
    member[:, 0] = True
    kept = board.connected(member, torch.arange(2))
    for row, graph in enumerate(graphs):
        nodes = set(member[row].nonzero().view(-1).tolist())
        parts = list(
            nx.connected_components(to_networkx(graph, to_undirected=True).subgraph(nodes))
        )
        assert set(kept[row].nonzero().view(-1).tolist()) in parts
        assert int(kept[row].sum()) == max(map(len, parts))


def test_parts_of_anchors_are_kept():
    graph = make_graph(0, 9)
    board = board_of(make_target("gcn"), [graph], torch.tensor([[8, 7]]))
    member, zero = subset(board, 0, {7, 8})
    assert torch.equal(board.connected(member, zero), member)


def test_finds_the_best_small_connected_subgraph():
    """With all prunings and enough rollouts the tree holds every connected subgraph."""
    graph = marked_graph(5, 7)
    board = board_of(MarkedEdges(), [graph])
    reward = Reward(board, Task("regression"), None, 30, 3)
    tree, limit = Tree(board, reward, children=7), torch.tensor([3])
    for _ in range(400):
        tree.rollout(limit, 5.0)
    shape = to_networkx(graph, to_undirected=True)
    small = [set(nodes) for size in (1, 2, 3) for nodes in combinations(range(7), size)
             if nx.is_connected(shape.subgraph(nodes))]  # fmt: skip
    best = max(float(reward(*subset(board, 0, nodes))) for nodes in small)
    seen = {frozenset(member.nonzero().view(-1).tolist()) for member in tree.member}
    assert len(seen) == len(tree.member)
    scores = tree.node_scores(limit)[0]
    found = set((scores > 0.5).nonzero().view(-1).tolist())
    assert found in small
    assert float(reward(*subset(board, 0, found))) == best > 0


def test_every_state_is_connected_and_actions_prune():
    model, graphs = make_target("gcn"), make_graphs(seeds=range(3))
    board = board_of(model, graphs)
    classes = board.model.whole()[1].argmax(1)
    tree = Tree(board, Reward(board, Task("multiclass_classification"), classes, 2, 3), 3)
    limit = torch.tensor([2, 3, 4])
    for _ in range(4):
        tree.rollout(limit, 5.0)
    for member, graph in zip(tree.member, tree.graph.tolist(), strict=True):
        nodes = member.nonzero().view(-1).tolist()
        assert nx.is_connected(to_networkx(graphs[graph], to_undirected=True).subgraph(nodes))
    expanded = (tree.first >= 0).nonzero().view(-1).tolist()
    for state in expanded:
        assert int(tree.size[state]) > int(limit[tree.graph[state]])
        for child in tree.child[tree.first[state] : tree.first[state] + tree.count[state]]:
            assert not bool((tree.member[child] & ~tree.member[state]).any())
            assert int(tree.size[child]) < int(tree.size[state])
    roots = tree.first[:3]
    counts = [int(tree.visits[first : first + 3].sum()) for first in roots]
    assert counts == [4, 4, 4]


def test_graphs_are_searched_in_turn_where_the_table_is_full(monkeypatch):
    model, graphs = make_target("gcn"), make_graphs()
    explainer = SubgraphXExplainer(rollouts=2, samples=2)
    whole = call(explainer, model, Batch.from_data_list(graphs))
    monkeypatch.setattr(subgraphx, "MAX_TABLE", 1)
    parts = call(explainer, model, Batch.from_data_list(graphs))
    torch.testing.assert_close(parts.node_mask, whole.node_mask, atol=1e-5, rtol=0)


def test_the_upper_half_has_at_most_the_given_share_of_nodes():
    model, graphs = make_target("gcn"), make_graphs()
    for ratio in (0.3, 0.6):
        explainer = SubgraphXExplainer(ratio=ratio, rollouts=2, samples=2)
        for explanation, graph in zip(
            explainer.explain(model, graphs, progress=False), graphs, strict=True
        ):
            share = float((explanation.node_mask > 0.5).sum()) / graph.num_nodes
            assert 0 < share <= ratio + 1 / graph.num_nodes
            ends = explanation.node_mask.view(-1)[graph.edge_index]
            assert torch.equal(explanation.edge_mask, ends.min(0).values)


@pytest.mark.parametrize(
    ("option", "value"),
    [("ratio", 0), ("ratio", 1.5), ("rollouts", 0), ("samples", 0), ("branches", 0),
     ("hops", -1), ("exploration", 0)],
)  # fmt: skip
def test_unusable_options(option, value):
    with pytest.raises(InputError, match=f"{option} must"):
        SubgraphXExplainer(**{option: value})
