"""Filters against advertisements (peer L4), with the closed world: what is not named is not there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matching.building import circle, either, eq, ge, gt, lt, where
from tests.matching.strategies import critical_events, events_near, normal_filters, simple_sets
from tidewire.matching.covering import allows, overlaps
from tidewire.model.filters import ALL, NOTHING, Filter
from tidewire.model.values import Kind, Value
from tidewire.model.valuesets import ABSENT, ANY_NUMBER, PRESENT, beginning_with, everything, matching

NUMBER, STRING = everything(Kind.NUMBER), everything(Kind.STRING)
STOCK = where(
    class_=eq("STOCK"),
    symbol=eq("YHOO"),
    open=NUMBER,
    high=NUMBER,
    low=NUMBER,
    close=NUMBER,
    volume=NUMBER,
    date=STRING,
)

OVERLAPPING: list[tuple[Filter, Filter]] = [
    (where(class_=eq("STOCK")), STOCK),
    (where(class_=eq("STOCK"), symbol=eq("YHOO"), volume=gt(300000)), STOCK),
    (where(class_=PRESENT), STOCK),
    (where(date=beginning_with("1-May")), STOCK),
    (where(date=matching("%-96")), STOCK),
    (where(a=gt(5)), where(a=gt(1))),
    (where(x=ABSENT), STOCK),
    (where(x=ABSENT, class_=eq("STOCK")), STOCK),
    (ALL, STOCK),
    (ALL, ALL),
    (where(x=ABSENT), where(x=ABSENT)),
    (either(where(class_=eq("SPORTS")), where(volume=gt(3))), STOCK),
    (where(x=gt(5)), either(where(x=lt(1)), where(x=ge(6)))),
    (where(circle(0, 0, 1e5)), where(lat=ANY_NUMBER, lon=ANY_NUMBER)),
    (where(lat=gt(0)), where(circle(0, 0, 1e5))),
]

APART: list[tuple[Filter, Filter]] = [
    (where(class_=eq("SPORTS")), STOCK),
    (where(class_=eq("STOCK"), symbol=eq("IBM")), STOCK),
    (where(volume=eq("many")), STOCK),
    (where(class_=eq("STOCK"), price=gt(1)), STOCK),
    (where(price=PRESENT), STOCK),
    (where(volume=ABSENT), STOCK),
    (where(a=lt(1)), where(a=gt(1))),
    (where(x=PRESENT), where(x=ABSENT)),
    (where(x=PRESENT), ALL),
    (NOTHING, STOCK),
    (ALL, NOTHING),
    (either(where(x=gt(5)), where(y=gt(5))), either(where(x=lt(1)), where(y=lt(1)))),
    (where(x=gt(5), y=gt(5)), either(where(x=gt(5)), where(y=gt(5)))),
    (where(circle(0, 0, 1e5)), where(circle(40, 0, 1e5))),
    (where(circle(0, 0, 1e5)), where(lat=ANY_NUMBER)),
]


@pytest.mark.parametrize(("wanted", "advertisement"), OVERLAPPING)
def test_filter_and_advertisement_overlap(wanted: Filter, advertisement: Filter) -> None:
    """peer L4: every subscribed attribute is advertised, and the value sets meet."""
    assert overlaps(wanted, advertisement)


@pytest.mark.parametrize(("wanted", "advertisement"), APART)
def test_filter_and_advertisement_do_not_overlap(wanted: Filter, advertisement: Filter) -> None:
    """peer L4: an attribute that is not advertised, or no value in common."""
    assert not overlaps(wanted, advertisement)


plain_filters = normal_filters(simple_sets(), names=("a", "b"), with_areas=False)


def allowed_by_hand(advertisement: Filter, attributes: dict[str, Value]) -> bool:
    return any(
        one.accepts(attributes) and all(any(c.attribute == name for c in one.constraints) for name in attributes)
        for one in advertisement.conjunctions
    )


@given(plain_filters, plain_filters)
@settings(max_examples=2 * settings().max_examples)
def test_overlap_is_what_a_search_finds(wanted: Filter, advertisement: Filter) -> None:
    """peer L4, extended: exact for plain filters, against an event of every region."""
    found = any(
        wanted.accepts(attributes) and allowed_by_hand(advertisement, attributes)
        for attributes in critical_events(wanted, advertisement)
    )
    assert overlaps(wanted, advertisement) is found


@given(normal_filters(), normal_filters(), st.data())
def test_overlap_is_never_denied_wrongly(wanted: Filter, advertisement: Filter, data: Any) -> None:
    """An event that is allowed and wanted proves the overlap, whatever the filters."""
    for attributes in data.draw(events_near(wanted, advertisement)):
        for offer in advertisement.conjunctions:
            named = {c.attribute for c in offer.constraints}
            narrowed = {name: value for name, value in attributes.items() if name in named}
            if allows(advertisement, narrowed) and wanted.accepts(narrowed):
                assert overlaps(wanted, advertisement)


@given(normal_filters(), st.data())
def test_allows_is_the_closed_world(advertisement: Filter, data: Any) -> None:
    """An event may be published iff one conjunction accepts it and names all its attributes."""
    for attributes in data.draw(events_near(advertisement)):
        assert allows(advertisement, attributes) is allowed_by_hand(advertisement, attributes)


def test_an_event_with_more_than_was_advertised_is_not_allowed() -> None:
    """What the advertisement names may be there, nothing else; what it says of it must be so."""
    advertisement = either(where(class_=eq("QUAKE"), magnitude=NUMBER), where(class_=eq("TEST")))
    assert allows(advertisement, {"class": "QUAKE", "magnitude": 6.4})
    assert allows(advertisement, {"class": "TEST"})
    assert not allows(advertisement, {"class": "QUAKE"})
    assert not allows(advertisement, {"class": "TEST", "magnitude": 6.4})
    assert not allows(advertisement, {"class": "QUAKE", "magnitude": 6.4, "depth": 10})
    assert not allows(NOTHING, {})
    assert allows(ALL, {})
