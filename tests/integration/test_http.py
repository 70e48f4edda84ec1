"""The front door over real HTTP, in front of real brokers: what programs in every other language do."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings.http import (
    HTTPMessage,
    from_binary_event,
    from_structured_event,
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.v1.event import CloudEvent

import tidewire
from tests.console.serving import Frames, door, served
from tests.integration.network import HEAD_AND_TWO_EDGES, brokers, until
from tidewire.console.network import Network
from tidewire.console.outbox import MUCH, Outbox
from tidewire.console.publishing import SESSIONS_EACH

JSON = {"content-type": "application/json"}


def waiting_in_outboxes() -> list[int]:
    """Bytes, of each stream of every door in this process."""
    return [sum(map(len, one._items)) for one in gc.get_objects() if isinstance(one, Outbox)]


def clients(node: Any) -> int:
    """How many sessions a broker has."""
    return len(node.node.core.clients)


def test_publish_and_subscribe() -> None:
    """An event that is published after `subscribed` comes; what does not match does not."""

    async def run() -> None:
        async with served(*HEAD_AND_TWO_EDGES) as (http, (head, edge, other)):
            async with http.stream("GET", "/v1/events", params={"filter": "magnitude >= 6"}) as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                frames = Frames(response)
                begun = json.loads(await frames.next("subscribed"))
                assert begun["filter"] == "magnitude >= 6"
                assert begun["broker"] in ("B1", "B2")
                sent = await http.post("/v1/events", json=[{"magnitude": 5}, {"magnitude": 6.4, "where": {"lat": 1}}])
                assert (sent.status_code, sent.json()) == (202, {"accepted": 2, "refused": [], "furtherRefused": 0})
                event = json.loads(await frames.next("event"))
                assert event["attributes"] == {"magnitude": 6.4, "where.lat": 1}
                assert 0 <= event["latency"] < 5
            await until(lambda: clients(edge) + clients(other) == 0)  # who has left is let go at once
            assert clients(head) == 1  # the publishing session is kept for the next request

    asyncio.run(run())


def test_each_event_of_a_request_by_itself() -> None:
    async def run() -> None:
        async with served() as (http, _):
            events = [{"n": 1}, {"list": [1]}, 7, {"n": 2}, {"big": 2**64}]
            done = (await http.post("/v1/events", json=events)).json()
            assert done["accepted"] == 2
            assert [(one["index"], one["code"]) for one in done["refused"]] == [
                (1, "value-type"),
                (2, "value-type"),
                (4, "value-range"),
            ]
            lines = '{"n": 1}\n\n{"n": \n{"n": 3}'
            done = (
                await http.post("/v1/events", content=lines, headers={"content-type": "application/x-ndjson"})
            ).json()
            assert (done["accepted"], [one["index"] for one in done["refused"]]) == (2, [1])
            none = await http.post("/v1/events", json=[{"list": []}, 7])
            assert (none.status_code, none.json()["error"]["code"]) == (400, "value-type")

    asyncio.run(run())


def test_what_the_broker_refuses_is_told_by_its_place() -> None:
    """An event too large for the broker's frames, among others that are not."""

    async def run() -> None:
        async with served({"frame_bytes_max": 70_000}) as (http, _):
            done = (await http.post("/v1/events", json=[{"n": 1}, {"text": "x" * 90_000}, {"n": 2}])).json()
            assert (done["accepted"], done["refused"][0]["index"]) == (2, 1)
            assert done["refused"][0]["code"] == "event-too-large"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"n": NaN}', "NaN"),
        (b'{"n": -Infinity}', "-Infinity"),
        (b'{"n": 1e999}', "beyond a float64"),
        (b'{"n": 1, "n": 2}', "twice"),
        (b'{"n": "\xff"}', "UTF-8"),
        (b'{"n": ' + b"[" * 200_000, "nests too deeply"),
        (b'{"n": ' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}", "nest deeper"),
        (b'{"n": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"n": 99999999999999999999}', "64 bits"),
        (b'{"n": "\\ud800"}', "surrogate"),
        (b'{"": 1}', "empty"),
        (b'{"a.b": 1, "a": {"b": 2}}', "two paths"),
        (b'{"n": 1', "line 1, column"),
        (b"", "line 1, column 1"),
        (b"[]", "no event"),
        (b"null", "a JSON object"),
        (b'\xef\xbb\xbf{"n": 1}', "line 1, column 1"),
    ],
)
def test_bodies_that_are_no_events(body: bytes, says: str) -> None:
    async def run() -> None:
        async with served() as (http, _):
            got = await http.post("/v1/events", content=body, headers=JSON)
            assert got.status_code == 400
            assert says in got.json()["error"]["message"]

    asyncio.run(run())


