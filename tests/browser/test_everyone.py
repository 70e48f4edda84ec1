"""Both pages, for everyone: accessibility, both colour schemes, small and large screens, less motion, tokens."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Final, Literal

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.stage import PATIENCE_MS, Stage

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
QUAKE = {"class": "QUAKE", "magnitude": 6.4, "where": {"lat": 38.3}}
LAB = "#/lab?filter=class%20=%20'QUAKE'"
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
expect.set_options(timeout=PATIENCE_MS)


def _violations(page: Page) -> list[str]:
    """What axe-core finds; run in the page's debugger, where the policy of the page does not reach."""
    page.evaluate(AXE.read_text(encoding="utf-8") + "\n;0")
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("tags => axe.run(document, {runOnly: tags})", tags)
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


def _ready(page: Page, stage: Stage, where: str) -> None:
    page.goto(f"{stage.url}/{where}")
    if where:
        page.locator(".passed-head").first.click()
        expect(page.locator(".passed-body")).to_be_visible()
    else:
        page.get_by_role("button", name=re.compile("^Broker edge1,")).click()
        expect(page.locator(".link .label").first).to_be_visible()


@pytest.mark.parametrize("where", ["", LAB], ids=["overlay", "lab"])
def test_accessible_at_every_width_in_both_schemes(page: Page, stage: Stage, where: str) -> None:
    """axe-core finds nothing, and nothing is wider than the screen."""
    stage.do(stage.begin_traffic(QUAKE))
    _ready(page, stage, where)
    for width, scheme in product((360, 768, 1920), SCHEMES):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        ground = {"light": "rgb(244, 246, 248)", "dark": "rgb(14, 20, 24)"}[scheme]
        expect(page.locator("html")).to_have_css("background-color", ground)
        assert _violations(page) == [], (width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_can_be_found_wanting(page: Page, stage: Stage) -> None:
    """axe-core works here: a page with a nameless button is told on."""
    page.goto(stage.url)
    expect(page.locator(".broker")).to_have_count(3)
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert any(one.startswith("button-name") for one in _violations(page))


def test_the_theme_can_be_chosen_and_is_remembered(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    root = page.locator("html")
    for choice in ("light", "dark"):
        page.get_by_role("button", name=re.compile("^Colours:")).click()
        expect(root).to_have_attribute("data-theme", choice)
    page.reload()
    expect(root).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Colours: dark. Change").click()
    expect(root).not_to_have_attribute("data-theme", re.compile("."))


def test_less_motion_for_who_asks(page: Page, stage: Stage) -> None:
    stage.do(stage.begin_traffic(QUAKE))
    page.goto(stage.url)
    flow = page.locator(".link .flow").first
    expect(flow).to_have_css("animation-name", re.compile("along|against"))
    page.emulate_media(reduced_motion="reduce")
    expect(flow).to_have_css("animation-name", "none")


def _closed(route: Route) -> None:
    """A door that asks for a token, as brokers with an authority do."""
    if route.request.headers.get("authorization") == "Bearer open-sesame":
        route.continue_()
        return
    error = {"error": {"code": "not-authenticated", "message": "who are you?"}}
    route.fulfill(status=401, body=json.dumps(error), content_type="application/json")


def test_a_token_is_asked_for_only_when_the_server_asks(browser: Browser, stage: Stage) -> None:
    """It goes into the header, stays in the tab, and never into an address."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.route("**/v1/**", _closed)
    page.goto(stage.url)
    dialog = page.get_by_role("dialog", name="Who are you?")
    dialog.get_by_label("Token").fill("wrong")
    dialog.get_by_role("button", name="Go on").click()
    expect(dialog).to_contain_text("did not accept this token")
    dialog.get_by_label("Token").fill("open-sesame")
    dialog.get_by_role("button", name="Go on").click()
    expect(page.locator(".broker")).to_have_count(3)
    expect(dialog).to_be_hidden()
    assert "sesame" not in page.url
    assert page.evaluate("[localStorage.length, sessionStorage.getItem('tidewire.token')]") == [0, "open-sesame"]
    page.get_by_role("button", name="Forget the token").click()
    expect(dialog).to_contain_text("This network asks for a token")
    page.keyboard.press("Escape")
    expect(page.get_by_role("alert")).to_contain_text("who are you?")
    page.get_by_role("button", name="Try again").click()
    expect(dialog).to_be_visible()
    context.close()
