"""The scan, the oracle of all matchers: who wants an event, and what a refused call leaves behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.building import both, either, eq, gt, lt, where
from tests.matching.strategies import attribute_maps, normal_filters
from tidewire.matching.protocol import NUMBERS_MAX, Delivery, Destination, Matcher, SubscriptionNumber
from tidewire.matching.scan import ScanMatcher
from tidewire.model.errors import DuplicateSubscription, UnknownSubscription
from tidewire.model.events import make_event
from tidewire.model.filters import ALL, NOTHING, Filter
from tidewire.model.values import Value

Item = tuple[Destination, SubscriptionNumber, Filter]


def item(destination: int, number: int, wanted: Filter) -> Item:
    return Destination(destination), SubscriptionNumber(number), wanted


def name(destination: int, number: int) -> tuple[Destination, SubscriptionNumber]:
    return Destination(destination), SubscriptionNumber(number)


def delivery(destination: int, *numbers: int, more: bool = False) -> Delivery:
    return Delivery(Destination(destination), tuple(map(SubscriptionNumber, numbers)), more)


def test_deliveries_are_sorted_and_one_per_destination() -> None:
    """design §5.3: once per connection, with the numbers of what matched."""
    matcher: Matcher = ScanMatcher()
    matcher.insert([item(7, 2, where(x=gt(5))), item(3, 9, ALL), item(7, 1, where(x=gt(1))), item(7, 3, NOTHING)])
    matcher.insert([item(3, 1, either(where(x=gt(1)), where(x=gt(2))))])
    assert matcher.match([make_event({"x": 10}), make_event({"x": 3}), make_event({})]) == [
        [delivery(3, 1, 9), delivery(7, 1, 2)],
        [delivery(3, 1, 9), delivery(7, 1)],
        [delivery(3, 9)],
    ]
    assert len(matcher) == 5


def test_a_removed_subscription_matches_no_more() -> None:
    """And its number can be taken again."""
    matcher = ScanMatcher()
    matcher.insert([item(1, 1, ALL), item(1, 2, ALL)])
    matcher.remove([name(1, 1)])
    assert matcher.match([make_event({})]) == [[delivery(1, 2)]]
    matcher.insert([item(1, 1, ALL)])
    assert matcher.match([make_event({})]) == [[delivery(1, 1, 2)]]


@pytest.mark.parametrize("items", [[item(2, 1, ALL), item(1, 1, ALL)], [item(2, 1, ALL), item(2, 1, ALL)]])
def test_a_taken_number_is_refused_and_nothing_changes(items: list[Item]) -> None:
    """All or nothing, whether it is taken in the index or within the call."""
    matcher = ScanMatcher()
    matcher.insert([item(1, 1, where(x=gt(1)))])
    with pytest.raises(DuplicateSubscription) as refused:
        matcher.insert(items)
    assert refused.value.code == "subscription-duplicate"
    assert len(matcher) == 1
    assert matcher.match([make_event({}), make_event({"x": 2})]) == [[], [delivery(1, 1)]]


@pytest.mark.parametrize("names", [[name(1, 1), name(2, 1)], [name(1, 1), name(1, 1)], [name(1, 1), name(1, 2)]])
def test_an_unknown_number_is_refused_and_nothing_changes(names: list[tuple[Destination, SubscriptionNumber]]) -> None:
    """All or nothing, whether it was never there or is named twice."""
    matcher = ScanMatcher()
    matcher.insert([item(1, 1, ALL)])
    with pytest.raises(UnknownSubscription) as refused:
        matcher.remove(names)
    assert refused.value.code == "subscription-unknown"
    assert matcher.match([make_event({})]) == [[delivery(1, 1)]]


def test_beyond_the_bound_a_flag_stands_for_the_numbers() -> None:
    """design §5.3: at most 16 are named, else the receiver's own index finds them."""
    matcher = ScanMatcher()
    matcher.insert([item(1, number, ALL) for number in range(NUMBERS_MAX)])
    assert matcher.match([make_event({})]) == [[delivery(1, *range(NUMBERS_MAX))]]
    matcher.insert([item(1, NUMBERS_MAX, ALL)])
    assert matcher.match([make_event({})]) == [[delivery(1, more=True)]]


def test_the_arrivals_of_the_sheet() -> None:
    """peer G3, the matching part: six publications against the offloader's and the acceptor's subscriptions."""
    stock = where(class_=eq("STOCK"))
    subscriptions = [
        stock,
        where(class_=eq("STOCK"), volume=gt(15)),
        where(class_=eq("STOCK"), volume=gt(150)),
        where(class_=eq("SPORTS")),
        where(class_=eq("STOCK"), volume=gt(50)),
        where(class_=eq("STOCK"), volume=lt(5)),
        where(class_=eq("MOVIES")),
    ]
    matcher = ScanMatcher()
    matcher.insert(item(number, 0, wanted) for number, wanted in enumerate(subscriptions))
    arrivals = [{"class": "STOCK", "volume": volume} for volume in (0, 10, 20)]
    arrivals += [{"class": "SPORTS", "type": "RACING"}]
    arrivals += [{"class": "STOCK", "volume": volume} for volume in (100, 500)]
    matched = matcher.match([make_event(one) for one in arrivals])
    vectors = [
        "".join("1" if any(found.destination == number for found in row) else "0" for row in reversed(matched))
        for number in range(len(subscriptions))
    ]
    assert vectors == ["110111", "110100", "100000", "001000", "110000", "000001", "000000"]


@given(st.lists(normal_filters(), max_size=6), st.lists(attribute_maps(), min_size=1, max_size=4))
def test_the_scan_says_what_the_filters_say(filters: list[Filter], maps: list[dict[str, Value]]) -> None:
    """Destination by destination."""
    matcher = ScanMatcher()
    matcher.insert(item(number, 0, wanted) for number, wanted in enumerate(filters))
    for attributes, row in zip(maps, matcher.match([make_event(one) for one in maps]), strict=True):
        expected = [number for number, wanted in enumerate(filters) if wanted.accepts(attributes)]
        assert [found.destination for found in row] == expected


def test_an_empty_filter_takes_all() -> None:
    """esilbops §1.2: the empty filter matches all; a constraint on a missing attribute is false."""
    assert ALL.accepts({})
    assert not where(x=both(gt(1), lt(9))).accepts({"y": 5})
