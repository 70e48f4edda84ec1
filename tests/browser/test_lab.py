"""The filter lab in a real browser, against live brokers."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stage import PATIENCE_MS, Stage
from tests.integration.network import until

QUAKES = "class = 'QUAKE' and magnitude >= 6"
TRAFFIC = (
    {"class": "QUAKE", "magnitude": 6.4, "where": {"lat": 38.3, "lon": 142.4}},
    {"class": "QUAKE", "magnitude": 3.1},
    {"class": "STOCK", "price": 12.5},
    {"class": "ALARM", "severity": 4},
)
HOSTILE = (
    '<img src=x onerror="window.broken=1;alert(1)">',
    "<script>window.broken=1;alert(1)</script>",
    "</code></pre><svg onload=window.broken=1>",
    "javascript:window.broken=1",
)
expect.set_options(timeout=PATIENCE_MS)


def _open(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/#/lab")
    expect(page.get_by_role("textbox", name="Filter")).to_be_visible()


def test_a_mistake_is_marked_while_typing(page: Page, stage: Stage) -> None:
    _open(page, stage)
    editor = page.get_by_role("textbox", name="Filter")
    editor.press_sequentially("magnitude => 6")
    expect(page.locator(".mistake")).to_contain_text("line 1, column 12: '>' cannot stand here")
    expect(page.locator(".mistake")).to_contain_text("Expected a literal.")
    expect(page.locator(".backdrop mark")).to_have_text(">")
    expect(editor).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("status").filter(has_text="Line 1, column 12")).to_be_attached()
    for _ in range(4):
        editor.press("Backspace")
    editor.press_sequentially(">= 6")
    expect(page.locator(".mistake")).to_have_count(0)
    expect(editor).to_have_attribute("aria-invalid", "false")


def test_the_mark_stands_right_behind_letters_beyond_the_first_plane(page: Page, stage: Stage) -> None:
    _open(page, stage)
    page.get_by_role("textbox", name="Filter").fill("name = '🌊🌊' andd x = 1")
    expect(page.locator(".backdrop mark")).to_have_text("andd")


def test_a_filter_means_and_costs_something(page: Page, stage: Stage) -> None:
    _open(page, stage)
    page.get_by_role("button", name="Strong earthquakes").click()
    expect(page.get_by_role("textbox", name="Filter")).to_have_value(QUAKES)
    verdict = page.locator(".meaning")
    expect(verdict).to_contain_text("It matches an event if class is 'QUAKE' and magnitude is at least 6.")
    expect(verdict).to_contain_text("Normal form")
    expect(verdict).to_contain_text("comparisons for an event that reaches it")
    expect(page).to_have_url(re.compile(r"#/lab\?filter=class"))


def test_a_page_that_nobody_sees_asks_for_nothing(page: Page, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traffic is let go of when the tab is hidden, and asked for again when it is seen."""
    monkeypatch.setattr("tidewire.console.taps._LINGER_S", 0.0)

    def subscribers() -> int:
        return sum(len(node.node.core.router.subscribers()) for node in stage.brokers.values())

    _open(page, stage)
    page.get_by_role("textbox", name="Filter").fill(QUAKES)
    expect(page.locator(".share")).to_contain_text("No event has passed")
    assert subscribers() == 1
    for is_hidden, wanted in ((True, 0), (False, 1)):
        page.evaluate(
            "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            is_hidden,
        )
        stage.do(until(lambda wanted=wanted: subscribers() == wanted))
    stage.do(stage.publish(TRAFFIC[0]))
    expect(page.locator(".share")).to_contain_text("1 of 1 event")


