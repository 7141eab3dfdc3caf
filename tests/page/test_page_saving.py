"""What a reader takes away from the page: a link to a graph, a table, a drawing."""

import csv
import io
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from browser import start
from pages import Counter, cycle, explain, with_truth

pytest.importorskip("selenium", reason="selenium is missing: pip install 'hpme[dev]'")

from hpme.viz import write_page

COUNT = 20
CAUGHT = """
window.saved = [];
URL.createObjectURL = (blob) => { window.saved.push(blob); return "blob:nothing"; };
HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; };
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    graphs = [with_truth(cycle(4 + i % 9, seed=i, name=f"cycle {i}")) for i in range(COUNT)]
    graphs[1].name, graphs[2].name, graphs[4].name = '=1+1, "sum"', "line\nbreak", "-1+1"
    for i, graph in enumerate(graphs):
        graph.y = torch.tensor([i % 2])
    explanations = [explain(graph, i) for i, graph in enumerate(graphs)]
    path = tmp_path_factory.mktemp("page") / "page.html"
    return write_page(Counter(), graphs, {"mine": explanations}, path, title="A title")


@pytest.fixture(scope="module")
def browser(page):
    chromium = start()
    chromium.get(page.as_uri())
    yield chromium
    assert chromium.get_log("browser") == []
    chromium.quit()


def click_to_save(browser, selector):
    """What a button saves: the name of the file and its text."""
    browser.execute_script(CAUGHT)
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)
    text = browser.execute_async_script("window.saved[0].text().then(arguments[0])")
    return browser.execute_script("return window.savedAs"), text


def at(browser):
    """Names of the cards, and the name of the one in focus."""
    return browser.execute_script(
        "const name = (card) => card?.querySelector('h3').textContent;"
        "return [[...document.querySelectorAll('.card')].map(name), name(document.activeElement)]"
    )


def search(browser, text):
    browser.execute_script(
        "const s = document.getElementById('search'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))",
        text,
    )


def test_an_address_leads_to_a_graph(browser, page):
    browser.get("about:blank")
    browser.get(f"{page.as_uri()}#graph-17")
    names, focused = at(browser)
    assert focused == "cycle 17" and "cycle 0" not in names  # it is on the second page
    # One that the search hides is found again, a wrong number does nothing.
    search(browser, "cycle 5")
    assert at(browser)[0] == ["cycle 5"]
    wait = "setTimeout(arguments[1], 50)"
    browser.execute_async_script(f"location.hash = arguments[0]; {wait}", "graph-3")
    assert at(browser)[1] == "cycle 3"
    browser.execute_async_script(f"location.hash = arguments[0]; {wait}", "graph-999")
    assert at(browser)[1] == "cycle 3"


def test_the_graphs_found_as_a_table(browser):
    search(browser, "")
    name, text = click_to_save(browser, "#csv")
    assert name == "A-title.csv"
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == COUNT
    assert rows[1]["name"] == '\'=1+1, "sum"'  # text, whatever a spreadsheet makes of it
    assert rows[2]["name"] == "line\nbreak"
    assert rows[4]["name"] == "'-1+1"
    assert rows[3]["label"] == rows[1]["label"] != rows[2]["label"]
    assert 0 <= float(rows[0]["mine: kept edges alone"]) <= 1
    assert 0 <= float(rows[0]["mine: AUC"]) <= 1
    search(browser, "cycle 5")
    _, text = click_to_save(browser, "#csv")
    assert [row["name"] for row in csv.DictReader(io.StringIO(text))] == ["cycle 5"]


def test_a_drawing_keeps_its_colours_without_the_page(browser):
    search(browser, "cycle 5")
    name, text = click_to_save(browser, ".save")
    assert name == "cycle-5-mine.svg"
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("width") == "320"
    kept = [e for e in root.iter() if "kept" in (e.get("class") or "").split()]
    assert kept
    assert any(e.get("stroke").startswith(("rgb", "color", "oklab")) for e in kept)
    assert "var(" not in text
