import pytest
import torch
from torch_geometric.data import Batch

from hetero import BUYS, CLASSES, MODELS, WIDTHS, Convs, make_graph, make_graphs, make_model
from hpme.data import load_dataset
from hpme.errors import InputError, ModelError
from hpme.graphs import GraphStore
from hpme.models import ExplainedModel, Recipe, load_model, load_or_train, save_model
from hpme.models.registry import name_for


@pytest.fixture
def graphs():
    return GraphStore.from_graphs(make_graphs(3)).batch()


def called(model, graphs):
    batch = Batch.from_data_list(make_graphs(3))
    with torch.no_grad():
        return model(batch.x_dict, batch.edge_index_dict, batch.batch_dict, batch_size=3)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_model(name, graphs):
    model = make_model(name)
    explained = ExplainedModel(model)
    with explained.frozen(), torch.no_grad():
        output = explained.adapter().predict(graphs)
    assert torch.allclose(output, called(model, graphs), atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_zero_delete_edges(name, graphs):
    """By messages or by weights; attention and means are normalised, so those of one type go."""
    explained = ExplainedModel(make_model(name))
    with explained.frozen(), torch.no_grad():
        adapter = explained.adapter()
        adapter.probe(graphs)
        assert adapter.weighting == ("edge_weight" if name == "convs" else "message")
        number = graphs.schema.edge_types.index(BUYS)
        kept = graphs.edge_type != number
        masked = adapter.predict(graphs, kept.float())
        deleted = adapter.predict(graphs.edges(kept))
    if name == "transformer":  # its attention spans all types of edges
        assert not torch.allclose(masked, adapter.predict(graphs))
    else:
        assert torch.allclose(masked, deleted, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_messages_of_every_type_are_masked(name, graphs):
    explained = ExplainedModel(make_model(name))
    with explained.frozen():
        adapter = explained.adapter()
        adapter.probe(graphs)
        weight = torch.ones(graphs.num_edges, requires_grad=True)
        adapter.predict(graphs, weight).square().sum().backward()
    for kind, slopes in graphs.type_rows.per_edge(weight.grad).items():
        assert len(slopes) == 0 or slopes.abs().max() > 0, kind


@pytest.mark.parametrize("name", MODELS)
def test_embeddings_are_the_input_of_the_readout(name, graphs):
    explained = ExplainedModel(make_model(name))
    with explained.frozen():
        adapter = explained.adapter()
        seen = adapter.embed(graphs)
    assert seen.nodes.shape == (graphs.num_nodes, 8)
    assert seen.source == "input of the readout"
    assert seen.graph.shape == (3, 8 * len(WIDTHS))
    assert len(seen.layers) == (1 if name == "transformer" else 2)
    pooled = torch.zeros(3, len(WIDTHS), 8)
    pooled.index_put_((graphs.batch, graphs.node_type), seen.nodes, accumulate=True)
    assert torch.allclose(pooled.flatten(1), seen.graph, atol=1e-5)


def test_a_model_without_batch_dict_is_told_so():
    class Forgetful(Convs):
        def forward(self, x_dict, edge_index_dict):
            h = self.start(x_dict)
            return self.head(torch.cat([h[kind].sum(0, keepdim=True) for kind in WIDTHS], dim=1))

    explained = ExplainedModel(Forgetful())
    batch = GraphStore.from_graphs(make_graphs(2)).batch()
    with explained.frozen(), pytest.raises(ModelError, match="it has no 'batch_dict' argument"):
        explained.adapter().predict(batch)


def test_call_gets_a_batch(graphs):
    model = make_model()

    def call(batch):
        return model(batch.x_dict, batch.edge_index_dict, batch.batch_dict, None, batch.num_graphs)

    explained = ExplainedModel(model, call=call)
    with explained.frozen(), torch.no_grad():
        output = explained.adapter().predict(graphs)
    assert torch.allclose(output, called(model, graphs), atol=1e-6)


def test_a_readout_that_forgets_graphs_is_told_the_remedy():
    class Short(Convs):
        def forward(self, x_dict, edge_index_dict, batch_dict):
            return super().forward(x_dict, edge_index_dict, batch_dict)

    last = make_graph(1, {"user": 3, "item": 2, "tag": 0})
    batch = GraphStore.from_graphs([make_graph(0), last]).batch()
    explained = ExplainedModel(Short())
    with explained.frozen(), pytest.raises(ModelError, match="size=batch_size"):
        explained.adapter().predict(batch)


def test_targets_are_trained_stored_and_read(tmp_path):
    dataset = load_dataset("hetero-motifs", size=20, root=tmp_path)
    model, _ = load_or_train(dataset, "hetero", recipe=Recipe(max_steps=2), root=tmp_path)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")[0]
    batch = dataset.training_store().batch()
    with torch.no_grad():
        assert torch.equal(model.run(batch), again.run(batch))
        assert model.run(batch).shape == (20, CLASSES)
        one = dataset[3]
        alone = model(one.x_dict, one.edge_index_dict)
    assert torch.allclose(alone[0], model.run(batch)[3], atol=1e-6)


def test_names_of_models_for_types():
    assert name_for("hetero", "node", hetero=True) == "node-hetero"
    with pytest.raises(InputError, match="no model of heterogeneous graphs"):
        name_for("gcn", "graph", hetero=True)
    with pytest.raises(InputError):
        name_for("hetero", "graph")
