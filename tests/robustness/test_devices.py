"""Models and graphs on any device, also on different ones; masks are the same everywhere."""

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer

from contract import SLUGS, call, fitted, make_explainer, make_graphs, make_target
from hpme import metrics
from hpme.explainers import explainer_class
from hpme.viz import report
from stand_in import DEVICE, StandIn

CPU = torch.device("cpu")
slugs = pytest.mark.parametrize("slug", SLUGS)
PLACES = {"both": (DEVICE, DEVICE), "model": (DEVICE, CPU), "graphs": (CPU, DEVICE)}


@pytest.fixture
def accelerator():
    with StandIn() as mode:
        yield mode


def on(device, graphs):
    return [graph.clone().to(device) for graph in graphs]


def masks(explanations, name="edge_mask"):
    return [explanation[name].cpu() for explanation in explanations]


def equal(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@slugs
@pytest.mark.parametrize("place", PLACES)
def test_masks_are_those_of_the_cpu(slug, place, accelerator):
    case = fitted(slug)
    expected = case.explainer.explain(case.model, case.graphs, progress=False)
    here, there = PLACES[place]
    model, graphs = make_target("gcn", slug).to(here), on(there, make_graphs())
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    found = explainer.explain(model, graphs, progress=False)
    for name in ("edge_mask", "node_mask", "pooled", "x", "edge_index"):
        if name in expected[0]:
            assert all(explanation[name].device == there for explanation in found), name
            assert equal(masks(found, name), masks(expected, name)), name
    batch = Batch.from_data_list(graphs)
    mask = call(explainer, model, batch).edge_mask
    assert mask.device == there
    assert torch.equal(mask.cpu(), torch.cat(masks(expected)))
    assert all(parameter.device == here for parameter in model.parameters())
    if slug != "random":
        assert (accelerator.operators > 1000) or place == "graphs" or not explainer.needs_fit


@slugs
def test_an_explainer_moves_between_devices(slug, accelerator, tmp_path):
    """Fitted there, saved, loaded and used here; and the other way round."""
    case = fitted(slug)
    expected = torch.cat(masks(case.explainer.explain(case.model, case.graphs, progress=False)))
    model, graphs = make_target("gcn", slug), make_graphs()
    there = make_target("gcn", slug).to("accel")
    moved = make_explainer(slug).fit(there, graphs, progress=False)
    moved.save(tmp_path / "there.safetensors")
    loaded = explainer_class(slug).load(tmp_path / "there.safetensors")
    for explainer, target in ((loaded, model), (moved, model), (loaded, there), (moved, there)):
        found = explainer.explain(target, graphs, progress=False)
        assert torch.equal(torch.cat(masks(found)), expected)


TARGETS = ["gin", "gat", "gine", "unweighted"]


@pytest.mark.parametrize("target", TARGETS)
def test_kinds_of_models(target, accelerator):
    case = fitted("hpme", target)
    expected = case.explainer.explain(case.model, case.graphs, progress=False)
    model, graphs = make_target(target).to("accel"), make_graphs(target)
    explainer = make_explainer("hpme").fit(model, graphs, progress=False)
    assert equal(masks(explainer.explain(model, graphs, progress=False)), masks(expected))


def test_quality_and_report(accelerator):
    case = fitted("hpme")
    expected = case.explainer.quality(case.model, case.graphs)
    model, graphs = make_target("gcn").to("accel"), on("accel", make_graphs())
    explainer = make_explainer("hpme").fit(model, graphs, progress=False)
    assert explainer.quality(model, graphs) == expected
    assert explainer.report == case.explainer.report


@pytest.mark.parametrize("slug", ["hpme", "grad"])
def test_node_level(slug, accelerator):
    from torch_geometric.nn import GCN

    torch.manual_seed(0)
    model, graph = GCN(3, 8, 2, 2), make_graphs()[3]
    found = {}
    for here, there in ((CPU, CPU), (DEVICE, CPU), (CPU, DEVICE), (DEVICE, DEVICE)):
        moved, data = model.to(here), graph.clone().to(there)
        explainer = make_explainer(slug).fit(moved, data, index=[0, 1, 2, 3], progress=False)
        masks_here = masks(explainer.explain(moved, data, index=[1, 2], progress=False))
        whole = explainer(moved, data.x, data.edge_index, index=1)
        assert whole.edge_mask.device == there
        found[here, there] = [*masks_here, whole.edge_mask.cpu()]
    assert all(equal(other, found[CPU, CPU]) for other in found.values())


def test_through_pygs_explainer(accelerator):
    graph = make_graphs()[0].to("accel")
    model = make_target("gcn").to("accel")
    algorithm = make_explainer("grad")
    explain = Explainer(
        model, algorithm, explanation_type="model", edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification", "task_level": "graph", "return_type": "raw",
        },
    )  # fmt: skip
    assert (
        explain(graph.x, graph.edge_index, batch=torch.zeros_like(graph.x[:, 0]).long()).x
        is not None
    )


def truth(explanations):
    for explanation in explanations:
        explanation.edge_label = explanation.edge_mask > explanation.edge_mask.median()
    return explanations


METRICS = {
    "fidelity": lambda model, found: metrics.fidelity(model, found, top_k=4),
    "robust": lambda model, found: metrics.robust_fidelity(model, found, samples=3),
    "simoar": lambda model, found: metrics.simoar(model, found),
    "auc": lambda model, found: metrics.explanation_auc(found),
    "precision": lambda model, found: metrics.precision_at_k(found, 3),
    "hard": lambda model, found: metrics.hard_masks(found, top_k=3)[0].tolist(),
}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("place", PLACES)
def test_metrics(name, place, accelerator):
    case = fitted("grad")
    explanations = truth(case.explainer.explain(case.model, case.graphs, progress=False))
    expected = METRICS[name](make_target("gcn"), explanations)
    here, there = PLACES[place]
    found = METRICS[name](make_target("gcn").to(here), on(there, explanations))
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("place", PLACES)
def test_page(place, accelerator, tmp_path):
    case = fitted("hpme")
    explanations = case.explainer.explain(case.model, case.graphs, progress=False)
    report(make_target("gcn"), case.graphs, {"hpme": explanations}, tmp_path / "a.html")
    here, there = PLACES[place]
    model, graphs = make_target("gcn").to(here), on(there, case.graphs)
    report(model, graphs, {"hpme": on(there, explanations)}, tmp_path / "b.html")
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: CUDA is not available")
@slugs
def test_masks_on_a_gpu(slug):
    case = fitted(slug)
    expected = torch.cat(masks(case.explainer.explain(case.model, case.graphs, progress=False)))
    model = make_target("gcn", slug).cuda()
    explainer = make_explainer(slug).fit(model, make_graphs(), progress=False)
    found = explainer.explain(model, make_graphs(), progress=False)
    assert torch.allclose(torch.cat(masks(found)), expected, atol=1e-3)
