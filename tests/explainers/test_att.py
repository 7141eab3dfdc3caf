import pytest
import torch
from torch import nn
from torch_geometric.explain import AttentionExplainer as PyGAttention
from torch_geometric.explain import Explainer
from torch_geometric.nn import GATConv, TransformerConv, global_add_pool

from contract import (
    ATTENTION_TARGETS,
    FEATURES,
    call,
    fields_of,
    make_graph,
    make_target,
    odd_graphs,
)
from hpme.errors import InputError, ModelError
from hpme.explainers import AttentionExplainer
from hpme.models import build_model


def averaged(mask, edge_index, nodes):
    dense = torch.zeros(nodes, nodes)
    dense[tuple(edge_index)] = mask
    return ((dense + dense.t()) / 2)[tuple(edge_index)]


@pytest.mark.parametrize("reduce", ["max", "mean"])
@pytest.mark.parametrize("target", [*ATTENTION_TARGETS, "library"])
def test_equals_pyg_averaged_over_both_directions(target, reduce):
    if target == "library":
        model = build_model("gat", FEATURES, 3)
    else:
        model = make_target(target, "att").eval()
    graph = make_graph(3, 9, **fields_of(target))
    explainer = Explainer(
        model,
        PyGAttention(reduce),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "graph",
                      "return_type": "raw"},
    )  # fmt: skip
    extra = {"edge_attr": graph.edge_attr} if target in ("gine", "coded") else {}
    batch = torch.zeros(9, dtype=torch.long)
    mask = explainer(graph.x, graph.edge_index, batch=batch, **extra).edge_mask
    expected = averaged(mask, graph.edge_index, 9)
    actual = call(AttentionExplainer(reduce=reduce), model, graph).edge_mask
    torch.testing.assert_close(actual, expected)
    assert not torch.allclose(actual, mask)


class OneLayer(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv, self.head = conv, nn.Linear(4, 2)

    def forward(self, x, edge_index, batch):
        return self.head(global_add_pool(self.conv(x, edge_index), batch))


@pytest.mark.parametrize("name", ["all self-loops", "some self-loops", "directed"])
@pytest.mark.parametrize(
    "conv", [GATConv, TransformerConv, lambda *a: GATConv(*a, add_self_loops=False)]
)
def test_stays_aligned_with_self_loops(conv, name):
    """What the layer itself says about each edge, where PyG's explainer shifts scores."""
    graph, layer = odd_graphs()[name], conv(FEATURES, 4)
    _, (edges, alpha) = layer(graph.x, graph.edge_index, return_attention_weights=True)
    said = {tuple(e): a for e, a in zip(edges.t().tolist(), alpha.view(-1).tolist(), strict=True)}
    expected = []
    for i, j in graph.edge_index.t().tolist():
        both = [said[e] for e in ((i, j), (j, i)) if e in said]
        expected.append(sum(both) / len(both))
    actual = call(AttentionExplainer(), OneLayer(layer), graph).edge_mask
    torch.testing.assert_close(actual, torch.tensor(expected))


def test_models_without_attention_are_refused():
    for use in (
        lambda: AttentionExplainer().fit(make_target("gcn"), [make_graph(0)], progress=False),
        lambda: call(AttentionExplainer(), make_target("gcn"), make_graph(0)),
    ):
        with pytest.raises(ModelError, match=r"no attention coefficients.*GATConv.*train one"):
            use()


def test_attention_off_the_edges_is_refused():
    class Elsewhere(GATConv):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index[:, :3])

    with pytest.raises(ModelError, match=r"attention coefficients for \d+ edges.*along the edges"):
        call(AttentionExplainer(), OneLayer(Elsewhere(FEATURES, 4)), make_graph(0))


def test_reduce():
    with pytest.raises(InputError, match=r"reduce must be one of .*max.*got 'sum'"):
        AttentionExplainer(reduce="sum")
