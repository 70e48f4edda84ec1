"""The overlay page in a real browser, against live brokers."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.stage import PATIENCE_MS, Stage

QUAKE = {"class": "QUAKE", "magnitude": 6.4}
expect.set_options(timeout=PATIENCE_MS)


def test_every_broker_and_link_is_there_with_a_name(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    for name, role in (("head", "head"), ("edge1", "edge"), ("edge2", "edge")):
        expect(page.get_by_role("button", name=re.compile(f"^Broker {name}, {role}, serving"))).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Link between head and edge"))).to_have_count(2)
    rows = page.get_by_role("region", name="Brokers, as a table").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(page.locator(".connection")).to_have_text("Live")


def test_rates_change_when_events_flow(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    published = page.get_by_role("listitem").filter(has_text="Published").locator(".tile-figure")
    expect(published).to_have_text("0/s")
    stage.do(stage.begin_traffic(QUAKE))
    expect(published).to_have_text(re.compile(r"^[1-9][\d.]*/s$"))
    expect(page.locator(".link .label")).to_have_text([re.compile(r"^[1-9][\d.]*/s$")] * 2)
    expect(page.get_by_role("button", name=re.compile("^Broker edge1,.* matching delay [1-9]"))).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^head edge1")).locator(".number").first).not_to_have_text("0/s")


def test_a_broker_that_ends_is_shown_as_unreachable_where_it_stood(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    card = page.locator('.broker[data-id="broker:edge2"]')
    place = card.get_attribute("transform")
    stage.do(stage.end_broker("edge2"))
    gone = page.get_by_role("button", name=re.compile("^Broker edge2,.*unreachable"))
    expect(gone).to_be_visible()
    assert card.get_attribute("transform") == place
    expect(page.get_by_role("status").filter(has_text="Broker edge2 is unreachable.")).to_be_attached()
    gone.click()
    expect(page.get_by_text("It does not answer.")).to_be_visible()


def test_the_details_of_a_broker_and_of_a_link(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    page.get_by_role("button", name=re.compile("^Broker edge1,")).click()
    details = page.get_by_role("region", name="edge1", exact=True)
    expect(details).to_contain_text(stage.brokers["edge1"].address)
    expect(details).to_contain_text("Input utilisation")
    expect(details.get_by_role("img", name=re.compile("^The last 5 minutes"))).to_be_visible()
    details.get_by_role("button", name="head").click()
    link = page.get_by_role("region", name="head – edge1")
    expect(link).to_contain_text("head → edge1")
    link.get_by_role("button", name="Close the details").click()
    expect(page.get_by_role("region", name="How to read it")).to_be_visible()


def test_a_lost_connection_greys_the_last_picture_and_comes_back(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    expect(page.locator(".broker")).to_have_count(3)
    witnessed = page.locator(".live")
    expect(witnessed).not_to_have_attribute("data-old", "")
    stage.do(stage.close_door())
    expect(page.get_by_text("Reconnecting…").last).to_be_visible()
    expect(witnessed).to_have_attribute("data-old", "")
    expect(page.locator(".broker")).to_have_count(3)
    stage.do(stage.open_door_again())
    expect(page.locator(".connection")).to_have_text("Live")
    expect(witnessed).not_to_have_attribute("data-old", "")


def test_the_map_by_keyboard_alone(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    expect(page.locator(".broker")).to_have_count(3)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    expect(focused).to_have_attribute("data-id", "broker:head")
    page.keyboard.press("ArrowDown")  # a link is on the way to the edges
    expect(focused).to_have_attribute("data-id", re.compile("^link:"))
    page.keyboard.press("ArrowDown")
    expect(focused).to_have_attribute("data-id", "broker:edge1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(focused).to_have_attribute("data-id", "broker:edge2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="edge2", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="How to read it")).to_be_visible()
    page.keyboard.press("Tab")  # one stop for the whole map
    expect(focused).to_have_attribute("aria-label", "Brokers, as a table")


def test_a_dialog_that_has_closed_holds_no_keys(page: Page, stage: Stage) -> None:
    """It has the focus until the page is drawn again, which may take a moment."""
    page.goto(stage.url)
    expect(page.locator(".broker")).to_have_count(3)
    press = "key => document.querySelector('dialog').dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    for key in "gl":
        page.evaluate(press, key)
    expect(page.get_by_role("heading", name="Filter lab", level=1)).to_be_visible()


def test_shortcuts_help_and_pages(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    expect(page.locator(".broker")).to_have_count(3)
    page.keyboard.press("?")
    help_dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(help_dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(help_dialog).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("l")
    expect(page.get_by_role("heading", name="Filter lab", level=1)).to_be_visible()
    expect(page).to_have_title("Filter lab · Tidewire")
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="Filter")).to_be_focused()
    page.keyboard.type("go?")  # letters are text here
    expect(page.get_by_role("textbox", name="Filter")).to_have_value("go?")
    expect(help_dialog).to_be_hidden()
