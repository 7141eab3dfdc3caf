import pytest
import torch
from torch import nn

from hpme.explainers.shared.parametric import EdgeMLP, binary_concrete
from hpme.graphs import GraphBatch


def make(seed=0, channels=5, hidden=7):
    return EdgeMLP(channels, hidden, generator=torch.Generator().manual_seed(seed))


def plain_mlp(edge_mlp):
    """The same weights in ordinary layers on concatenated rows."""
    channels, hidden = edge_mlp.first.shape[0] // 2, edge_mlp.first.shape[1]
    layers = nn.Sequential(nn.Linear(2 * channels, hidden), nn.ReLU(), nn.Linear(hidden, 1))
    with torch.no_grad():
        layers[0].weight.copy_(edge_mlp.first.t())
        layers[0].bias.copy_(edge_mlp.first_bias)
        layers[2].weight.copy_(edge_mlp.second.unsqueeze(0))
        layers[2].bias.copy_(edge_mlp.second_bias)
    return layers


def test_equals_a_plain_mlp_averaged_over_both_directions():
    generator = torch.Generator().manual_seed(1)
    edge_mlp = make()
    h = torch.randn(6, 5, generator=generator)
    i, j = edge_index = torch.randint(6, (2, 20), generator=generator)
    mlp = plain_mlp(edge_mlp)
    expected = (mlp(torch.cat([h[i], h[j]], 1)) + mlp(torch.cat([h[j], h[i]], 1))) / 2
    torch.testing.assert_close(edge_mlp(h, edge_index), expected.squeeze(1))
    assert not torch.allclose(mlp(torch.cat([h[i], h[j]], 1)), expected)


def test_symmetric_to_the_bit():
    h = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))
    edge_index = torch.tensor([[0, 1, 2, 4], [3, 2, 5, 4]])
    edge_mlp = make()
    assert torch.equal(edge_mlp(h, edge_index), edge_mlp(h, edge_index.flip(0)))


def test_no_edges():
    assert make()(torch.randn(3, 5), torch.empty(2, 0, dtype=torch.long)).shape == (0,)


def test_weights_come_from_the_generator_in_the_range_of_a_linear_layer():
    state = torch.get_rng_state()
    one, again, other = make(0, 50, 64), make(0, 50, 64), make(1, 50, 64)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, one.parameters(), again.parameters()))
    assert not any(map(torch.equal, one.parameters(), other.parameters()))
    assert 0.95 * 0.1 < float(one.first.detach().abs().max()) <= 0.1  # (2 * 50) ** -0.5
    assert 0.8 * 0.125 < float(one.second.detach().abs().max()) <= 0.125  # 64 ** -0.5


@pytest.mark.parametrize("logit", [-2.0, 0.0, 0.7, 3.0])
def test_binary_concrete_is_nearly_bernoulli_at_low_temperature(logit):
    generator = torch.Generator().manual_seed(0)
    sample = binary_concrete(torch.full((20000,), logit), 0.01, generator)
    assert float(sample.mean()) == pytest.approx(torch.tensor(logit).sigmoid().item(), abs=0.01)
    assert float(((sample > 0.01) & (sample < 0.99)).float().mean()) < 0.05


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_binary_concrete_at_any_temperature(temperature):
    """The median of the distribution is ``sigmoid(logit / temperature)``."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.full((20000,), 0.8, requires_grad=True)
    sample = binary_concrete(logits, temperature, generator)
    expected = torch.tensor(0.8 / temperature).sigmoid().item()
    assert float(sample.detach().median()) == pytest.approx(expected, abs=0.02)
    sample.sum().backward()
    torch.testing.assert_close(logits.grad, sample * (1 - sample) / temperature)


def test_binary_concrete_has_its_own_randomness():
    state = torch.get_rng_state()
    logits = torch.randn(50, generator=torch.Generator().manual_seed(0)).double()
    samples = [binary_concrete(logits, 1.0, torch.Generator().manual_seed(s)) for s in (3, 3, 4)]
    assert torch.equal(samples[0], samples[1])
    assert not torch.equal(samples[0], samples[2])
    assert samples[0].dtype == torch.float64
    assert torch.equal(torch.get_rng_state(), state)


def test_binary_concrete_stays_finite():
    sample = binary_concrete(torch.tensor([-1e4, 1e4]), 0.1, torch.Generator())
    assert sample.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 1), (1, 0), (1, 2), (2, 1)],  # sorted, both ways
        [(2, 1), (0, 1), (1, 2), (1, 0)],
        [(0, 1), (2, 1), (3, 3)],  # one way, and a loop
        [(1, 0), (0, 1), (1, 0), (1, 0)],  # listed more than once
        [],
    ],
)
def test_edges_of_graphs_are_asked_about_once(edges):
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).T
    h = torch.randn(4, 5, generator=torch.Generator().manual_seed(3))
    graphs = GraphBatch(h, edge_index, torch.zeros(4, dtype=torch.long), 1)
    edge_mlp = make().requires_grad_(False)
    torch.testing.assert_close(edge_mlp.at_edges(h, graphs), edge_mlp(h, edge_index))
