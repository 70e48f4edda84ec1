"""The console of `tidewire up --secure`, as its processes run: a token is asked for, and is all that one may do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.stage import PATIENCE_MS, Witness
from tests.integration.test_commands import free_ports, running, says, told
from tidewire.cli.up import FIRST_TOKEN

SECURITY = Path(".tidewire") / "security"
expect.set_options(timeout=PATIENCE_MS)


@contextmanager
def _secured(folder: Path) -> Iterator[tuple[str, str]]:
    """A network that asks who one is, with its keys in this folder: its console, and the token that may do all."""
    port = free_ports(4)
    with running("up", "--secure", "--edges", "1", "--port", str(port), folder=folder) as network:
        url = network.until(says("tidewire is up"))["console"]
        yield url, (folder / SECURITY / FIRST_TOKEN).read_text()


@contextmanager
def _page(browser: Browser, url: str) -> Iterator[tuple[Page, list[str]]]:
    """A page in a fresh profile, and the addresses that it asked for; refusals are all that may go wrong."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    witness = Witness(page, url, statuses=(400, 401, 403))
    try:
        yield page, asked
        page.evaluate("0")
    finally:
        context.close()
    assert witness.seen == []


def _dialog(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Who are you?")


def _answer(page: Page, token: str) -> None:
    _dialog(page).get_by_label("Token").fill(token)
    _dialog(page).get_by_role("button", name="Go on").click()


def test_who_has_no_token_is_asked_until_the_brokers_accept_one(browser: Browser, tmp_path: Path) -> None:
    """By real brokers: nothing is seen before; afterwards all is, until the token is revoked or forgotten."""
    with _secured(tmp_path) as (url, token), _page(browser, url) as (page, asked):
        page.goto(url)
        expect(_dialog(page)).to_contain_text("This network asks for a token")
        expect(page.locator(".broker")).to_have_count(0)
        _answer(page, token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB"))
        expect(_dialog(page)).to_contain_text("did not accept this token")
        _answer(page, token)
        expect(page.get_by_role("button", name=re.compile("^Broker (head|edge1),"))).to_have_count(2)
        expect(_dialog(page)).to_be_hidden()
        page.reload()  # it is kept in this tab
        expect(page.locator(".broker")).to_have_count(2)
        expect(_dialog(page)).to_be_hidden()
        assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        told("token", "revoke", "admin", folder=tmp_path)
        expect(_dialog(page)).to_contain_text("did not accept this token")
        assert not [one for one in asked if token[:20] in one]


def test_each_sees_what_its_token_allows(browser: Browser, tmp_path: Path) -> None:
    """Who may only subscribe tries filters on that, is told why there is no overlay, and can become somebody else."""
    with _secured(tmp_path) as (url, token), _page(browser, url) as (page, _):
        north = told("token", "create", "ann", "--subscribe", "region = 'north'", folder=tmp_path)["token"]
        page.goto(url)
        _answer(page, north)
        expect(page.get_by_role("alert")).to_contain_text("lacks the permission to observe")
        page.goto(f"{url}/#/lab?filter=n%20%3E=%200")
        expect(page.locator("#verdict")).to_contain_text("n is at least 0")
        expect(page.locator(".share")).to_contain_text("No event has passed")
        events = ['{"n": 1, "region": "south"}', '{"n": 2, "region": "north"}']
        told("pub", *events, folder=tmp_path)
        expect(page.locator(".passed-head")).to_have_count(1)
        expect(page.locator(".passed-head")).to_contain_text("n=2")
        expect(page.locator(".share")).to_contain_text("1 of 1 ")
        page.get_by_role("button", name="Forget the token").click()
        expect(_dialog(page)).to_contain_text("This network asks for a token")
        _answer(page, token)
        page.goto(f"{url}/#/")
        expect(page.locator(".broker")).to_have_count(2)
