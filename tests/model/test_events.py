"""Events: what may come in, how it is flattened, what is refused by which code, and what an event then is."""

from __future__ import annotations

import copy
import enum
import math
import pickle
from collections import UserDict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.strategies import attribute_maps
from tidewire.model.errors import UsageError
from tidewire.model.events import (
    ATTRIBUTES_MAX,
    BODY_BYTES_MAX,
    CONTENT_TYPE_BYTES_MAX,
    NESTING_MAX,
    TRACE_BYTES,
    VALUE_BYTES_MAX,
    Envelope,
    flatten,
    make_event,
)
from tidewire.model.names import NAME_BYTES_MAX
from tidewire.model.values import Timestamp, Value


class Color(str, enum.Enum):  # noqa: UP042
    """A string that prints as something else."""

    RED = "red"


class Level(enum.IntEnum):
    """An integer by another name."""

    HIGH = 3


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth > 1 else {"a": 1}


def knotted() -> dict[str, Any]:
    knot: dict[str, Any] = {}
    knot["again"] = knot
    return knot


def doubled(depth: int) -> dict[str, Any]:
    """Few objects, yet more paths than can be walked."""
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found, "b": found}
    return found


FLATTENED: list[tuple[Any, dict[str, Value]]] = [
    ({}, {}),
    ({"a": 1, "b": 2.5, "c": "x", "d": True, "e": b"x"}, {"a": 1, "b": 2.5, "c": "x", "d": True, "e": b"x"}),
    ({"a": {"b": {"c": 1}, "d": 2}, "e": 3}, {"a.b.c": 1, "a.d": 2, "e": 3}),
    ({"a.b": 1, "a": {"c": 2}}, {"a.b": 1, "a.c": 2}),
    ({"a": None, "b": {"c": None}, "d": {}}, {}),
    ({"a": None, "b": 1}, {"b": 1}),
    ({"a": {"x": None}, "a.x": 1}, {"a.x": 1}),
    (UserDict({"a": UserDict({"b": 1})}), {"a.b": 1}),
    ({"a": bytearray(b"xy"), "b": memoryview(b"xyz")[::2]}, {"a": b"xy", "b": b"xz"}),
    ({"t": datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)}, {"t": Timestamp(1_000_005_000)}),
    ({"t": Timestamp(-5)}, {"t": Timestamp(-5)}),
    ({"a": 2**63 - 1, "b": -(2**63)}, {"a": 2**63 - 1, "b": -(2**63)}),
    ({"a": math.inf, "b": -0.0}, {"a": math.inf, "b": -0.0}),
    ({"é": "é\U0010ffff", "b": ""}, {"é": "é\U0010ffff", "b": ""}),
    ({Color.RED: Color.RED, "level": Level.HIGH}, {"red": "red", "level": 3}),
    ({"x" * NAME_BYTES_MAX: 1}, {"x" * NAME_BYTES_MAX: 1}),
    (
        {"s": "x" * VALUE_BYTES_MAX, "b": b"x" * VALUE_BYTES_MAX},
        {"s": "x" * VALUE_BYTES_MAX, "b": b"x" * VALUE_BYTES_MAX},
    ),
    (nested(NESTING_MAX), {".".join("a" * NESTING_MAX): 1}),
    ({str(i): i for i in range(ATTRIBUTES_MAX)}, {str(i): i for i in range(ATTRIBUTES_MAX)}),
    ({str(i): None for i in range(5000)}, {}),
]

