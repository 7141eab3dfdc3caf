"""Graphs whose node types have integers, booleans or numbers, each read as it is."""

import pytest
import torch
from torch import nn
from torch_geometric.explain import Explainer, HeteroExplanation

from contract import make_explainer
from hetero import EDGE_TYPES, WIDTHS, Convs, Transformer, make_graph, make_graphs
from hpme.data import GraphStore
from hpme.errors import InputError, ModelError
from hpme.explainers import EXPLAINERS
from hpme.explainers.shared.parametric import Categories

HETERO = [slug for slug, kind in EXPLAINERS.items() if kind.hetero]
CODES = 4


class Tables(nn.Module):
    """The sum of an embedding per column."""

    def __init__(self, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(CODES, 8) for _ in range(width))

    def forward(self, x):
        assert x.dtype == torch.long
        return sum(table(column) for table, column in zip(self.tables, x.unbind(1), strict=True))


class Flags(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 8)

    def forward(self, x):
        assert x.dtype == torch.bool
        return self.linear(x.float())


class Numbers(nn.Linear):
    def forward(self, x):
        assert x.dtype == torch.float
        return super().forward(x)


READERS = {
    "codes": {"user": Tables(3), "item": Tables(2), "tag": Flags(1)},
    "mixed": {"user": Numbers(3, 8), "item": Tables(2), "tag": Flags(1)},
}


def coded(name, graphs):
    for graph in graphs:
        for kind, reader in READERS[name].items():
            x = graph[kind].x
            if isinstance(reader, Tables):
                graph[kind].x = (x.abs() * 3).long().clamp(max=CODES - 1)
            elif isinstance(reader, Flags):
                graph[kind].x = x > 0
    return graphs


def reading(name, base=Convs):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        model = base()
        readers = {k: type(r)(WIDTHS[k], *[8] * isinstance(r, Numbers)) for k, r in
                   READERS[name].items()}  # fmt: skip
        model.inputs = nn.ModuleDict(readers)
        return model.eval()


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("slug", HETERO)
def test_every_type_is_read_as_it_is(slug, name, tmp_path):
    base = Convs if name == "mixed" else Transformer
    graphs, model = coded(name, make_graphs(6)), reading(name, base)
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    explanations = explainer.explain(model, graphs, progress=False)
    for graph, explanation in zip(graphs, explanations, strict=True):
        assert isinstance(explanation, HeteroExplanation)
        for kind in WIDTHS:
            assert explanation[kind].x.dtype == graph[kind].x.dtype
            assert torch.equal(explanation[kind].x, graph[kind].x)
        for kind in graph.edge_types:
            mask = explanation[kind].edge_mask
            assert mask.dtype == torch.float and bool(((mask >= 0) & (mask <= 1)).all())
    every = torch.cat([e[k].edge_mask for e in explanations for k in e.edge_types])
    assert float(every.max() - every.min()) > 0
    explainer.save(tmp_path / "explainer.safetensors")
    again = EXPLAINERS[slug].load(tmp_path / "explainer.safetensors")
    assert again.schema == explainer.schema
    for first, second in zip(explanations, again.explain(model, graphs), strict=True):
        assert all(torch.equal(first[k].edge_mask, second[k].edge_mask) for k in EDGE_TYPES)
    if slug == "hpme" and name == "mixed":
        assert len(explainer.quality(model, graphs)) == 6


@pytest.mark.parametrize("name", READERS)
def test_a_graph_that_lacks_a_type_is_explained_alike(name):
    graphs, model = coded(name, make_graphs(5)), reading(name)
    (lacking,) = coded(name, [make_graph(5, {"user": 4, "item": 3, "tag": 0})])
    explainer = make_explainer("hpme").fit(model, [*graphs, lacking], progress=False)
    together, alone = explainer.explain(model, [*graphs, lacking])[-1], lacking.clone()
    for kind in list(alone.edge_types):
        if "tag" in kind:
            del alone[kind]
    del alone["tag"]
    (alone,) = explainer.explain(model, [alone])
    for kind in alone.edge_types:
        assert torch.allclose(alone[kind].edge_mask, together[kind].edge_mask, atol=1e-5)


