"""Integer and boolean features: what dropping a node means, and where gradients are taken."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCNConv, global_add_pool
from torch_geometric.utils import from_smiles

from contract import SLUGS, assert_valid, fitted, make_explainer, make_graph, make_graphs
from hetero import make_graph as make_hetero
from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers import OcclusionExplainer
from hpme.explainers.hpme.grafting import default_featurise
from hpme.explainers.hpme.patterns import Vocabulary
from hpme.explainers.shared.parametric import Categories
from hpme.metrics import fidelity
from hpme.storage import read_tensors

SOME = ["hpme", "occlusion", "integratedgradients", "subgraphx", "random", "grad", "proxyexplainer"]


class Counts(nn.Module):
    """The number of nodes with code 3, twice for those with a neighbour of that code."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 1)
        self.table.weight.data = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0]).view(5, 1)

    def forward(self, x, edge_index, batch):
        h = self.table(x.view(-1))
        source, target = edge_index
        near = torch.zeros_like(h).index_add(0, target, h[source]).clamp(max=1)
        return global_add_pool(h * (1 + near), batch)


def test_a_node_that_is_gone_is_deleted_with_its_edges():
    graph = Data(
        x=torch.tensor([3, 3, 1, 0]), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    )
    explainer = OcclusionExplainer(unit="node").fit(Counts(), [graph], mode="regression")
    (found,) = explainer.explain(Counts(), [graph])
    # Four in all; without either of the two that know each other one is left, alone.
    fall = found.node_mask.view(-1) / (1 - found.node_mask.view(-1))
    assert torch.allclose(
        fall / explainer.task.scale**-1, torch.tensor([3.0, 3.0, 0.0, 0.0]), atol=1e-4
    )


def test_what_cannot_be_deleted_gets_the_neutral_code():
    graphs = [
        Data(x=torch.tensor([[3, 2], [1, 4]]), edge_index=torch.tensor([[0, 1], [1, 0]])),
        Data(x=torch.tensor([[3, 2]]), edge_index=torch.zeros(2, 0, dtype=torch.long)),
    ]
    batch = GraphStore.from_graphs(graphs).batch()
    left = batch.without(torch.tensor([True, False, True]))
    assert left.x.tolist() == [[1, 4], [0, 0]] and left.x.dtype == torch.long
    assert left.batch.tolist() == [0, 1] and left.num_edges == 0
    for graph in graphs:
        graph.anchors = torch.tensor([0])
    left = GraphStore.from_graphs(graphs).batch().without(torch.tensor([True, True, True]))
    assert left.x.tolist() == [[0, 0], [0, 0]]
    assert left.anchors.tolist() == [[0], [1]]


def test_numbers_are_zeroed_and_the_structure_stays():
    batch = GraphStore.from_graphs(make_graphs()).batch()
    gone = torch.arange(batch.num_nodes) % 3 == 0
    left = batch.without(gone)
    assert torch.equal(left.edge_index, batch.edge_index)
    assert torch.equal(left.x[~gone], batch.x[~gone]) and not left.x[gone].any()


