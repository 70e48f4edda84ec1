"""Permissions are filters: what is left of a subscription, what may be advertised, what may be published."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.strategies import attributes, filters
from tidewire.identity.grants import EVERYTHING, Grant, Permissions, described
from tidewire.language import compile_filter, conjoined
from tidewire.model.errors import BadConfiguration, FilterTooCostly, NotPermitted
from tidewire.model.filters import Filter, decode_filter, encode_filter
from tidewire.model.messages import ANYTHING
from tidewire.model.values import Value


def encoded(text: str) -> bytes:
    return encode_filter(compile_filter(text))


def narrowed(text: str, *, by: str) -> Filter:
    (left,) = Permissions("ann", Grant(subscribe=by)).narrowed([encoded(text)])
    return decode_filter(left)


@given(filters(), filters(), attributes())
def test_what_is_left_is_true_exactly_where_both_are(
    wanted: Filter, permitted: Filter, event: dict[str, Value]
) -> None:
    """Whatever the filter: negation, disjunction, null, patterns, geography."""
    try:
        both = conjoined(wanted, permitted)
    except FilterTooCostly:
        return
    assert both.accepts(event) == (wanted.accepts(event) and permitted.accepts(event))


@given(filters(), filters())
def test_what_is_left_is_a_filter_like_any_other(wanted: Filter, permitted: Filter) -> None:
    try:
        both = conjoined(wanted, permitted)
    except FilterTooCostly:
        return
    assert decode_filter(encode_filter(both)) == both


@pytest.mark.parametrize(
    "clever",
    [
        "not (region = 'north')",
        "region <> 'north'",
        "region = 'south' or region = 'north' or true",
        "region is null or region = 'north'",
        "not (region is not null) or x > 1",
        "region like '%' or region not like 'n%'",
        "not within(lat, lon, 0, 0, 1 km) or x > 1",
        "region in ('south', 'east') or not (region in ('south'))",
        "x > 1 or not x > 1",
    ],
)
def test_clever_filters_see_no_more(clever: str) -> None:
    forbidden: list[dict[str, Value]] = [
        {"region": "south", "x": 2, "lat": 10.0, "lon": 10.0},
        {"x": 2, "lat": 10.0, "lon": 10.0},
        {"region": 7, "x": 2},
        {"region": "", "x": 0},
        {},
        {"region": "north", "secret": 1, "x": 2},
    ]
    try:
        left = narrowed(clever, by="region = 'north' and secret is null")
    except NotPermitted:
        return
    assert not any(left.accepts(event) for event in forbidden)


def test_nothing_left_is_refused_and_says_why() -> None:
    with pytest.raises(NotPermitted, match=r"ann may subscribe only what .*: region = 'north'"):
        narrowed("region = 'south'", by="region = 'north'")
    with pytest.raises(NotPermitted, match="ann lacks the permission to subscribe"):
        Permissions("ann", Grant(publish="*")).narrowed([encoded("x = 1")])


def test_who_may_see_anything_keeps_its_filters_as_they_are() -> None:
    filters_ = [encoded("x = 1"), encoded("y > 2 or z like 'a%b'")]
    assert Permissions("ann", EVERYTHING).narrowed(filters_) is filters_


@pytest.mark.parametrize(
    ("offered", "may"),
    [
        ("class = 'QUAKE'", True),
        ("class = 'QUAKE' and magnitude > 3", True),
        ("class = 'QUAKE' or class = 'FIRE'", False),
        ("class <> 'FIRE'", False),
        ("magnitude > 3", False),
    ],
)
def test_an_advertisement_lies_within_the_permission(offered: str, may: bool) -> None:
    for grant in (Grant(publish="class = 'QUAKE'"), Grant(publish="*", advertise="class = 'QUAKE'")):
        permissions = Permissions("ann", grant)
        if may:
            permissions.check_advertised([encoded(offered)])
        else:
            with pytest.raises(NotPermitted, match=r"ann may advertise only"):
                permissions.check_advertised([encoded("class = 'QUAKE'"), encoded(offered)])


def test_who_just_publishes_needs_a_permission_to_publish() -> None:
    Permissions("ann", Grant(publish="x = 1")).check_advertised([ANYTHING])
    with pytest.raises(NotPermitted, match="lacks the permission to publish"):
        Permissions("ann", Grant(subscribe="*", advertise="*")).check_advertised([ANYTHING])


def test_what_may_be_published() -> None:
    assert Permissions("ann", EVERYTHING).publishable() is None
    assert Permissions("ann", Grant(subscribe="*")).publishable() == []
    assert Permissions("ann", Grant(publish="x = 1")).publishable() == [encoded("x = 1")]


def test_operators_and_observers() -> None:
    Permissions("ann", EVERYTHING).may("operate")
    Permissions("ann", Grant(observe=True)).may("observe")
    with pytest.raises(NotPermitted, match="ann lacks the permission to operate"):
        Permissions("ann", Grant(observe=True, publish="*", subscribe="*")).may("operate")


def test_a_permission_that_is_no_filter() -> None:
    with pytest.raises(BadConfiguration, match="permission of ann to publish is no filter: line 1, column 4"):
        Permissions("ann", Grant(publish="x = "))


def test_a_grant_for_people() -> None:
    shown = described(Grant(publish="a=1 AND  b=2", subscribe="*", operate=True))
    assert shown == [("publish", "a = 1 and b = 2"), ("subscribe", "anything"), ("operate", "yes")]


@pytest.mark.parametrize(
    ("allowed", "channel", "given", "may"),
    [
        ("*", "near_me", {"me": "bob"}, True),
        ("channel = 'near_me' and me = 'ann'", "near_me", {"me": "ann"}, True),
        ("channel = 'near_me' and me = 'ann'", "near_me", {"me": "bob"}, False),
        ("channel = 'near_me' and me = 'ann'", "of_type", {"me": "ann"}, False),
        ("channel = 'near_me'", "of_type", {"channel": "near_me"}, False),
        (None, "near_me", {"me": "ann"}, False),
    ],
)
def test_a_channel_is_asked_for_as_an_event_with_its_parameters(
    allowed: str | None, channel: str, given: dict[str, str], may: bool
) -> None:
    """The permission to subscribe is asked of the channel's name and of what is given to it."""
    permissions = Permissions("ann", Grant(subscribe=allowed))
    if may:
        permissions.check_channel(channel, given)
    else:
        with pytest.raises(NotPermitted, match="subscribe"):
            permissions.check_channel(channel, given)
