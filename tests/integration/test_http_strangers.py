"""Events are other people's words, and clients may be slow or greedy: neither harms those who use the door."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import tidewire
from tests.console.serving import WAIT_S, served
from tests.integration.test_http_socket import socket
from tidewire.console import malformed, reading, streams
from tidewire.console.streams import Lines
from tidewire.live.broker import LiveBroker
from tidewire.model.errors import LimitReached
from tidewire.model.events import make_event

CLOUDEVENT = {"specversion": "1.0", "type": "t", "source": "s", "id": "1"}


async def _handed_over(
    http: httpx.AsyncClient, node: LiveBroker, wire: tidewire.Wire, kind: str, body: bytes
) -> httpx.Response:
    """The answer to who waits for an event whose publisher says that it is of this kind."""
    asked = {"filter": "id = '1'", "format": "cloudevents-binary"}
    coming = asyncio.ensure_future(http.get("/v1/events/next", params=asked))
    while not node.node.core.router.subscribers():
        await asyncio.sleep(0.01)
    await wire.publish(make_event({**CLOUDEVENT, "datacontenttype": kind}, body=body, content_type=kind))
    return await coming


@pytest.mark.parametrize("kind", ["text/html", "text/javascript", "image/svg+xml"])
def test_an_event_is_no_page_of_ours(kind: str) -> None:
    """What a publisher calls a page or a script is handed over, but no browser may run it as if it came from us."""

    async def run() -> None:
        async with served() as (http, (node,)), tidewire.connect(node.address) as wire:
            answer = await _handed_over(http, node, wire, kind, b"<script>")
            assert answer.content == b"<script>"
            policy = answer.headers["content-security-policy"]
            assert "sandbox" in policy
            assert "default-src 'none'" in policy
            assert "script-src" not in policy
            assert answer.headers["content-disposition"] == "attachment"
            page = await http.get("/")
            assert "sandbox" not in page.headers["content-security-policy"]

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["text/plain\r\nx: y", "text/\u4e2d", "a\0b"])
def test_a_content_type_that_no_header_can_carry(kind: str) -> None:
    async def run() -> None:
        async with served() as (http, (node,)), tidewire.connect(node.address) as wire:
            answer = await _handed_over(http, node, wire, kind, b"x")
            assert (answer.status_code, answer.content) == (200, b"x")
            assert answer.headers["content-type"] == "application/octet-stream"
            assert "x" not in answer.headers

    asyncio.run(run())


def test_who_asks_for_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for a request, nor for the rest of a body."""
    monkeypatch.setattr(malformed, "REQUEST_S", 0.05)
    monkeypatch.setattr(reading, "BODY_S", 0.05)
    half = (
        b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    )

    async def run() -> None:
        async with served() as (http, _):
            for begun in (b"", b"GET / HTTP/1.1\r\nHost:", half):
                reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
                writer.write(begun)
                async with asyncio.timeout(WAIT_S):
                    assert (await reader.readline()).split()[1] == b"408"
                writer.close()
            assert (await http.get("/healthz")).status_code == 200

    asyncio.run(run())


def test_a_body_is_taken_as_it_is() -> None:
    async def run() -> None:
        async with served() as (http, _):
            headers = {"content-type": "application/json", "content-encoding": "gzip"}
            answer = await http.post("/v1/events", content=b'{"n": 1}', headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (415, "content-type")

    asyncio.run(run())


def test_as_many_streams_as_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """They count from the moment they are asked for; and no token has them all."""
    monkeypatch.setattr(streams, "STREAMS_MAX", 3)
    monkeypatch.setattr(streams, "STREAMS_EACH_MAX", 2)
    lines = Lines()
    with lines.one("ann"), lines.one("ann"):
        with pytest.raises(LimitReached, match="this token"), lines.one("ann"):
            pass
        with lines.one("bob"), pytest.raises(LimitReached, match="3 streams"), lines.one("cy"):
            pass
    with lines.one("ann"):
        pass

    async def run() -> None:
        async with served() as (http, _):
            asked = [http.get("/v1/events/next", params={"filter": "true", "seconds": "0.5"}) for _ in range(6)]
            statuses = sorted(answer.status_code for answer in await asyncio.gather(*asked))
            assert statuses == [204, 204, 204, 429, 429, 429]

    asyncio.run(run())


@pytest.mark.parametrize("said", [b"bytes", json.dumps({"do": "subscribe", "id": "x" * 300, "filter": "true"})])
def test_a_socket_says_why_it_ends(said: bytes | str) -> None:
    """Bytes are not understood; a name of any length would come back with every event."""

    async def run() -> None:
        async with socket() as (talk, _):
            await talk.connection.send(said)
            if isinstance(said, str):
                assert "length <= 200" in (await talk.says())["error"]["message"]
                return
            with pytest.raises(ConnectionClosed) as ended:
                await talk.says()
            assert ended.value.rcvd is not None
            assert ended.value.rcvd.code == 1003

    asyncio.run(run())


def test_half_a_character_over_a_socket() -> None:
    async def run() -> None:
        async with served() as (http, _):
            where = f"ws://{http.base_url.host}:{http.base_url.port}/v1/socket"
            async with connect(where, proxy=None) as connection, asyncio.timeout(WAIT_S):
                await connection.send('{"do": "subscribe", "id": "\\ud800", "filter": "true"}')
                assert json.loads(await connection.recv())["done"] == "subscribe"

    asyncio.run(run())
