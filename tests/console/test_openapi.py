"""The OpenAPI document is true: schemathesis asks the live door all that the document allows, and what it does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.console.serving import served_in_thread
from tidewire.console.door import Door, Handler
from tidewire.console.incoming import LINES
from tidewire.console.network import Network
from tidewire.console.openapi import FILTER_FORMAT, TIME_FORMAT, openapi
from tidewire.model.values import Timestamp

STREAM_S = "0.05"
REFUSED_FOR_THEIR_MEANING = ("/v1/socket", "/v1/createchannel")
"""What fits the schema may still be no upgrade, or no query: no schema says what is SQL over the datasets there are."""
EXAMPLES = 20
_ONE_SECOND_NS = 10**9

FILTERS = [
    "a",
    "ab",
    "true",
    "n > 1",
    "class = 'QUAKE' and magnitude >= 6",
    "within(lat, lon, 38.3, 142.4, 300 km)",
    "not (a between 1 and 2) or b in ('x', 'y')",
    "\"größe.x\" like 'A%' and c is not null",
    "[class,eq,'STOCK'],[volume,>,15]",
]

schemathesis.openapi.format(FILTER_FORMAT, st.sampled_from(FILTERS))
schemathesis.openapi.format(
    TIME_FORMAT, st.integers(-(2**62), 2**62).map(lambda ns: str(Timestamp(ns // _ONE_SECOND_NS * _ONE_SECOND_NS)))
)


@schemathesis.serializer(LINES)
def as_lines(_context: Any, value: Any) -> bytes:
    """A list, each element on a line; what is no list is to be no list of lines either."""
    return b"\n".join(json.dumps(one).encode() for one in (value if isinstance(value, list) else [[value]]))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the door is. Its broker has a store: events can be guaranteed."""
    with served_in_thread(store=str(tmp_path_factory.mktemp("log"))) as found:
        yield found


_GENERATION = GenerationConfig(deterministic=True, max_examples=EXAMPLES)
_CONFIG = SchemathesisConfig(projects=ProjectsConfig(default=ProjectConfig(generation=_GENERATION)))
schema = schemathesis.openapi.from_dict(msgspec.json.decode(openapi()), config=_CONFIG)


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_door_does_what_the_document_says(case: Any, url: str) -> None:
    """Streams go on: those that are not to end are ended soon. A WebSocket is not served to who asks for none."""
    if "seconds" in {one.name for one in case.operation.query} and is_for_long((case.query or {}).get("seconds")):
        case.query = {**(case.query or {}), "seconds": STREAM_S}
    may_refuse = case.operation.path in REFUSED_FOR_THEIR_MEANING
    case.call_and_validate(base_url=url, timeout=20, excluded_checks=[positive_data_acceptance] if may_refuse else [])


def is_for_long(seconds: Any) -> bool:
    """Is nothing said, or a time that is allowed?"""
    try:
        return seconds is None or float(seconds) > 0
    except (TypeError, ValueError):
        return False


def test_the_document_is_whole() -> None:
    """Every reference leads somewhere, and every path of the door is described, but for its page."""
    document = msgspec.json.decode(openapi())
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) == known
    described = {path: {method.upper() for method in methods} for path, methods in document["paths"].items()}
    routes = {path: set(methods) for path, methods in asyncio.run(_routes()).items()}
    assert described == {**routes, "/v1/socket": {"GET"}}


async def _routes() -> dict[str, dict[str, Handler]]:
    return {path: methods for path, methods in Door(Network()).routes().items() if path != "/"}


def references(part: Any) -> set[str]:
    """All of them, wherever they stand."""
    if isinstance(part, list):
        return {one for inner in part for one in references(inner)}
    if not isinstance(part, dict):
        return set()
    own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
    return own | {one for inner in part.values() for one in references(inner)}
