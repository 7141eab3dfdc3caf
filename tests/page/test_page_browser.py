"""The page in a real browser: sliders, search, sorting, keys, colours, a phone, hostile names."""

import itertools

import pytest
import torch

from browser import resize, set_dark
from pages import Counter, cycle, decode, explain, page_data, with_truth

pytest.importorskip("selenium", reason="selenium is missing: pip install 'hpme[dev]'")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from hpme.explainers.hpme.report import ClassEffect, FitReport
from hpme.viz import write_page

NO_EFFECT = (ClassEffect("class 0", 40, 0.05, -0.1, 0.2, 0.3),)
HOSTILE = "<script>document.title='owned'</script>"
COUNT = 30


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of 30 graphs and two explainers, one of which warns."""
    graphs = [with_truth(cycle(4 + i % 9, i % 3, seed=i, name=f"cycle {i}")) for i in range(COUNT)]
    graphs[1].name, graphs[2].name = HOSTILE, "</script><b>bold</b>"
    for i, graph in enumerate(graphs):
        graph.smiles, graph.y = "CCO", torch.tensor([i % 2])
    graphs[29].smiles = "c1cscc1"
    weak = FitReport(0.9, 0.95, 0.8, 1.1, 0.3, NO_EFFECT, 40, True, 0.1, 0.2, "somewhere")
    named = {
        name: [explain(g, seed + i, pooled=g.node_mask) for i, g in enumerate(graphs)]
        for seed, name in ((0, "first"), (1000, "second"))
    }
    path = tmp_path_factory.mktemp("page") / "page.html"
    return write_page(Counter(), graphs, named, path, title="A title", reports={"first": weak})


@pytest.fixture
def browser(chromium, page):
    """The page, freshly loaded; afterwards the console must be empty."""
    resize(chromium, 1280, 900)
    set_dark(chromium, False)
    chromium.get(page.as_uri())
    chromium.execute_script("localStorage.clear()")
    yield chromium
    assert chromium.get_log("browser") == []


def all_texts(browser, selector):
    """Texts of all elements at once; one call per element would take most of the time."""
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
    return browser.execute_script(script, selector)


def one(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def names(browser):
    return all_texts(browser, ".card h3")


def choose(browser, selector, text):
    for option in browser.find_elements(By.CSS_SELECTOR, f"{selector} option"):
        if text in option.text:
            option.click()
            return
    raise AssertionError(f"no option {text}")


def slide(browser, selector, value):
    """Moves a slider as a pointer would: the value changes and an input event follows."""
    browser.execute_script(
        "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))",
        selector,
        value,
    )


def shown(browser, card=0):
    """Numbers of a card's parts, and how many edges are marked in each drawing."""
    return browser.execute_script(
        "const card = document.querySelectorAll('.card')[arguments[0]];"
        "const all = (element, selector) => [...element.querySelectorAll(selector)];"
        "return [all(card, '.part .value').map((e) => e.textContent),"
        " all(card, '.panel').map((panel) => all(panel, '.band.kept').length)]",
        card,
    )


def draw_all(browser):
    """Brings every card into view, since only those in view are drawn."""
    for card in browser.find_elements(By.CSS_SELECTOR, ".card"):
        browser.execute_script("arguments[0].scrollIntoView()", card)
        WebDriverWait(card, 60).until(lambda c: c.find_elements(By.CSS_SELECTOR, ".panel"))


def background(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_it_loads_and_shows_both_explainers_side_by_side(browser):
    assert one(browser, "h1").text == "A title"
    assert "30 graphs" in one(browser, "#facts").text
    assert len(names(browser)) == 12 and names(browser)[0] == "cycle 0"
    card = one(browser, ".card")
    panels = card.find_elements(By.CSS_SELECTOR, ".panel")
    assert [p.get_attribute("data-explainer") for p in panels] == ["first", "second"]
    left, right = (panel.rect for panel in panels)
    assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]
    assert len(card.find_elements(By.CSS_SELECTOR, "svg.drawing")) == 2


def test_what_explainers_say_about_themselves_is_on_top(browser):
    first, second = browser.find_elements(By.CSS_SELECTOR, ".verdict")
    assert "trust with care" in first.text and "Warning: no evidence" in first.text
    assert "no self-check" in second.text and "Warning" not in second.text


