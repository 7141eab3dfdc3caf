"""What the page says to people who do not see it as it is meant: by voice, on paper, by type."""

import itertools

import pytest
import torch

from browser import resize, set_dark, start
from hetero import WIDTHS, Convs, make_graphs
from pages import Counter, cycle, explain, with_truth

pytest.importorskip("selenium", reason="selenium is missing: pip install 'hpme[dev]'")

from selenium.webdriver.support.wait import WebDriverWait

from hpme.explainers import GradExplainer
from hpme.viz import write_page

NAMED = {"button", "slider", "searchbox", "combobox", "link", "image", "navigation", "region"}
CONTRAST = """
const rgb = (text) => { // what the browser makes of a colour
  const context = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d');
  context.fillStyle = text; context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const light = (text) => rgb(text).map((c) => c / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const style = getComputedStyle(document.documentElement);
return arguments[0].map(([ink, ground]) => {
  const [low, high] = [ink, ground].map((name) => light(style.getPropertyValue('--' + name))).sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
});
"""  # noqa: E501
TEXTS = [
    *(("ink", "bg"), ("ink", "card"), ("muted", "bg"), ("muted", "card"), ("accent", "card")),
    *(("good", "good-soft"), ("care", "care-soft"), ("ink", "accent-soft")),
]


@pytest.fixture(scope="module")
def chromium():
    browser = start()
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    graphs = [with_truth(cycle(5 + i, seed=i, name=f"cycle {i}")) for i in range(3)]
    named = {"only": [explain(g, i, pooled=g.node_mask) for i, g in enumerate(graphs)]}
    return write_page(Counter(), graphs, named, tmp_path_factory.mktemp("page") / "page.html")


def tree(browser):
    """Roles and names as screen readers get them."""
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
    ]


def test_everything_one_can_use_has_a_name(chromium, page):
    chromium.get(page.as_uri())
    expected = {"button", "slider", "searchbox", "combobox", "image"}
    # The tree is built a moment after the page.
    WebDriverWait(chromium, 10).until(lambda _: expected <= {role for role, _ in tree(chromium)})
    found = tree(chromium)
    assert [role for role, name in found if role in NAMED and not name.strip()] == []
    pictures = [name for role, name in found if role == "image"]
    assert len(set(pictures)) == 3 and all("cycle" in name for name in pictures)


def test_headings_skip_no_level(chromium, page):
    chromium.get(page.as_uri())
    script = "return [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))"
    levels = chromium.execute_script(script)
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out(chromium, page, dark):
    set_dark(chromium, dark)
    chromium.get(page.as_uri())
    contrast = dict(zip(TEXTS, chromium.execute_script(CONTRAST, TEXTS), strict=True))
    assert {pair: value for pair, value in contrast.items() if value < 4.5} == {}


def test_paper_is_white(chromium, page):
    set_dark(chromium, True)
    chromium.get(page.as_uri())
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        ground, ink, shown = chromium.execute_script(
            "const style = getComputedStyle(document.body);"
            "const tools = ['.tools', '.pager', '#theme', '.save', '.slider input'];"
            "return [style.backgroundColor, style.color,"
            " tools.filter((s) => document.querySelector(s).getClientRects().length)]"
        )
    finally:
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert (ground, ink, shown) == ("rgb(255, 255, 255)", "rgb(28, 35, 43)", [])


def test_a_colour_and_a_shape_for_every_type(chromium, tmp_path):
    set_dark(chromium, False)
    resize(chromium, 1280, 900)
    with torch.random.fork_rng(devices=[]):
        model, graphs = Convs().eval(), make_graphs(2)
    explanations = GradExplainer().explain(model, graphs, progress=False)
    chromium.get(write_page(model, graphs, explanations, tmp_path / "typed.html").as_uri())
    script = (
        "const looks = (e) => e.tagName + getComputedStyle(e).fill;"
        "const shape = '[class^=type-]', all = (s) => [...document.querySelectorAll(s)];"
        "return [all('.type-name').map((e) => [e.textContent, looks(e.querySelector(shape))]),"
        " all('.card .node ' + shape).map((e) => [e.nextSibling.textContent, looks(e)])]"
    )
    legend, drawn = (dict(pairs) for pairs in chromium.execute_script(script))
    assert list(legend) == list(WIDTHS) and len(set(legend.values())) == len(WIDTHS)
    assert drawn == legend
    assert chromium.get_log("browser") == []
