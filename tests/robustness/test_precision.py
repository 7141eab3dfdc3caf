"""Any precision, any mode: correct masks, or an error that says what to do."""

import contextlib

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, global_add_pool

from contract import SLUGS, fitted, make_explainer, make_graphs, make_target
from hpme.errors import ModelError

slugs = pytest.mark.parametrize("slug", SLUGS)
ASKING = ("occlusion", "subgraphx", "myerson", "similarity")
DISTILLING = ("hpme", "distilled-occlusion", "best-attribution")
GRADIENTS = [s for s in SLUGS if s not in ("random", "att", "matchexplainer", *DISTILLING, *ASKING)]


def masks(slug, model, graphs=None):
    graphs = make_graphs() if graphs is None else graphs
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    found = [e.edge_mask for e in explainer.explain(model, graphs, progress=False)]
    return torch.cat(found)


def expected(slug):
    case = fitted(slug)
    found = case.explainer.explain(case.model, case.graphs, progress=False)
    return torch.cat([explanation.edge_mask for explanation in found])


def cast(graphs, dtype):
    for graph in graphs:
        graph.x = graph.x.to(dtype)
    return graphs


DTYPES = [(slug, dtype) for slug in SLUGS for dtype in (torch.half, torch.double)]
DTYPES += [(slug, torch.bfloat16) for slug in ("hpme", "grad", "att", "pgexplainer")]


@pytest.mark.parametrize(("slug", "dtype"), DTYPES)
def test_precision_of_the_model(slug, dtype):
    model, graphs = make_target("gcn", slug).to(dtype), cast(make_graphs(), dtype)
    if (slug, dtype) == ("metagnn", torch.half):  # it trains the model, which overflows
        with pytest.raises(ModelError, match=r"float16.*model\.float\(\)"):
            masks(slug, model, graphs)
        return
    found = masks(slug, model, graphs)
    assert found.dtype == torch.float32 and bool(found.isfinite().all())
    assert float(found.std()) > 0
    if dtype is torch.double and slug not in ("hpme",):
        assert torch.allclose(found, expected(slug), atol=1e-3)


@pytest.mark.parametrize("slug", ["hpme", "pgexplainer"])
def test_half_precision_is_left_behind_after_the_model(slug):
    """A logit of 40 is no problem for half precision; its softmax in that precision is."""

    class Sure(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(3, 3)

        def forward(self, x, edge_index, batch, edge_weight=None):
            return 40 * global_add_pool(self.conv(x, edge_index, edge_weight), batch)

    torch.manual_seed(0)
    found = masks(slug, Sure().half(), cast(make_graphs(), torch.half))
    assert bool(found.isfinite().all()) and float(found.std()) > 0


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


MODES = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference mode": torch.inference_mode,
    "default dtype float64": lambda: default_dtype(torch.float64),
}


@slugs
@pytest.mark.parametrize("name", MODES)
def test_modes_around_the_call_do_not_change_masks(slug, name):
    model = make_target("gcn", slug)
    with MODES[name]():
        graphs = make_graphs()
        for graph in graphs:
            graph.x = graph.x.float()
        state = (torch.is_inference_mode_enabled(), torch.is_grad_enabled())
        found = masks(slug, model, make_reference(graphs))
        assert state == (torch.is_inference_mode_enabled(), torch.is_grad_enabled())
        assert torch.is_autocast_enabled("cpu") == (name == "autocast")
        assert (torch.get_default_dtype() == torch.float64) == ("float64" in name)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected(slug))


def make_reference(graphs):
    """The same numbers, whatever the mode they were drawn in."""
    with torch.inference_mode(False), default_dtype(torch.float32):
        for graph, same in zip(graphs, make_graphs(), strict=True):
            graph.x = same.x
    return graphs


def test_the_model_runs_with_the_default_dtype_of_its_user():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = GCNConv(3, 4), nn.Linear(4, 2)

        def forward(self, x, edge_index, batch, edge_weight=None):
            x = self.conv(x, edge_index, edge_weight)
            return self.head(global_add_pool(x, batch)) @ torch.eye(2)  # of the default dtype

    with default_dtype(torch.float64):
        found = masks("hpme", Mixed(), cast(make_graphs(), torch.float64))
    assert bool(found.isfinite().all())