def test_deleting_is_behind_other_measures_and_its_trap_is_told(browser):
    assert not one(browser, "#deletion").is_displayed()
    one(browser, "#other summary").click()
    assert "Read this with care" in one(browser, "#other").text
    assert all_texts(browser, "#deletion tbody th") == ["first", "second", "random edges"]
    before = all_texts(browser, "#deletion tbody td")
    slide(browser, "#share", 100)
    after = all_texts(browser, "#deletion tbody td")
    assert before != after
    assert after[0] == "100\u00a0%" == after[3]  # all edges kept is the whole graph


def test_a_slider_changes_numbers_and_marked_edges(browser, page):
    data = page_data(page)
    first = next(e for e in data["explainers"] if e["name"] == "first")
    alone = decode(first["alone"]).reshape(-1, 2)
    without = decode(first["without"]).reshape(-1, 2)
    predicted = decode(data["prediction"]).reshape(-1, 2)[0].argmax()
    for step in (0, 3, 4):
        slide(browser, ".card input[type=range]", step)
        values, kept = shown(browser)
        assert kept == [step, step]
        assert one(browser, ".card .kept-edges").text == str(step)
        assert values[0] == f"{100 * alone[step, predicted]:.1f}\u00a0%"
        assert values[1] == f"{100 * without[step, predicted]:.1f}\u00a0%"
    other = shown(browser, card=1)
    slide(browser, ".card input[type=range]", 1)
    assert shown(browser, card=1) == other  # every graph has its own slider


def test_search(browser):
    box = one(browser, "#search")
    box.send_keys("CYCLE 2")
    assert names(browser) == [f"cycle {i}" for i in range(20, 30)]
    assert one(browser, "#status").text == "10 of 30 graphs"
    box.clear()
    box.send_keys("c1cs")
    assert names(browser) == ["cycle 29"]
    box.clear()
    box.send_keys("C1CS")  # another SMILES
    assert names(browser) == [] and "No graph matches" in one(browser, "#status").text
    box.send_keys(Keys.ESCAPE)
    assert len(names(browser)) == 12
    box.send_keys("class 1")
    found = all_texts(browser, ".card .prediction")
    assert found and all(text.startswith("class 1") for text in found)


def test_filter_by_prediction(browser):
    one(browser, "#other summary").click()
    WebDriverWait(browser, 60).until(lambda b: all_texts(b, "#deletion tbody td")[0])
    before = all_texts(browser, "#deletion tbody td")
    choose(browser, "#predicted", "class 0")
    assert all(t.startswith("class 0") for t in all_texts(browser, ".card .prediction"))
    assert all_texts(browser, "#deletion tbody td") != before
    assert "found below" in one(browser, "#scope").text
    choose(browser, "#predicted", "wrong")
    assert all_texts(browser, ".card .chip.wrong")
    assert len(all_texts(browser, ".card .chip.wrong")) == len(names(browser))


def test_sort_by_any_metric(browser):
    choose(browser, "#sort", "Number of nodes")
    sizes = [int(text.split()[0]) for text in all_texts(browser, ".card .meta")]
    assert sizes == sorted(sizes) and sizes[0] == 4
    one(browser, "#direction").click()
    sizes = [int(text.split()[0]) for text in all_texts(browser, ".card .meta")]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == 12
    choose(browser, "#sort", "AUC (second)")
    aucs = [
        float(text) for text in all_texts(browser, ".panel[data-explainer=second] [data-name=AUC]")
    ]
    assert len(aucs) >= 2 and aucs == sorted(aucs, reverse=True)
    choose(browser, "#sort", "Fidelity+: change without them (first)")
    draw_all(browser)
    whole = [float(t.split()[3]) for t in all_texts(browser, ".card .prediction")]
    rest = [
        float(t.split()[0])
        for t in all_texts(browser, ".panel[data-explainer=first] .without .value")
    ]
    drops = [a - b for a, b in zip(whole, rest, strict=True)]
    assert all(a >= b - 0.11 for a, b in itertools.pairwise(drops))


def test_only_cards_near_the_view_are_drawn(browser):
    drawn = (
        "return [...document.querySelectorAll('.card')].map((c) => Boolean(c.querySelector('svg')))"
    )
    before = browser.execute_script(drawn)
    assert before[0] and not before[-1]
    draw_all(browser)
    assert all(browser.execute_script(drawn))


