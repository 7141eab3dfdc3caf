"""Charts: what is drawn where, odd input, and that the same input gives the same file."""

import itertools

import pytest

from hpme.viz.charts import Bar, Curve, bar_chart, cost_chart, rank_chart, sensitivity_chart
from hpme.viz.style import render

MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
GROUPS = {
    "first": {"HPME": Bar(0.9, 0.05), "w/o Mix": Bar(0.6, 0.2)},
    "second": {"HPME": Bar(0.8), "w/o Mix": Bar(None)},
}
CURVE = Curve("a $set$", [0.1, 0.5, 1.0], [0.8, 0.9, 0.7], [0.1, None, 0.0], ("Rival", 0.6), 0.3)
RANKS = {"HPME": [1.0, 1.0, 2.0], "Grad": [2.0, 2.0, 1.0], "Random": [3.0, 3.0, 3.0]}


def bars():
    return bar_chart(GROUPS, ylabel="AUC")


def curves():
    names = {"xlabel": "r", "ylabel": "AUC", "ours": "HPME", "reference": "marked"}
    return sensitivity_chart([CURVE, Curve("bare", [1.0], [0.5], [None])], **names)


def ranks():
    return rank_chart(RANKS, ours="HPME", equal=["Grad"])


def costs():
    points = {"HPME": (6.0, 0.9), "Grad": (0.1, 0.7), "Random": (0.1, 0.7), "Slow": (90.0, 0.6)}
    return cost_chart(points, xlabel="seconds", ylabel="AUC", ours=["HPME"])


@pytest.mark.parametrize("make", [bars, costs, curves, ranks])
@pytest.mark.parametrize("suffix", MAGIC)
def test_same_bytes_every_time(make, suffix):
    content = render(make(), suffix)
    assert content.startswith(MAGIC[suffix])
    assert content == render(make(), suffix)


def test_heights_and_whiskers_of_bars():
    axes = bars().axes[0]
    heights = [patch.get_height() for patch in axes.patches]
    assert heights == [0.9, 0.8, 0.6]  # a bar without a value is not drawn
    assert [t.get_text() for t in axes.get_xticklabels()] == ["first", "second"]
    whiskers = [path.vertices[:, 1].tolist() for c in axes.collections for path in c.get_paths()]
    assert sorted(map(tuple, whiskers)) == [
        pytest.approx((0.4, 0.8)),
        pytest.approx((0.85, 0.95)),
    ]
    assert axes.get_ylim()[0] == 0


def test_lines_of_a_curve():
    figure = curves()
    first, second = figure.axes
    mean, rival, marked = first.get_lines()
    assert mean.get_ydata().tolist() == [0.8, 0.9, 0.7]
    assert rival.get_linestyle() == "--" and set(rival.get_ydata()) == {0.6}
    assert set(marked.get_xdata()) == {0.3}
    band = first.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (pytest.approx(0.7), pytest.approx(0.9))
    assert len(second.get_lines()) == 1
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["HPME", "best other method", "marked"]


def test_best_mean_rank_is_on_top():
    axes = ranks().axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["HPME", "Grad", "Random"]
    assert axes.yaxis_inverted()
    means = [c.get_offsets()[0, 0] for c in axes.collections if c.get_zorder() == 3]
    assert means == pytest.approx([4 / 3, 5 / 3, 3.0])


def test_names_beside_costs_leave_each_other_room():
    axes = costs().axes[0]
    assert axes.get_xscale() == "log"
    points = [tuple(c.get_offsets()[0]) for c in axes.collections]
    assert points == [(6.0, 0.9), (0.1, 0.7), (0.1, 0.7), (90.0, 0.6)]
    places = [text.xyann[1] for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == ["HPME", "Grad", "Random", "Slow"]
    assert all(above - below >= 0.05 for above, below in itertools.pairwise(places))
    many = cost_chart({f"m{n}": (1.0, 0.5) for n in range(40)}, xlabel="", ylabel="", ours=[])
    places = [text.xyann[1] for text in many.axes[0].texts]
    assert places[0] <= 1 and places[-1] >= -1e-9
    assert all(above > below for above, below in itertools.pairwise(places))


def test_names_are_no_formulas():
    title = curves().axes[0].get_title()
    assert title == r"a \$set\$"
    render(rank_chart({"a$b": [1.0], "x_y": [2.0]}, ours="a$b"), ".svg")
