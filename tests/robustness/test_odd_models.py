"""Models that compute in ways of their own: explained rightly, or refused by name."""

import re

import pytest
import torch
from torch import nn
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.nn import GCNConv, global_add_pool

from contract import (
    CHEAP,
    CLASSES,
    FEATURES,
    SLUGS,
    featured,
    make_explainer,
    make_graphs,
    make_target,
)
from hpme.data import GraphStore
from hpme.errors import InputError, ModelError
from hpme.explainers import explainer_class
from hpme.models import ExplainedModel

slugs = pytest.mark.parametrize("slug", [slug for slug in SLUGS if slug != "att"])


class Counting(nn.Module):
    """A readout that nothing recognises, and a count of nodes that looks like one."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(FEATURES, 4), nn.Linear(4, CLASSES)

    def forward(self, x, edge_index, batch, edge_weight=None):
        h = self.conv(x, edge_index, edge_weight)
        count = global_add_pool(torch.ones_like(h), batch)
        pooled = torch.stack([h[batch == graph].sum(0) for graph in range(len(count))])
        return self.head(pooled / count)


@slugs
def test_a_count_of_nodes_is_no_readout(slug):
    model, graphs = Counting(), make_graphs()
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    for explanation in explainer.explain(model, graphs, progress=False):
        assert bool(explanation.edge_mask.isfinite().all())
        assert len(explanation.edge_mask.unique()) > 1


class Dividing(nn.Module):
    """The mean of a node's neighbours, 0/0 where there is none."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(FEATURES, 4), nn.Linear(4, CLASSES)

    def forward(self, x, edge_index, batch, edge_weight=None):
        h, (source, target) = self.conv(x, edge_index, edge_weight), edge_index
        total = torch.zeros_like(h).index_add(0, target, h[source])
        count = x.new_zeros(len(x)).index_add(0, target, x.new_ones(len(target)))
        return self.head(global_add_pool(total / count[:, None], batch))


@slugs
def test_a_model_without_an_answer_to_changed_graphs(slug):
    """Finite masks, or an error that names the cause; never NaN."""
    tree = torch.tensor([[0, 1, 1, 2, 1, 3, 3, 4], [1, 0, 2, 1, 3, 1, 4, 3]])
    graphs, model = [featured(tree, 5, seed) for seed in range(8)], Dividing()
    known = ExplainedModel(model)
    assert bool(known.adapter().predict(known.read(graphs).batch()).isfinite().all())
    try:
        options = {"k": 2} if "k" in CHEAP[slug] else {}
        explainer = make_explainer(slug, **options).fit(model, graphs, progress=False)
        found = explainer.explain(model, graphs, progress=False)
    except ModelError as error:
        assert re.search(r"are NaN or infinite: .*clamp\(min=1\)|found neither", str(error))
        assert slug not in ("grad", "gnnexplainer", "random")
    else:
        assert slug not in ("hpme", "occlusion")
        assert all(bool(explanation.edge_mask.isfinite().all()) for explanation in found)


