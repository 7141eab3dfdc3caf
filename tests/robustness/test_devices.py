"""Models and graphs on any device, also on different ones; masks are the same everywhere."""

import json
from functools import cache

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN
from typer.testing import CliRunner

from contract import SLUGS, call, fitted, make_explainer, make_graphs, make_target
from hpme import metrics
from hpme.cli import app
from hpme.explainers import explainer_class
from hpme.viz import write_page
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


# Operators of the stand-in are slow, so even less of everything.
LESS = {
    "hpme": {"restarts": 1},
    "hpme-printed": {"epochs": 1},
}


def few_graphs():
    return make_graphs(seeds=range(4))


@cache
def on_the_cpu(slug):
    model, graphs = make_target("gcn", slug), few_graphs()
    explainer = make_explainer(slug, **LESS.get(slug, {})).fit(model, graphs, progress=False)
    return explainer, explainer.explain(model, graphs, progress=False)


QUICK = ["grad", "pgexplainer", "matchexplainer"]
CASES = [(slug, "model") for slug in SLUGS]
CASES += [(slug, place) for slug in QUICK for place in ("both", "graphs")]


@pytest.mark.parametrize(("slug", "place"), CASES)
def test_masks_are_those_of_the_cpu(slug, place, accelerator, tmp_path):
    expected = on_the_cpu(slug)[1]
    here, there = PLACES[place]
    model, graphs = make_target("gcn", slug).to(here), on(there, few_graphs())
    explainer = make_explainer(slug, **LESS.get(slug, {})).fit(model, graphs, progress=False)
    found = explainer.explain(model, graphs, progress=False)
    for name in ("edge_mask", "node_mask", "pooled", "x", "edge_index"):
        if name in expected[0]:
            assert all(explanation[name].device == there for explanation in found), name
            assert equal(masks(found, name), masks(expected, name)), name
    mask = call(explainer, model, Batch.from_data_list(graphs)).edge_mask
    assert mask.device == there and torch.equal(mask.cpu(), torch.cat(masks(expected)))
    assert all(parameter.device == here for parameter in model.parameters())
    assert accelerator.operators > 100
    if place == "model":  # fitted there, used here; saved there, loaded and used in both places
        explainer.save(tmp_path / "there.safetensors")
        loaded = explainer_class(slug).load(tmp_path / "there.safetensors")
        plain = make_target("gcn", slug)
        for one, target in ((loaded, plain), (explainer, plain), (loaded, model)):
            assert equal(masks(one.explain(target, graphs, progress=False)), masks(expected))


TARGETS = ["gin", "gat", "gine", "unweighted"]


@pytest.mark.parametrize("target", TARGETS)
def test_kinds_of_models(target, accelerator):
    case = fitted("mixupexplainer", target)
    expected = case.explainer.explain(case.model, case.graphs, progress=False)
    model, graphs = make_target(target).to("accel"), make_graphs(target)
    explainer = make_explainer("mixupexplainer").fit(model, graphs, progress=False)
    assert equal(masks(explainer.explain(model, graphs, progress=False)), masks(expected))


@pytest.mark.parametrize("slug", ["hpme", "mixupexplainer"])
def test_quality_and_mixups(slug, accelerator):
    explainer = on_the_cpu(slug)[0]
    graphs, model = few_graphs(), make_target("gcn", slug)
    expected = explainer.mixup_graphs(model, graphs)
    quality = explainer.quality(model, graphs) if slug == "hpme" else None
    moved, there = make_target("gcn", slug).to("accel"), on("accel", graphs)
    found = explainer.mixup_graphs(moved, there)
    assert found.graphs.x.device == DEVICE
    assert torch.equal(found.graphs.x.cpu(), expected.graphs.x)
    assert quality is None or repr(explainer.quality(moved, there)) == repr(quality)


@pytest.mark.parametrize("slug", ["mixupexplainer", "grad"])
def test_node_level(slug, accelerator):
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