@pytest.mark.parametrize("slug", ["grad", "att", "occlusion"])
def test_compiled_models(slug):
    with torch.compiler.set_stance("force_eager"):  # what a compiler would make of it is the same
        plain = masks(slug, make_target("gcn", slug))
    model = torch.compile(make_target("gcn", slug), backend="eager")
    assert torch.equal(masks(slug, model), plain)
    inside = make_target("gcn", slug)
    for module in inside.children():
        module.compile(backend="eager")
    assert torch.equal(masks(slug, inside), plain)


class Scriptable(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(3, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor):
        h = self.conv(x, edge_index)
        pooled = torch.zeros(int(batch.max()) + 1, 4).index_add(0, batch, h)
        return self.head(pooled)


@slugs
def test_scripts_and_traces_say_what_to_do(slug):
    graph = make_graphs()[0]
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    for model in (
        torch.jit.script(nn.Linear(2, 2)),
        torch.jit.trace(Scriptable(), (graph.x, graph.edge_index, batch), check_trace=False),
    ):
        for use in (
            lambda model=model: make_explainer(slug).fit(model, make_graphs(), progress=False),
            lambda model=model: fitted(slug).explainer.explain(
                model, make_graphs(), progress=False
            ),
        ):
            with pytest.raises(ModelError, match=r"TorchScript.*Module it was made from"):
                use()


class Ungraded(nn.Module):
    def __init__(self, model, how):
        super().__init__()
        self.model, self.how = model, how

    def forward(self, x, edge_index, batch, edge_weight=None):
        with torch.no_grad() if self.how == "no_grad" else contextlib.nullcontext():
            output = self.model(x, edge_index, batch=batch, edge_weight=edge_weight)
        return output.detach() if self.how == "detached" else output


@slugs
@pytest.mark.parametrize("how", ["no_grad", "detached"])
def test_models_through_which_no_gradient_flows(slug, how):
    model = Ungraded(make_target("gcn", slug), how)
    if slug in GRADIENTS:
        with pytest.raises(ModelError, match=r"no gradient.*no_grad.*detach.*hpme"):
            masks(slug, model)
    elif slug in DISTILLING:  # where gradients would point is one start less
        found = masks(slug, model)
        assert bool(found.isfinite().all()) and len(set(found.tolist())) > len(found) / 4
    else:
        assert torch.equal(masks(slug, model), expected(slug))


def test_weights_that_reach_nothing_are_refused():
    class Blind(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 2)

        def forward(self, x, edge_index, batch, edge_weight=None):
            return self.head(global_add_pool(x, batch))

    for slug in ("grad", "gnnexplainer", "pgexplainer"):
        explainer = make_explainer(slug)
        with pytest.raises(ModelError, match=r"works by weights of edges.*: hpme.*occlusion"):
            explainer.fit(Blind(), make_graphs(), progress=False)
    with pytest.raises(ModelError, match="works by weights of edges"):
        make_explainer("grad").explain(Blind(), make_graphs(), progress=False)
    for slug in ("occlusion", "integratedgradients"):  # they ask about nodes
        explanations = make_explainer(slug).explain(Blind(), make_graphs(), progress=False)
        assert float(torch.cat([one.node_mask for one in explanations]).std()) > 0


def test_weights_without_effect_are_told(caplog):
    class Deaf(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = GCNConv(3, 2), nn.Linear(3, 2)

        def forward(self, x, edge_index, batch):
            return self.head(global_add_pool(x, batch)) + 0 * self.conv(x, edge_index).sum()

    make_explainer("grad").explain(Deaf(), make_graphs(), progress=False)
    assert "does not change with edge weights" in caplog.text
    caplog.clear()
    make_explainer("random").explain(Deaf(), make_graphs(), progress=False)
    assert not caplog.text
