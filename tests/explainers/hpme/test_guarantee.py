"""Regions with a stated risk: the arithmetic by hand, and on a target that is known."""

import logging

import pytest
import torch
from torch_geometric.data import Data

from finder import Finder, planted_graphs
from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.guarantee import calibrated, not_carried

LIKE = (torch.arange(50.0), torch.arange(50.0))


@pytest.fixture(scope="module")
def new():
    return planted_graphs(60, seed=1)


@pytest.fixture(scope="module")
def loose(graphs):
    """A pool that is twice as large as what explains."""
    return HPMEExplainer(k=6, restarts=1).fit(Finder(), graphs, mode="regression")


@pytest.fixture(scope="module")
def found(loose, new):
    return loose.guarantee(Finder(), new, 0.2)


def by_hand(alpha, losses):
    """The smallest region whose worst loss of all that are as large or larger is small enough."""
    rows, count = losses.tolist(), losses.shape[1]
    best = None
    for t in range(len(rows)):
        worst = [max(rows[s][i] for s in range(t + 1)) for i in range(count)]
        if (count / (count + 1)) * (sum(worst) / count) + 1 / (count + 1) <= alpha:
            best = t
    return best


@pytest.mark.parametrize("seed", range(5))
def test_arithmetic_agrees_with_a_slow_reference(seed):
    generator = torch.Generator().manual_seed(seed)
    steps = torch.rand(12, 50, generator=generator) * 0.1
    losses = (steps.cumsum(0) + 0.3 * torch.rand(12, 50, generator=generator) - 0.2).clamp(0, 1)
    thresholds, shown = (
        torch.linspace(0, 1, 12),
        torch.linspace(1, 0, 12).view(-1, 1).expand(-1, 50),
    )
    for alpha in (0.1, 0.2, 0.4, 0.9):
        place = by_hand(alpha, losses.double())
        if place is None:
            with pytest.raises(InputError, match="smallest alpha"):
                calibrated(alpha, "carried", thresholds, losses, shown, LIKE)
            continue
        found = calibrated(alpha, "carried", thresholds, losses, shown, LIKE)
        assert found.threshold == pytest.approx(float(thresholds[place]))
        assert found.size == pytest.approx(float(shown[place, 0]))


def test_the_risk_is_kept_on_average_over_draws():
    """Losses of a population whose risk at every threshold is known."""
    generator = torch.Generator().manual_seed(0)
    thresholds, levels = torch.linspace(0, 1, 21), torch.linspace(0, 1, 21).view(-1, 1)
    shown = 1 - levels.expand(-1, 50)
    risks = []
    for _ in range(300):
        losses = (torch.rand(1, 50, generator=generator) < levels).float()  # nested, mean = level
        found = calibrated(0.3, "carried", thresholds, losses, shown, LIKE)
        risks.append(found.threshold)  # which is the risk of a new draw
    assert 0.25 < sum(risks) / len(risks) <= 0.3


def test_a_refusal_names_the_smallest_alpha(loose, new):
    with pytest.raises(InputError, match=r"smallest alpha that 5 graphs allow is 0\.\d+") as error:
        loose.guarantee(Finder(), new[:5], 0.01)
    smallest = float(str(error.value).split("allow is ")[1].split(";")[0])
    assert loose.guarantee(Finder(), new[:5], smallest + 0.001).smallest == pytest.approx(smallest)


def test_regions_carry_what_is_guaranteed(loose, found, new):
    """Another sample; the loss of each graph is computed anew, one graph at a time."""
    others = planted_graphs(40, seed=2)
    shown = [one.pooled for one in loose.showing().explain(Finder(), others)]
    losses = []
    for graph, keep in list(zip(others, shown, strict=True))[:12]:
        with loose._transplants(Finder(), GraphStore.from_graphs([graph])) as transplants:
            losses.append(float(not_carried(transplants, transplants.with_hosts(keep))[0]))
    assert sum(losses) / len(losses) < 0.3
    assert found.graphs == len(new) and 0 < found.size < 0.5
    mean = sum(float(one.float().mean()) for one in shown) / len(shown)
    assert mean == pytest.approx(found.size, abs=0.1)


