"""What is no HTTP request, and no WebSocket's handshake, is told so in the shape of every other error, and ends."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from tests.console.serving import WAIT_S, served

HOST = "Host: 127.0.0.1"
UPGRADE = (HOST, "Upgrade: websocket", "Connection: Upgrade")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
VERSION = "Sec-WebSocket-Version: 13"
CHUNKED = ("Content-Type: application/json", "Transfer-Encoding: chunked")


def _lines(*lines: str, then: str = "") -> bytes:
    return "\r\n".join([*lines, "", then]).encode("latin-1")


REFUSED = {
    "no HTTP": (400, "no HTTP request", _lines("garbage")),
    "a line that is no header": (400, "no HTTP request", _lines("GET / HTTP/1.1", HOST, "a b c")),
    "no host": (400, "no HTTP request", _lines("GET /healthz HTTP/1.1")),
    "two lengths": (
        400,
        "no HTTP request",
        _lines("POST /v1/events HTTP/1.1", HOST, "Content-Length: 1", "Content-Length: 2"),
    ),
    "no chunk": (400, "no HTTP request", _lines("POST /v1/events HTTP/1.1", HOST, *CHUNKED, then="zz\r\n")),
    "a host that is none": (400, "the header Host cannot be", _lines("GET /healthz HTTP/1.1", "Host: 1]")),
    "an origin that is none": (403, "may not use this console", _lines("GET / HTTP/1.1", HOST, "Origin: http://1]")),
    "no key": (400, "missing Sec-WebSocket-Key", _lines("GET /v1/socket HTTP/1.1", *UPGRADE, VERSION)),
    "a key that is none": (
        400,
        "invalid Sec-WebSocket-Key",
        _lines("GET /v1/socket HTTP/1.1", *UPGRADE, VERSION, "Sec-WebSocket-Key: x"),
    ),
    "another version": (
        426,
        "version 13",
        _lines("GET /v1/socket HTTP/1.1", *UPGRADE, KEY, "Sec-WebSocket-Version: 12"),
    ),
    "another method": (405, "with GET, not POST", _lines("POST /v1/socket HTTP/1.1", *UPGRADE, VERSION, KEY)),
    "too many headers": (
        400,
        "no more than 128 headers",
        _lines("GET /v1/socket HTTP/1.1", *UPGRADE, VERSION, KEY, *(f"x{at}: y" for at in range(200))),
    ),
    "a handshake with a body": (
        400,
        "no WebSocket can come of this",
        _lines("GET /v1/socket HTTP/1.1", *UPGRADE, VERSION, KEY, "Content-Length: 2", then="ab"),
    ),
}


async def _said(host: str, port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer, after which the door has closed the connection or goes on."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    async with asyncio.timeout(WAIT_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = dict(line.lower().split(": ", 1) for line in head[1:-1])
        body = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            assert await reader.read() == b""
    writer.close()
    return int(head[0].split()[1]), headers, body


def _complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the door says in its log that would have to trouble somebody."""
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(("status", "says", "request_"), REFUSED.values(), ids=REFUSED)
def test_it_is_told_and_ends(status: int, says: str, request_: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with served() as (http, _):
            assert http.base_url.port is not None
            got, headers, body = await _said(http.base_url.host, http.base_url.port, request_)
            error = json.loads(body)["error"]
            assert (got, says in error["message"]) == (status, True), body
            assert headers["content-type"] == "application/json"
            assert headers["x-content-type-options"] == "nosniff"
            if status == 426:
                assert headers["sec-websocket-version"] == "13"
            assert (await http.get("/healthz")).status_code == 200

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert [
        one.message for one in caplog.records if one.name.startswith("uvicorn") and one.levelno > logging.INFO
    ] == []


def test_what_goes_wrong_when_the_answer_is_on_its_way_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    """A stream has begun; its request goes on with what cannot be: there is nothing left to say."""

    async def run() -> None:
        async with served() as (http, _):
            reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
            writer.write(_lines("GET /v1/events?filter=true HTTP/1.1", HOST, *CHUNKED))
            async with asyncio.timeout(WAIT_S):
                await reader.readuntil(b"event: subscribed")
                writer.write(b"zz\r\n")
                assert b"400" not in await reader.read()
            writer.close()

    asyncio.run(run())
    assert _complaints(caplog) == []
