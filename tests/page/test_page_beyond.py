"""Rules, counterfactuals and an audit on the page, in a real browser."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import global_add_pool

from browser import resize
from pages import Counter, cycle, explain, page_data, quality

pytest.importorskip("selenium", reason="selenium is missing: pip install 'hpme[dev]'")
pytest.importorskip("rdkit")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from hpme.data import from_smiles
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer
from hpme.viz import write_page

CHEAP = {"restarts": 1}
CLASSES = ["<b>inactive</b>", "active"]


class Fluorine(nn.Module):
    """Logits: whether a molecule has fluorine."""

    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)[:, 4:5]
        return torch.cat([1 - 2 * count, 2 * count - 1], 1)


@pytest.fixture(scope="module")
def answers():
    """A model, its graphs, and all that the page can say about them."""
    ends = ("F", "O", "(=O)C", "Cl")
    smiles = [f"{'C' * n}{end}" for n in range(2, 12) for end in ends]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    model = Fluorine()
    explainer = HPMEExplainer(k=1, **CHEAP).fit(model, graphs, progress=False)
    found = {
        "rules": explainer.rules(model, graphs, classes=CLASSES, progress=False),
        "counterfactuals": explainer.counterfactuals(model, graphs, n=2, progress=False),
        "audit": explainer.audit(model, graphs, "F", "Cl"),
    }
    found["counterfactuals"][1] = []
    return model, graphs, explainer.explain(model, graphs, progress=False), found


@pytest.fixture(scope="module")
def page(answers, tmp_path_factory):
    model, graphs, explanations, found = answers
    path = tmp_path_factory.mktemp("page") / "page.html"
    return write_page(model, graphs, explanations, path, class_names=CLASSES, **found)


@pytest.fixture
def browser(chromium, page):
    """The page, freshly loaded; afterwards the console must be empty."""
    resize(chromium, 1280, 900)
    chromium.get("about:blank")
    chromium.get(page.as_uri())
    yield chromium
    assert chromium.get_log("browser") == []


def one(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def many(browser, selector):
    return browser.find_elements(By.CSS_SELECTOR, selector)


def tabs(browser):
    """Names of the tabs, and the one that is open."""
    found = many(browser, "[role=tab]")
    chosen = [tab.text for tab in found if tab.get_attribute("aria-selected") == "true"]
    return [tab.text for tab in found], chosen


def test_rules_are_what_the_page_opens_with(browser, answers):
    names = ["Rules", "What would change it", "Audit", "Explanations"]
    assert tabs(browser) == (names, ["Rules"])
    assert not one(browser, "#list").is_displayed()
    rule = one(browser, ".rule")
    book = answers[3]["rules"]
    assert "IF F" in rule.text and "→ active" in rule.text
    assert "put into other graphs, it carries the prediction" in rule.text
    assert len(rule.find_elements(By.CSS_SELECTOR, ".points circle")) == len(book[0].effects)
    assert len(rule.find_elements(By.CSS_SELECTOR, ".exemplar .marks circle")) == 1
    assert f"{100 * book[0].coverage:.0f} %" in rule.text
    assert "→ <b>inactive</b>" in one(browser, ".rule.otherwise").text  # a text, no markup
    assert "agree with the model on 100.0 % of 12 graphs" in one(browser, "#view-rules").text


def test_what_would_change_the_answer(browser, answers):
    one(browser, "#tab-changes").click()
    assert tabs(browser)[1] == ["What would change it"]
    found = answers[3]["counterfactuals"]
    cards = many(browser, "#view-changes .card")
    assert len(cards) == 12
    assert "found for 39 of 40 molecules" in one(browser, "#view-changes").text
    first = cards[0].find_elements(By.CSS_SELECTOR, ".change")
    assert len(first) == len(found[0])
    gone = first[0].find_elements(By.CSS_SELECTOR, ".gone .marks circle")
    come = first[0].find_elements(By.CSS_SELECTOR, ".come .marks circle")
    assert len(gone) == int(found[0][0].removed.sum())
    assert len(come) == int(found[0][0].changed.sum())
    change = found[0][0]
    assert change.smiles in first[0].text and "changed atom" in first[0].text
    assert change.exchanged.replace("->", "→") in first[0].text and "accessibility" in first[0].text
    assert ("you have this one already" in first[0].text) == change.known
    assert f"p {change.outputs[0]:.2f} → {change.outputs[1]:.2f}" in first[0].text
    for _ in range(3):
        many(browser, "#view-changes .pager button")[1].click()
    last = many(browser, "#view-changes .card")[-1]  # those without a change come last
    assert last.get_attribute("data-graph") == "1" and "Nothing was found" in last.text


def test_an_audit(browser):
    one(browser, "#tab-audit").click()
    text = one(browser, "#view-audit").text
    assert "reads it" in text and "What should matter moves the predictions" in text
    assert "random" in text and "95 % intervals" in text and "in single graphs they may" in text
    rows = many(browser, "#view-audit tbody tr")
    assert [row.find_element(By.TAG_NAME, "code").text for row in rows] == ["F", "Cl"]
    assert rows[0].find_elements(By.CSS_SELECTOR, "td.strong")
    assert not rows[1].find_elements(By.CSS_SELECTOR, "td.strong")


def test_addresses_and_keys_lead_from_tab_to_tab(browser, page):
    one(browser, "#tab-rules").send_keys(Keys.ARROW_RIGHT)
    assert tabs(browser)[1] == ["What would change it"]
    assert browser.switch_to.active_element.get_attribute("id") == "tab-changes"
    one(browser, "#change-0 h3 a").click()
    assert tabs(browser)[1] == ["Explanations"]
    assert browser.switch_to.active_element.get_attribute("id") == "graph-0"
    one(browser, "#graph-0 a.chip").click()
    assert one(browser, "#change-0").is_displayed()
    browser.get("about:blank")
    browser.get(page.as_uri() + "#graph-17")
    assert tabs(browser)[1] == ["Explanations"] and one(browser, "#graph-17").is_displayed()
    browser.get("about:blank")
    browser.get(page.as_uri() + "#audit")
    assert tabs(browser)[1] == ["Audit"]
    one(browser, "body").send_keys("n")  # a key of the list, which is not in view
    one(browser, "#tab-graphs").click()
    assert one(browser, "#page").text == "Page 1 of 4"


@pytest.mark.parametrize("width", [320, 768])
def test_no_sideways_scrolling(browser, width):
    resize(browser, width, 800)
    for tab in many(browser, "[role=tab]"):
        tab.click()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_page_without_them_has_no_tabs(chromium, tmp_path):
    graphs = [cycle(5 + i, seed=i) for i in range(3)]
    path = write_page(Counter(), graphs, [explain(g) for g in graphs], tmp_path / "r.html")
    assert page_data(path)["insight"] is None
    chromium.get(path.as_uri())
    assert not one(chromium, "#tabs").is_displayed() and one(chromium, "#list").is_displayed()
    assert chromium.get_log("browser") == []


def test_nothing_to_tell_apart_and_nothing_found(chromium, answers, tmp_path):
    model, graphs, explanations, _ = answers
    same = graphs[1::4]
    explainer = HPMEExplainer(k=1, **CHEAP).fit(model, graphs, progress=False)
    book = explainer.rules(model, same, progress=False)
    found = explainer.counterfactuals(model, same, progress=False)
    path = tmp_path / "r.html"
    write_page(model, same, explanations[1::4], path, rules=book, counterfactuals=found)
    chromium.get(path.as_uri())
    assert "all graphs get the same prediction" in one(chromium, "#view-rules .warning").text
    one(chromium, "#tab-changes").click()
    assert "found for 0 of 10 molecules" in one(chromium, "#view-changes").text
    assert chromium.get_log("browser") == []


def test_counterfactuals_of_other_graphs_are_refused(answers, tmp_path):
    model, graphs, explanations, found = answers
    few = found["counterfactuals"][:2]
    with pytest.raises(InputError, match="40 graphs need as many lists of counterfactuals, got 2"):
        write_page(model, graphs, explanations, tmp_path / "r.html", counterfactuals=few)


def test_what_is_missing_is_on_its_card_without_a_tab(chromium, answers, tmp_path):
    model, graphs, explanations, found = answers
    chosen = [n for n, some in enumerate(found["counterfactuals"]) if some][:2]
    known = [some if n in chosen else None for n, some in enumerate(found["counterfactuals"])]
    shown = [one.clone() for one in explanations]
    for number in chosen:
        shown[number].quality = quality("absence")
    path = write_page(model, graphs, shown, tmp_path / "page.html", counterfactuals=known)
    chromium.get(f"{path.as_uri()}#graph-{chosen[0]}")
    assert not chromium.find_element(By.ID, "tabs").is_displayed()
    (missing,) = chromium.find_elements(By.CSS_SELECTOR, f"#graph-{chosen[0]} .missing")
    assert "would have to be there" in missing.text and "→" in missing.text
    assert len(missing.find_elements(By.CSS_SELECTOR, "svg.drawing")) == 2
    assert chromium.get_log("browser") == []