class Featureless(nn.Module):
    """Makes its own features, of graphs that have some without columns."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(2, 4), nn.Linear(4, CLASSES)

    def forward(self, x, edge_index, batch, edge_weight=None):
        assert x.shape[1] == 0
        h = self.conv(torch.ones(len(x), 2), edge_index, edge_weight).relu()
        return self.head(global_add_pool(h, batch))


@slugs
def test_features_without_columns(slug):
    model, graphs = Featureless(), make_graphs()
    for graph in graphs:
        graph.x = graph.x[:, :0]
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    for explanation in explainer.explain(model, graphs, progress=False):
        assert bool(explanation.edge_mask.isfinite().all())


class Scaled(nn.Module):
    def __init__(self, model, factor, shift):
        super().__init__()
        self.model, self.factor, self.shift = model, factor, shift

    def forward(self, x, edge_index, batch, edge_weight=None):
        output = self.model(x, edge_index, batch=batch, edge_weight=edge_weight)
        return output[:, :1] * self.factor + self.shift


@pytest.mark.parametrize("slug", ["hpme", "grad", "pgexplainer", "occlusion"])
@pytest.mark.parametrize(("factor", "shift"), [(1e-8, 0.0), (1e-12, 0.0), (300.0, 1e6)])
def test_how_edges_are_weighted_does_not_depend_on_units(slug, factor, shift):
    graphs, found = make_graphs(), []
    for units in ((1.0, 0.0), (factor, shift)):
        model = Scaled(make_target("gcn"), *units)
        explainer = make_explainer(slug).fit(model, graphs, mode="regression", progress=False)
        found.append(explainer.weighting)
        if slug == "hpme":
            assert explainer.report.edges
    assert found == ["edge_weight"] * 2


def test_outputs_are_compared_in_units_of_their_spread():
    from hpme.models.adapter import differ

    output = torch.tensor([[0.0], [1.0]])
    assert not differ(output, output + 1e-7) and differ(output, output + 1e-5)
    assert not differ(output * 1e-12, output * 1e-12) and differ(output * 1e-12, output * 1.1e-12)
    assert not differ(output + 1e6, output + 1e6) and differ(output + 1e6, output * 0.5 + 1e6)


WRONG_FACTS = {
    "return_type": ("logits", "raw, probs, log_probs"),
    "mode": ("classification", "multiclass_classification, binary_classification, regression"),
    "level": ("nodes", "graph, node, edge"),
}


@pytest.mark.parametrize("name", WRONG_FACTS)
@pytest.mark.parametrize("slug", ["hpme", "random"])
def test_words_that_say_nothing(slug, name):
    word, valid = WRONG_FACTS[name]
    with pytest.raises(InputError, match=f"unknown {name} '{word}'; use one of: {valid}"):
        make_explainer(slug).fit(make_target("gcn"), make_graphs(), progress=False, **{name: word})


@slugs
@pytest.mark.parametrize("said", ["probs", "log_probs"])
def test_logits_that_are_called_probabilities(slug, said):
    if explainer_class(slug).tasks == ("regression",) or slug == "random":
        pytest.skip("reads no classes")
    model, graphs = make_target("gcn"), make_graphs()
    with pytest.raises(ModelError, match=f"return_type='{said}' says .* say return_type='raw'"):
        explainer = make_explainer(slug).fit(model, graphs, return_type=said, progress=False)
        explainer.explain(model, graphs, return_type=said, progress=False)


@slugs
def test_the_embedding_layer_is_remembered(slug, tmp_path):
    model, graphs = make_target("gcn"), make_graphs()
    known = ExplainedModel(model, embedding_layer="convs.0")

    def masks(explainer, explained):
        found = explainer.explain(explained, graphs, progress=False)
        return torch.cat([explanation.edge_mask for explanation in found])

    explainer = make_explainer(slug).fit(known, graphs, progress=False)
    wanted = masks(explainer, known)
    assert torch.equal(masks(explainer, model), wanted)
    explainer.save(tmp_path / "explainer.safetensors")
    loaded = type(explainer).load(tmp_path / "explainer.safetensors")
    assert torch.equal(masks(loaded, model), wanted)
    said = make_explainer(slug).fit(model, graphs, embedding_layer="convs.0", progress=False)
    assert torch.equal(masks(said, model), wanted)


def test_layers_that_are_none():
    for layer in ("nowhere", ["convs.0"], 3):
        with pytest.raises(InputError, match=r"no layer .*it has: convs"):
            make_explainer("hpme").fit(
                make_target("gcn"), make_graphs(), embedding_layer=layer, progress=False
            )


class Lazily(InMemoryDataset):
    """What a graph is decided when it is asked for."""

    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)

    def get(self, idx):
        graph = super().get(idx).clone()
        return Data(x=graph.x + 1, edge_index=graph.edge_index[:, ::2])


def test_datasets_with_a_get_of_their_own():
    dataset = Lazily(make_graphs())
    store = GraphStore.from_graphs(dataset[[2, 0]])
    wanted = GraphStore.from_graphs([dataset[2], dataset[0]])
    assert torch.equal(store.x, wanted.x)
    assert torch.equal(store.local_edge_index, wanted.local_edge_index)
