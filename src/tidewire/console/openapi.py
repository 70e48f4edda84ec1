"""The OpenAPI document, made from the documents that the door speaks in."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

import tidewire
from tidewire.console.cloudevents import BATCH, ONE
from tidewire.console.documents import (
    Accepted,
    DecisionsDocument,
    EventDocument,
    ExplainRequest,
    ExplanationDocument,
    Health,
    LoadsDocument,
    Notice,
    OverlayDocument,
    Passed,
    SampleRequest,
    Share,
    Subscribed,
)
from tidewire.console.errors import Failure
from tidewire.console.incoming import JSON, LINES
from tidewire.console.openapi_calls import CALLS, STRUCTS, Call
from tidewire.console.parameters import FORMATS, NEXT_FORMATS, SECONDS_MAX, UNIX_S_MAX, WAIT_S, WAIT_S_MAX, YES_OR_NO
from tidewire.console.placing import BalanceDocument
from tidewire.console.publishing import EVENTS_MAX
from tidewire.console.sockets import PROTOCOL, SOCKET_REQUESTS, TOKEN_PREFIX
from tidewire.console.streams import MEDIA_TYPE
from tidewire.language import TEXT_CHARACTERS_MAX
from tidewire.model.events import ATTRIBUTES_MAX
from tidewire.model.names import NAME_BYTES_MAX
from tidewire.model.values import INT64_MAX, INT64_MIN

FILTER_FORMAT: Final = "tidewire-filter"
TIME_FORMAT: Final = "tidewire-timestamp"
"""RFC 3339, within the years that an event's timestamp has."""

_STRUCTS: Final = (
    Accepted,
    BalanceDocument,
    DecisionsDocument,
    EventDocument,
    ExplainRequest,
    ExplanationDocument,
    Failure,
    Health,
    LoadsDocument,
    Notice,
    OverlayDocument,
    Passed,
    SampleRequest,
    Share,
    Subscribed,
    *STRUCTS,
    *SOCKET_REQUESTS,
)
_ERRORS: Final = {
    400: "The request cannot be right; the error says why.",
    401: "Who you are was not shown, or not well enough.",
    403: "Who you are may not do that; or a web page of another site asked.",
    404: "It is not known here.",
    409: "Another one has this name already.",
    413: "The body is too large.",
    415: "The body is of a kind that is not understood here.",
    426: "This is a WebSocket, of version 13: ask for an upgrade.",
    429: "More of something than is allowed: see Retry-After.",
    503: "No broker can be reached, or there is not enough of something: see Retry-After.",
}
_Schema = dict[str, Any]


