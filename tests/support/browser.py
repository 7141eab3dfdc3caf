"""A real browser, if there is one."""

import os
import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def start(width=1280, height=900, *, dark=False):
    """A headless Chromium; skips the test where there is none, or no driver."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is missing: pip install 'hpme[dev]'"
    )
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with chromedriver; install the packages chromium, chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium's sandbox refuses to run as root
    for argument in arguments:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    resize(browser, width, height)
    set_dark(browser, dark)
    return browser


def resize(browser, width, height):
    """Sets the size of the page itself; windows cannot be as narrow as phones."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )


def set_dark(browser, dark):
    """What the system prefers."""
    feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
