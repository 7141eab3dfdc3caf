"""Every explainer as an algorithm of PyG's ``Explainer``."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer

from contract import SLUGS, assert_valid, call, make_explainer, make_graphs, make_target
from hpme.errors import InputError

slugs = pytest.mark.parametrize("slug", SLUGS)


class Ending(nn.Module):
    """A target whose logits are turned into what PyG calls a return type."""

    def __init__(self, slug, outputs, ending):
        super().__init__()
        self.gnn, self.ending = make_target("gcn", slug), ending
        self.gnn.out = nn.Linear(16, outputs)

    def forward(self, x, edge_index, batch=None, edge_weight=None):
        return self.ending(self.gnn(x, edge_index, batch, edge_weight))


SETTINGS = {
    ("multiclass_classification", "raw"): (3, lambda out: out),
    ("multiclass_classification", "probs"): (3, lambda out: out.softmax(1)),
    ("multiclass_classification", "log_probs"): (3, lambda out: out.log_softmax(1)),
    ("binary_classification", "raw"): (1, lambda out: out),
    ("binary_classification", "probs"): (1, lambda out: out.sigmoid().view(-1)),
    ("regression", "raw"): (1, lambda out: 100 * out),
}


def make(slug, mode="multiclass_classification", return_type="raw", **options):
    model = Ending(slug, *SETTINGS[mode, return_type])
    config = {"mode": mode, "task_level": "graph", "return_type": return_type}
    settings = {"explanation_type": "model", "edge_mask_type": "object", "model_config": config}
    explainer = Explainer(model, make_explainer(slug), **{**settings, **options})
    return explainer, model


SOME = ["hpme", "pgexplainer", "grad", "metagnn"]
"""Where what is tested is done in one place for all explainers."""
NOT_ALIKE = {
    ("multiclass_classification", "log_probs"),
    ("binary_classification", "probs"),
    ("regression", "raw"),
}
"""What all explainers are shown; the others are read in one place."""


@pytest.mark.parametrize(
    ("slug", "mode", "return_type"),
    [(s, *setting) for s in SLUGS for setting in SETTINGS if s in SOME or setting in NOT_ALIKE],
)
def test_settings(slug, mode, return_type):
    explainer, model = make(slug, mode, return_type)
    graphs = make_graphs()
    explainer.algorithm.fit(model, graphs, progress=False)  # takes the mode from the Explainer
    batch = Batch.from_data_list(graphs)
    explanation = explainer(batch.x, batch.edge_index, batch=batch.batch)
    assert_valid(explanation, batch)
    assert torch.equal(explanation.edge_mask, call(explainer.algorithm, model, batch).edge_mask)
    assert explanation.prediction.shape[0] == len(graphs)
    alone = explainer(graphs[0].x, graphs[0].edge_index)
    assert_valid(alone, graphs[0])
    assert alone.get_explanation_subgraph().num_edges <= graphs[0].num_edges


@pytest.mark.parametrize("slug", SOME)
def test_model_config_without_an_explainer(slug):
    _, model = make(slug, "binary_classification", "probs")
    config = {"mode": "binary_classification", "task_level": "graph", "return_type": "probs"}
    algorithm = make_explainer(slug).fit(model, make_graphs(), model_config=config, progress=False)
    connected, _ = make(slug, "binary_classification", "probs")
    connected.algorithm.fit(model, make_graphs(), progress=False)
    graph = make_graphs()[0]
    masks = [call(a, model, graph).edge_mask for a in (algorithm, connected.algorithm)]
    assert torch.equal(*masks)


@pytest.mark.parametrize("slug", SOME)
def test_thresholds(slug):
    explainer, model = make(slug, threshold_config={"threshold_type": "topk", "value": 4})
    graphs = make_graphs()
    explainer.algorithm.fit(model, graphs, progress=False)
    full = call(explainer.algorithm, model, graphs[0]).edge_mask
    topk = explainer(graphs[0].x, graphs[0].edge_index).edge_mask
    assert int((topk > 0).sum()) == 4
    assert float(topk[topk > 0].min()) >= float(full[topk == 0].max())
    assert torch.equal(topk[topk > 0], full[topk > 0])


@pytest.mark.parametrize("slug", ["hpme", "pgexplainer", "gnnexplainer"])
def test_phenomenon_and_node_masks(slug):
    """The predicted class as a target gives the explanation of the prediction."""
    options = {"node_mask_type": "attributes", "edge_mask_type": None}
    explainer, model = make(slug, explanation_type="phenomenon", **options)
    graphs = make_graphs()
    algorithm = explainer.algorithm.fit(model.eval(), graphs, progress=False)
    batch = Batch.from_data_list(graphs)
    predicted = model(batch.x, batch.edge_index, batch.batch).argmax(1)
    told = explainer(batch.x, batch.edge_index, batch=batch.batch, target=predicted)
    assert told.node_mask.shape == batch.x.shape and "edge_mask" not in told
    assert bool(told.node_mask.any()) and bool((told.node_mask <= 1).all())
    if algorithm.needs_fit:
        with pytest.raises(InputError, match="fitted to predicted classes"):
            explainer(batch.x, batch.edge_index, batch=batch.batch, target=(predicted + 1) % 3)


@slugs
def test_extra_arguments_reach_the_model(slug):
    class Extra(Ending):
        def forward(self, x, edge_index, batch=None, edge_weight=None, *, factor=None):
            seen.append(factor)
            return super().forward(x, edge_index, batch, edge_weight)

    seen = []
    model, graphs = Extra(slug, 3, lambda out: out), make_graphs()
    algorithm = make_explainer(slug).fit(model, graphs, progress=False)
    seen.clear()
    call(algorithm, model, graphs[0], factor=2.0)
    assert set(seen) <= {2.0}
