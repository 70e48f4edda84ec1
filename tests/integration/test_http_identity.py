"""The front door in front of secured brokers: it has no rights of its own, each request those of its token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tests.console.serving import WAIT_S, Frames, door
from tests.integration.secured import Installation
from tidewire.console.door import Door
from tidewire.console.network import Network
from tidewire.identity.grants import EVERYTHING, Grant
from tidewire.live.tokens import revoke_tokens

NORTH = "region = 'north'"


class Secured:
    """A door to a secured broker, and tokens for it."""

    def __init__(self, here: Installation, url: str) -> None:
        self._here = here
        self.url = url

    def token(self, name: str, grant: Grant) -> str:
        """For somebody who may do this."""
        shown = self._here.token(grant, name=name).token
        assert shown is not None
        return shown

    def client(self, token: str | None) -> httpx.AsyncClient:
        """Who shows this."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=WAIT_S, trust_env=False)


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[Secured]:
    """One broker, with its keys in this folder, and a door."""
    here = Installation(folder)
    async with here.brokers({}) as (node,):
        network = Network(brokers=(f"tidewires://{node.address}",), authority=folder / "authority.pem")
        async with door(network) as live:
            yield Secured(here, live.url)


PATHS = [(path, method) for path, handlers in Door(Network()).routes().items() for method in handlers]
OPEN = {"/", "/healthz", "/v1/openapi.json"}
BODIES = {"/v1/explain": {"filter": "n = 1"}, "/v1/sample": {"filter": "true"}, "/v1/events": {"n": 1}}


@pytest.mark.parametrize(("path", "method"), [*PATHS, ("/v1/socket", "GET"), ("/static/app.js", "GET")])
def test_nobody_comes_in_without_a_token(tmp_path: Path, path: str, method: str) -> None:
    """But for what says the same to everybody. Nor is it said what is wrong with a request of somebody unknown."""

    async def run() -> None:
        async with secured(tmp_path) as there:
            body = BODIES.get(path, {}) if method == "POST" else None
            for token in (None, "not.a.token"):
                async with there.client(token) as http:
                    asked = [
                        await http.request(method, path, json=body),
                        await http.request(method, f"{path}?wrong=1", content=b"{"),
                    ]
                    if method == "GET":
                        asked.append(await http.head(path))
                    for got in asked:
                        if path in OPEN or path.startswith("/static/"):
                            assert got.status_code in (200, 400), got.text
                        else:
                            assert got.status_code == 401, (got.request.method, got.url, got.text)
                            assert "www-authenticate" in got.headers
                            assert got.request.method == "HEAD" or got.json()["error"]["code"] == "not-authenticated"

    asyncio.run(run())


def test_whoever_is_known_may_ask_what_a_filter_means(tmp_path: Path) -> None:
    """Whatever else it may do."""

    async def run() -> None:
        async with secured(tmp_path) as there, there.client(there.token("eve", Grant(publish="n = 1"))) as http:
            got = await http.post("/v1/explain", json={"filter": "n = 1"})
            assert (got.status_code, got.json()["normalForm"]) == (200, "n = 1")
            wrong = await http.post("/v1/explain", json={"filter": "n ="})
            assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "filter-syntax")

    asyncio.run(run())


def test_each_may_do_what_its_token_says(tmp_path: Path) -> None:
    """A publisher's events are refused one by one; a subscriber sees only what it may."""

    async def run() -> None:
        async with secured(tmp_path) as there:
            ann = there.client(there.token("ann", Grant(subscribe=NORTH)))
            bob = there.client(there.token("bob", Grant(publish="n < 10", advertise="*")))
            async with ann, bob, ann.stream("GET", "/v1/events?filter=true") as response:
                frames = Frames(response)
                await frames.next("subscribed")
                events = [{"n": 1, "region": "north"}, {"n": 50, "region": "north"}, {"n": 2, "region": "south"}]
                done = (await bob.post("/v1/events", json=[*events, {"n": 3, "region": "north"}])).json()
                assert (done["accepted"], [(one["index"], one["code"]) for one in done["refused"]]) == (
                    3,
                    [(1, "not-permitted")],
                )
                seen = [json.loads(await frames.next("event"))["attributes"]["n"] for _ in range(2)]
                assert seen == [1, 3]
                for refused in (
                    await bob.get("/v1/events?filter=true"),
                    await ann.post("/v1/events", json={"n": 1}),
                    await bob.post("/v1/events", json={"n": 99}),
                    await ann.get("/v1/overlay"),
                ):
                    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not-permitted"), (
                        refused.text
                    )

    asyncio.run(run())


