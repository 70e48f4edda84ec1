"""The console's pure modules, asked in the browser that runs them: streams in pieces, layout, numbers, nesting."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.stage import Stage

STREAM = 'event: share\ndata: {"seen": 1}\n\n: heartbeat\n\ndata: two\ndata: lines\n\nevent: event\r\ndata: é🌊\r\n\r\n'


@pytest.fixture
def module(page: Page, stage: Stage) -> Any:
    """Calls a function of a module: module("format", "short(1234)")."""
    page.goto(stage.url)

    def call(name: str, expression: str, argument: Any = None) -> Any:
        source = f"async given => {{ const m = await import('/static/lib/{name}.js'); return m.{expression}; }}"
        return page.evaluate(source, argument)

    return call


def test_a_stream_reads_the_same_however_it_is_cut(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    read = """async ({text, step}) => {
        const { MessageReader } = await import('/static/lib/sse.js');
        const reader = new MessageReader();
        const found = [];
        for (let at = 0; at < text.length; at += step) found.push(...reader.feed(text.slice(at, at + step)));
        return found.map(({name, data}) => [name, data]);
    }"""
    whole = [["share", '{"seen": 1}'], ["message", "two\nlines"], ["event", "é🌊"]]
    for step in (1, 2, 3, 7, 1000):
        assert page.evaluate(read, {"text": STREAM, "step": step}) == whole


def test_numbers_as_people_read_them(module: Any) -> None:
    shown = {
        "short(0)": "0",
        "short(7.25)": "7.3",
        "short(412)": "412",
        "short(999.6)": "1.00 k",
        "short(12345)": "12.3 k",
        "short(3.4e6)": "3.40 M",
        "short(0.01)": "< 0.1",
        "short(null)": "–",
        "duration(2.1e-6)": "2.10 µs",
        "duration(0.0123)": "12.3 ms",
        "duration(0)": "0 µs",
        "percent(0.0004)": "< 0.1 %",
        "percent(1.4)": "140 %",
        "bytes(12)": "12 B",
        "bytes(20480)": "20.5 kB",
        "plural(1, 'link')": "1 link",
        "plural(1200, 'link')": "1,200 links",
    }
    assert {asked: module("format", asked) for asked in shown} == shown


def test_no_card_covers_another_and_none_is_cut_off(page: Page, stage: Stage) -> None:
    """Networks of many shapes, at every width; the same network always gives the same picture."""
    page.goto(stage.url)
    place = """async ({heads, edges, width}) => {
        const { groupsOf, placeCards } = await import('/static/lib/layout.js');
        const brokers = [], links = [];
        for (let at = 0; at < heads; at++) brokers.push({broker: `h${at}`, role: 'head'});
        for (let at = 0; at < edges; at++) {
            brokers.push({broker: `e${at}`, role: 'edge'});
            if (heads) links.push({a: `h${at % heads}`, b: `e${at}`});
        }
        const { cards, height } = placeCards(groupsOf(brokers, links), width);
        return { cards: [...cards], height };
    }"""
    shapes = ((1, 0), (1, 2), (1, 32), (0, 3), (3, 14), (7, 7))
    for width, (heads, edges) in product((280, 600, 1000, 1800), shapes):
        given = {"heads": heads, "edges": edges, "width": width}
        placed = page.evaluate(place, given)
        cards = [card for _, card in placed["cards"]]
        assert len(cards) == heads + edges
        for card in cards:
            assert card["x"] >= 0
            assert card["x"] + card["width"] <= width
            assert card["y"] + card["height"] <= placed["height"]
        for one, other in ((a, b) for at, a in enumerate(cards) for b in cards[at + 1 :]):
            apart_x = abs(one["x"] - other["x"]) >= one["width"]
            assert apart_x or abs(one["y"] - other["y"]) >= one["height"]
        assert page.evaluate(place, given) == placed


def test_an_edge_without_links_stays_below_its_head(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    assert page.evaluate(
        """async () => {
        const { groupsOf } = await import('/static/lib/layout.js');
        const homes = new Map();
        const brokers = [{broker: 'h', role: 'head'}, {broker: 'e', role: 'edge'}];
        groupsOf(brokers, [{a: 'h', b: 'e'}], homes);
        return groupsOf([brokers[0], {broker: 'e', role: null}], [], homes);
    }"""
    ) == [{"top": "h", "edges": ["e"]}]


def test_names_with_dots_are_shown_nested(module: Any) -> None:
    flat = {"where.lat": 1, "where.lon": 2, "n": 3, "a": 4, "a.b": 5, "x.y.z": 6}
    nested = {"where": {"lat": 1, "lon": 2}, "n": 3, "a": 4, "a.b": 5, "x": {"y": {"z": 6}}}
    assert module("nesting", "plain(m.nested(given))", flat) == nested


def test_a_history_is_bounded_and_has_holes_where_a_broker_was_away(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    found = page.evaluate(
        """async () => {
        const { History } = await import('/static/lib/overlay-feed.js');
        const history = new History();
        const rates = {eventsPerS: 1, deliveriesPerS: 2, forwardsPerS: 3};
        for (let at = 0; at < 900; at++) {
            const brokers = [{broker: 'a', rates}];
            if (at % 2) brokers.push({broker: 'b', rates});
            if (at < 10) brokers.push({broker: 'gone', rates});
            history.add({brokers, links: [], at});
        }
        return [history.times.length, history.all.deliveriesPerS.length, [...history.byBroker.keys()],
            history.byBroker.get('b').eventsPerS.slice(0, 4)];
    }"""
    )
    assert found == [301, 301, ["a", "b"], [1, None, 1, None]]
