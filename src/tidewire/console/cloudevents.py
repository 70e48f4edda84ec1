"""CloudEvents 1.0 ⇄ events, in structured and binary mode. Pure; the rules are in docs/reference/http.md.

Context attributes keep their names and are attributes of the event; ``time`` is a timestamp. JSON data that is an
object becomes attributes below ``data.``, so that filters see it: ``data.magnitude >= 6``. Data that attributes cannot
say exactly is the event's body as well, and then the body is what is given back.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import msgspec

from tidewire.console.documents import event_document
from tidewire.console.reading import read_json
from tidewire.model.errors import BadAttributeName, EventTooLarge, UnsupportedType, UsageError, ValueOutOfRange
from tidewire.model.events import NESTING_MAX, Event, flatten, make_event
from tidewire.model.values import INT64_MAX, INT64_MIN, Timestamp, Value

SPECVERSION: Final = "1.0"
ONE: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
HEADER: Final = "ce-"
IN_BASE64: Final = "data_base64"
"""An attribute of the event, true or false, where the content type alone does not tell how structured mode says data:
in base64, or as a string. No context attribute can have this name."""

_REQUIRED: Final = ("id", "source", "type")
_STRINGS: Final = frozenset({*_REQUIRED, "specversion", "subject", "dataschema", "datacontenttype"})
_RESERVED: Final = frozenset({"data", IN_BASE64})
_NAME: Final = re.compile(r"[a-z0-9]{1,255}")
_JSON_TYPE: Final = re.compile(r"(application|text)/([\w.+-]+\+)?json\s*(;.*)?", re.IGNORECASE)
_TEXT_TYPE: Final = re.compile(r"text/|[\w.-]+/([\w.+-]+\+)?xml\b|.*;\s*charset=", re.IGNORECASE)
_BELOW: Final = "data."
_SAFE: Final = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')


# -- in ----------------------------------------------------------------------------------------------------------------


def from_structured(document: Any) -> Event:
    """The event of a CloudEvent in the JSON format; a UsageError that says what is wrong with it."""
    if not isinstance(document, dict):
        raise UnsupportedType("a CloudEvent in structured mode is a JSON object")
    context = _context({name: value for name, value in document.items() if name not in _RESERVED})
    data, encoded = document.get("data"), document.get(IN_BASE64)
    if data is not None and encoded is not None:
        raise UsageError("a CloudEvent has data or data_base64, not both")
    content_type = context.get("datacontenttype")
    assert content_type is None or isinstance(content_type, str)
    if encoded is not None:
        return _with_body(context, _from_base64(encoded), content_type, in_base64=True)
    if data is None:
        return make_event(context)
    if _is_json(content_type):
        return _with_json(context, data, content_type)
    if not isinstance(data, str):
        raise UsageError(f"data of the type {content_type!r} is a string, or base64 in data_base64; it is no JSON")
    return _with_body(context, _utf8(data), content_type, in_base64=False)


def from_binary(headers: Mapping[str, str], body: bytes) -> Event:
    """The event of a CloudEvent in binary mode: the context in ``ce-`` headers, the data as it is."""
    told = {
        name.lower().removeprefix(HEADER): _from_header(name, value)
        for name, value in headers.items()
        if name.lower().startswith(HEADER)
    }
    if wrong := [name for name in told if name in _RESERVED or name == "datacontenttype"]:
        raise BadAttributeName(f"there is no header ce-{wrong[0]}: the body is the data, content-type says what it is")
    content_type = headers.get("content-type")
    context = _context(told | ({} if content_type is None else {"datacontenttype": content_type}))
    if not body:
        return make_event(context)
    if _is_json(content_type):
        try:
            return _with_json(context, read_json(body), content_type, written=body)
        except UsageError:
            if content_type is not None:
                raise
    return _with_body(context, body, content_type, in_base64=None)


def _context(told: Mapping[str, Any]) -> dict[str, Value]:
    context: dict[str, Value] = {}
    for name, value in told.items():
        if not _NAME.fullmatch(name):
            raise BadAttributeName(f"the context attribute {name[:80]!r} must be of a to z and 0 to 9 only")
        if value is not None:
            context[name] = _checked(name, value)
    for name in _REQUIRED:
        if name not in context:
            raise UsageError(f"a CloudEvent has the context attribute {name!r}; here it is missing")
    if context.get("specversion") != SPECVERSION:
        raise UsageError(f"specversion is {context.get('specversion')!r}; {SPECVERSION!r} is understood here")
    return context


def _checked(name: str, value: object) -> Value:
    if name in _STRINGS or name == "time":
        if not isinstance(value, str):
            raise UnsupportedType(f"the context attribute {name!r} is a string, not a {type(value).__name__}")
        if not value:
            raise ValueOutOfRange(f"the context attribute {name!r} is empty")
        return Timestamp.parse(value) if name == "time" else value
    if isinstance(value, float) and value.is_integer():  # JSON knows one kind of number
        return int(value)
    if not isinstance(value, bool | int | str):
        raise UnsupportedType(f"the extension {name!r} is a boolean, an integer or a string")
    return value


def _is_json(content_type: str | None) -> bool:
    return content_type is None or _JSON_TYPE.fullmatch(content_type.strip()) is not None


def _from_base64(encoded: object) -> bytes:
    if not isinstance(encoded, str):
        raise UnsupportedType("data_base64 is a string")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueOutOfRange("data_base64 is no base64") from None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueOutOfRange("data has a lone surrogate in it: it is no text") from None


def _from_header(name: str, value: str) -> str:
    try:
        return unquote_to_bytes(value.strip()).decode()
    except UnicodeDecodeError:
        raise ValueOutOfRange(f"the header {name} is not UTF-8, written as ASCII with %XX") from None


def _with_body(context: dict[str, Value], body: bytes, content_type: str | None, *, in_base64: bool | None) -> Event:
    is_said_json = content_type is not None and _is_json(content_type)
    if in_base64 is not None and (is_said_json or in_base64 != _goes_in_base64(body, content_type)):
        context[IN_BASE64] = in_base64
    return make_event(context, body=body, content_type=content_type or "application/octet-stream")


def _goes_in_base64(body: bytes, content_type: str | None) -> bool:
    """Where nothing else is said: text as a string, the rest in base64."""
    return content_type is None or not _TEXT_TYPE.match(content_type) or not _is_text(body)


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _with_json(context: dict[str, Value], data: Any, content_type: str | None, written: bytes | None = None) -> Event:
    seen = _Seen(data, beside=context)
    if seen.is_exact:
        return make_event(context | seen.attributes)
    body = _json_bytes(data) if written is None else written
    return make_event(context | seen.attributes, body=body, content_type=content_type or "application/json")


def _json_bytes(data: Any) -> bytes:
    """As text, unless it holds half a character: that only an escape can say."""
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode()
    except RecursionError:
        raise EventTooLarge("data nests too deeply") from None


class _Seen:
    """JSON data as filters see it, and whether that is all of it."""

    def __init__(self, data: Any, *, beside: Mapping[str, Value]) -> None:
        self.is_exact = isinstance(data, dict) and bool(data)
        self.attributes: dict[str, Value] = {}
        try:
            found = dict(self._walk(data, _BELOW, 1)) if isinstance(data, dict) else {}
            flatten({**beside, **found})
            self.attributes = found
        except UsageError:  # more, longer or deeper than attributes can be: then filters see none of it
            self.is_exact = False

    def _walk(self, data: dict[str, Any], below: str, depth: int) -> Iterator[tuple[str, Value]]:
        if depth > NESTING_MAX:
            raise EventTooLarge("too deep for attributes")
        for name, value in data.items():
            if not name or "." in name or value is None or isinstance(value, list) or value == {}:
                self.is_exact = False
            elif isinstance(value, dict):
                yield from self._walk(value, f"{below}{name}.", depth + 1)
            elif type(value) is int and not INT64_MIN <= value <= INT64_MAX:
                self.is_exact = False
            else:
                yield below + name, value


# -- out ---------------------------------------------------------------------------------------------------------------


class _Content(msgspec.Struct, frozen=True):
    """A CloudEvent, before it is written in one mode or the other."""

    context: dict[str, bool | int | str]
    data: bytes | None
    is_json: bool
    in_base64: bool


def structured(event: Event) -> dict[str, Any]:
    """The CloudEvent in the JSON format, for msgspec. An event that never was one is wrapped."""
    found = _content(event)
    document: dict[str, Any] = dict(found.context)
    if found.data is None:
        return document
    if found.is_json:
        return document | {"data": msgspec.Raw(found.data)}
    if found.in_base64:
        return document | {IN_BASE64: base64.b64encode(found.data).decode()}
    return document | {"data": found.data.decode()}


_HEADER_TEXT: Final = re.compile(r"[!-~]([ -~]*[!-~])?")
_BYTES: Final = "application/octet-stream"
"""In place of a content type that no header can carry."""


def binary(event: Event) -> tuple[dict[str, str], bytes]:
    """The CloudEvent in binary mode: its headers and its body."""
    found = _content(event)
    headers = {}
    for name, value in found.context.items():
        if name == "datacontenttype":
            headers["content-type"] = str(value) if _HEADER_TEXT.fullmatch(str(value)) else _BYTES
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            headers[HEADER + name] = quote(text, safe=_SAFE)
    return headers, found.data or b""


def _content(event: Event) -> _Content:
    nested = _nested(event) if _is_cloudevent(event) else None
    if nested is None:
        return _wrapped(event)
    context = {
        name: str(value) if isinstance(value, Timestamp) else value
        for name, value in event.attributes.items()
        if isinstance(value, bool | int | str | Timestamp) and name != IN_BASE64 and not name.startswith(_BELOW)
    }
    if event.body is None:
        return _Content(context, _json_bytes(nested) if nested else None, is_json=True, in_base64=False)
    in_base64 = event.get(IN_BASE64)
    if not in_base64 and _is_json(event.content_type):
        try:
            return _Content(context, _json_bytes(read_json(event.body)), is_json=True, in_base64=False)
        except UsageError:
            in_base64 = True
    if in_base64 is None:
        in_base64 = _goes_in_base64(event.body, event.content_type)
    return _Content(context, event.body, is_json=False, in_base64=bool(in_base64) or not _is_text(event.body))


def _is_cloudevent(event: Event) -> bool:
    """Was it one when it came? Then all its attributes have a place in one."""
    if event.get("specversion") != SPECVERSION or not all(event.get(name) for name in _REQUIRED):
        return False
    return all(_has_place(name, value) for name, value in event.attributes.items()) and (
        event.body is None or event.get("datacontenttype", event.content_type) == event.content_type
    )


def _has_place(name: str, value: Value) -> bool:
    if name.startswith(_BELOW):
        return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    if name == IN_BASE64:
        return isinstance(value, bool)
    if name == "time":
        return isinstance(value, Timestamp)
    return _NAME.fullmatch(name) is not None and isinstance(value, str if name in _STRINGS else bool | int | str)


def _nested(event: Event) -> dict[str, Any] | None:
    """The data that attributes say; None if they contradict each other."""
    data: dict[str, Any] = {}
    for name, value in event.attributes.items():
        if not name.startswith(_BELOW):
            continue
        *path, last = name.removeprefix(_BELOW).split(".")
        at = data
        for step in path:
            at = at.setdefault(step, {})
            if not isinstance(at, dict):
                return None
        if last in at:
            return None
        at[last] = value
    return data


def _wrapped(event: Event) -> _Content:
    """An event that was published as attributes, as a CloudEvent: its data is the event."""
    publisher, sequence = event.envelope.publisher or 0, event.envelope.sequence or 0
    named = event.get("class")
    context: dict[str, bool | int | str] = {
        "specversion": SPECVERSION,
        "id": f"{publisher:x}-{sequence}",
        "source": f"/tidewire/publishers/{publisher:x}",
        "type": named if isinstance(named, str) and named else "tidewire.event",
        "datacontenttype": "application/json",
    }
    return _Content(context, msgspec.json.encode(event_document(event)), is_json=True, in_base64=False)