def test_who_may_do_everything(tmp_path: Path) -> None:
    async def run() -> None:
        async with secured(tmp_path) as there, there.client(there.token("admin", EVERYTHING)) as http:
            assert (await http.post("/v1/events", json={"n": 1})).status_code == 202
            look = (await http.get("/v1/overlay")).json()
            assert [one["isReachable"] for one in look["brokers"]] == [True]

    asyncio.run(run())


def test_a_token_that_is_revoked(tmp_path: Path) -> None:
    """Streams of it end with the reason, and the session that was kept for it is of no use any more."""

    async def run() -> None:
        async with secured(tmp_path) as there, there.client(there.token("eve", EVERYTHING)) as http:
            assert (await http.post("/v1/events", json={"n": 1})).status_code == 202
            async with http.stream("GET", "/v1/events?filter=true") as response:
                frames = Frames(response)
                await frames.next("subscribed")
                revoke_tokens(tmp_path, ["eve"])
                assert json.loads(await frames.next("error"))["code"] == "not-authenticated"
            refused = await http.post("/v1/events", json={"n": 1})
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "not-authenticated")

    asyncio.run(run())


def test_a_socket_whose_token_is_revoked(tmp_path: Path) -> None:
    """It is told why, and ended, though it asks for nothing."""

    async def run() -> None:
        async with secured(tmp_path) as there:
            where = there.url.replace("http", "ws") + "/v1/socket"
            shown = [Subprotocol("tidewire.v1"), Subprotocol("bearer." + there.token("eve", EVERYTHING))]
            async with connect(where, proxy=None, subprotocols=shown) as one, asyncio.timeout(WAIT_S):
                await one.send('{"do": "subscribe", "id": "a", "filter": "true"}')
                assert json.loads(await one.recv())["done"] == "subscribe"
                await one.send('{"do": "unsubscribe", "id": "a"}')
                assert json.loads(await one.recv())["done"] == "unsubscribe"
                revoke_tokens(tmp_path, ["eve"])
                said = []

                async def hear() -> None:
                    while True:
                        said.append(json.loads(await one.recv()))

                with pytest.raises(ConnectionClosed):
                    await hear()
            assert said[-1]["error"]["code"] == "not-authenticated"
            assert one.close_code == 1008

    asyncio.run(run())


def test_a_token_for_the_socket(tmp_path: Path) -> None:
    """Browsers cannot set headers there: it comes beside the subprotocol."""

    async def run() -> None:
        async with secured(tmp_path) as there:
            where = there.url.replace("http", "ws") + "/v1/socket"
            with pytest.raises(InvalidStatus) as refused:
                await connect(where, proxy=None)
            assert refused.value.response.status_code == 401
            shown = [Subprotocol("tidewire.v1"), Subprotocol("bearer." + there.token("ann", Grant(subscribe=NORTH)))]
            async with connect(where, proxy=None, subprotocols=shown) as one, asyncio.timeout(WAIT_S):
                assert one.subprotocol == "tidewire.v1"
                await one.send('{"do": "subscribe", "id": "a", "filter": "true"}')
                assert json.loads(await one.recv()) == {"done": "subscribe", "id": "a"}
                await one.send('{"do": "publish", "event": {"n": 1}}')
                assert json.loads(await one.recv())["error"]["code"] == "not-permitted"

    asyncio.run(run())
