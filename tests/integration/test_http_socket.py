"""The WebSocket of the front door: many subscriptions, publishing, and who is not let in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jsonschema_rs
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from tests.console.serving import WAIT_S, served
from tests.integration.network import until
from tidewire.console.openapi import openapi
from tidewire.live.broker import LiveBroker


def _side(name: str) -> jsonschema_rs.Validator:
    """What the OpenAPI document says of one side."""
    document = json.loads(openapi())
    messages = document["paths"]["/v1/socket"]["get"]["x-websocket"]
    return jsonschema_rs.validator_for({**messages[name], "components": document["components"]})


SAID, HEARD = _side("youSay"), _side("youHear")


class Socket:
    """A client of the WebSocket. Whatever it hears, and says with success, is in the OpenAPI document."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def says(self) -> dict[str, Any]:
        """The next message."""
        async with asyncio.timeout(WAIT_S):
            found: dict[str, Any] = json.loads(await self.connection.recv())
            HEARD.validate(found)
            return found

    async def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a request, when nothing else is on its way."""
        await self.connection.send(json.dumps(request))
        answer = await self.says()
        assert "error" in answer or SAID.is_valid(request), request
        return answer


@asynccontextmanager
async def socket() -> AsyncIterator[tuple[Socket, LiveBroker]]:
    """A client, and the broker behind."""
    async with served() as (http, (node,)):
        where = f"ws://{http.base_url.host}:{http.base_url.port}/v1/socket"
        async with connect(where, proxy=None, max_size=None) as connection:
            yield Socket(connection), node


def test_subscribe_change_unsubscribe_and_publish() -> None:
    async def run() -> None:
        async with socket() as (one, node):
            assert await one.ask(do="subscribe", id="a", filter="n > 5") == {"done": "subscribe", "id": "a"}
            assert await one.ask(do="subscribe", id="b", filter="n > 6", format="json") == {
                "done": "subscribe",
                "id": "b",
            }
            await one.connection.send(json.dumps({"do": "publish", "id": 1, "event": {"n": 7}}))
            assert (await one.says())["error"]["code"] == "usage"  # an id is text
            await one.connection.send(json.dumps({"do": "publish", "id": "p", "events": [{"n": 6}, {"n": 7}, 8]}))
            said = [await one.says() for _ in range(3)]
            done = next(document for document in said if "done" in document)
            assert (done["done"], done["id"], done["accepted"], done["refused"][0]["index"]) == ("publish", "p", 2, 2)
            events = [document for document in said if "event" in document]
            assert [(document["event"], document["ids"]) for document in events] == [
                ({"attributes": {"n": 6}}, ["a"]),
                ({"attributes": {"n": 7}}, ["a", "b"]),
            ]
            assert await one.ask(do="change", id="a", filter="n > 100") == {"done": "change", "id": "a"}
            assert await one.ask(do="unsubscribe", id="b") == {"done": "unsubscribe", "id": "b"}
            assert (await one.ask(do="publish", event={"n": 7}))["accepted"] == 1
            again = await one.ask(do="subscribe", id="b", filter="n = 1")
            assert again == {"done": "subscribe", "id": "b"}
        await until(lambda: len(node.node.core.clients) == 0)

    asyncio.run(run())


def test_cloudevents_over_the_socket() -> None:
    async def run() -> None:
        async with socket() as (one, _):
            await one.ask(do="subscribe", id="a", filter="data.n > 0", format="cloudevents")
            await one.ask(do="subscribe", id="b", filter="data.n > 0")
            sent = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"n": 1}}
            await one.connection.send(json.dumps({"do": "publish", "event": sent, "format": "cloudevents"}))
            said = [await one.says() for _ in range(3)]
            told = {document["ids"][0]: document["event"] for document in said if "ids" in document}
            assert told["a"] == sent
            assert told["b"]["attributes"]["data.n"] == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "usage"),
        ("[]", "usage"),
        ('{"do": "dance"}', "usage"),
        ('{"do": "subscribe", "id": "a"}', "usage"),
        ('{"do": "subscribe", "id": "a", "filter": "n >"}', "filter-syntax"),
        ('{"do": "subscribe", "id": "a", "filter": "n = 1", "more": 1}', "usage"),
        ('{"do": "change", "id": "x", "filter": "n = 1"}', "subscription-unknown"),
        ('{"do": "unsubscribe", "id": "x"}', "subscription-unknown"),
        ('{"do": "subscribe", "id": "taken", "filter": "n = 1"}', "subscription-duplicate"),
        ('{"do": "publish"}', "usage"),
        ('{"do": "publish", "event": {"n": 1}, "events": []}', "usage"),
        ('{"do": "publish", "event": {"n": [1]}}', "value-type"),
        ('{"do": "publish", "event": {"n": 1, "n": 2}}', "usage"),
    ],
)
def test_requests_that_cannot_be(message: str, code: str) -> None:
    """They are answered, and the socket goes on."""

    async def run() -> None:
        async with socket() as (one, _):
            await one.ask(do="subscribe", id="taken", filter="n = 99")
            await one.connection.send(message)
            assert (await one.says())["error"]["code"] == code
            assert (await one.ask(do="unsubscribe", id="taken"))["done"] == "unsubscribe"

    asyncio.run(run())


def test_a_thousand_subscriptions_and_no_more() -> None:
    async def run() -> None:
        async with socket() as (one, _):
            for n in range(1000):
                await one.connection.send(json.dumps({"do": "subscribe", "id": str(n), "filter": f"n = {n}"}))
            assert [await one.says() for _ in range(1000)] == [{"done": "subscribe", "id": str(n)} for n in range(1000)]
            assert (await one.ask(do="subscribe", id="more", filter="n = 0"))["error"]["code"] == "limit"

    asyncio.run(run())


def test_messages_that_are_too_large_end_it() -> None:
    async def run() -> None:
        async with socket() as (one, node):
            await one.connection.send('{"do": "publish", "event": {"a": "' + "x" * (2 << 20) + '"}}')
            with pytest.raises(ConnectionClosed) as ended:
                await one.says()
            assert ended.value.rcvd is not None
            assert ended.value.rcvd.code == 1009
        await until(lambda: len(node.node.core.clients) == 0)

    asyncio.run(run())


def test_who_is_not_let_in() -> None:
    """A page of another site; the token in a subprotocol is taken as one."""

    async def run() -> None:
        async with served() as (http, _):
            where = f"ws://{http.base_url.host}:{http.base_url.port}/v1/socket"
            with pytest.raises(InvalidStatus) as refused:
                await connect(where, proxy=None, origin=Origin("https://evil.example"))
            assert refused.value.response.status_code == 403
            assert json.loads(refused.value.response.body)["error"]["code"] == "origin"
            with pytest.raises(InvalidStatus) as unknown:
                await connect(where, proxy=None, additional_headers={"Authorization": "Basic eDp5"})
            assert unknown.value.response.status_code == 401
            async with connect(where, proxy=None, subprotocols=[Subprotocol("tidewire.v1")]) as connection:
                assert connection.subprotocol == "tidewire.v1"

    asyncio.run(run())


def test_a_reader_that_does_not_read() -> None:
    """Others go on; what waits for it has a bound, and it is let go when it leaves."""

    async def run() -> None:
        async with served() as (http, (node,)):
            where = f"ws://{http.base_url.host}:{http.base_url.port}/v1/socket"
            async with connect(where, proxy=None, max_queue=1) as stuck, connect(where, proxy=None) as other:
                for connection in (stuck, other):
                    await connection.send(json.dumps({"do": "subscribe", "id": "a", "filter": "true"}))
                    await connection.recv()
                events = [{"n": n, "text": "x" * 1000} for n in range(1500)]
                for _ in range(10):
                    assert (await http.post("/v1/events", json=events)).json()["accepted"] == 1500
                async with asyncio.timeout(WAIT_S):
                    for _ in range(15_000):
                        assert "event" in json.loads(await other.recv())
                stuck.transport.abort()
            await until(lambda: len(node.node.core.clients) == 1)  # the publisher's

    asyncio.run(run())
