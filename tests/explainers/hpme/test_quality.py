"""Quality without ground truth, on a case where it is known."""

import math

import pytest

from finder import PLANTED, Finder, planted_graphs
from hpme.errors import NotFittedError
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.quality import Quality


def mean(values):
    return sum(values) / len(values)


def test_good_explanations_have_good_quality(fitted, graphs):
    quality = fitted.quality(Finder(), graphs)
    assert len(quality) == len(graphs)
    assert mean([q.kept for q in quality]) > 0.7
    assert mean([q.lost for q in quality]) > 0.7
    assert mean([q.stable for q in quality]) > 0.9
    assert mean([q.verdict == "carried" for q in quality]) > 0.9


def test_a_wrong_pool_has_bad_quality(fitted, graphs):
    good = fitted.quality(Finder(), graphs)
    right = fitted.pool.weight.data.clone()
    try:
        fitted.pool.weight.data.neg_()
        bad = fitted.quality(Finder(), graphs)
    finally:
        fitted.pool.weight.data = right
    assert mean([q.kept for q in bad]) < 0.5 * mean([q.kept for q in good])
    assert mean([q.stable for q in bad]) < 0.5


def test_does_not_depend_on_other_graphs_or_the_process(fitted, graphs, tmp_path):
    together = fitted.quality(Finder(), graphs[:6])
    fitted.save(tmp_path / "e.safetensors")
    loaded = HPMEExplainer.load(tmp_path / "e.safetensors")
    alone = [loaded.quality(Finder(), [graph])[0] for graph in graphs[:6]]
    assert [q.verdict for q in alone] == [q.verdict for q in together]
    for name in ("kept", "lost", "stable", "chance"):
        single, common = ([getattr(q, name) for q in some] for some in (alone, together))
        assert single == pytest.approx(common, abs=1e-5)


def test_one_restart_says_nothing_about_stability():
    graphs = planted_graphs(12)
    explainer = HPMEExplainer(k=PLANTED, restarts=1, rounds=1, epochs=2)
    quality = explainer.fit(Finder(), graphs, mode="regression").quality(Finder(), graphs)
    assert all(math.isnan(q.stable) for q in quality)
    assert "stable" not in str(quality[0])
    shown = "carried (kept 0.50, lost 0.25, stable 1.00)"
    assert str(Quality(0.5, 0.25, 1.0, 0.1, "carried")) == shown


def test_must_be_fitted():
    with pytest.raises(NotFittedError, match="fit"):
        HPMEExplainer(k=2).quality(Finder(), planted_graphs(2))