def test_what_matches_is_counted_and_shown(page: Page, stage: Stage) -> None:
    stage.do(stage.begin_traffic(*TRAFFIC))
    _open(page, stage)
    page.get_by_role("textbox", name="Filter").fill(QUAKES)
    expect(page.locator(".share-figure")).to_have_text(re.compile(r"^2[3-7] %$"))  # one of four
    expect(page.locator(".share")).to_contain_text(re.compile(r"\d+ of \d+ events seen in the last 10 s"))
    first = page.locator(".passed-head").first
    expect(first).to_contain_text("magnitude=6.4")
    first.click()
    expect(page.locator(".tree .tree")).to_contain_text("lat 38.3")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()  # what is read does not move
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as JSON").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied == {"class": "QUAKE", "magnitude": 6.4, "where": {"lat": 38.3, "lon": 142.4}}
    shown = page.locator(".passed").count()
    expect(page.locator(".passing")).to_contain_text(re.compile(r"Newer events that wait: [1-9]"))
    assert page.locator(".passed").count() == shown
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    assert page.locator(".passed").count() < 50


def test_the_list_is_bounded(page: Page, stage: Stage) -> None:
    stage.do(stage.begin_traffic({"class": "QUAKE", "magnitude": 7}, every_s=0.005))
    _open(page, stage)
    page.get_by_role("textbox", name="Filter").fill("class = 'QUAKE'")
    newest = page.locator(".passed-head").first
    expect(newest).to_have_attribute("aria-controls", re.compile(r"^event-(6\d|[7-9]\d|\d{3})$"))  # more have come
    assert page.locator(".passed").count() == 50
    expect(page.locator(".share-figure")).to_have_text("100 %")


def test_without_traffic_it_says_how_to_make_some(page: Page, stage: Stage) -> None:
    _open(page, stage)
    page.get_by_role("textbox", name="Filter").fill(QUAKES)
    expect(page.locator(".share")).to_contain_text("No event has passed in the last 10 s")
    expect(page.locator(".share")).to_contain_text("tidewire pub")
    expect(page.get_by_text("Nothing has matched yet.")).to_be_visible()


def test_script_in_an_event_stays_text(page: Page, stage: Stage) -> None:
    """Values, names and nested names full of markup: shown letter by letter, and nothing runs."""
    event: dict[str, str | int] = {"class": "HOSTILE", **{f"v{at}": text for at, text in enumerate(HOSTILE)}}
    event |= {f"{text[:40]}.name": 1 for text in HOSTILE}
    event |= {"__proto__.polluted": "yes", "constructor.prototype.polluted": "yes"}
    stage.do(stage.begin_traffic(event))
    _open(page, stage)
    page.get_by_role("textbox", name="Filter").fill("class = 'HOSTILE'")
    page.locator(".passed-head").first.click()
    body = page.locator(".passed-body")
    for text in HOSTILE:
        expect(body).to_contain_text(text)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as JSON").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert '"__proto__": {' in page.evaluate("navigator.clipboard.readText()")  # a name like any other
    assert page.locator("main img, main script, main svg[onload]").count() == 0
    assert page.evaluate("[window.broken, ({}).polluted]") == [None, None]


def test_script_in_a_filter_stays_text(page: Page, stage: Stage) -> None:
    """A link with a hostile filter: the address, the meaning, the mistake."""
    page.goto(f"{stage.url}/#/lab?filter=" + "class%20=%20'%3Cimg%20src=x%20onerror=alert(1)%3E'")
    expect(page.locator(".meaning")).to_contain_text("<img src=x onerror=alert(1)>")
    page.get_by_role("textbox", name="Filter").fill("<script>alert(1)</script>")
    expect(page.locator(".mistake")).to_contain_text("<script>")
    assert page.locator("main img, main script").count() == 0


def test_the_lab_by_keyboard_alone(page: Page, stage: Stage) -> None:
    stage.do(stage.begin_traffic(*TRAFFIC))
    _open(page, stage)
    page.keyboard.press("/")
    page.keyboard.type("magnitude > 6")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".meaning")).to_contain_text("magnitude is greater than 6")
    expect(page.locator(".passed").first).to_be_visible()
    focused = page.locator(":focus")
    for _ in range(20):
        page.keyboard.press("Tab")
        if "passed-head" in (focused.get_attribute("class") or ""):
            break
    page.keyboard.press("Enter")
    expect(page.locator(".passed-body")).to_be_visible()
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
