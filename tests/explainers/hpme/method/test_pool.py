import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import subgraph, to_undirected

from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers.hpme.method.pool import Pool, PoolSize, propagate

CHANNELS = 4


def make_batch(sizes=(5, 1, 7, 2), seed=0):
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for nodes in sizes:
        index = to_undirected(torch.randint(nodes, (2, 2 * nodes), generator=generator))
        index = index[:, index[0] != index[1]]
        graphs.append(Data(x=torch.randn(nodes, CHANNELS, generator=generator), edge_index=index))
    return GraphStore.from_graphs(graphs).batch()


def make_pool(layers=1):
    return Pool(CHANNELS, layers, generator=torch.Generator().manual_seed(0))


def parameters(pool, layer):
    return pool.weight[layer], pool.bias[layer], pool.projection[layer]


def reference_layer(h, edge_index, weight, bias, projection):
    conv = GCNConv(weight.shape[0], weight.shape[1])
    with torch.no_grad():
        conv.lin.weight.copy_(weight.t())
        conv.bias.copy_(bias)
        z = conv(h, edge_index).relu()
        return z @ projection / projection.norm(), z


def test_propagate_is_an_identity_convolution():
    batch = make_batch()
    conv = GCNConv(CHANNELS, CHANNELS, bias=False)
    with torch.no_grad():
        conv.lin.weight.copy_(torch.eye(CHANNELS))
        torch.testing.assert_close(propagate(batch.x, batch), conv(batch.x, batch.edge_index))


def test_propagate_between_kept_nodes_only():
    batch = make_batch()
    keep = torch.rand(batch.num_nodes, generator=torch.Generator().manual_seed(1)) < 0.6
    h = batch.x * keep.unsqueeze(-1)
    edges, _ = subgraph(keep, batch.edge_index, num_nodes=batch.num_nodes)
    conv = GCNConv(CHANNELS, CHANNELS, bias=False)
    with torch.no_grad():
        conv.lin.weight.copy_(torch.eye(CHANNELS))
        torch.testing.assert_close(propagate(h, batch, keep), conv(h, edges))


def test_one_layer_is_gcn_relu_projection():
    batch, pool = make_batch(), make_pool()
    with torch.no_grad():
        pool.bias.copy_(torch.linspace(-1, 1, pool.bias.numel()).view_as(pool.bias))
        scores = pool(propagate(batch.x, batch), batch, torch.full((4,), 2))
        expected, _ = reference_layer(batch.x, batch.edge_index, *parameters(pool, 0))
        torch.testing.assert_close(scores, expected.unsqueeze(0))


@pytest.mark.parametrize("seed", range(5))
def test_several_layers_are_top_k_pooling_one_graph_at_a_time(seed):
    batch, pool = make_batch((9, 6), seed), make_pool(2)
    with torch.no_grad():
        pool.bias.fill_(0.5)
        m = torch.tensor([3, 2])
        scores = pool(propagate(batch.x, batch), batch, m)
        for number in range(2):
            nodes = (batch.batch == number).nonzero().squeeze(1)
            edges, _ = subgraph(nodes, batch.edge_index, relabel_nodes=True)
            score, z = reference_layer(batch.x[nodes], edges, *parameters(pool, 0))
            n, k = len(nodes), int(m[number])
            left = max(k, round(n * (k / n) ** 0.5))
            kept, dropped = score.argsort(descending=True).split([left, n - left])
            kept = kept.sort().values
            inner, _ = subgraph(kept, edges, relabel_nodes=True, num_nodes=n)
            h = z[kept] * score[kept].tanh().unsqueeze(1)
            second, _ = reference_layer(h, inner, *parameters(pool, 1))
            actual = scores[0, nodes]
            torch.testing.assert_close(actual[kept], second)
            assert float(actual[dropped].max()) < float(actual[kept].min())


def test_weights_come_from_the_generator():
    state = torch.get_rng_state()
    one, two = make_pool(), make_pool()
    assert all(map(torch.equal, one.parameters(), two.parameters()))
    other = Pool(CHANNELS, generator=torch.Generator().manual_seed(1))
    assert not torch.equal(one.projection, other.projection)
    assert torch.equal(torch.get_rng_state(), state)


def test_pool_size():
    sizes = torch.tensor([1, 2, 3, 10, 25, 100])
    assert PoolSize(ratio=0.2)(sizes).tolist() == [1, 2, 2, 2, 5, 20]
    assert PoolSize(ratio=1.0)(sizes).tolist() == sizes.tolist()
    assert PoolSize(k=5)(sizes).tolist() == [1, 2, 3, 5, 5, 5]
    assert PoolSize(k=1)(sizes).tolist() == [1, 2, 2, 2, 2, 2]
    # The product of a ratio and a number of nodes that is whole on paper is whole.
    whole = torch.arange(10, 1000, 10)
    for tenths in range(1, 10):
        expected = (whole * tenths // 10).clamp(min=2)
        assert torch.equal(PoolSize(ratio=tenths / 10)(whole), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either as ratio"),
        ({"ratio": 0.5, "k": 3}, "not both"),
        ({"ratio": 0.0}, r"\(0, 1\], got 0.0"),
        ({"ratio": 1.01}, r"\(0, 1\], got 1.01"),
        ({"ratio": float("nan")}, r"\(0, 1\], got nan"),
    ],
)
def test_bad_pool_size(arguments, message):
    with pytest.raises(InputError, match=message):
        PoolSize(**arguments)