class Flags(nn.Module):
    """Booleans, which no layer reads as they are."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(4, 6), nn.Linear(6, 2)

    def forward(self, x, edge_index, batch):
        assert x.dtype == torch.bool
        return self.head(global_add_pool(self.conv(x.float(), edge_index).relu(), batch))


class Row(nn.Module):
    """One code per node, as a row."""

    def __init__(self):
        super().__init__()
        self.table, self.conv, self.head = nn.Embedding(9, 6), GCNConv(6, 6), nn.Linear(6, 2)

    def forward(self, x, edge_index, batch):
        assert x.dtype == torch.int32 and x.dim() == 1
        return self.head(global_add_pool(self.conv(self.table(x), edge_index).relu(), batch))


def flagged(seed):
    graph = make_graph(seed)
    graph.x = torch.rand(graph.num_nodes, 4, generator=torch.Generator().manual_seed(seed)) > 0.5
    return graph


def in_a_row(seed):
    graph = make_graph(seed)
    graph.x = torch.arange(graph.num_nodes, dtype=torch.int32).flip(0) % 9
    return graph


@pytest.mark.parametrize("slug", [slug for slug in SLUGS if slug != "att"])
@pytest.mark.parametrize(("kind", "make"), [(Flags, flagged), (Row, in_a_row)])
def test_booleans_and_one_code_per_node(slug, kind, make):
    graphs, model = [make(seed) for seed in range(5)], kind()
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    for explanation, graph in zip(explainer.explain(model, graphs), graphs, strict=True):
        assert_valid(explanation, graph)
        assert torch.equal(explanation.x, graph.x) and explanation.x.dtype == graph.x.dtype
    if slug == "hpme":
        assert len(explainer.quality(model, graphs)) == 5


@pytest.mark.parametrize("slug", SOME)
@pytest.mark.parametrize("mask", ["object", "attributes", "common_attributes"])
@pytest.mark.parametrize("make", [flagged, in_a_row])
def test_importance_of_codes(slug, mask, make):
    graphs, model = [make(seed) for seed in range(4)], Flags() if make is flagged else Row()
    algorithm = make_explainer(slug).fit(model, graphs, progress=False)
    explainer = Explainer(
        model, algorithm, explanation_type="model", node_mask_type=mask, edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "graph",
                      "return_type": "raw"},
    )  # fmt: skip
    batch = torch.zeros(graphs[0].num_nodes, dtype=torch.long)
    found = explainer(graphs[0].x, graphs[0].edge_index, batch=batch).node_mask
    width = 4 if make is flagged and mask != "object" else 1
    assert found.shape == (1 if mask == "common_attributes" else graphs[0].num_nodes, width)
    assert bool((found > 0).any())


def test_integrated_gradients_add_up_over_the_embedding():
    case = fitted("integratedgradients", "coded")
    explainer = make_explainer("integratedgradients", steps=200)
    graph = case.graphs[0]
    mask = explainer.explain(case.model, [graph])[0].node_mask.view(-1)
    model = case.model.eval()

    def odds(h):
        e = model.bonds(graph.edge_attr)
        for conv in model.convs:
            h = model.norm(conv(h, graph.edge_index, e).relu())
        out = model.head(h.sum(0, keepdim=True)).log_softmax(1)[0]
        top = int(model(graph.x, graph.edge_index, None, graph.edge_attr).argmax())
        return out[top] - torch.cat([out[:top], out[top + 1 :]]).logsumexp(0)

    h = model.atoms(graph.x).detach()
    shares = torch.zeros(len(h))
    for step in range(200):
        part = (h * (step + 0.5) / 200).requires_grad_()
        (slope,) = torch.autograd.grad(odds(part), part)
        shares += (slope * h).sum(1) / 200
    assert torch.allclose(mask / (1 - mask), shares.abs(), rtol=1e-3, atol=1e-5)


def test_categories_of_what_was_met():
    store = GraphStore.from_graphs(make_graphs("coded"))
    store = store.with_attributes(node={"x": store.x % torch.tensor([2, 3, 4])})
    categories = Categories.of(store)
    expected = [
        torch.nn.functional.one_hot(c, n) for c, n in zip(store.x.T, (2, 3, 4), strict=True)
    ]
    assert torch.equal(categories(store.batch()), torch.cat(expected, dim=1).float())
    unknown = store.with_attributes(node={"x": store.x + 500})
    assert not categories(unknown.batch()).any()
    assert Categories.of(GraphStore.from_graphs(make_graphs())) is None


def test_columns_of_many_codes_are_left_out():
    graph = make_graph(0, 90)
    graph.x = torch.stack([torch.arange(90), torch.arange(90) % 2], dim=1)
    assert Categories.of(GraphStore.from_graphs([graph])).column.tolist() == [1, 1]


def test_rules_tell_codes_apart():
    graphs = make_graphs("coded")
    for graph in graphs:
        graph.x = graph.x[:, :1] % 3
        del graph.edge_attr
    store = GraphStore.from_graphs(graphs)
    words = Vocabulary.of(store)
    assert len(words.nodes) == 3
    labels = words.read(store).label
    assert torch.equal(labels, store.x.view(-1))


def test_metrics_and_what_hpme_tells_of_codes():
    case = fitted("hpme", "coded")
    found = case.explainer.explain(case.model, case.graphs)
    assert len(fidelity(case.model, found, 0.3).plus.per_graph) == len(case.graphs)
    assert len(case.explainer.effects(case.model, case.graphs)) == len(case.graphs)
    assert case.explainer.rules(case.model, case.graphs, progress=False).rules is not None
    assert len(case.explainer.counterfactuals(case.model, case.graphs)) == len(case.graphs)


def test_files_of_numbers_hold_no_codes(tmp_path):
    for target in ("gcn", "coded"):
        fitted("hpme", target).explainer.save(tmp_path / target)
        tensors, meta = read_tensors(tmp_path / target)
        coded = target == "coded"
        assert any(".categories." in name for name in tensors) == coded
        assert (meta["learned"]["pool"]["codes"] is not None) == coded


class NodeTable(nn.Module):
    """A node-level model of codes."""

    def __init__(self):
        super().__init__()
        self.table, self.conv, self.head = nn.Embedding(16, 6), GCNConv(6, 6), nn.Linear(6, 3)

    def forward(self, x, edge_index):
        return self.head(self.conv(self.table(x[:, 0]), edge_index).relu())


@pytest.mark.parametrize("slug", [s for s in SLUGS if s not in ("att", "metagnn")])
def test_nodes_of_a_graph_with_codes(slug):
    graph, index = make_graph(4, 14, coded=True), torch.arange(5)
    del graph.edge_attr
    explainer = make_explainer(slug, num_hops=2).fit(
        NodeTable(), graph, index=index, progress=False
    )
    found = explainer.explain(NodeTable(), graph, index=index, progress=False)
    for explanation in found:
        assert explanation.x.dtype == torch.long
        assert torch.equal(explanation.x, graph.x[explanation.node_ids])
        assert bool(explanation.edge_mask.isfinite().all())


def test_molecules_of_pyg_are_made_again():
    pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")
    graphs = [from_smiles(text) for text in ("CC(=O)N", "c1ccccc1O", "CCCl")]
    store = GraphStore.from_graphs(graphs)
    made = default_featurise(store)(list(store.text["smiles"]))
    for graph, other in zip(graphs, made, strict=True):
        assert torch.equal(graph.x, other.x) and torch.equal(graph.edge_attr, other.edge_attr)
    odd = store.with_attributes(node={"x": store.x + 1})
    with pytest.raises(InputError, match="other features than hpme's own and those of PyG"):
        default_featurise(odd)


def test_codes_of_types_are_refused_with_a_remedy():
    graph = make_hetero(0, edge_features=True)
    first, second = graph.edge_types[:2]
    graph[first].edge_attr = graph[first].edge_attr.long()
    with pytest.raises(InputError, match=r"edge_attr.*torch\.int64.*turn them back with \.long"):
        GraphStore.from_graphs([graph])
    for kind in graph.edge_types:
        del graph[kind].edge_attr
    graph[second].edge_attr = torch.ones(graph[second].edge_index.shape[1], 1, dtype=torch.long)
    assert GraphStore.from_graphs([graph]).edge_attr.dtype == torch.long
