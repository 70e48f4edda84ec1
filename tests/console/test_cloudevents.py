"""CloudEvents and events: whatever goes in comes out equal, by the judgement of the `cloudevents` package."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.http import (
    HTTPMessage,
    from_binary_event,
    from_structured_event,
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from tidewire._kernel.codec import decode, encode
from tidewire.console.cloudevents import binary, from_binary, from_structured, structured
from tidewire.model.errors import UsageError
from tidewire.model.events import Envelope, Event, make_event
from tidewire.model.values import INT64_MAX

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=30)
NAMES = st.one_of(st.sampled_from(["a", "b", "a.b", "", "lat", "id", "type"]), TEXT)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=20),
)
JSON_DATA = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=8,
)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=ZONES)  # noqa: DTZ001 - zones are drawn
EXTENSIONS = st.dictionaries(
    st.from_regex(r"ext[a-z0-9]{0,6}", fullmatch=True),
    st.one_of(st.booleans(), st.integers(-(2**31), 2**31 - 1), TEXT),
    max_size=3,
)
TEXT_TYPES = st.sampled_from(["text/plain", "text/csv", "application/xml", "application/x-made-up"])
DATA = st.one_of(
    st.tuples(st.sampled_from([None, "application/json", "application/geo+json"]), JSON_DATA),
    st.tuples(TEXT_TYPES, TEXT),
    st.tuples(st.one_of(TEXT_TYPES, st.sampled_from([None, "application/json", "image/png"])), st.binary(min_size=1)),
)


@st.composite
def cloud_events(draw: st.DrawFn) -> CloudEvent:
    """Any CloudEvent."""
    content_type, data = draw(DATA)
    attributes: dict[str, Any] = {"id": draw(TEXT), "source": draw(TEXT), "type": draw(TEXT), "time": draw(TIMES)}
    attributes |= draw(EXTENSIONS)
    attributes |= {"subject": draw(TEXT)} if draw(st.booleans()) else {}
    attributes |= {} if content_type is None else {"datacontenttype": content_type}
    return CloudEvent(attributes, data)


def carried(event: Event) -> Event:
    """As a network carries it."""
    return decode(encode(event))


@given(cloud_events())
def test_structured_in_and_out(sent: CloudEvent) -> None:
    message = to_structured_event(sent)
    event = carried(from_structured(json.loads(message.body)))
    got = from_structured_event(HTTPMessage(message.headers, msgspec.json.encode(structured(event))))
    assert got.get_attributes() == sent.get_attributes()
    assert_same(got.get_data(), sent.get_data())


@given(cloud_events())
def test_binary_in_and_out(sent: CloudEvent) -> None:
    """What the package reads in our answer is what it reads in the request."""
    message = to_binary_event(sent)
    if is_no_json(message):
        return
    headers, body = binary(carried(from_binary(message.headers, message.body)))
    asked, got = from_binary_event(message), from_binary_event(HTTPMessage(headers, body))
    assert got.get_attributes() == asked.get_attributes()
    assert_same(got.get_data(), asked.get_data())


@given(cloud_events())
def test_from_binary_to_structured_and_back(sent: CloudEvent) -> None:
    """Between the modes nothing changes either."""
    message = to_binary_event(sent)
    if is_no_json(message):
        return
    event = carried(from_binary(message.headers, message.body))
    again = from_structured(json.loads(msgspec.json.encode(structured(event))))
    assert binary(again) == binary(event)


def is_no_json(message: HTTPMessage) -> bool:
    """The package writes strings as they are, whatever the content type: then it is no JSON, and refused."""
    if "json" not in message.headers.get("content-type", ""):
        return False
    try:
        json.loads(message.body or b"null", parse_constant=int)
    except ValueError:
        with pytest.raises(UsageError):
            from_binary(message.headers, message.body)
        return True
    return False


def assert_same(got: Any, wanted: Any) -> None:
    """Equal, and of the same types: 1 is not 1.0 nor True."""
    assert got == wanted
    assert json.dumps(got, sort_keys=True, default=repr) == json.dumps(wanted, sort_keys=True, default=repr)


def document(**more: Any) -> dict[str, Any]:
    """A small CloudEvent."""
    return {"specversion": "1.0", "id": "1", "source": "/s", "type": "quake"} | more


def test_filters_see_the_context_and_the_data() -> None:
    data = {"magnitude": 6.4, "where": {"lat": 1}, "tags": ["x"]}
    event = from_structured(document(time="2024-01-01T00:00:00.5+02:00", level=3, data=data))
    assert dict(event.attributes) | {"time": None} == {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "quake",
        "level": 3,
        "time": None,
        "data.magnitude": 6.4,
        "data.where.lat": 1,
    }
    assert str(event["time"]) == "2023-12-31T22:00:00.5Z"
    assert json.loads(event.body or b"") == data


def test_data_that_attributes_say_is_not_sent_twice() -> None:
    assert from_structured(document(data={"a": 1, "b": {"c": "x"}})).body is None


@pytest.mark.parametrize(
    "data",
    [{}, {"a": {}}, {"a": None}, {"a.b": 1, "a": {"b": 2}}, {"": 1}, {"a": 2**64}, [], 7, "text", {"x" * 300: 1}],
)
def test_data_that_attributes_cannot_say(data: Any) -> None:
    event = carried(from_structured(document(data=data)))
    assert msgspec.json.encode(structured(event)["data"]) == json.dumps(data, separators=(",", ":")).encode()


def test_more_than_attributes_can_be() -> None:
    """Filters see none of it, and nothing is lost."""
    wide = {f"name{n}": n for n in range(1021)}
    event = from_structured(document(data=wide))
    assert [name for name in event if name.startswith("data.")] == []
    assert json.loads(event.body or b"") == wide
    deep: Any = 1
    for _ in range(60):
        deep = {"a": deep}
    assert json.loads(from_structured(document(data=deep)).body or b"") == deep


@pytest.mark.parametrize("content_type", ["application/json", "text/json", "text/plain", "image/png"])
def test_bytes_stay_bytes(content_type: str) -> None:
    """Also those that could be read as JSON or text."""
    sent = document(datacontenttype=content_type, data_base64="MA==")
    assert structured(carried(from_structured(sent))) == sent


def test_half_a_character() -> None:
    event = from_structured(document(data={"a": "\ud800"}))
    assert json.loads(msgspec.json.encode(structured(event)))["data"] == {"a": "\ud800"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": None}, "specversion"),
        ({"id": ""}, "'id' is empty"),
        ({"id": None}, "'id'"),
        ({"source": 7}, "'source' is a string"),
        ({"time": "yesterday"}, "RFC 3339"),
        ({"time": "9999-01-01T00:00:00Z"}, "1677"),
        ({"Level": 1}, "a to z"),
        ({"level": 1.5}, "'level'"),
        ({"level": [1]}, "'level'"),
        ({"level": 2**80}, "'level'"),
        ({"data": 1, "data_base64": "AA=="}, "not both"),
        ({"data_base64": "?"}, "no base64"),
        ({"data_base64": 1}, "data_base64"),
        ({"datacontenttype": "text/plain", "data": {"a": 1}}, "is a string"),
        ({"datacontenttype": "text/plain", "data": "\ud800"}, "lone surrogate"),
    ],
)
def test_what_is_no_cloudevent(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        from_structured(document(**wrong))


@pytest.mark.parametrize(
    ("content_type", "body", "written"),
    [
        ("text/plain", b"x", {"data": "x"}),
        ("image/svg+xml", b"<svg/>", {"data": "<svg/>"}),
        ("application/x-words; charset=utf-8", b"x", {"data": "x"}),
        ("text/plain", b"\xff", {"data_base64": "/w=="}),
        ("image/png", b"x", {"data_base64": "eA=="}),
        (None, b"x", {"data_base64": "eA=="}),
    ],
)
def test_what_binary_mode_brings_is_written_as_its_type_says(
    content_type: str | None, body: bytes, written: dict[str, str]
) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
    event = from_binary(headers | ({} if content_type is None else {"content-type": content_type}), body)
    found = structured(event)
    assert {name: found[name] for name in found if name.startswith("data") and name != "datacontenttype"} == written


@pytest.mark.parametrize("name", ["ce-data", "ce-datacontenttype", "ce-data_base64", "ce-x-y"])
def test_headers_that_there_are_not(name: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", name: "x"}
    with pytest.raises(UsageError, match=name.removeprefix("ce-")):
        from_binary(headers, b"")


def test_headers_in_percent() -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "%E2%82%AC %22%25", "ce-source": "/s", "ce-type": "t"}
    event = from_binary(headers, b"")
    assert event["id"] == '€ "%'
    assert binary(event)[0]["ce-id"] == "%E2%82%AC%20%22%25"
    with pytest.raises(UsageError, match="ce-id"):
        from_binary(headers | {"ce-id": "%FF"}, b"")


def test_an_event_that_never_was_one() -> None:
    """It is wrapped: its data is the event."""
    event = make_event(
        {"class": "QUAKE", "magnitude": math.nan, "raw": b"\0"},
        body=b"{}",
        content_type="application/json",
        envelope=Envelope(publisher=255, sequence=7),
    )
    written = msgspec.json.decode(msgspec.json.encode(structured(event)))
    assert written == {
        "specversion": "1.0",
        "id": "ff-7",
        "source": "/tidewire/publishers/ff",
        "type": "QUAKE",
        "datacontenttype": "application/json",
        "data": {
            "attributes": {"class": "QUAKE", "magnitude": "NaN", "raw": "AA=="},
            "body": "e30=",
            "contentType": "application/json",
        },
    }
    assert structured(make_event({"a": 1}))["type"] == "tidewire.event"


@pytest.mark.parametrize(
    "more",
    [
        {"data.a": 1, "data.a.b": 2},
        {"data.a.b": 1, "data.a": 2},
        {"data.a": math.inf},
        {"data.a": b"x"},
        {"Big": 1},
        {"time": "now"},
        {"level": 1.5},
        {"data_base64": "yes"},
        {"subject": 7},
    ],
)
def test_what_only_looks_like_one(more: dict[str, Any]) -> None:
    """Attributes that no CloudEvent can have: it is wrapped, and nothing of it is lost."""
    event = make_event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"} | more)
    written = msgspec.json.decode(msgspec.json.encode(structured(event)))
    assert set(written["data"]["attributes"]) == set(event.attributes)


@pytest.mark.parametrize("body", [b"{", b'{"a": NaN}', b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_what_it_says(body: bytes) -> None:
    """Published by somebody who says JSON: given back in base64."""
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "big": INT64_MAX}
    event = make_event(attributes, body=body, content_type="application/json")
    assert b"data_base64" in msgspec.json.encode(structured(event))
    assert binary(event)[1] == body


def test_time_is_kept_to_the_nanosecond() -> None:
    event = from_structured(document(time="2024-02-29T12:00:00.123456789Z"))
    assert structured(event)["time"] == "2024-02-29T12:00:00.123456789Z"
