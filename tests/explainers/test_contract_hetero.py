"""What every explainer of graphs with types keeps to."""

import copy
from functools import cache

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer, HeteroExplanation

from contract import make_explainer
from contract import make_graphs as plain_graphs
from contract import make_target as plain_target
from hetero import EDGE_TYPES, MODELS, WIDTHS, make_graph, make_graphs, make_model
from hpme.errors import InputError
from hpme.explainers import EXPLAINERS

HETERO = [slug for slug, kind in EXPLAINERS.items() if kind.hetero]
REVERSE = {(c, f"rev_{b}", a): (a, b, c) for a, b, c in EDGE_TYPES}


def test_these_explain_graphs_with_types():
    assert set(HETERO) == {
        *("hpme", "random", "grad", "occlusion"),
        *("integratedgradients", "gnnexplainer", "pgexplainer"),
        *("distilled-occlusion", "best-attribution"),
    }


@cache
def fitted(slug, name="convs"):
    """An explainer fitted to a model, once per session, with model, graphs and explanations."""
    graphs, model = make_graphs(5), make_model(name)
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    return explainer, model, graphs, explainer.explain(model, graphs, progress=False)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("slug", HETERO)
def test_masks_by_type(slug, name):
    *_, graphs, explanations = fitted(slug, name)
    for graph, explanation in zip(graphs, explanations, strict=True):
        assert isinstance(explanation, HeteroExplanation)
        assert explanation.validate_masks()
        for kind in graph.edge_types:
            mask = explanation[kind].edge_mask
            assert mask.shape == graph[kind].edge_index.shape[1:]
            assert mask.dtype == torch.float and bool(((mask >= 0) & (mask <= 1)).all())
            assert torch.equal(explanation[kind].edge_index, graph[kind].edge_index)
        if slug == "hpme":
            assert all(explanation[kind].pooled.dtype == torch.bool for kind in WIDTHS)
    if slug != "random":
        every = torch.cat([e[k].edge_mask for e in explanations for k in e.edge_types])
        assert float(every.max() - every.min()) > 0


@pytest.mark.parametrize("slug", HETERO)
def test_both_directions_count_alike(slug):
    for explanation in fitted(slug)[-1]:
        for back, forth in REVERSE.items():
            if back in explanation.edge_types:
                ours, theirs = explanation[back].edge_mask, explanation[forth].edge_mask
                assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("slug", HETERO)
def test_saved_and_loaded_it_explains_as_before(slug, tmp_path):
    explainer, model, graphs, explanations = fitted(slug)
    explainer.save(tmp_path / "explainer.safetensors")
    again = EXPLAINERS[slug].load(tmp_path / "explainer.safetensors")
    assert again.schema == explainer.schema
    for first, second in zip(explanations, again.explain(model, graphs), strict=True):
        for kind in EDGE_TYPES:
            assert torch.equal(first[kind].edge_mask, second[kind].edge_mask)


@pytest.mark.parametrize("slug", HETERO)
def test_a_graph_is_explained_alike_alone_and_without_an_empty_type(slug):
    """Graphs may lack a type, and the types may come in another order."""
    graphs, model = make_graphs(5), make_model()
    lacking = make_graph(5, {"user": 4, "item": 3, "tag": 0})
    explainer = make_explainer(slug).fit(model, [*graphs, lacking], progress=False)
    together = explainer.explain(model, [*graphs, lacking])[-1]
    bare = make_graph(5, {"user": 4, "item": 3, "tag": 0})
    for kind in list(bare.edge_types):
        if "tag" in kind:
            del bare[kind]
    del bare["tag"]
    alone = explainer.explain(model, [bare])[0]
    for kind in bare.edge_types:
        assert torch.allclose(alone[kind].edge_mask, together[kind].edge_mask, atol=1e-4)


@pytest.mark.parametrize("slug", HETERO)
@pytest.mark.parametrize("node_mask_type", [None, "object", "attributes", "common_attributes"])
def test_pyg_explainer(slug, node_mask_type):
    algorithm, model, graphs, listed = fitted(slug)
    algorithm = copy.deepcopy(algorithm)  # PyG's explainer connects itself
    explainer = Explainer(
        model,
        algorithm,
        explanation_type="model",
        node_mask_type=node_mask_type,
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "graph",
            "return_type": "raw",
        },
    )
    batch = Batch.from_data_list(graphs)
    found = explainer(batch.x_dict, batch.edge_index_dict, batch_dict=batch.batch_dict)
    assert isinstance(found, HeteroExplanation)
    for kind in EDGE_TYPES:
        single = torch.cat([e[kind].edge_mask for e in listed])
        assert torch.allclose(found[kind].edge_mask, single, atol=1e-4)
    if node_mask_type is not None:
        for kind, width in WIDTHS.items():
            wanted = 1 if node_mask_type == "object" else width
            rows = 1 if node_mask_type == "common_attributes" else len(batch[kind].x)
            assert found[kind].node_mask.shape == (rows, wanted)


@pytest.mark.parametrize("slug", sorted(set(EXPLAINERS) - set(HETERO) - {"att", "myerson"}))
def test_others_say_that_they_do_not(slug):
    with pytest.raises(InputError, match="does not explain heterogeneous graphs"):
        make_explainer(slug).fit(make_model(), make_graphs(3), progress=False)


def test_the_kind_of_graphs_must_be_that_of_the_fit():
    typed, *_ = fitted("pgexplainer")
    with pytest.raises(InputError, match="the graphs are homogeneous"):
        typed.explain(plain_target("gcn"), plain_graphs())
    plain = make_explainer("pgexplainer").fit(plain_target("gcn"), plain_graphs(), progress=False)
    with pytest.raises(InputError, match="the graphs are heterogeneous"):
        plain.explain(make_model(), make_graphs(2))


class Values(torch.nn.Module):
    """One value for every graph."""

    def __init__(self):
        super().__init__()
        self.convs = make_model("convs")

    def forward(self, x_dict, edge_index_dict, batch_dict, edge_weight_dict=None, batch_size=None):
        given = (x_dict, edge_index_dict, batch_dict, edge_weight_dict, batch_size)
        return self.convs(*given)[:, :1]


@pytest.mark.parametrize("slug", HETERO)
def test_values_of_graphs_are_explained(slug):
    graphs, model = make_graphs(6), Values()
    explainer = make_explainer(slug).fit(model, graphs, mode="regression", progress=False)
    found = explainer.explain(model, graphs, progress=False)
    assert all(e.validate_masks() for e in found)
    if slug != "random":
        every = torch.cat([e[k].edge_mask for e in found for k in e.edge_types])
        assert float(every.max() - every.min()) > 0
