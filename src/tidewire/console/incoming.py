"""Events as requests bring them: attributes in JSON, lines of them, CloudEvents of every mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidewire.console.cloudevents import BATCH, HEADER, ONE, from_binary, from_structured
from tidewire.console.errors import WrongContentType
from tidewire.console.publishing import EVENTS_MAX, Offered
from tidewire.console.reading import read_json
from tidewire.model.errors import LimitReached, UnsupportedType, UsageError
from tidewire.model.events import Event, make_event

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
_KNOWN: Final = (JSON, LINES, ONE, BATCH)


def events_in(headers: Mapping[str, str], body: bytes) -> list[Offered]:
    """The events of a request, each checked by itself; a UsageError if it cannot be taken apart at all."""
    kind, _, parameters = headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind in _KNOWN and parameters.strip():
        _refuse_charset(parameters)
    if kind in (ONE, BATCH):
        document = read_json(body)
        return [from_structured(document)] if kind == ONE else each(_list(document), from_structured)
    if any(name.lower().startswith(HEADER) for name in headers):
        return [from_binary(headers, body)]
    if kind == JSON:
        document = read_json(body)
        return each(document, from_attributes) if isinstance(document, list) else [from_attributes(document)]
    if kind == LINES:
        lines = [line for line in body.split(b"\n") if line.strip()]
        return each(lines, lambda line: from_attributes(read_json(line, what="the line")))
    known = ", ".join(_KNOWN)
    raise WrongContentType(
        f"a body of the type {kind!r} is no event here: send {known}, or a CloudEvent in binary mode"
    )


def _refuse_charset(parameters: str) -> None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8", "us-ascii"):
            raise WrongContentType(f"JSON is UTF-8 here, not {value.strip()}")


def _list(document: Any) -> list[Any]:
    if not isinstance(document, list):
        raise UnsupportedType("a batch is a JSON array of CloudEvents")
    return document


def from_attributes(document: Any) -> Event:
    """An event as its attributes in JSON."""
    if not isinstance(document, dict):
        raise UnsupportedType('an event is a JSON object of attributes, such as {"class": "QUAKE", "magnitude": 6.4}')
    return make_event(document)


def each(documents: list[Any], read: Callable[[Any], Event]) -> list[Offered]:
    """Each by itself: one that is wrong does not spoil the others."""
    if len(documents) > EVENTS_MAX:
        raise LimitReached(f"a request has at most {EVENTS_MAX:,} events, not {len(documents):,}: send several")
    found: list[Offered] = []
    for document in documents:
        try:
            found.append(read(document))
        except UsageError as error:
            found.append(error)
    return found
