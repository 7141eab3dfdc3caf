import torch
from torch_geometric.data import Data

from contract import make_graphs
from hpme.explainers.shared.noise import pair_noise, pair_normal
from hpme.graphs import GraphStore


def many_pairs():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(400, (2, 20000), generator=generator)
    graph = Data(x=torch.randn(400, 2, generator=generator), edge_index=edges)
    return GraphStore.from_graphs([graph]).batch()


def test_uniform_and_normal():
    graphs = many_pairs()
    noise = pair_noise(graphs, graphs.edge_index, 0)
    quantiles = torch.linspace(0.1, 0.9, 9)
    torch.testing.assert_close(torch.quantile(noise, quantiles), quantiles, atol=0.01, rtol=0)
    assert 0 < float(noise.min()) < float(noise.max()) < 1
    normal = pair_normal(graphs, graphs.edge_index, 0, torch.arange(graphs.num_edges))
    assert abs(float(normal.mean())) < 0.02
    assert abs(float(normal.std()) - 1) < 0.02
    assert bool(torch.isfinite(normal).all())


def test_other_seed_other_noise():
    graphs = many_pairs()
    both = torch.stack([pair_noise(graphs, graphs.edge_index, seed) for seed in (0, 1)])
    assert abs(float(torch.corrcoef(both)[0, 1])) < 0.03


def test_twins_are_parted_only_if_asked():
    """Nodes of a cycle look alike; so do those of its copy."""
    around = torch.arange(6)
    edges = torch.stack([around, (around + 1) % 6])
    graph = Data(x=torch.ones(6, 1), edge_index=torch.cat([edges, edges.flip(0)], dim=1))
    graphs = GraphStore.from_graphs([graph, graph]).batch()
    assert pair_noise(graphs, graphs.edge_index, 0).unique().numel() == 1
    parted = pair_noise(graphs, graphs.edge_index, 0, part_twins=True)
    assert parted[:6].unique().numel() == 6
    assert torch.equal(parted[:6], parted[6:12])
    assert torch.equal(parted[:12], parted[12:])


def test_does_not_depend_on_direction_or_company():
    store = GraphStore.from_graphs(make_graphs())
    whole = store.batch()
    noise = pair_noise(whole, whole.edge_index, 3)
    assert torch.equal(noise, pair_noise(whole, whole.edge_index.flip(0), 3))
    last = store.batch(torch.tensor([len(store) - 1]))
    assert torch.equal(noise[-last.edge_index.shape[1] :], pair_noise(last, last.edge_index, 3))
