"""What is known about a model is said once, and a call may say more."""

import pytest
import torch
from torch_geometric.explain import ModelConfig

from contract import make_graphs
from hpme.errors import InputError, ModelError
from hpme.explainers import GradExplainer, HPMEExplainer
from hpme.graphs import GraphStore
from hpme.metrics import fidelity, hard_masks, robust_fidelity, shift, simoar
from hpme.models import ExplainedModel, build_model
from hpme.page import write_page
from small_models import Net

ONE_VALUE = torch.tensor([[0.5], [1.5]])


def test_a_bare_module_is_wrapped_and_an_explained_one_is_kept():
    model = Net()
    explained = ExplainedModel.of(model, mode="regression")
    assert explained.model is model
    assert ExplainedModel.of(explained) is explained
    assert ExplainedModel.of(explained, level="node").mode == "regression"


def test_what_a_call_says_counts_more():
    explained = ExplainedModel(Net(), mode="regression", level="node")
    other = ExplainedModel.of(explained, mode="binary_classification", level="graph")
    assert (other.mode, other.level) == ("binary_classification", "graph")
    assert (explained.mode, explained.level) == ("regression", "node")


def test_mode_and_level_count_more_than_the_configuration():
    config = ModelConfig(mode="regression", task_level="node")
    explained = ExplainedModel(Net(), model_config=config)
    assert (explained.known_level, explained.task(ONE_VALUE).mode) == ("node", "regression")
    other = ExplainedModel.of(explained, mode="binary_classification", level="graph")
    assert other.known_level == "graph"
    assert other.task(ONE_VALUE).mode == "binary_classification"


def test_what_cannot_be_used_is_named():
    with pytest.raises(ModelError, match=r"torch\.nn\.Module, got int"):
        ExplainedModel(3)
    with pytest.raises(InputError, match="regression or a binary"):
        ExplainedModel(Net()).task(ONE_VALUE)
    with pytest.raises(ModelError, match="NaN"):
        ExplainedModel(Net(), mode="regression").task(ONE_VALUE / 0 * 0)


def test_it_is_frozen_for_a_while():
    explained = ExplainedModel(Net().train())
    with explained.frozen():
        assert not explained.model.training
    assert explained.model.training


def test_explainers_metrics_and_the_page_take_it_and_a_store(tmp_path):
    model, graphs = build_model("gcn", 3, 1, "regression").eval(), make_graphs()
    store, explained = GraphStore.from_graphs(graphs), ExplainedModel(model, mode="regression")
    for make in (GradExplainer, lambda: HPMEExplainer(ratio=0.5, restarts=1)):
        ours, theirs = make(), make()
        theirs.fit(model, graphs, mode="regression", progress=False)
        expected = theirs.explain(model, graphs, progress=False)
        found = ours.fit(explained, store, progress=False).explain(explained, store, progress=False)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one.edge_mask, other.edge_mask)
        assert ours.explain(model, graphs, progress=False)[0].keys() == expected[0].keys()
    (unfitted,) = GradExplainer().explain(explained, store[0], progress=False)
    assert unfitted.edge_mask.shape == found[0].edge_mask.shape  # it knows what the output means
    with pytest.raises(InputError, match="regression or a binary"):
        GradExplainer().explain(model, store[0], progress=False)
    whole = GraphStore.from_graphs(found, attributes="all")
    for metric in (fidelity, robust_fidelity):
        one, other = metric(explained, whole, 2), metric(model, expected, 2, mode="regression")
        assert torch.equal(one.plus.per_graph, other.plus.per_graph)
        assert torch.equal(one.minus.per_graph, other.minus.per_graph)
    one, other = simoar(explained, whole, 2), simoar(model, expected, 2, mode="regression")
    assert torch.equal(one.per_graph, other.per_graph)
    assert all(map(torch.equal, hard_masks(whole, 2), hard_masks(expected, 2)))
    assert float(shift(explained, store, store).euclidean) == 0
    page = write_page(explained, store, whole, tmp_path / "page.html", steps=2)
    assert f"Explanations of {type(model).__name__}" in page.read_text()
