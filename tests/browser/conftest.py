"""One browser and one small network for all browser tests; a fresh page for each."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.stage import PATIENCE_MS, Stage, Witness, chromium, find_chromium


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium; without one the tests are skipped, except where they must run."""
    if find_chromium() is None:
        reason = "there is no chromium on this machine: tools/chromium.sh installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with chromium() as one:
        yield one


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A network of its own: tests end brokers and doors."""
    with Stage() as one:
        yield one


@pytest.fixture
def page(browser: Browser, stage: Stage) -> Iterator[Page]:
    """A page in a fresh profile; at the end, nothing must have gone wrong on it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    witness = Witness(page, stage.url)
    try:
        yield page
        page.evaluate("0")  # what is under way has been heard
    finally:
        context.close()
    assert witness.seen == []
