"""Charts: what is drawn where, odd input, and that the same input gives the same file."""

import pytest

from hpme.viz.charts import Bar, Curve, bar_chart, rank_chart, sensitivity_chart
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


@pytest.mark.parametrize("make", [bars, curves, ranks])
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
    assert labels == ["HPME", "second-best method", "marked"]


def test_best_mean_rank_is_on_top():
    axes = ranks().axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["HPME", "Grad", "Random"]
    assert axes.yaxis_inverted()
    means = [c.get_offsets()[0, 0] for c in axes.collections if c.get_zorder() == 3]
    assert means == pytest.approx([4 / 3, 5 / 3, 3.0])


def test_names_are_no_formulas():
    title = curves().axes[0].get_title()
    assert title == r"a \$set\$"
    render(rank_chart({"a$b": [1.0], "x_y": [2.0]}, ours="a$b"), ".svg")
