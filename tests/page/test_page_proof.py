"""Proofs, verdicts and distributions on the page, in a real browser."""

import math

import pytest
import torch

from browser import resize, set_dark
from pages import Counter, cycle, explain, page_data, quality

pytest.importorskip("selenium", reason="selenium is missing: pip install 'hpme[dev]'")

from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from hpme.page.page import Drawn
from hpme.viz import write_page

ALL = "return [...document.querySelectorAll(arguments[0])].map((e) => %s)"
HOSTILE = "<img src=x onerror=alert(1)>"
VERDICTS = ["carried", "carried", "part", "absence", "unclear"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of five graphs with their quality."""
    graphs = [cycle(5, seed=i, name=f"cycle {i}") for i in range(5)]
    graphs[1].name = HOSTILE
    explanations = [
        explain(
            graph,
            i,
            pooled=torch.arange(5) < 2 + i % 2,
            quality=quality(verdict, up=i != 1, trials=i != 4 and 2),
        )
        for i, (graph, verdict) in enumerate(zip(graphs, VERDICTS, strict=True))
    ]
    explanations[2].quality = quality("part", carried_low=0.3, way=math.nan)
    path = tmp_path_factory.mktemp("page") / "page.html"
    return write_page(Counter(), graphs, {"mine": explanations}, path)


@pytest.fixture
def browser(chromium, page):
    resize(chromium, 1280, 900)
    set_dark(chromium, False)
    chromium.get(page.as_uri())
    yield chromium
    assert chromium.get_log("browser") == []


def one(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def every(browser, selector):
    return browser.execute_script(ALL % "e.textContent", selector)


def test_a_molecule_in_one_place_is_drawn_once():
    ring = cycle(3, smiles="C1CC1", places=torch.zeros(3, 2))
    drawn = Drawn()
    assert [drawn.add(ring), drawn.add(ring.clone()), drawn.add(cycle(3)), drawn.add(cycle(3))] == [
        0, 0, 1, 2,
    ]  # fmt: skip
    ring.places = torch.ones(3, 2)
    assert drawn.add(ring) == 3


def test_the_clearest_proof_stands_on_top(browser, page):
    assert page_data(page)["proofs"]["of"]["mine"]["best"] == 0
    hero = one(browser, "#hero")
    assert hero.is_displayed() and hero.rect["y"] < one(browser, "#trust-title").rect["y"]
    words = one(browser, "#hero .lead-words").text
    assert words.startswith("Moved into 4 other graphs, the region takes p(<b>class</b>) from 0.10")
    assert "to 0.90; random regions take it to 0.20" in words
    assert len(every(browser, "#hero .trial:not(.heads)")) == 2
    assert every(browser, "#hero .trial figcaption")[:3] == ["0.10", "0.90", "0.20"]


def test_inserted_nodes_are_coloured_by_direction(browser):
    browser.execute_script("document.querySelectorAll('.prove').forEach((b) => b.click())")
    marks = ALL % "getComputedStyle(e).fill"
    up = browser.execute_script(marks, "#graph-0 .proof .trial .raises .marks circle")
    down = browser.execute_script(marks, "#graph-1 .proof .trial .lowers .marks circle")
    control = browser.execute_script(marks, "#graph-0 .proof .trial .control .marks circle")
    assert len(up) == len(down) == len(control) == 4  # two nodes in each of two hosts
    assert len({*up}) == len({*down}) == 1 and len({*up, *down, *control}) == 3


def test_a_key_and_a_button_show_the_proof(browser):
    body, card = one(browser, "body"), one(browser, "#graph-0")
    assert not one(browser, "#graph-0 .proofs").is_displayed()
    body.send_keys("j")
    body.send_keys("t")
    assert one(browser, "#graph-0 .proof").is_displayed()
    assert one(browser, "#graph-0 .prove").get_attribute("aria-expanded") == "true"
    assert card.rect["width"] > 900  # it takes the whole row
    one(browser, "#graph-0 .prove").click()
    assert not one(browser, "#graph-0 .proof").is_displayed()


def test_what_could_not_be_moved_has_no_proof(browser):
    buttons = browser.execute_script(ALL % "Boolean(e.querySelector('.prove'))", ".card")
    assert buttons == [True, True, True, True, False]


def test_a_point_per_graph_in_two_distributions_by_class(browser):
    count = ALL % "e.getAttribute('d').split('M').length - 1"
    for kind in ("chosen", "control"):
        assert (
            sum(browser.execute_script(count, f"#verdicts .dots.{kind}")) == 4
        )  # one has no way to go
    assert set(every(browser, "#verdicts .strip .class")) <= {"class 0class 0", "class 1class 1"}
    assert "94 % of the way" in one(browser, "#verdicts .lead-words").text
    assert "random regions 12 %" in one(browser, "#verdicts .lead-words").text


def test_verdicts_are_counted_and_filter(browser):
    chips = browser.find_elements(By.CSS_SELECTOR, ".verdict-chip")
    assert [chip.text.split()[0] for chip in chips] == ["2", "1", "0", "1", "1"]
    assert not chips[2].is_enabled()
    chips[0].click()
    assert every(browser, ".card h3") == ["cycle 0", HOSTILE]
    points = ALL % "e.getAttribute('d').split('M').length - 1"  # the chart follows
    WebDriverWait(browser, 60).until(
        lambda b: sum(b.execute_script(points, "#verdicts .dots.chosen")) == 2
    )
    assert chips[0].get_attribute("aria-pressed") == "true"
    assert chips[1].text.startswith("1")  # what else there is stays visible
    chips[0].click()
    assert len(every(browser, ".card h3")) == 5
    colours = browser.execute_script(
        ALL % "getComputedStyle(e).backgroundColor", ".verdict-chip .dot"
    )
    assert len(set(colours)) == 5


def test_one_sentence_per_card_and_numbers_on_demand(browser, page):
    sentence = page_data(page)["explainers"][0]["sentences"][0]
    assert one(browser, "#graph-0 .sentence").text == sentence
    assert "beyond random regions" not in one(browser, "#graph-0").text
    one(browser, "#graph-0 .more summary").click()
    assert "beyond random regions\n0.900" in one(browser, "#graph-0").text


def test_absence_says_what_is_known_of_what_would_have_to_be_there(browser):
    browser.execute_script("location.hash = '#graph-3'")
    WebDriverWait(browser, 60).until(
        lambda b: b.find_elements(By.CSS_SELECTOR, "#graph-3 .missing")
    )
    assert "hpme explain --with counterfactuals" in one(browser, "#graph-3 .missing").text
    assert browser.find_elements(By.CSS_SELECTOR, "#graph-3 .region.pooled circle") == []
    assert len(browser.find_elements(By.CSS_SELECTOR, "#graph-0 .region.pooled .rim circle")) == 2


def test_a_slider_begins_at_its_own_region(browser):
    # As many edges as lie between the pooled nodes; none where something missing decides.
    assert every(browser, ".card .kept-edges") == ["1", "2", "1", "0", "1"]


@pytest.mark.parametrize("width", [320, 768])
def test_proofs_fit_small_screens_and_names_stay_texts(browser, page, width):
    resize(browser, width, 800)
    browser.get(page.as_uri())
    browser.execute_script("document.querySelectorAll('.prove').forEach((b) => b.click())")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.find_elements(By.CSS_SELECTOR, ".proof b, .proof img") == []