@cache
def openapi() -> bytes:
    """The document, as JSON."""
    _, components = msgspec.json.schema_components(_STRUCTS, ref_template="#/components/schemas/{name}")
    _say_what_a_filter_is(components)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidewire",
            "version": tidewire.__version__,
            "description": "Publish, subscribe, and look at the network. What is said over the WebSocket at /v1/socket"
            " is in x-websocket. CloudEvents in binary mode are not described here: the reference of HTTP has them.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": _paths(),
        "components": {
            "schemas": components | _event_schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return msgspec.json.encode(document)


def _say_what_a_filter_is(components: dict[str, _Schema]) -> None:
    for name in ("ExplainRequest", "SampleRequest", "SubscribeRequest", "ChangeRequest"):
        components[name]["properties"]["filter"] = _FILTER
    components["ExplainRequest"]["properties"]["event"] = {"anyOf": [_ref("Attributes"), {"type": "null"}]}


_FILTER: Final[_Schema] = {
    "type": "string",
    "format": FILTER_FORMAT,
    "minLength": 1,
    "description": "A selector, such as class = 'QUAKE' and magnitude >= 6, or the tuples of PADRES;"
    f" at most {TEXT_CHARACTERS_MAX} characters.",
    "examples": ["class = 'QUAKE' and magnitude >= 6"],
}


def _event_schemas() -> dict[str, _Schema]:
    value = {
        "anyOf": [
            {"type": "boolean"},
            {"type": "integer", "minimum": INT64_MIN, "maximum": INT64_MAX},
            {"type": "number"},
            {"type": "string"},
            {"type": "null", "description": "The same as an attribute that is not there."},
            _ref("Attributes"),
        ]
    }
    return {
        "Attributes": {
            "type": "object",
            "description": "An event: names and values. Nested objects become dotted names.",
            "propertyNames": {"minLength": 1, "maxLength": NAME_BYTES_MAX},
            "maxProperties": ATTRIBUTES_MAX,
            "additionalProperties": value,
            "examples": [{"class": "QUAKE", "magnitude": 6.4, "where": {"lat": 38.3, "lon": 142.4}}],
        },
        "CloudEvent": {
            "description": "CloudEvents 1.0 in the JSON format. Other names are extensions.",
            "anyOf": [
                _cloudevent(_JSON_TYPE, data={"description": "Any JSON."}, encoded={"type": "null"}),
                _cloudevent(_OTHER_TYPE, data={"type": ["string", "null"]}, encoded={"type": "null"}),
                _cloudevent(_ANY_TYPE, data={"type": "null"}, encoded=_BASE64),
            ],
        },
    }


_JSON_TYPE: Final[_Schema] = {"type": ["string", "null"], "pattern": "^application/([a-z0-9.-]+[+])?json$"}
_OTHER_TYPE: Final[_Schema] = {"type": "string", "pattern": "^[^jJ]+$", "description": "Any that is not JSON."}
_ANY_TYPE: Final[_Schema] = {"type": ["string", "null"], "minLength": 1}
_BASE64: Final[_Schema] = {"type": ["string", "null"], "pattern": "^([A-Za-z0-9+/]{4})*$", "contentEncoding": "base64"}


def _cloudevent(content_type: _Schema, *, data: _Schema, encoded: _Schema) -> _Schema:
    text = {"type": "string", "minLength": 1}
    maybe = {"type": ["string", "null"], "minLength": 1}
    return {
        "type": "object",
        "required": ["specversion", "id", "source", "type"],
        "properties": {
            "specversion": {"const": "1.0"},
            "id": text,
            "source": text,
            "type": text,
            "subject": maybe,
            "dataschema": maybe,
            "datacontenttype": content_type,
            "time": {"anyOf": [{"type": "string", "format": TIME_FORMAT}, {"type": "null"}]},
            "data": data,
            "data_base64": encoded,
        },
        "propertyNames": {"pattern": "^([a-z0-9]{1,255}|data_base64)$"},
        "additionalProperties": {
            "anyOf": [
                {"type": ["string", "boolean", "null"]},
                {"type": "integer", "minimum": INT64_MIN, "maximum": INT64_MAX},
            ]
        },
    }


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _content(schema: _Schema, media_type: str = JSON) -> _Schema:
    return {media_type: {"schema": schema}}


def _answers(status: int, what: str, content: _Schema | None, *errors: int) -> _Schema:
    told: _Schema = {"description": what} | ({} if content is None else {"content": content})
    failed = {str(one): {"description": _ERRORS[one], "content": _content(_ref("Failure"))} for one in sorted(errors)}
    return {str(status): told} | failed


def _stream(**data: str) -> _Schema:
    """Server-sent events, each of one of these names, with data of the component."""
    kinds = [
        {
            "type": "object",
            "required": ["event", "data"],
            "properties": {
                "event": {"const": name},
                "data": {"type": "string", "contentMediaType": JSON, "contentSchema": _ref(component)},
            },
        }
        for name, component in (data | {"error": "Problem"}).items()
    ]
    return _content({"description": "Of each server-sent event.", "anyOf": kinds}, MEDIA_TYPE)


_ASKS_BROKERS: Final = (400, 401, 403, 503)
_HAS_BODY: Final = (413, 415)


def _parameter(name: str, schema: _Schema, what: str, *, is_required: bool = False) -> _Schema:
    return {"name": name, "in": "query", "required": is_required, "description": what, "schema": schema}


def _seconds(most: float, what: str) -> _Schema:
    return _parameter("seconds", {"type": "number", "exclusiveMinimum": 0, "maximum": most}, what)


def _operation(name: str, summary: str, responses: _Schema, **more: Any) -> _Schema:
    return {"operationId": name, "summary": summary, **more, "responses": responses}


def _paths() -> _Schema:
    return _event_paths() | _socket_path() | _filter_paths() | _network_paths() | _placing_paths()


def _event_paths() -> _Schema:
    wanted = _parameter("filter", _FILTER, "What you want.", is_required=True)
    until = _seconds(SECONDS_MAX, "End the stream after so many; without, it goes on.")
    batch = {"type": "array", "minItems": 1, "maxItems": EVENTS_MAX}
    bodies = (
        _content({"anyOf": [_ref("Attributes"), batch | {"items": _ref("Attributes")}]})
        | _content(batch | {"items": _ref("Attributes"), "description": "Each on a line of its own."}, LINES)
        | _content(_ref("CloudEvent"), ONE)
        | _content(batch | {"items": _ref("CloudEvent")}, BATCH)
    )
    events = _stream(subscribed="Subscribed", event="Passed", notice="Notice")
    one = _content(_ref("Passed")) | _content(_ref("CloudEvent"), ONE)
    return {
        "/v1/events": {
            "post": _operation(
                "publish",
                "Publish one event or many; each is taken or refused by itself.",
                _answers(202, "At least one was taken.", _content(_ref("Accepted")), *_ASKS_BROKERS, *_HAS_BODY, 429),
                requestBody={"required": True, "content": bodies},
                parameters=[
                    _parameter(
                        "guaranteed",
                        {"enum": list(YES_OR_NO)},
                        "true: they are durable when this is answered; false if it is not said.",
                    )
                ],
            ),
            "get": _operation(
                "subscribe",
                "What matches, as it comes: `subscribed` first, then `event` and `notice`.",
                _answers(200, "Until somebody ends it.", events, *_ASKS_BROKERS, 429),
                parameters=[
                    wanted,
                    _parameter("format", {"enum": list(FORMATS)}, "Of the events; json if it is not said."),
                    until,
                ],
            ),
        },
        "/v1/events/next": {
            "get": _operation(
                "nextEvent",
                "Wait for the next event that matches.",
                _answers(200, "It came.", one, *_ASKS_BROKERS, 429) | {"204": {"description": "None came in time."}},
                parameters=[
                    wanted,
                    _parameter("format", {"enum": list(NEXT_FORMATS)}, "json if it is not said."),
                    _seconds(WAIT_S_MAX, f"Wait so long; {WAIT_S:g} if it is not said."),
                ],
            )
        },
    }


def _socket_path() -> _Schema:
    """OpenAPI has no word for what is said over a WebSocket: an extension has the two sides as schemas."""
    upgraded = {"Upgrade": {"schema": {"const": "websocket"}}, "Sec-WebSocket-Accept": {"schema": {"type": "string"}}}
    answers = _answers(101, "From now on, messages.", None, *_ASKS_BROKERS, 426, 429)
    answers["101"]["headers"] = upgraded
    messages = {
        "subprotocols": [PROTOCOL, f"{TOKEN_PREFIX}TOKEN"],
        "description": "JSON text messages both ways, for one session; requests are answered in their order. Of the"
        f" subprotocols, the door takes {PROTOCOL}; the other one is for browsers, which cannot set Authorization.",
        "youSay": {"oneOf": [_ref(one.__name__) for one in SOCKET_REQUESTS]},
        "youHear": {"oneOf": _heard_on_the_socket()},
    }
    return {
        "/v1/socket": {
            "get": _operation(
                "socket",
                "A WebSocket: publish, and many subscriptions, in one session.",
                answers,
                description="Ask for an upgrade, as RFC 6455 has it. What is said then is in x-websocket.",
                **{"x-websocket": messages},
            )
        }
    }


def _heard_on_the_socket() -> list[_Schema]:
    yours = {"type": "string", "description": "As it was said."}

    def one(what: str, *required: str, **properties: _Schema) -> _Schema:
        names = {"type": "object", "additionalProperties": False, "properties": properties}
        return names | {"required": list(required), "description": what}

    asked = {"enum": ["subscribe", "change", "unsubscribe"]}
    published = {"done": {"const": "publish"}, "id": {"type": ["string", "null"]}}
    event = {"anyOf": [_ref("EventDocument"), _ref("CloudEvent")]}
    return [
        one("It is done.", "done", "id", done=asked, id=yours),
        {
            "description": "Published, as POST /v1/events says it.",
            "type": "object",
            "properties": published,
            "required": list(published),
            "allOf": [_ref("Accepted")],
        },
        one("It cannot be.", "error", error=_ref("Problem"), id=yours),
        one(
            "An event, with the ids of all subscriptions that it matched, in their format.",
            "event", "ids", "latency",
            event=event, ids={"type": "array", "minItems": 1, "items": yours}, latency={"type": "number"},
        ),
        one("Something happened to the session.", "notice", notice=_ref("Notice")),
    ]  # fmt: skip


def _filter_paths() -> _Schema:
    shares = _stream(share="Share", event="Passed")
    until = _seconds(SECONDS_MAX, "End the stream after so many; without, it goes on.")
    return {
        "/v1/explain": {
            "post": _operation(
                "explain",
                "What a filter means and costs, and why it matches an event or not.",
                _answers(200, "It is a filter.", _content(_ref("ExplanationDocument")), *_ASKS_BROKERS, *_HAS_BODY),
                requestBody={"required": True, "content": _content(_ref("ExplainRequest"))},
            )
        },
        "/v1/sample": {
            "post": _operation(
                "sample",
                "How much of what passes a filter matches: `share` twice a second, and some `event`s that do.",
                _answers(200, "Until somebody ends it.", shares, *_ASKS_BROKERS, *_HAS_BODY, 429),
                parameters=[until],
                requestBody={"required": True, "content": _content(_ref("SampleRequest"))},
            )
        },
    }


def _network_paths() -> _Schema:
    def look(name: str, summary: str, content: _Schema, *parameters: _Schema) -> _Schema:
        given = {"parameters": list(parameters)} if parameters else {}
        return {"get": _operation(name, summary, _answers(200, "Found.", content, *_ASKS_BROKERS), **given)}

    until = _seconds(SECONDS_MAX, "End the stream after so many; without, it goes on.")
    since = _parameter(
        "since", {"type": "number", "minimum": 0, "maximum": UNIX_S_MAX}, "Only what came later, in seconds of 1970."
    )
    plain = {
        "get": _operation("health", "Is the door open?", _answers(200, "Yes.", _content(_ref("Health")), 400, 403))
    }
    text = _content({"type": "string"}, "text/plain")
    looks = _stream(overlay="OverlayDocument")
    itself = _operation("openapi", "This document.", _answers(200, "It.", _content({"type": "object"}), 400, 403))
    return {
        "/v1/overlay": look("overlay", "Brokers and links, with rates and load.", _content(_ref("OverlayDocument"))),
        "/v1/overlay/stream": look("overlayStream", "The same once a second, as `overlay` events.", looks, until),
        "/v1/loads": look("loads", "The load indices of every broker.", _content(_ref("LoadsDocument"))),
        "/v1/decisions": look(
            "decisions", "What brokers decided lately, the newest last.", _content(_ref("DecisionsDocument")), since
        ),
        "/metrics": look("metrics", "The same for Prometheus.", text),
        "/healthz": plain,
        "/v1/openapi.json": {"get": itself},
    }


def _placing_paths() -> _Schema:
    """What the coordinator, the data cluster and brokers are asked (bad §1.2)."""

    def told(name: str, call: Call) -> _Schema:
        found = _content(_ref(call.document.__name__))
        answers = _answers(200, "Done.", found, *_ASKS_BROKERS, *call.errors, *_HAS_BODY, 429)
        body = {"required": True, "content": _content(_ref(call.request.__name__))}
        return {"post": _operation(name, call.summary, answers, requestBody=body)}

    spread = _answers(200, "Found.", _content(_ref("BalanceDocument")), *_ASKS_BROKERS)
    return {
        **{f"/v1/{name}": told(name, call) for name, call in CALLS.items()},
        "/v1/balance": {"get": _operation("balance", "How load is spread, and what the coordinator did.", spread)},
    }
