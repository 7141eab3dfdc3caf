"""What tests of the page share."""

import pytest

from browser import start


@pytest.fixture(scope="module")
def chromium():
    browser = start()
    yield browser
    browser.quit()
