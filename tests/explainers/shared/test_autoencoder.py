"""Pairs and proxies against graphs taken one by one and against dense matrices."""

from itertools import combinations

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.distributions import Normal, kl_divergence
from torch_geometric.nn import GCNConv

from contract import make_graph, odd_graphs
from hpme.data import GraphStore
from hpme.explainers.proxyexplainer import GraphAutoencoder, SampledPairs, reconstruction_error


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def collection(edge_features=False):
    odd = odd_graphs(edge_features)
    odd.pop("empty")
    return [*odd.values(), *(make_graph(seed, edge_features=edge_features) for seed in range(3))]


def test_connected_and_sampled_pairs_of_every_graph():
    graphs = collection()
    batch = GraphStore.from_graphs(graphs).batch()
    pairs = SampledPairs.of(batch, generator())
    rows = [tuple(pair) for pair in pairs.index.t().tolist()]
    assert rows == sorted(set(rows)) and all(low < high for low, high in rows)
    assert torch.equal(batch.batch[pairs.index[0]], batch.batch[pairs.index[1]])
    assert torch.equal(batch.batch[pairs.index[0]], pairs.graph)
    ends = {frozenset(edge) for edge in batch.edge_index.t().tolist() if edge[0] != edge[1]}
    assert {frozenset(r) for r, c in zip(rows, pairs.connected, strict=True) if c} == ends
    assert not any(
        frozenset(r) in ends for r, c in zip(rows, pairs.connected, strict=True) if not c
    )
    for edge, pair in zip(batch.edge_index.t().tolist(), pairs.of_edge.tolist(), strict=True):
        expected = -1 if edge[0] == edge[1] else sorted(edge)
        assert (pair if pair < 0 else pairs.index[:, pair].tolist()) == expected


def test_unconnected_pairs_are_drawn_alike():
    """A path of six nodes has five pairs, so about as many of the ten others are drawn."""
    path = make_graph(0, 6)
    path.edge_index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    batch, draws = GraphStore.from_graphs([path]).batch(), generator()
    seen, rounds = torch.zeros(6, 6), 500
    for _ in range(rounds):
        pairs = SampledPairs.of(batch, draws)
        gaps = pairs.index[:, ~pairs.connected]
        assert gaps.shape[1] <= 5
        seen[tuple(gaps)] += 1
    every = torch.tensor([seen[i, j] for i, j in combinations(range(6), 2) if j - i > 1])
    expected = rounds * (1 - (1 - 1 / 15) ** 5)  # each of five draws is any of fifteen pairs
    assert float((every - expected).abs().max()) < 5 * (expected * (1 - expected / rounds)) ** 0.5


def test_joined_graphs_and_their_weights():
    batch = GraphStore.from_graphs(collection(edge_features=True)).batch()
    pairs = SampledPairs.of(batch, generator())
    whole = pairs.joined(batch, generator())
    old = batch.edge_index.shape[1]
    assert torch.equal(whole.edge_index[:, :old], batch.edge_index)
    assert torch.equal(whole.edge_attr[:old], batch.edge_attr)
    assert whole.edge_attr.shape[0] == whole.edge_index.shape[1]
    added = whole.edge_index[:, old:].t().tolist()
    gaps = pairs.index[:, ~pairs.connected].t().tolist()
    assert sorted(added) == sorted([*gaps, *(pair[::-1] for pair in gaps)])
    values = torch.rand(pairs.index.shape[1], generator=generator())
    table = {tuple(p): v for p, v in zip(pairs.index.t().tolist(), values.tolist(), strict=True)}
    for edge, weight in zip(
        whole.edge_index.t().tolist(), pairs.per_edge(values).tolist(), strict=True
    ):
        assert weight == (1.0 if edge[0] == edge[1] else table[tuple(sorted(edge))])


def test_encoder_against_dense_matrices():
    graph = make_graph(4)
    model = GraphAutoencoder(3, coordinates=2, generator=generator())
    x = torch.randn(graph.num_nodes, 5, generator=generator())
    weight = torch.rand(graph.num_edges, generator=generator(1))
    dense = torch.eye(graph.num_nodes)
    dense[graph.edge_index[1], graph.edge_index[0]] = weight
    scale = dense.sum(1).rsqrt()
    dense = scale.unsqueeze(1) * dense * dense.sum(1).rsqrt()
    h = model.second(dense @ model.first(dense @ x).relu()).relu()
    # Weights differ by direction here, and PyG takes degrees over incoming edges as well.
    torch.testing.assert_close(model.encode(x, graph.edge_index, weight), h)


def test_encoder_sums_as_a_gcn_layer():
    graph = make_graph(4)
    model = GraphAutoencoder(3, coordinates=2, generator=generator())
    x = torch.randn(graph.num_nodes, 5, generator=generator())
    weight = torch.rand(graph.num_edges, generator=generator(1))
    layers = []
    for layer in (model.first, model.second):
        layers.append(GCNConv(layer.in_features, layer.out_features))
        layers[-1].lin.weight, layers[-1].bias = layer.weight, layer.bias
    h = layers[0](x, graph.edge_index, weight).relu()
    expected = layers[1](h, graph.edge_index, weight).relu()
    torch.testing.assert_close(model.encode(x, graph.edge_index, weight), expected)


def test_error_and_divergence_graph_by_graph():
    graphs = collection()
    batch = GraphStore.from_graphs(graphs).batch()
    pairs = SampledPairs.of(batch, generator())
    adjacency = torch.rand(pairs.index.shape[1], generator=generator())
    error = reconstruction_error(adjacency, pairs, batch.num_graphs)
    for number in range(len(graphs)):
        mine = pairs.graph == number
        link, gap = mine & pairs.connected, mine & ~pairs.connected
        expected = 0.0
        if bool(link.any()):
            expected -= float(adjacency[link].log().mean())
        if bool(gap.any()):
            expected -= float((1 - adjacency[gap]).log().mean())
        assert float(error[number]) == pytest.approx(expected, rel=1e-5)
    model = GraphAutoencoder(3, generator=generator())
    mask = torch.rand(batch.edge_index.shape[1], generator=generator())
    losses = [model(batch, pairs, mask, generator(7), weight).loss for weight in (0.0, 2.0)]
    draws = torch.randn(batch.num_nodes, model.coordinates, generator=generator(7))
    hidden = model.encode(torch.cat([batch.x, draws], dim=1), batch.edge_index, 1 - mask)
    mean, log_variance = model.mean(hidden), model.log_variance(hidden)
    divergence = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0.0, 1.0)).sum(1)
    for number in range(len(graphs)):
        expected = 2 * divergence[batch.batch == number].mean()
        torch.testing.assert_close(losses[1][number] - losses[0][number], expected,
                                   rtol=1e-4, atol=1e-5)  # fmt: skip


def test_learns_to_rebuild_graphs():
    batch = GraphStore.from_graphs([make_graph(seed, 12) for seed in range(16)]).batch()
    pairs, draws = SampledPairs.of(batch, generator()), generator()
    model = GraphAutoencoder(3, generator=draws)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    mask = torch.full((batch.edge_index.shape[1],), 0.5)
    for _ in range(150):
        optimiser.zero_grad()
        model(batch, pairs, mask, draws, 0.01).loss.mean().backward()
        optimiser.step()
    fresh = model(batch, pairs, mask, draws).adjacency.detach()
    assert roc_auc_score(pairs.connected, fresh) > 0.75