def test_statuses() -> None:
    """Every error has our shape, and the status that HTTP gives it."""

    async def run() -> None:
        async with served() as (http, _):
            asked: list[tuple[int, str, httpx.Response]] = [
                (404, "path-unknown", await http.get("/v2/events")),
                (404, "path-unknown", await http.get("/v1/events/")),
                (404, "path-unknown", await http.get("/static/no-such-file.js")),
                (404, "path-unknown", await http.get("/static/../app.py")),
                (405, "method", await http.delete("/v1/events")),
                (405, "method", await http.post("/static/app.js")),
                (426, "upgrade-required", await http.get("/v1/socket")),
                (415, "content-type", await http.post("/v1/events", content=b"x")),
                (
                    415,
                    "content-type",
                    await http.post("/v1/events", content=b"x", headers={"content-type": "text/csv"}),
                ),
                (
                    415,
                    "content-type",
                    await http.post(
                        "/v1/events", content=b"{}", headers={"content-type": "application/json; charset=latin-1"}
                    ),
                ),
                (415, "content-type", await http.post("/v1/explain", content=b"{}")),
                (413, "body-too-large", await http.post("/v1/events", content=b" " * (3 << 20), headers=JSON)),
                (429, "limit", await http.post("/v1/events", json=[{}] * 10_001)),
                (400, "usage", await http.get("/v1/events")),
                (400, "usage", await http.get("/v1/events", params={"filtre": "n > 1"})),
                (400, "usage", await http.get("/v1/events?filter=n%3D1&filter=n%3D2")),
                (400, "filter-syntax", await http.get("/v1/events", params={"filter": "n >"})),
                (400, "unknown-name", await http.get("/v1/events", params={"filter": "n > 1", "format": "xml"})),
                (400, "usage", await http.get("/v1/events/next", params={"filter": "n > 1", "seconds": "nan"})),
                (400, "usage", await http.get("/v1/overlay", params={"x": "1"})),
                (401, "not-authenticated", await http.get("/v1/overlay", headers={"authorization": "Basic eDp5"})),
                (403, "origin", await http.get("/v1/overlay", headers={"host": "evil.example"})),
                (
                    403,
                    "origin",
                    await http.post("/v1/events", json={"n": 1}, headers={"origin": "https://evil.example"}),
                ),
            ]
            for status, code, got in asked:
                error = got.json()["error"]
                assert (got.status_code, error["code"]) == (status, code), got.text
                assert error["message"]
                assert got.headers["x-content-type-options"] == "nosniff"
            assert asked[4][2].headers["allow"] == "GET, POST, HEAD, OPTIONS"
            assert asked[6][2].headers["upgrade"] == "websocket"
            assert asked[20][2].headers["www-authenticate"].startswith("Bearer")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("header", "part"),
    [("Content-Length: 1073741824", b""), ("Transfer-Encoding: chunked", b"300000\r\n" + b" " * 0x300000)],
    ids=["told", "not told"],
)
def test_a_body_too_large_is_not_read_whole(header: str, part: bytes) -> None:
    """It is refused as soon as it is known: before it comes if its length is told, else when it is beyond the bound."""

    async def run() -> None:
        async with served() as (http, _):
            host, port = http.base_url.host, http.base_url.port
            reader, writer = await asyncio.open_connection(host, port)
            head = (
                f"POST /v1/events HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n{header}\r\n\r\n"
            )
            writer.write(head.encode() + part)
            async with asyncio.timeout(10):
                assert b"413" in await reader.readline()
            writer.close()

    asyncio.run(run())