def test_less_risk_needs_larger_regions(loose, found, new):
    sizes = [loose.showing(alpha).explain(Finder(), new)[0].pooled.sum() for alpha in (0.15, 0.6)]
    assert sizes[0] >= sizes[1] and found.at(0.15).size > found.at(0.6).size
    assert found.at(0.6).threshold > found.at(0.15).threshold


def test_explanations_stay_as_they_are_unless_asked(loose, found, new):
    before = loose.explain(Finder(), new[:4])
    assert [b.pooled.tolist() for b in before] == [
        a.pooled.tolist() for a in loose.explain(Finder(), new[:4])
    ]
    large = loose.showing(0.15).explain(Finder(), new[:4])
    assert torch.equal(large[0].node_mask, before[0].node_mask)


def test_it_is_saved_and_said(loose, found, tmp_path):
    loose.save(tmp_path / "e.safetensors")
    loaded = HPMEExplainer.load(tmp_path / "e.safetensors")
    assert loaded.report.guarantee == found
    assert loaded.showing().needed == pytest.approx(found.threshold)
    sentence = "on average at most 0.2 of a prediction is not carried by the shown nodes"
    assert sentence in loaded.report.summary() and sentence in found.sentence()
    loaded.showing(0.5).save(tmp_path / "half.safetensors")
    assert HPMEExplainer.load(tmp_path / "half.safetensors").report.guarantee.alpha == 0.5


def test_graphs_of_the_fit_are_left_out(loose, graphs, new, caplog, tmp_path):
    loose.save(tmp_path / "e.safetensors")
    loaded = HPMEExplainer.load(tmp_path / "e.safetensors")
    order = torch.randperm(len(graphs[0].x), generator=torch.Generator().manual_seed(0))
    place = order.argsort()
    renumbered = Data(x=graphs[0].x[order], edge_index=place[graphs[0].edge_index])
    with caplog.at_level(logging.WARNING, "hpme"):
        found = loaded.guarantee(Finder(), [*new, renumbered, *graphs[1:5]], 0.4)
    assert found.graphs == len(new) and "5 of 65 graphs were fitted on" in caplog.text
    with pytest.raises(InputError, match="not fitted on"):
        loaded.guarantee(Finder(), graphs)


def test_truth_in_place_of_transplants(loose, new):
    truth = [g.x[:, 1].bool() for g in new[:30]]
    truth[0][:] = False  # a graph without does not count
    found = loose.guarantee(Finder(), new[:30], 0.2, truth=truth)
    assert found.kind == "truth" and found.graphs == 29 and "marked nodes" in found.sentence()
    shown = [one.pooled for one in loose.showing(0.2).explain(Finder(), new[1:30])]
    missed = [float((t & ~s).sum() / t.sum()) for t, s in zip(truth[1:], shown, strict=True)]
    assert (sum(missed) + 1) / 30 <= 0.2 + 1e-6  # thirds do not add up exactly
    with pytest.raises(InputError, match="one mask per graph"):
        loose.guarantee(Finder(), new, truth=truth[:3])


def test_graphs_unlike_those_of_the_calibration_are_warned_of(loose, new, caplog):
    loose.guarantee(Finder(), new, 0.3)
    shown = loose.showing()
    with caplog.at_level(logging.WARNING, "hpme"):
        shown.explain(Finder(), planted_graphs(40, seed=5))
    assert "calibration" not in caplog.text
    twice = [
        Data(x=torch.cat([g.x, g.x]), edge_index=torch.cat([g.edge_index, g.edge_index + 12], 1))
        for g in new
    ]
    with caplog.at_level(logging.WARNING, "hpme"):
        loose.explain(Finder(), twice)  # promises nothing
        assert "calibration" not in caplog.text
        shown.explain(Finder(), twice)
    assert "calibrate on graphs like these" in caplog.text


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, float("nan")])
def test_alpha_is_a_risk(loose, new, alpha):
    with pytest.raises(InputError, match="between 0 and 1"):
        loose.guarantee(Finder(), new, alpha)


def test_without_a_guarantee_nothing_is_shown(fitted):
    with pytest.raises(InputError, match="no guarantee yet"):
        fitted.showing(0.1)


def test_a_table(found):
    pytest.importorskip("pandas")
    table = found.to_frame()
    assert list(table) == ["threshold", "alpha", "size"] and table["alpha"].is_monotonic_increasing