def test_pages(browser):
    assert one(browser, "#page").text == "Page 1 of 3"
    one(browser, "#next").click()
    WebDriverWait(browser, 60).until(lambda b: names(b)[:1] == ["cycle 12"])
    one(browser, "#next").click()
    WebDriverWait(browser, 60).until(lambda b: len(names(b)) == 6)
    assert len(names(browser)) == 6 and not one(browser, "#next").is_enabled()


def test_keys(browser):
    body = one(browser, "body")
    body.send_keys("/")
    assert browser.switch_to.active_element.get_attribute("id") == "search"
    browser.switch_to.active_element.send_keys("n")  # a letter here, not a command
    assert one(browser, "#search").get_attribute("value") == "n"
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    body.send_keys("j")
    card = browser.switch_to.active_element
    assert card.get_attribute("data-graph") == "0"
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert browser.execute_script(outline) == "solid"
    before = int(one(browser, ".card .kept-edges").text)
    card.send_keys(Keys.ARROW_RIGHT)
    assert shown(browser)[1] == [before + 1, before + 1]
    card.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert shown(browser)[1] == [before - 1, before - 1]
    card.send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element.get_attribute("data-graph") == "1"
    slider = one(browser, "[data-graph='1'] input[type=range]")
    browser.execute_script("arguments[0].focus()", slider)
    assert slider.get_attribute("type") == "range"
    value = int(slider.get_attribute("value"))
    slider.send_keys(Keys.ARROW_RIGHT)
    assert int(slider.get_attribute("value")) == value + 1
    assert "edges" in slider.get_attribute("aria-valuetext")
    body.send_keys("n")
    assert one(browser, "#page").text == "Page 2 of 3"
    body.send_keys("p")
    body.send_keys("?")
    assert one(browser, "#help").get_attribute("open") is not None


def test_ground_truth_can_be_shown(browser):
    assert not one(browser, ".drawing .truth line").is_displayed()
    one(browser, "body").send_keys("g")
    assert one(browser, "#truth").get_attribute("aria-pressed") == "true"
    assert one(browser, ".drawing .truth line").is_displayed()


def test_dark_as_the_system_says_or_as_chosen(browser, page):
    light = background(browser)
    set_dark(browser, True)
    WebDriverWait(browser, 60).until(lambda _: background(browser) != light)
    dark = background(browser)
    one(browser, "#theme").click()
    assert background(browser) == light

    def again():
        browser.get(page.as_uri())
        return background(browser)

    # The choice is remembered; what a page stores reaches the next one after a moment.
    WebDriverWait(browser, 10).until(lambda _: again() == light)
    one(browser, "#theme").click()
    assert background(browser) == dark


@pytest.mark.parametrize("width", [320, 390, 768])
def test_no_sideways_scrolling_on_small_screens(browser, page, width):
    resize(browser, width, 800)
    browser.get(page.as_uri())
    one(browser, "#help summary").click()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script("return innerWidth") == width
    panels = one(browser, ".card").find_elements(By.CSS_SELECTOR, ".panel")
    if width < 500:
        assert panels[0].rect["x"] == panels[1].rect["x"]  # one below the other


def test_hostile_names_are_texts(browser):
    assert browser.title == "A title"
    assert names(browser)[1:3] == [HOSTILE, "</script><b>bold</b>"]
    assert browser.find_elements(By.CSS_SELECTOR, ".card b, .card script") == []
    assert browser.execute_script("return document.scripts.length") == 2


def test_no_other_script_may_run(browser):
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'document.title = `owned`';"
        "document.body.append(s)"
    )
    assert browser.title == "A title"
    log = browser.get_log("browser")  # the refusal, and nothing else
    assert len(log) == 1 and "Content Security Policy" in log[0]["message"]


def test_regression(chromium, tmp_path):
    graphs = [cycle(5 + i, seed=i) for i in range(3)]
    named = {"only": [explain(graph) for graph in graphs]}
    path = write_page(Counter(1), graphs, named, tmp_path / "r.html", mode="regression")
    chromium.get(path.as_uri())
    data = page_data(path)
    slide(chromium, ".card input[type=range]", 2)
    value = float(decode(data["explainers"][0]["alone"])[2])
    assert float(shown(chromium)[0][0]) == pytest.approx(value, rel=1e-3)
    one(chromium, ".card .more summary").click()
    assert "from the whole graph" in one(chromium, ".card .flip").text
    assert not one(chromium, "#predicted").is_displayed()
    assert chromium.get_log("browser") == []