def truth():
    """The graphs, with the upper half of some mask as ground truth."""
    found = []
    for graph, explanation in zip(few_graphs(), on_the_cpu("grad")[1], strict=True):
        graph.edge_mask = explanation.edge_mask > explanation.edge_mask.median()
        found.append(graph)
    return found


METRICS = {
    "fidelity": lambda model, found, truth: metrics.fidelity(model, found, 0.5),
    "robust": lambda model, found, truth: metrics.robust_fidelity(model, found, 0.5, samples=2),
    "simoar": lambda model, found, truth: metrics.simoar(model, found, 0.5, samples=2),
    "references": lambda model, found, truth: metrics.simoar_references(
        model, found, 0.5, samples=2
    ),
    "shift": lambda model, found, truth: metrics.shift(model, found, truth),
    "auc": lambda model, found, truth: metrics.explanation_auc(found, truth),
    "auc per graph": lambda model, found, truth: metrics.explanation_auc_per_graph(found, truth),
    "precision": lambda model, found, truth: metrics.precision_at_k(found, truth, 3),
    "sizes": lambda model, found, truth: metrics.truth_sizes(truth).cpu(),
    "hard": lambda model, found, truth: [m.cpu() for m in metrics.hard_masks(found, 3)],
}


def text(value):
    if isinstance(value, metrics.GraphScores):
        return repr((value.per_graph.tolist(), value.why))
    parts = getattr(value, "__dict__", None)
    return repr(value) if parts is None else repr({k: text(v) for k, v in parts.items()})


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("place", PLACES)
def test_metrics(name, place, accelerator):
    measure, explanations = METRICS[name], on_the_cpu("grad")[1]
    expected = measure(make_target("gcn"), explanations, truth())
    here, there = PLACES[place]
    found = measure(make_target("gcn").to(here), on(there, explanations), truth())
    assert text(found) == text(expected)
    found = measure(make_target("gcn").to(here), explanations, on(there, truth()))
    assert text(found) == text(expected)


@pytest.mark.parametrize("place", PLACES)
def test_page(place, accelerator, tmp_path):
    explanations, graphs = on_the_cpu("hpme")[1], few_graphs()
    write_page(make_target("gcn"), graphs, {"hpme": explanations}, tmp_path / "a.html")
    here, there = PLACES[place]
    model, graphs = make_target("gcn").to(here), on(there, graphs)
    write_page(model, graphs, {"hpme": on(there, explanations)}, tmp_path / "b.html")
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()


RUN = [
    "run",
    "--dataset",
    "ba-2motifs",
    "--explainer",
    "grad",
    "--size",
    "20",
    "--train-steps",
    "2",
]


def test_commands(accelerator, tmp_path, monkeypatch):
    """``hpme run --device`` and ``hpme explain --device``: the same numbers as on the CPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "mine_on_a_device.py").write_text(
        "from contract import make_graphs, make_target\n"
        "build = lambda: make_target('gcn')\ngraphs = make_graphs\n"
    )
    explain = ["explain", "-m", "mine_on_a_device:build", "-d", "mine_on_a_device:graphs"]
    pages, values = [], []
    for device in ("cpu", "accel"):
        before = accelerator.operators
        page = tmp_path / f"{device}.html"
        for arguments in (
            [*RUN, "--out", device, "--json", f"{device}.json", "--device", device],
            [*explain, "-e", "grad", "--out", str(page), "--title", "t", "--device", device],
        ):
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output
        assert (accelerator.operators > before + 200) == (device == "accel")
        pages.append(page.read_text())
        (run,) = json.loads((tmp_path / f"{device}.json").read_text())["runs"]
        values.append(run["auc"])
    assert pages[0] == pages[1] and values[0] == values[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: CUDA is not available")
@slugs
def test_masks_on_a_gpu(slug):
    case = fitted(slug)
    expected = torch.cat(masks(case.explainer.explain(case.model, case.graphs, progress=False)))
    model = make_target("gcn", slug).cuda()
    explainer = make_explainer(slug).fit(model, make_graphs(), progress=False)
    found = explainer.explain(model, make_graphs(), progress=False)
    assert torch.allclose(torch.cat(masks(found)), expected, atol=1e-3)