@pytest.mark.parametrize("name", READERS)
def test_integrated_gradients_over_embeddings_and_numbers(name):
    """Against a path by hand: outputs of what reads codes, and numbers as they are."""
    (graph,), model = coded(name, [make_graph(2)]), reading(name)
    explainer = make_explainer("integratedgradients", steps=50)
    (found,) = explainer.explain(model, [graph], progress=False)
    batch = {kind: torch.zeros(len(graph[kind].x), dtype=torch.long) for kind in WIDTHS}
    top = int(model(graph.x_dict, graph.edge_index_dict, batch, batch_size=1).argmax())
    direct = {k for k, reader in READERS[name].items() if isinstance(reader, Numbers)}
    whole = {k: x if k in direct else model.inputs[k](x) for k, x in graph.x_dict.items()}
    whole = {kind: value.detach() for kind, value in whole.items()}

    def odds(part):
        h = {k: (model.inputs[k](v) if k in direct else v).tanh() for k, v in part.items()}
        model.start = lambda _: h
        out = model(graph.x_dict, graph.edge_index_dict, batch, batch_size=1)[0]
        del model.start
        return out[top] - out[1 - top]

    shares = {kind: torch.zeros(len(value)) for kind, value in whole.items()}
    for step in range(50):
        part = {k: (v * (step + 0.5) / 50).requires_grad_() for k, v in whole.items()}
        for (kind, value), slope in zip(
            part.items(), torch.autograd.grad(odds(part), [*part.values()]), strict=True
        ):
            assert value.shape == slope.shape
            shares[kind] += (slope * whole[kind]).sum(1) / 50
    for kind in WIDTHS:
        mask = found[kind].node_mask.view(-1)
        assert torch.allclose(mask / (1 - mask), shares[kind].abs(), rtol=1e-3, atol=1e-5)
        assert bool((mask > 0).any())


def test_codes_of_types_are_apart():
    graphs = coded("mixed", make_graphs(4))
    store = GraphStore.from_graphs(graphs)
    categories, batch = Categories.of(store), store.batch()
    read, kinds = categories(batch), batch.node["node_type"]
    assert set(categories.kind.tolist()) == {1, 2}  # users have numbers
    users = kinds == 0
    assert not read[users, : len(categories.code)].any()
    assert torch.equal(read[users, -3:], torch.cat([g["user"].x for g in graphs]))
    assert not read[~users, -3:].any()
    assert bool((read[kinds == 1, : len(categories.code)].sum(1) == 2).all())  # one per column


def test_nodes_with_codes_are_deleted():
    (graph,) = coded("mixed", [make_graph(1)])
    batch = GraphStore.from_graphs([graph]).batch()
    gone = torch.arange(batch.num_nodes) == 5
    left = batch.without(gone)
    assert left.num_nodes == batch.num_nodes - 1
    assert left.x_dict["item"].dtype == torch.long and left.x_dict["tag"].dtype == torch.bool


class Functional(Convs):
    """Codes that no layer is called with."""

    def start(self, x_dict):
        numbers = {k: nn.functional.pad(x.float(), (0, 8 - x.shape[1])) for k, x in x_dict.items()}
        return {kind: x.tanh() for kind, x in numbers.items()}


def test_gradients_of_nodes_need_a_layer_that_reads_the_codes():
    graphs, model = coded("mixed", make_graphs(4)), Functional().eval()
    explainer = make_explainer("integratedgradients").fit(model, graphs, progress=False)
    with pytest.raises(ModelError, match=r"x of item, tag\).*nn\.Embedding.*hpme, occlusion"):
        explainer.explain(model, graphs)
    for slug in ("occlusion", "random", "hpme"):
        found = make_explainer(slug).fit(model, graphs, progress=False).explain(model, graphs)
        assert len(found) == 4


@pytest.mark.parametrize("mask", ["object", "attributes"])
def test_pyg_explainer(mask):
    graphs, model = coded("codes", make_graphs(4)), reading("codes")
    algorithm = make_explainer("occlusion").fit(model, graphs, progress=False)
    explainer = Explainer(
        model, algorithm, explanation_type="model", node_mask_type=mask, edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "graph",
                      "return_type": "raw"},
    )  # fmt: skip
    graph = graphs[0]
    batch = {kind: torch.zeros(len(graph[kind].x), dtype=torch.long) for kind in WIDTHS}
    found = explainer(graph.x_dict, graph.edge_index_dict, batch_dict=batch)
    for kind, width in WIDTHS.items():
        shape = (len(graph[kind].x), width if mask == "attributes" else 1)
        assert found[kind].node_mask.shape == shape


def test_what_does_not_fit_is_refused():
    graphs = coded("codes", make_graphs(3))
    graphs[1]["item"].x = graphs[1]["item"].x.float()
    with pytest.raises(InputError, match=r"graph 1: x of node type 'item' is torch\.float32"):
        GraphStore.from_graphs(graphs)
    graphs[1]["item"].x = graphs[1]["item"].x.long()[:, 0]
    with pytest.raises(InputError, match=r"'item' has x of .*x\.view\(-1, 1\)"):
        GraphStore.from_graphs(graphs)
    model = reading("codes")
    explainer = make_explainer("hpme").fit(model, coded("codes", make_graphs(6)), progress=False)
    with pytest.raises(InputError, match=r"x of node type 'user' is floating point, int64 when"):
        explainer.explain(model, make_graphs(2))