def test_head_and_options() -> None:
    async def run() -> None:
        async with served() as (http, (node,)):
            head = await http.head("/v1/events")
            assert (head.status_code, head.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
            assert clients(node) == 0
            assert (await http.head("/healthz")).status_code == 200
            options = await http.options("/v1/explain")
            assert (options.status_code, options.headers["allow"]) == (204, "POST, OPTIONS")
            assert not any(name.startswith("access-control") for name in options.headers)

    asyncio.run(run())


def test_explain() -> None:
    async def run() -> None:
        async with served() as (http, _):
            asked = {"filter": "magnitude >= 6 and class = 'QUAKE'", "event": {"magnitude": 5.5, "class": "QUAKE"}}
            found = (await http.post("/v1/explain", json=asked)).json()
            assert found["outcome"] == "false"
            assert [one["predicate"] for one in found["decisions"]] == ["magnitude >= 6"]
            assert found["normalForm"]
            wrong = await http.post("/v1/explain", json={"filter": "a = 1\nand b >"})
            error = wrong.json()["error"]
            assert (wrong.status_code, error["line"], error["column"], error["position"]) == (400, 2, 8, 13)
            assert error["expected"]
            tuples = await http.post("/v1/explain", json={"filter": "[class,eq,'STOCK'],[volume,>,15]"})
            assert tuples.json()["conjunctions"] == 1

    asyncio.run(run())


def test_the_network_at_one_look() -> None:
    """Neighbours are found; the second look has rates; a broker that has gone is named."""

    async def run() -> None:
        async with served(*HEAD_AND_TWO_EDGES) as (http, nodes):
            first = (await http.get("/v1/overlay")).json()
            assert [one["broker"] for one in first["brokers"]] == ["B0", "B1", "B2"]
            assert {(one["from"], one["to"]) for one in first["links"]} == {
                ("B0", "B1"),
                ("B1", "B0"),
                ("B0", "B2"),
                ("B2", "B0"),
            }
            assert first["brokers"][0]["rates"] is None
            async with http.stream("GET", "/v1/overlay/stream") as response:
                frames = Frames(response)
                await frames.next("overlay")
                await http.post("/v1/events", json=[{"n": 1}] * 100)
                while True:
                    head = json.loads(await frames.next("overlay"))["brokers"][0]
                    if head["rates"]["eventsPerS"] > 0:
                        break
            await nodes[2].stop()
            while True:
                gone = [one for one in (await http.get("/v1/overlay")).json()["brokers"] if not one["isReachable"]]
                if gone:
                    break
                await asyncio.sleep(0.1)
            assert [(one["broker"], one["clients"]) for one in gone] == [("B2", None)]
            loads = (await http.get("/v1/loads")).json()["loads"]
            assert set(loads) == {"B0", "B1"}
            decisions = (await http.get("/v1/decisions")).json()["decisions"]
            assert {one["broker"] for one in decisions} == {"B0", "B1"}
            assert [one["at"] for one in decisions] == sorted(one["at"] for one in decisions)
            later = (await http.get("/v1/decisions", params={"since": decisions[-1]["at"]})).json()["decisions"]
            assert [one for one in later if one["at"] <= decisions[-1]["at"]] == []
            metrics = await http.get("/metrics")
            assert metrics.headers["content-type"].startswith("text/plain")
            assert 'broker="B0"' in metrics.text

    asyncio.run(run())


def test_nobody_there() -> None:
    async def run() -> None:
        async with brokers({}) as (node,):
            address = node.address
        async with door(Network(brokers=(address,))) as live:
            async with httpx.AsyncClient(base_url=live.url, timeout=20, trust_env=False) as http:
                refused = await http.post("/v1/events", json={"n": 1})
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
                assert refused.headers["retry-after"] == "1"
                look = (await http.get("/v1/overlay")).json()
                assert [one["isReachable"] for one in look["brokers"]] == [False]

    asyncio.run(run())


def test_the_filter_lab() -> None:
    """The share of what passes, and the events; a second filter begins with what has been seen."""

    async def run() -> None:
        async with served() as (http, _):
            async with http.stream("POST", "/v1/sample", json={"filter": "n >= 5"}) as response:
                frames = Frames(response)
                await frames.next("share")
                await http.post("/v1/events", json=[{"n": n} for n in range(10)])
                share = json.loads(await frames.next("share"))
                while share["seen"] < 10:
                    share = json.loads(await frames.next("share"))
                assert (share["seen"], share["matched"], share["share"]) == (10, 5, 0.5)
                assert json.loads(await frames.next("event"))["attributes"]["n"] >= 5
            async with http.stream("POST", "/v1/sample", json={"filter": "n = 0"}) as response:
                share = json.loads(await Frames(response).next("share"))
                assert (share["seen"], share["matched"]) == (10, 1)
            many = [{"n": n} for n in range(5000)]
            async with http.stream("POST", "/v1/sample", json={"filter": "true"}) as response:
                frames = Frames(response)
                await http.post("/v1/events", json=many)
                share = json.loads(await frames.next("share"))
                while share["eventsPerS"] < 500:
                    share = json.loads(await frames.next("share"))
                assert share["seen"] < 2500  # counted, not looked at

    asyncio.run(run())


def test_a_reader_that_does_not_read_holds_nobody() -> None:
    """Its own stream waits, with a bound; others get everything meanwhile, and it is let go when it leaves."""

    async def run() -> None:
        async with served() as (http, (node,)):
            url = http.base_url
            reader, writer = await asyncio.open_connection(url.host, url.port, limit=4096)
            writer.write(f"GET /v1/events?filter=true HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n\r\n".encode())
            assert b"200 OK" in await reader.readline()
            await until(lambda: clients(node) == 1)
            events = [{"n": n, "text": "x" * 1000} for n in range(1500)]
            async with http.stream("GET", "/v1/events", params={"filter": "true"}) as response:
                frames = Frames(response)
                await frames.next("subscribed")
                for _ in range(10):
                    assert (await http.post("/v1/events", json=events)).json()["accepted"] == 1500
                for _ in range(15_000):
                    await frames.next("event")
            assert max(waiting_in_outboxes()) < 4 * MUCH  # of the fifteen that were sent
            writer.close()
            await until(lambda: clients(node) == 1)  # the publisher's

    asyncio.run(run())


def test_many_requests_at_once_share_few_sessions() -> None:
    async def run() -> None:
        async with served() as (http, (node,)):
            done = await asyncio.gather(*(http.post("/v1/events", json={"n": n}) for n in range(50)))
            assert {one.status_code for one in done} == {202}
            assert clients(node) <= SESSIONS_EACH

    asyncio.run(run())


def test_a_door_that_closes_ends_its_streams() -> None:
    async def run() -> None:
        async with brokers({}) as (node,):
            async with door(Network(brokers=(node.address,))) as live:
                http = httpx.AsyncClient(base_url=live.url, timeout=20, trust_env=False)
                response = await http.send(http.build_request("GET", "/v1/events?filter=true"), stream=True)
                frames = Frames(response)  # held: without it the client leaves by itself
                await frames.next("subscribed")
                began = asyncio.get_running_loop().time()
            assert asyncio.get_running_loop().time() - began < 3
            await http.aclose()
            await until(lambda: clients(node) == 0)

    asyncio.run(run())


# -- CloudEvents -------------------------------------------------------------------------------------------------------


def cloud_event(n: int, data: Any = None, **more: Any) -> CloudEvent:
    """One of some."""
    return CloudEvent({"id": f"event-{n}", "source": "/tests", "type": "quake", "level": n} | more, data)


SENT = [
    cloud_event(1, {"magnitude": 6.4, "where": {"lat": 38.3}}),
    cloud_event(2, {"tags": ["a", "b"], "none": None}, datacontenttype="application/json", subject="€"),
    cloud_event(3, "plain text", datacontenttype="text/plain"),
    cloud_event(4, b"\x00\xff", datacontenttype="application/octet-stream"),
]


@pytest.mark.parametrize("mode", ["structured", "batch", "binary"])
def test_cloudevents_in_and_out(mode: str) -> None:
    """What the package sent, in any mode, is what it reads from the stream."""

    async def run() -> None:
        async with served() as (http, _):
            wanted = {"filter": "source = '/tests' and type = 'quake'", "format": "cloudevents"}
            async with http.stream("GET", "/v1/events", params=wanted) as response:
                frames = Frames(response)
                await frames.next("subscribed")
                await send(http, mode)
                for sent in SENT:
                    read = from_structured_event(HTTPMessage({}, (await frames.next("event")).encode()))
                    assert read.get_data() == sent.get_data()
                    assert plain(read, mode) == plain(sent, mode)

    asyncio.run(run())


async def send(http: httpx.AsyncClient, mode: str) -> None:
    """All of them."""
    messages = [to_binary_event(one) if mode == "binary" else to_structured_event(one) for one in SENT]
    if mode == "batch":
        body = b"[" + b",".join(one.body for one in messages) + b"]"
        messages = [HTTPMessage({"content-type": "application/cloudevents-batch+json"}, body)]
    for message in messages:
        done = await http.post("/v1/events", content=message.body, headers=message.headers)
        assert done.status_code == 202, done.text


def plain(event: Any, mode: str) -> dict[str, Any]:
    """Its attributes; in binary mode headers are all text."""
    attributes = dict(event.get_attributes())
    return attributes | {"level": str(attributes["level"])} if mode == "binary" else attributes


@pytest.mark.parametrize("sent", SENT, ids=lambda one: one.get_id())
def test_the_next_cloudevent_in_binary_mode(sent: CloudEvent) -> None:
    async def run() -> None:
        async with served() as (http, (node,)):
            wanted = {"filter": "id = 'event-9' or level > 0", "format": "cloudevents-binary", "seconds": "10"}
            coming = asyncio.ensure_future(http.get("/v1/events/next", params=wanted))
            await until(node.node.core.router.subscribers)
            message = to_structured_event(sent)
            await http.post("/v1/events", content=message.body, headers=message.headers)
            got = await coming
            read, asked = from_binary_event(HTTPMessage(dict(got.headers), got.content)), dict(sent.get_attributes())
            assert read.get_attributes() == asked | {"level": str(asked["level"])}
            assert (read.get_data() if isinstance(sent.get_data(), dict) else got.content) in (
                sent.get_data(),
                str(sent.get_data()).encode(),
            )

    asyncio.run(run())


def test_the_next_event() -> None:
    async def run() -> None:
        async with served() as (http, (node,)):
            none = await http.get("/v1/events/next", params={"filter": "n = 1", "seconds": "0.05"})
            assert (none.status_code, none.content) == (204, b"")
            coming = asyncio.ensure_future(http.get("/v1/events/next", params={"filter": "n = 1"}))
            await until(node.node.core.router.subscribers)
            async with tidewire.connect(node.address) as wire:
                await wire.publish({"n": 1}, body=b"\xff", content_type="image/png")
            found = (await coming).json()
            assert (found["attributes"], found["body"], found["contentType"]) == ({"n": 1}, "/w==", "image/png")

    asyncio.run(run())
