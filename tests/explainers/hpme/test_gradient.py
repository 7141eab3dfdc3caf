"""The paper's algorithm on a planted case, and its variants."""

import pytest
import torch

from finder import PLANTED, Finder, planted_graphs
from hpme.errors import InputError
from hpme.explainers import HPMEGradientExplainer
from hpme.explainers.hpme.report import FitReport

CHEAP = {"k": PLANTED, "score": "edge", "epochs": 5, "starts": 2, "start_epochs": 6}


@pytest.fixture(scope="module")
def graphs(graphs):
    return graphs[:10]


def fit(graphs, **options):
    explainer = HPMEGradientExplainer(**{**CHEAP, **options})
    return explainer.fit(Finder(), graphs, mode="regression", progress=False)


def edge_mask(explainer, graphs):
    return torch.cat([e.edge_mask for e in explainer.explain(Finder(), graphs)])


@pytest.fixture(scope="module")
def fitted(graphs):
    return fit(graphs)


def test_reports_like_the_search(fitted):
    assert fitted.report.search == "gradient"
    assert fitted.report.agreement is None
    assert FitReport.from_dict(fitted.report.to_dict()) == fitted.report


def test_planted_nodes_are_found():
    graphs = planted_graphs(30)
    explainer = fit(graphs, starts=3, start_epochs=20)
    found = torch.cat([e.pooled for e in explainer.explain(Finder(), graphs)])
    planted = torch.cat([graph.x[:, 1] > 0 for graph in graphs])
    assert float((found & planted).sum() / planted.sum()) > 0.7


@pytest.mark.parametrize(
    "options",
    [{"mixup": False}, {"bce_weight": 0.0}, {"gate": None}, {"pool_layers": 2}, {"attach": "rank"},
     {"temperature": 0.5}, {"starts": 1}, {"start_epochs": 3}],
    ids=str,
)  # fmt: skip
def test_variants_differ(graphs, fitted, options):
    assert not torch.equal(edge_mask(fitted, graphs), edge_mask(fit(graphs, **options), graphs))


def test_several_layers_are_saved(graphs, tmp_path):
    explainer = fit(graphs, pool_layers=2)
    explainer.save(tmp_path / "e.safetensors")
    loaded = HPMEGradientExplainer.load(tmp_path / "e.safetensors")
    assert loaded.pool.layers == 2
    assert torch.equal(edge_mask(loaded, graphs), edge_mask(explainer, graphs))


@pytest.mark.parametrize(
    "options",
    [{"bce_weight": -1.0}, {"gate": "relu"}, {"pool_layers": 0}, {"temperature": 0.0},
     {"starts": 0}, {"start_epochs": 0}],
)  # fmt: skip
def test_bad_arguments_are_named(options):
    with pytest.raises(InputError, match=next(iter(options))):
        HPMEGradientExplainer(k=3, **options)
