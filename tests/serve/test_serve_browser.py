"""Typing a molecule in a real browser: it is drawn, explained, and remembered."""

import json

import pytest

from browser import resize, set_dark, start

pytest.importorskip("selenium", reason="selenium is missing: pip install 'hpme[dev]'")

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait


@pytest.fixture(scope="module")
def chromium():
    browser = start()
    yield browser
    browser.quit()


def one(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def wait(browser, ready):
    return WebDriverWait(browser, 60).until(lambda _: ready())


def answered(browser, name):
    """Whether the frame shows the answer about a molecule of this name."""
    browser.switch_to.default_content()
    if not one(browser, "#answer").is_displayed():
        return False
    browser.switch_to.frame(one(browser, "#answer"))
    found = [card.text for card in browser.find_elements(By.CSS_SELECTOR, "#list .card h3")]
    browser.switch_to.default_content()
    return found == [name]


def test_ask_in_a_browser(chromium, server, tmp_path):
    resize(chromium, 1200, 900)
    chromium.get(server.address)
    box = one(chromium, "#question")
    assert chromium.switch_to.active_element == box
    box.send_keys("CC(=O)O vinegar")
    picture = one(chromium, "#picture")
    wait(chromium, picture.is_displayed)
    assert picture.get_attribute("alt") == "Molecule CC(=O)O"
    assert wait(chromium, lambda: picture.get_property("naturalWidth")) > 0
    box.send_keys(Keys.CONTROL, Keys.ENTER)
    wait(chromium, lambda: answered(chromium, "vinegar"))
    assert one(chromium, "#status").text.startswith("Answered in")

    chromium.switch_to.frame(one(chromium, "#answer"))  # the page of one begins with it
    assert chromium.execute_script("return document.body.className") == "alone"
    assert one(chromium, ".change").is_displayed() and not one(chromium, ".tools").is_displayed()
    chromium.switch_to.default_content()

    box.clear()
    box.send_keys("C1CC <img src=x onerror=alert(1)>")
    one(chromium, "#send").click()
    wait(chromium, lambda: "not valid SMILES" in one(chromium, "#error").text)
    assert not chromium.find_elements(By.CSS_SELECTOR, "form img[src='x']")
    wait(chromium, lambda: not picture.is_displayed())

    box.clear()
    box.send_keys("c1ccccc1 benzene\nCCO")
    one(chromium, "#draw").click()
    sketcher = one(chromium, "#sketcher")
    canvases = (
        "return document.querySelector('#sketcher > *')?.shadowRoot.querySelectorAll('canvas')"
    )
    assert len(wait(chromium, lambda: chromium.execute_script(canvases))) == 2
    ActionChains(chromium).move_to_element_with_offset(sketcher, 250, 100).click().perform()
    wait(chromium, lambda: box.get_property("value").split("\n") == ["CC.c1ccccc1", "CCO"])
    one(chromium, "#draw").click()
    assert not sketcher.is_displayed()

    table = tmp_path / "row.csv"
    table.write_text("smiles,name\nOCCO,glycol\n")
    one(chromium, "#file").send_keys(str(table))
    wait(chromium, lambda: answered(chromium, "OCCO"))
    assert one(chromium, "#error").text == ""
    earlier = chromium.find_elements(By.CSS_SELECTOR, "#earlier button")
    assert [button.text for button in earlier] == ["row.csv", "CC(=O)O vinegar"]
    earlier[1].click()
    wait(chromium, lambda: answered(chromium, "vinegar"))

    large = tmp_path / "large.json"
    large.write_text(json.dumps({"x": [[0.0] * 100_000]}) * 3)
    one(chromium, "#file").send_keys(str(large))
    wait(chromium, lambda: "too large" in one(chromium, "#error").text)

    resize(chromium, 390, 800)
    set_dark(chromium, True)
    wide = chromium.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 390
    told = [entry for entry in chromium.get_log("browser") if "400 (Bad Request)" not in str(entry)]
    assert told == []