REFUSED: list[tuple[Any, str, str]] = [
    ({"x": 2**63}, "value-range", "'x'"),
    ({"x": -(2**63) - 1}, "value-range", "'x'"),
    ({"x": {"y": 2**70}}, "value-range", "'x.y'"),
    ({"x": Timestamp(2**63)}, "value-range", "'x'"),
    ({"x": datetime(1600, 1, 1, tzinfo=UTC)}, "value-range", "1600"),
    ({"x": "\ud800"}, "value-range", "'x'"),
    ({"x": [1]}, "value-type", "'x' is a list: give each element"),
    ({"x": {"y": (1, 2)}}, "value-type", "'x.y' is a tuple"),
    ({"x": {1}}, "value-type", "'x' is a set"),
    ({"x": Decimal(1)}, "value-type", "'x' is a Decimal: convert"),
    ({"x": datetime(2020, 1, 1)}, "value-type", "no time zone"),  # noqa: DTZ001
    ({"x": date(2020, 1, 1)}, "value-type", "aware datetime"),
    ({"x": timedelta(1)}, "value-type", "'x' is a timedelta"),
    ({"x": object()}, "value-type", "'x' is a object"),
    ({"x": 1j}, "value-type", "'x' is a complex"),
    ([("x", 1)], "value-type", "mapping"),
    (None, "value-type", "mapping"),
    ({"": 1}, "attribute-name", "empty"),
    ({"a": {"": 1}}, "attribute-name", "inside 'a'"),
    ({"": {"a": 1}}, "attribute-name", "empty"),
    ({1: 1}, "attribute-name", "int"),
    ({"a": {None: 1}}, "attribute-name", "inside 'a'"),
    ({b"x": 1}, "attribute-name", "bytes"),
    ({"a.b": 1, "a": {"b": 2}}, "attribute-name", "'a.b'"),
    ({"a": {"b": 2}, "a.b": 1}, "attribute-name", "'a.b'"),
    ({"a": {"b.c": 2, "b": {"c": 1}}}, "attribute-name", "'a.b.c'"),
    ({"x" * (NAME_BYTES_MAX + 1): 1}, "attribute-name", "256 bytes"),
    ({"é" * 128: 1}, "attribute-name", "256 bytes"),
    ({"x" * 200: {"y" * 60: 1}}, "attribute-name", "261 bytes"),
    ({"\udfff": 1}, "attribute-name", "surrogate"),
    ({str(i): i for i in range(ATTRIBUTES_MAX + 1)}, "event-too-large", "1024"),
    ({"a": {str(i): i for i in range(600)}, "b": {str(i): i for i in range(600)}}, "event-too-large", "1024"),
    ({f"{i:0254d}": 1 for i in range(300)}, "event-too-large", "names"),
    (nested(NESTING_MAX + 1), "event-too-large", "deeper than 32"),
    (knotted(), "event-too-large", "deeper"),
    (doubled(NESTING_MAX - 1), "event-too-large", "mappings"),
    ({"x": "x" * (VALUE_BYTES_MAX + 1)}, "event-too-large", "'x'"),
    ({"x": "é" * (VALUE_BYTES_MAX // 2 + 1)}, "event-too-large", "'x'"),
    ({"x": b"x" * (VALUE_BYTES_MAX + 1)}, "event-too-large", "'x'"),
    ({"x": memoryview(b"x" * (VALUE_BYTES_MAX + 8)).cast("Q")}, "event-too-large", "'x'"),
]


@pytest.mark.parametrize(("given_attributes", "expected"), FLATTENED, ids=range(len(FLATTENED)))
def test_attributes_are_flattened(given_attributes: Any, expected: dict[str, Value]) -> None:
    """Nested maps become dotted names, None is absent, and every value has exactly one of the six types."""
    found = flatten(given_attributes)
    assert found == expected
    assert list(found) == list(expected)
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]
    assert all(type(name) is str for name in found)


@pytest.mark.parametrize(("given_attributes", "code", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_an_event_cannot_carry_is_refused(given_attributes: Any, code: str, says: str) -> None:
    """By its stable code, with a message that names the attribute and what is wrong; alone or beside good ones."""
    with pytest.raises(UsageError) as refused:
        make_event(given_attributes)
    assert refused.value.code == code
    assert says in refused.value.message
    assert len(refused.value.message) < 400
    if isinstance(given_attributes, dict) and len(given_attributes) < 10:
        with pytest.raises(type(refused.value)):
            make_event({"first": 1.5} | given_attributes)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"body": "text"}, "value-type"),
        ({"body": 5}, "value-type"),
        ({"body": bytes(BODY_BYTES_MAX + 1)}, "event-too-large"),
        ({"body": b"", "content_type": b"text/plain"}, "value-type"),
        ({"body": b"", "content_type": "x" * (CONTENT_TYPE_BYTES_MAX + 1)}, "event-too-large"),
        ({"body": b"", "content_type": "\ud800"}, "value-range"),
        ({"content_type": "text/plain"}, "value-type"),
    ],
)
def test_a_bad_body_is_refused(options: dict[str, Any], code: str) -> None:
    """Bodies are bytes within their bound, with a short content type."""
    with pytest.raises(UsageError) as refused:
        make_event({}, **options)
    assert refused.value.code == code


def test_bodies_are_taken_over() -> None:
    """As bytes, whatever kind of buffer they come in; an empty body is not a missing one."""
    body = bytearray(b"abc")
    event = make_event({}, body=body, content_type="text/plain")
    body[0] = 0
    assert (event.body, event.content_type) == (b"abc", "text/plain")
    assert make_event({}, body=b"").body == b""
    assert make_event({}).body is None
    assert make_event({}, body=b"", content_type="").content_type is None
    largest = make_event({}, body=memoryview(bytes(BODY_BYTES_MAX))).body
    assert largest is not None
    assert len(largest) == BODY_BYTES_MAX


