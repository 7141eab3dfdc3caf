"""Models that know one class, graphs without edges, nothing to be found: a clear answer."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

from hpme.data import from_smiles
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer

CHEAP = {"restarts": 1}


class Column(nn.Module):
    """Logits, or a value: whether a graph has a node with a feature; with 0 weight, never."""

    def __init__(self, column, weight=1.0, outputs=2):
        super().__init__()
        self.column, self.weight, self.outputs = column, weight, outputs

    def forward(self, x, edge_index, batch):
        count = self.weight * global_add_pool(x, batch)[:, self.column : self.column + 1]
        return torch.cat([2 * count - 1, 1 - 2 * count], 1)[:, : self.outputs]


@pytest.fixture(scope="module")
def molecules():
    smiles = [f"{'C' * n}{end}" for n in range(2, 10) for end in ("O", "Cl", "F")]
    return list(from_smiles(smiles, [0] * len(smiles), progress=False))


@pytest.fixture(scope="module")
def apart():
    """Graphs of three nodes without an edge, the second of two kinds."""
    none = torch.zeros(2, 0, dtype=torch.long)
    return [Data(x=torch.eye(3)[[0, 1 + i % 2, 0]], edge_index=none) for i in range(30)]


@pytest.mark.parametrize("kind", ["molecules", "apart"])
def test_a_model_that_knows_one_class(kind, request, caplog):
    graphs = request.getfixturevalue(kind)
    model = Column(1, weight=0.0)
    explainer = HPMEExplainer(k=1, **CHEAP).fit(model, graphs, progress=False)
    book = explainer.rules(model, graphs, progress=False)
    assert len(book) == 0 and "nothing to tell apart" in book.note
    caplog.clear()
    assert explainer.counterfactuals(model, graphs[:3], progress=False) == [[]] * 3
    assert "gives all graphs the same answer" in caplog.text
    masks = [torch.arange(graph.num_nodes) == 1 for graph in graphs]
    audit = explainer.audit(model, graphs, masks)
    assert audit.finding == "one prediction only" and not audit.passed


def test_graphs_without_edges(apart):
    model = Column(1)
    explainer = HPMEExplainer(k=1, **CHEAP).fit(model, apart, progress=False)
    for graph, some in zip(
        apart[:4], explainer.counterfactuals(model, apart[:4], progress=False), strict=True
    ):
        assert some and some[0].graph.num_edges == 0
        assert (graph.x[:, 1].sum() > 0) != (some[0].graph.x[:, 1].sum() > 0)
    ours = explainer.audit(model, apart, [graph.x[:, 1].bool() for graph in apart])
    other = explainer.audit(model, apart, [torch.arange(3) == 0 for _ in apart])
    assert ours.finding == "reads it" and other.finding == "reads neither"


def test_a_pattern_that_no_graph_has(molecules):
    model = Column(4)
    explainer = HPMEExplainer(k=1, **CHEAP).fit(model, molecules, progress=False)
    audit = explainer.audit(model, molecules, "Br", "F")
    assert audit.finding == "too few graphs" and audit.should.graphs == 0
    assert audit.to_dict()["should"]["inserted"] is None


def test_values_and_thresholds(molecules, caplog):
    model = Column(4, outputs=1)
    explainer = HPMEExplainer(k=1, **CHEAP)
    explainer.fit(model, molecules, mode="regression", progress=False)
    with pytest.raises(InputError, match="pass threshold="):
        explainer.counterfactuals(model, molecules[:3], progress=False)
    found = explainer.counterfactuals(model, molecules[:3], threshold=0.0, progress=False)
    assert all((one.before > 0) != (one.after > 0) for some in found for one in some)
    assert all(found)
    far = explainer.counterfactuals(model, molecules[:3], threshold=1e3, progress=False)
    assert far == [[]] * 3 and "another threshold" in caplog.text


def test_molecules_of_one_atom(molecules):
    model = Column(4)
    explainer = HPMEExplainer(k=1, **CHEAP).fit(model, molecules, progress=False)
    small = list(from_smiles(["C", "F"], [0, 0], progress=False))
    first, second = explainer.counterfactuals(model, small, donors=molecules, progress=False)
    assert {one.smiles: one.known for one in first} == {"CCCCF": True, "CF": False}
    assert all("F" not in one.smiles for one in second)


def test_nothing_to_ask_about(molecules):
    model = Column(4)
    explainer = HPMEExplainer(k=1, **CHEAP).fit(model, molecules, progress=False)
    for ask in (explainer.rules, explainer.counterfactuals):
        with pytest.raises(InputError, match="no graphs"):
            ask(model, [], progress=False)
    with pytest.raises(InputError, match="no graphs"):
        explainer.audit(model, [], "F")


def test_nodes_have_no_counterfactuals():
    """What would replace a graph is a graph; where one node is asked about it is refused."""
    ring = torch.arange(30)
    data = Data(x=torch.eye(3)[ring % 3], edge_index=torch.stack([ring, (ring + 1) % 30]))
    egos = [data.clone() for _ in range(12)]
    for number, ego in enumerate(egos):
        ego.anchors = torch.tensor([number])
    model = GCNConv(3, 2)
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, egos, progress=False)
    with pytest.raises(InputError, match="explain a model of whole graphs"):
        explainer.counterfactuals(model, egos, progress=False)
