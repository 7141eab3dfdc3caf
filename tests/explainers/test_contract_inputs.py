"""Unusable input: a named error whose message says what to do."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, global_add_pool

from contract import SLUGS, call, fitted, make_explainer, make_graph, make_graphs, make_target
from hpme.errors import InputError, ModelError, NotFittedError, UnknownNameError
from hpme.explainers import HPMEExplainer, explainer_class

slugs = pytest.mark.parametrize("slug", SLUGS)


def changed(**changes):
    graph = make_graph(1)
    for key, change in changes.items():
        graph[key] = change(graph[key])
    return graph


def poke(value):
    def change(tensor):
        tensor = tensor.clone()
        tensor[2, 1] = value
        return tensor

    return change


BAD_GRAPHS = {
    "nan": (lambda: changed(x=poke(float("nan"))), "NaN or infinite.*clean or impute"),
    "inf": (lambda: changed(x=poke(float("inf"))), "NaN or infinite.*clean or impute"),
    "complex features": (
        lambda: changed(x=lambda x: x.cfloat()),
        "floating point, integer or boolean.*view_as_real",
    ),
    "flat features": (lambda: changed(x=lambda x: x[:, 0]), r"shape \[nodes, features\]"),
    "int32 edges": (lambda: changed(edge_index=lambda e: e.int()), r"torch\.long.*\.long\(\)"),
    "transposed edges": (lambda: changed(edge_index=lambda e: e.t()), r"shape \[2, edges\]"),
    "edge too large": (lambda: changed(edge_index=lambda e: e + 2), r"out of range.*\[0, 7\)"),
    "edge negative": (lambda: changed(edge_index=lambda e: e - 1), r"out of range.*\[0, 7\)"),
}


@slugs
@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_bad_graph(slug, name):
    make, message = BAD_GRAPHS[name]
    case = fitted(slug)
    with pytest.raises(InputError, match=message):
        call(case.explainer, case.model, make())
    for use in (
        lambda graphs: case.explainer.explain(case.model, graphs, progress=False),
        lambda graphs: make_explainer(slug).fit(case.model, graphs, progress=False),
    ):
        with pytest.raises(InputError, match=message):
            use([make()])
        if name != "int32 edges":  # torch promotes them among the right type, without loss
            mixed = f"{message}|cannot be put into one batch|that of graph 0"
            with pytest.raises(InputError, match=mixed):
                use([make_graph(0), make()])


@slugs
def test_codes_among_numbers_are_named_not_cast(slug):
    graphs = [make_graph(0), changed(x=lambda x: x.long())]
    with pytest.raises(InputError, match=r"x of graph 1 is torch.int64, that of graph 0 torch.fl"):
        make_explainer(slug).fit(make_target("gcn", slug), graphs, progress=False)


@slugs
def test_mixed_precision_is_named_not_computed(slug):
    graphs = [make_graph(0), changed(x=lambda x: x.double())]
    with pytest.raises((InputError, ModelError), match=r"float64|Double|dtype"):
        make_explainer(slug).fit(make_target("gcn", slug), graphs, progress=False)


@slugs
def test_wrong_number_of_features(slug):
    wide = changed(x=lambda x: torch.cat([x, x], dim=1))
    with pytest.raises(ModelError, match=r"6 features.*trained with"):
        make_explainer(slug).fit(make_target("gcn", slug), [wide], progress=False)


@slugs
def test_no_graphs(slug):
    for empty in ([], iter([])):
        with pytest.raises(InputError, match=r"no graphs.*empty"):
            make_explainer(slug).fit(make_target("gcn", slug), empty, progress=False)
    with pytest.raises(InputError, match=r"no graphs.*empty"):
        fitted(slug).explainer.explain(make_target("gcn", slug), [], progress=False)


@slugs
def test_fit_names_the_graph_without_nodes(slug):
    empty = make_graph(0)
    empty.x, empty.edge_index = empty.x[:0], empty.edge_index[:, :0]
    with pytest.raises(InputError, match=r"graph 1 has no nodes.*remove"):
        make_explainer(slug).fit(make_target("gcn", slug), [make_graph(0), empty], progress=False)


@slugs
def test_bad_batch_vector(slug):
    case = fitted(slug)
    batch = case.batch
    for vector, message in (
        (batch.batch.flip(0), "sorted"),
        (batch.batch - 1, "start at 0"),
        (batch.batch[:-1], "batch must be torch.long of shape"),
        (batch.batch.float(), "batch must be torch.long"),
    ):
        with pytest.raises(InputError, match=message):
            case.explainer(case.model, batch.x, batch.edge_index, batch=vector)


@slugs
def test_bad_edge_tensors(slug):
    case, graph = fitted(slug), make_graph(0)
    with pytest.raises(InputError, match=r"edge_attr has 2 rows for \d+ edges"):
        case.explainer(case.model, graph.x, graph.edge_index, edge_attr=torch.ones(2, 1))
    with pytest.raises(InputError, match="edge_weight must have shape"):
        case.explainer(case.model, graph.x, graph.edge_index, edge_weight=torch.ones(2))
    with pytest.raises(InputError, match=r"x is on cpu, edge_index on meta.*move"):
        case.explainer(case.model, graph.x, graph.edge_index.to("meta"))


class Answer(nn.Module):
    """A model with a given last step."""

    def __init__(self, answer):
        super().__init__()
        self.conv, self.answer = GCNConv(3, 2), answer

    def forward(self, x, edge_index, batch, edge_weight=None):
        return self.answer(self.conv(x, edge_index, edge_weight), batch)


BAD_ANSWERS = {
    "one row per node": (lambda h, batch: h, r"shape \(\d+, 2\) for 6 graphs.*pool nodes"),
    "one row": (lambda h, batch: h.sum(0), r"shape \(2,\) for 6 graphs"),
    "scalar": (lambda h, batch: h.sum(), r"shape \(\) for 6 graphs"),
    "three axes": (lambda h, batch: global_add_pool(h, batch)[..., None], "shape .6, 2, 1."),
    "tuple": (lambda h, batch: (global_add_pool(h, batch), h), "returned tuple.*one tensor"),
    "nan": (lambda h, batch: global_add_pool(h, batch) / 0 * 0, "NaN or infinite"),
}


@slugs
@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_bad_answer(slug, name):
    answer, message = BAD_ANSWERS[name]
    with pytest.raises(ModelError, match=message):
        make_explainer(slug).fit(Answer(answer), make_graphs(), progress=False)


@slugs
def test_unusable_models(slug):
    with pytest.raises(ModelError, match=r"torch\.nn\.Module, got function"):
        make_explainer(slug).fit(lambda x, edge_index: x, make_graphs(), progress=False)

    class NoBatch(nn.Module):
        def forward(self, x, edge_index):
            return x

    with pytest.raises(ModelError, match=r"no 'batch' argument.*batch="):
        make_explainer(slug).fit(NoBatch(), make_graphs(), progress=False)


@slugs
def test_one_output_needs_a_mode(slug):
    model = Answer(lambda h, batch: global_add_pool(h[:, :1], batch))
    with pytest.raises(InputError, match="pass mode='regression' or mode='binary"):
        make_explainer(slug).fit(model, make_graphs(), progress=False)
    with pytest.raises(InputError, match=r"unknown mode 'classification'.*regression"):
        make_explainer(slug).fit(model, make_graphs(), mode="classification", progress=False)
    mode = "multiclass_classification"
    with pytest.raises(ModelError, match="at least two output columns"):
        make_explainer(slug).fit(model, make_graphs(), mode=mode, progress=False)


@slugs
def test_unfitted(slug, tmp_path):
    explainer = make_explainer(slug)
    if not explainer.needs_fit:
        call(explainer, make_target("gcn", slug), make_graph(0))
        return
    for use in (
        lambda: call(explainer, make_target("gcn", slug), make_graph(0)),
        lambda: explainer.explain(make_target("gcn", slug), make_graphs(), progress=False),
    ):
        with pytest.raises(NotFittedError, match=r"must learn first.*fit\(model, graphs\) or load"):
            use()
    with pytest.raises(NotFittedError, match=r"nothing to save yet.*fit\(model, graphs\)"):
        explainer.save(tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())


@slugs
def test_unknown_embedding_layer(slug):
    with pytest.raises(InputError, match=r"no layer 'nowhere'; it has: .*out"):
        make_explainer(slug, embedding_layer="nowhere").fit(
            make_target("gcn", slug), make_graphs(), progress=False
        )


@slugs
def test_batch_size(slug):
    with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
        make_explainer(slug, batch_size=0)


@pytest.mark.parametrize("ratio", [0.0, -0.5, 1.5, float("nan")])
def test_ratio_out_of_range(ratio):
    with pytest.raises(InputError, match=r"ratio must lie in \(0, 1\]"):
        HPMEExplainer(ratio=ratio)


def test_unknown_explainer():
    with pytest.raises(UnknownNameError, match=r"unknown explainer 'magic'; valid names: .*hpme"):
        explainer_class("magic")