ENVELOPE = Envelope(
    publisher=2**64 - 1,
    sequence=0,
    pubend=1,
    tick=2,
    tree=3,
    published_ns=-(2**63),
    traffic_class=2**32 - 1,
    ttl_ns=2**63 - 1,
    value=0.5,
    tenant=0,
    trace=bytes(TRACE_BYTES),
)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("publisher", 2**64, "value-range"),
        ("sequence", -1, "value-range"),
        ("tick", 1.0, "value-type"),
        ("tree", True, "value-type"),
        ("published_ns", 2**63, "value-range"),
        ("ttl_ns", -(2**63) - 1, "value-range"),
        ("traffic_class", 2**32, "value-range"),
        ("tenant", 2**32, "value-range"),
        ("tenant", "1", "value-type"),
        ("value", math.nan, "value-range"),
        ("value", math.inf, "value-range"),
        ("value", "1", "value-type"),
        ("trace", bytes(24), "value-range"),
        ("trace", "x" * 25, "value-type"),
    ],
)
def test_a_bad_envelope_is_refused(field: str, value: Any, code: str) -> None:
    """Each field has its width (design §3.9)."""
    with pytest.raises(UsageError) as refused:
        Envelope(**{field: value})
    assert refused.value.code == code
    assert field in refused.value.message


def test_the_envelope_is_carried_and_optional() -> None:
    """All fields may be absent, and the limits of each are inside."""
    assert make_event({}, envelope=ENVELOPE).envelope is ENVELOPE
    assert all(getattr(make_event({}).envelope, field) is None for field in Envelope.__struct_fields__)
    assert Envelope(value=0.0) != Envelope()


def test_an_event_reads_like_a_mapping() -> None:
    """Subscript, get, in, iteration and length are over the attributes."""
    event = make_event({"class": "QUAKE", "magnitude": 6.4, "place": {"lat": 38.3}})
    assert event["magnitude"] == 6.4
    assert event.get("place.lat") == 38.3
    assert event.get("depth") is None
    assert event.get("depth", 10) == 10
    assert "class" in event
    assert "place" not in event
    assert list(event) == ["class", "magnitude", "place.lat"]
    assert len(event) == 3
    with pytest.raises(KeyError):
        event["depth"]


def test_an_event_cannot_be_changed() -> None:
    """Neither it nor its attributes, nor through what it was made from."""
    source: dict[str, Any] = {"x": 1}
    event = make_event(source)
    source["x"] = 2
    assert event["x"] == 1
    with pytest.raises(AttributeError):
        event.body = b""  # type: ignore[misc]
    with pytest.raises(TypeError):
        event.attributes["x"] = 2  # type: ignore[index]


def test_equality_tells_types_apart() -> None:
    """Two events are equal if nobody can tell them apart; the order of attributes does not count."""
    different = [make_event({"x": value}) for value in (1, 1.0, True, "1", b"1", Timestamp(1), 0.0, -0.0, math.nan)]
    different += [make_event({}), make_event({"y": 1}), make_event({"x": 1}, body=b"")]
    different += [make_event({"x": 1}, body=b"", content_type="a"), make_event({"x": 1}, envelope=ENVELOPE)]
    for i, one in enumerate(different):
        assert [one == other for other in different] == [i == j for j in range(len(different))]
    assert make_event({"a": 1, "b": math.nan}) == make_event({"b": -math.nan, "a": 1})
    assert make_event({"a": 1}) != {"a": 1}


@given(attribute_maps(), attribute_maps())
def test_events_are_values(one: dict[str, Value], other: dict[str, Value]) -> None:
    """Equal events hash alike, and an event survives copying and pickling."""
    a, b = make_event(one, body=b"x"), make_event(other, body=b"x")
    assert a == copy.deepcopy(a) == pickle.loads(pickle.dumps(a))  # noqa: S301
    assert a == make_event(dict(reversed(one.items())), body=b"x")
    assert hash(a) == hash(make_event(dict(reversed(one.items())), body=b"x"))
    assert a != b or hash(a) == hash(b)


@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=3)),
        lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=4),
        max_leaves=20,
    )
)
def test_anything_is_an_event_or_a_usage_error(attributes: Any) -> None:
    """No other exception escapes, and what comes out comes out again unchanged."""
    try:
        flat = flatten(attributes)
    except UsageError:
        return
    assert make_event(flat) == make_event(attributes)
