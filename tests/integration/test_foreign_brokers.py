"""Brokers that do not speak the wire, and a live coordinator that they call over HTTP (bad §1.2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.console.serving import WAIT_S, door
from tests.integration.secured import Installation
from tidewire.console.network import Network
from tidewire.coordinator.config import Decides
from tidewire.identity.grants import Grant
from tidewire.live.coordinator import LiveCoordinator
from tidewire.live.credentials import Credentials

FAST = {"migrate_load_min": 1, "cycle_s": 10, "average_s": 10}
B1 = {"broker": "b1", "address": "http://127.0.0.1:8001"}
B2 = {"broker": "b2", "address": "http://127.0.0.1:8002"}


@asynccontextmanager
async def office(store: Path, **decides: Any) -> AsyncIterator[tuple[httpx.AsyncClient, LiveCoordinator]]:
    """A coordinator without a broker of ours, with a door in front of it."""
    live = LiveCoordinator("127.0.0.1:0", store=store, decides=msgspec.convert({"balance": FAST, **decides}, Decides))
    await live.start()
    try:
        async with (
            door(Network(coordinator=live.address)) as front,
            httpx.AsyncClient(base_url=front.url, timeout=WAIT_S, trust_env=False) as client,
        ):
            yield client, live
    finally:
        await live.stop()


def wants(crowd: dict[str, list[str]]) -> dict[str, Any]:
    """By subscription, as it is reported: each has got 10,000 bytes."""
    names = dict.fromkeys(name for wanted in crowd.values() for name in wanted)
    return {
        name: {"bytes": 10_000, "subscribers": [user for user, wanted in crowd.items() if name in wanted]}
        for name in names
    }


def test_the_whole_story_over_http(tmp_path: Path) -> None:
    """Two brokers register, users are sent there, loads are reported, and who is to move is in the answer."""
    crowd = {"ann": ["quakes", "fires"], "bob": ["quakes"], "cid": ["floods"], "dan": ["floods", "storms"]}

    async def run() -> None:
        async with office(tmp_path / "members.json", balancing="ldm") as (client, _):
            for broker in (B1, B2):
                registered = await client.post("/v1/registerbroker", json=broker)
                assert registered.json() == {"broker": broker["broker"], "reportEveryS": 10.0, "goneAfterS": 30.0}
            await client.post("/v1/registeruser", json={"user": "ann"})
            found = [(await client.post("/v1/requestbroker", json={"user": "ann"})).json() for _ in range(2)]
            assert found == [{"user": "ann", **B1}, {"user": "ann", **B2}]
            report = {"broker": "b1", "seconds": 10, "subscriptions": wants(crowd)}
            assert (await client.post("/v1/reportload", json=report)).json()["moves"] == []
            idle = {"broker": "b2", "seconds": 10, "subscriptions": {}}
            assert (await client.post("/v1/reportload", json=idle)).json()["moves"] == []
            moves = (await client.post("/v1/reportload", json=report)).json()["moves"]
            assert moves
            assert {(one["broker"], one["address"]) for one in moves} == {("b2", B2["address"])}
            assert {one["user"] for one in moves} < set(crowd)
            spread = (await client.get("/v1/balance")).json()
            loads = {one["broker"]: (one["loadBytesS"], one["subscribers"]) for one in spread["brokers"]}
            assert loads == {"b1": (10_000.0, 4), "b2": (0.0, 0)}
            assert (spread["isMoving"], spread["plans"]) == (True, 1)

    asyncio.run(run())


def test_they_are_known_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        async with office(tmp_path / "members.json") as (client, _):
            await client.post("/v1/registerbroker", json=B1)
            await client.post("/v1/registeruser", json={"user": "ann"})
        async with office(tmp_path / "members.json") as (client, _):
            found = await client.post("/v1/requestbroker", json={"user": "ann"})
            assert found.json() == {"user": "ann", **B1}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("registerbroker", {"broker": "b1"}, 400, "usage"),
        ("registerbroker", {"broker": "b1", "address": "somewhere"}, 400, "usage"),
        ("registerbroker", {"broker": "b\n", "address": "http://b.example"}, 400, "usage"),
        ("registerbroker", {**B1, "location": {"lat": 91, "lon": 0}}, 400, "usage"),
        ("registerbroker", {**B1, "role": "edge"}, 400, "usage"),
        ("registerbroker", {**B1, "address": "http://elsewhere.example"}, 409, "same-name"),
        ("reportload", {"broker": "b2", "seconds": 10, "subscriptions": {}}, 404, "broker-unknown"),
        ("reportload", {"broker": "b1", "seconds": 0, "subscriptions": {}}, 400, "usage"),
        ("reportload", {"broker": "b1", "seconds": 1, "subscriptions": {"a": {"bytes": -1}}}, 400, "usage"),
        ("registeruser", {"user": "\ud800"}, 400, "usage"),
        (
            "reportload",
            {"broker": "b1", "seconds": 1, "subscriptions": {"\ud800": {"bytes": 1, "subscribers": []}}},
            400,
            "usage",
        ),
    ],
)
def test_what_cannot_be_is_refused(path: str, body: dict[str, Any], status: int, code: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with office(tmp_path / "members.json") as (client, _):
            await client.post("/v1/registerbroker", json=B1)
            asked = msgspec.json.encode(body) if "\\ud800" not in repr(body) else _escaped(body)
            refused = await client.post(f"/v1/{path}", content=asked, headers={"Content-Type": "application/json"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (status, code), refused.text
            assert refused.json()["error"]["message"]

    asyncio.run(run())


def _escaped(body: dict[str, Any]) -> bytes:
    import json

    return json.dumps(body).encode()


def test_a_report_that_does_not_fit_on_the_way_is_refused(tmp_path: Path) -> None:
    users = [f"u{n}" for n in range(200_000)]
    report = {"broker": "b1", "seconds": 10, "subscriptions": {"all": {"bytes": 1, "subscribers": users}}}

    async def run() -> None:
        async with office(tmp_path / "members.json") as (client, _):
            await client.post("/v1/registerbroker", json=B1)
            refused = await client.post("/v1/reportload", json=report)
            assert (refused.status_code, refused.json()["error"]["code"]) == (413, "body-too-large")

    asyncio.run(run())


def test_where_it_is_secured_only_operators_register_brokers(tmp_path: Path) -> None:
    keys = Installation(tmp_path)
    shown = {
        "operator": keys.token(Grant(operate=True)),
        "observer": keys.token(Grant(observe=True, subscribe="*")),
        "stranger": keys.show("nonsense"),
    }

    async def run() -> None:
        live = LiveCoordinator("127.0.0.1:0", security=keys.folder)
        await live.start()
        network = Network(coordinator=f"tidewires://{live.address}", authority=keys.folder / "authority.pem")
        try:
            async with (
                door(network) as front,
                httpx.AsyncClient(base_url=front.url, timeout=WAIT_S, trust_env=False) as client,
            ):
                report = {"broker": "b1", "seconds": 10, "subscriptions": {}}

                async def calls(who: Credentials) -> list[int]:
                    headers = {"Authorization": f"Bearer {who.token}"}
                    asked = [("registerbroker", B1), ("reportload", report)]
                    got = [await client.post(f"/v1/{path}", json=body, headers=headers) for path, body in asked]
                    return [one.status_code for one in got]

                assert await calls(shown["observer"]) == [403, 403]
                assert await calls(shown["stranger"]) == [401, 401]
                assert await calls(shown["operator"]) == [200, 200]
        finally:
            await live.stop()

    asyncio.run(run())
