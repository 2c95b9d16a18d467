"""A real browser, and what is looked at in it."""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

# As root, and on a network that leads nowhere.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 20_000  # ms


def chromium():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found, "there is no Chromium; `make browser` installs Debian's"
    return found


@pytest.fixture(scope="module")  # not longer: it has an event loop of its own, and so have other tests
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(PATIENCE)
    yield page
    page.close()


@pytest.fixture
def picture():
    """Keeps what is seen for the docs, if SCREENSHOTS names a folder."""

    def keep(page, name, **options):
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=Path(folder) / f"{name}.png", **options)

    return keep
