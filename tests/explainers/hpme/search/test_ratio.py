"""The ratio chosen without labels."""

import pytest

from finder import NODES, PLANTED, Finder
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme import explainer as explainer_module
from hpme.explainers.hpme.report import FitReport
from hpme.explainers.hpme.search.ratio import RatioPoint, choose_ratio


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ((0.9, 0.5, 0.01, 0.0, 0.0), 0.3),  # flat from the third on
        ((0.9, 0.7, 0.5, 0.3, 0.1), 0.5),  # never flat: the last
        ((0.2, 0.6, 0.4, 0.2, 0.19), 0.1),  # a short search may fail at larger ratios
    ],
)
def test_the_smallest_of_the_good_ratios(left, expected):
    ratios = (0.1, 0.2, 0.3, 0.4, 0.5)
    curve = [RatioPoint(r, value * 1.5, 1.5) for r, value in zip(ratios, left, strict=True)]
    assert choose_ratio(curve) == expected


def test_a_size_at_which_random_regions_do_as_well_is_not_chosen():
    random = (0.9, 0.7, 0.5, 0.49, 0.1)
    curve = [RatioPoint(r / 10, 0.1 * v, 1.5, v) for r, v in zip(range(1, 6), random, strict=True)]
    curve[3] = RatioPoint(0.4, 0.0, 1.5, 0.49)  # the best of all
    assert choose_ratio(curve) == 0.1
    assert choose_ratio(curve[3:]) == 0.4  # there is no other: the smallest


FEW = (0.1, 0.2, 0.3, 0.5, 0.8)


@pytest.fixture(scope="module")
def fitted(graphs):
    explainer = HPMEExplainer(restarts=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explainer_module, "RATIOS", FEW)
        return explainer.fit(Finder(), graphs, mode="regression")


def test_the_planted_size_is_chosen(fitted):
    assert PLANTED / NODES <= fitted.size.ratio <= 0.4
    assert fitted.ratio == "auto"
    tried = [point.ratio for point in fitted.report.ratio_curve]
    assert tried == list(FEW[len(FEW) - len(tried) :]) and fitted.size.ratio in tried
    assert "chosen without labels" in fitted.report.summary()
    assert FitReport.from_dict(fitted.report.to_dict()) == fitted.report


def test_the_chosen_size_is_saved(fitted, tmp_path):
    fitted.save(tmp_path / "e.safetensors")
    assert HPMEExplainer.load(tmp_path / "e.safetensors").size == fitted.size


def test_a_given_size_is_taken():
    assert HPMEExplainer(k=4).size.k == 4
    assert HPMEExplainer(ratio=0.3).size.ratio == 0.3
    with pytest.raises(InputError, match="not both"):
        HPMEExplainer(ratio=0.3, k=4)
    with pytest.raises(InputError, match="not both"):
        HPMEExplainer(ratio=None)
    with pytest.raises(InputError, match="at least 1"):
        HPMEExplainer(k=0)
