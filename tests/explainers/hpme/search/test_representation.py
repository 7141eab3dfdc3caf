"""What scorers see: every depth of the model, none louder than another."""

import pytest
import torch

from hpme.data import GraphStore
from hpme.errors import ModelError
from hpme.explainers.hpme.search.representation import WIDEST, NodeReader, blocks_of
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.parametric import Categories, read_features
from small_models import Net, random_graph


def blocks(*widths, nodes=300):
    generator = torch.Generator().manual_seed(0)
    return [
        100.0**i + 10.0**i * torch.randn(nodes, width, generator=generator)
        for i, width in enumerate(widths)
    ]


def test_blocks_have_the_same_total_variance():
    parts = blocks(3, 5, 2)
    seen = NodeReader.scaled(parts).seen(parts)
    assert seen.shape == (300, 10)
    for part in seen.split([3, 5, 2], dim=1):
        assert float(part.mean(0).abs().max()) < 1e-3
        assert float(part.square().mean(0).sum()) == pytest.approx(1, abs=0.01)


def test_a_rare_channel_keeps_its_proportion():
    one_hot = torch.zeros(100, 2)
    one_hot[:, 0] = 1
    one_hot[0] = torch.tensor([0.0, 1.0])
    block = torch.cat([one_hot, torch.randn(100, 1, generator=torch.Generator())], dim=1)
    spread = NodeReader.scaled([block]).seen([block]).std(0)
    assert float(spread[1] / spread[2]) == pytest.approx(
        float(block[:, 1].std() / block[:, 2].std())
    )


def test_constant_blocks_say_nothing():
    reader = NodeReader.scaled([torch.full((9, 2), 0.1), torch.randn(9, 2)])
    result = reader.seen([torch.full((9, 2), 0.1), torch.randn(9, 2)])
    assert bool((result[:, :2] == 0).all()) and bool((result[:, 2:] != 0).any())


def test_wide_blocks_are_seen_through_their_principal_directions():
    narrow = torch.randn(400, 4, generator=torch.Generator().manual_seed(1))
    wide = narrow @ torch.randn(4, 3 * WIDEST, generator=torch.Generator().manual_seed(2))
    seen = NodeReader.scaled([wide]).seen([wide])
    assert seen.shape[1] == WIDEST
    # Four directions hold everything: narrow can be read off linearly.
    narrow, seen = narrow - narrow.mean(0), seen[:, -4:]
    error = narrow - seen @ torch.linalg.lstsq(seen, narrow).solution
    assert float(error.norm() / narrow.norm()) < 1e-3


def test_is_saved_with_its_shapes():
    parts = blocks(3, WIDEST + 6)
    first = NodeReader.scaled(parts)
    second = NodeReader(**first.meta())
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.seen(parts), second.seen(parts))


def test_another_width_is_refused():
    reader = NodeReader.scaled(blocks(3, 5))
    with pytest.raises(ModelError, match="8 channels together, those of this one have 9"):
        reader.seen(blocks(3, 6))


def test_every_layer_of_a_model_is_among_the_blocks():
    torch.manual_seed(0)
    store = GraphStore.from_graphs([random_graph(6, 9) for _ in range(4)])
    model = Net().eval()
    with torch.no_grad():
        context = Context.build(model, store, batch_size=3, mode="multiclass_classification")
    assert [layer.shape for layer in context.layers] == [(24, 5), (24, 5)]
    graphs = store.batch()
    found = blocks_of(graphs.x, context.layers, context.h, graphs)
    assert [block.shape[1] for block in found] == [3, 3, 3, 5, 5, 5]
    first = model.first(graphs.x, graphs.edge_index)
    torch.testing.assert_close(found[3], first)
    part = context.subset(torch.tensor([2]))
    torch.testing.assert_close(part.layers[0], first[12:18])


@pytest.mark.parametrize("codes", [False, True])
def test_scores_are_what_weights_make_of_all_features(codes):
    data = [random_graph(9, seed) for seed in range(6)]
    if codes:
        for graph in data:
            graph.x = (10 * graph.x[:, :2].abs()).long()
    store = GraphStore.from_graphs(data)
    graphs, generator = store.batch(), torch.Generator().manual_seed(0)
    layers = [100 + torch.randn(graphs.num_nodes, w, generator=generator) for w in (80, 5)]
    categories = Categories.of(store)
    x = read_features(categories, graphs)
    reader = NodeReader.scaled(blocks_of(x, layers, layers[-1], graphs))
    reader.categories = categories
    weight = torch.randn(reader.map.shape[1], generator=generator)
    wanted = reader(layers, layers[-1], graphs) @ weight
    assert torch.allclose(reader.scores(weight, layers, layers[-1], graphs), wanted, atol=1e-4)
    with pytest.raises(ModelError, match="fit again"):
        reader.scores(weight, layers[:1], layers[-1], graphs)
