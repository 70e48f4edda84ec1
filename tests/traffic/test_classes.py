"""Of which class is it? epeer §0: the value of the class attribute; where absent, the filter itself."""

from __future__ import annotations

import math

import pytest

from tidewire.language import compile_filter
from tidewire.model.errors import BadConfiguration, UsageError
from tidewire.model.filters import encode_filter
from tidewire.model.messages import ANYTHING
from tidewire.model.traffic import Terms, delay_s_of, strictest, terms_of
from tidewire.traffic.classes import UNCLASSED, Classes
from tidewire.traffic.config import ClassConfig, TrafficConfig


def encoded(text: str) -> bytes:
    """A filter as it is sent."""
    return encode_filter(compile_filter(text))


WARNINGS = ClassConfig(name="warning", filter="class = 'WARNING'", delay_s=3.0, weight=0.5, value=0.9)
STRONG = ClassConfig(name="strong", filter="class = 'QUAKE' and magnitude >= 6", delay_s=10.0)
CLASSES = Classes(TrafficConfig(classes=[WARNINGS, STRONG]))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("class = 'WARNING'", "warning"),
        ("class = 'WARNING' and region = 'north'", "warning"),
        ("class = 'QUAKE' and magnitude >= 7", "strong"),
        ("class = 'QUAKE' and magnitude >= 5", "=QUAKE"),
        ("class = 'QUAKE' and lat > 5 or class = 'QUAKE' and lon > 5", "=QUAKE"),
    ],
)
def test_a_subscription_is_of_the_first_class_that_covers_it_else_of_the_value_it_demands(
    wanted: str, expected: str
) -> None:
    """epeer §0."""
    assert CLASSES.of_filter(encoded(wanted)) == expected


@pytest.mark.parametrize(
    "wanted", ["magnitude > 5", "class in ('A', 'B')", "class = 'A' or depth > 5", "class like '%A'"]
)
def test_where_no_value_is_demanded_equal_filters_are_a_class(wanted: str) -> None:
    """epeer §0: the hash of the filter."""
    key = CLASSES.of_filter(encoded(wanted))
    assert key.startswith("#")
    assert CLASSES.of_filter(encoded(wanted)) == key
    assert CLASSES.of_filter(encoded("depth < 1")) != key


def test_events_are_of_the_class_that_matches_them() -> None:
    """epeer §0."""
    assert CLASSES.of_attributes({"class": "QUAKE", "magnitude": 6.5}) == "strong"
    assert CLASSES.of_attributes({"class": "QUAKE", "magnitude": 5.5}) == "=QUAKE"
    assert CLASSES.of_attributes({"class": 7}) == UNCLASSED
    assert CLASSES.of_attributes({}) == UNCLASSED
    assert CLASSES.of_filter(ANYTHING) == UNCLASSED


def test_a_subscription_and_the_events_it_wants_share_their_class() -> None:
    """By the attribute, whatever else is asked."""
    assert CLASSES.of_filter(encoded("class = 'TIDE' and height > 2")) == CLASSES.of_attributes(
        {"class": "TIDE", "height": 3.0}
    )


def test_another_attribute_may_name_the_class() -> None:
    """Where events have no attribute of the usual name."""
    classes = Classes(TrafficConfig(attribute="topic"))
    assert classes.of_filter(encoded("topic = 'data.sensor.buoy'")) == "=data.sensor.buoy"
    assert classes.of_filter(encoded("class = 'QUAKE'")).startswith("#")


def test_the_shortest_delay_counts() -> None:
    """epeer §0: if its subscriptions differ, the minimum."""
    key = CLASSES.of_filter(encoded("class = 'WARNING'"))
    assert CLASSES.delay_s(key) == 3.0
    assert CLASSES.delay_s(key, [Terms(delay_s=2.0), Terms(), Terms(delay_s=9.0)]) == 2.0
    other = CLASSES.of_filter(encoded("class = 'CHAT'"))
    assert math.isinf(CLASSES.delay_s(other))
    assert CLASSES.weight(key) == 0.5
    assert CLASSES.weight(other) == 1.0
    assert math.isinf(delay_s_of([]))
    assert strictest([Terms(value=0.2), Terms(value=0.4, weight=0.1)]) == Terms(None, 0.4, 0.1)


@pytest.mark.parametrize(
    ("terms", "part"),
    [
        ({"delay_s": 0.0}, "from 0.001"),
        ({"delay_s": math.nan}, "from 0.001"),
        ({"value": 1.5}, "from 0 to 1"),
        ({"weight": -1}, "0 to 1"),
    ],
)
def test_terms_that_cannot_be_are_refused(terms: dict[str, float], part: str) -> None:
    """With what can be."""
    with pytest.raises(UsageError, match=part):
        terms_of(**terms)


def test_settings_that_cannot_be_are_refused() -> None:
    """Whose fault it is, and where."""
    with pytest.raises(BadConfiguration, match="class 'x': "):
        ClassConfig(name="x", filter="magnitude >")
    with pytest.raises(BadConfiguration, match="class 'x': delay_s = -1"):
        ClassConfig(name="x", filter="a = 1", delay_s=-1.0)
    with pytest.raises(BadConfiguration, match="two classes are called 'warning'"):
        TrafficConfig(classes=[WARNINGS, WARNINGS])
    with pytest.raises(BadConfiguration, match="attribute"):
        TrafficConfig(attribute="")
    with pytest.raises(BadConfiguration, match="printable"):
        ClassConfig(name="", filter="a = 1")
