"""Models that return a row per link, explained by the ego graphs of both ends."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCNConv
from torch_geometric.utils import k_hop_subgraph, to_undirected

from contract import make_explainer
from hpme.errors import InputError
from hpme.explainers import GradExplainer
from hpme.explainers.shared.context import read_graphs

CONFIG = {"mode": "binary_classification", "task_level": "edge", "return_type": "raw"}


class LinkPredictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(3, 8), GCNConv(8, 8)

    def forward(self, x, edge_index, edge_label_index, edge_weight=None):
        h = self.first(x, edge_index, edge_weight).relu()
        h = self.second(h, edge_index, edge_weight)
        return (h[edge_label_index[0]] * h[edge_label_index[1]]).sum(-1)


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    index = to_undirected(torch.randint(40, (2, 50), generator=generator))
    index = index[:, index[0] != index[1]]
    return Data(x=torch.randn(40, 3, generator=generator), edge_index=index)


@pytest.mark.parametrize("slug", ["hpme", "gnnexplainer"])
def test_links_through_pyg(data, slug):
    model, links = LinkPredictor().eval(), data.edge_index[:, :12]
    algorithm = make_explainer(slug)
    explainer = Explainer(
        model, algorithm, explanation_type="model", edge_mask_type="object", model_config=CONFIG
    )
    algorithm.fit(model, data, index=links, progress=False)
    one = explainer(data.x, data.edge_index, edge_label_index=links[:, :1])
    assert one.edge_mask.shape == (data.num_edges,) and bool(one.edge_mask.any())
    several = algorithm.explain(model, data, index=links, progress=False)
    assert len(several) == 12
    assert torch.equal(several[0].node_ids[several[0].anchors], links[:, 0])
    _, _, _, inside = k_hop_subgraph(links[:, 0], 3, data.edge_index)
    assert torch.equal(several[0].edge_ids.sort().values, inside.nonzero().view(-1))
    assert not bool(one.edge_mask[~inside].any())


def test_ego_graphs_give_the_models_own_output(data):
    model, links = LinkPredictor().eval(), data.edge_index[:, :5]
    explainer = GradExplainer().fit(
        model, data, index=links, mode="binary_classification", progress=False
    )
    explained = explainer._leveled(model, None, links)
    store = read_graphs(explainer, explained, data, links).store
    with torch.no_grad():
        own = model(data.x, data.edge_index, links)
        ours = explained.adapter().predict(store.batch())
    # Ego graphs of one hop more than there are layers know the degrees of all nodes that count.
    assert torch.allclose(own, ours, atol=1e-5)


def test_links_of_the_wrong_shape(data):
    with pytest.raises(InputError, match=r"of shape \[2, links\], got None"):
        make_explainer("hpme").fit(LinkPredictor(), data, level="edge", progress=False)
    with pytest.raises(InputError, match="index 99 is out of range"):
        make_explainer("hpme").fit(
            LinkPredictor(), data, index=torch.tensor([[0], [99]]), mode="regression",
            progress=False,
        )  # fmt: skip
