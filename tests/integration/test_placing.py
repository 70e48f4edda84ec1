"""A coordinator that balances, with real brokers and real time; and what it is asked over HTTP (bad §1.2, §4.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

import tidewire
from tests.console.serving import WAIT_S, door
from tests.integration.network import brokers, until
from tidewire.broker.config import BrokerConfig
from tidewire.console.network import Network
from tidewire.coordinator.config import Decides
from tidewire.live.broker import LiveBroker
from tidewire.live.coordinator import LiveCoordinator
from tidewire.live.survey import Surveyor
from tidewire.model.ids import BrokerId
from tidewire.model.messages import DeclaredRole

CLIENTS = 6
FAST = {"migrate_load_min": 1, "cycle_s": 0.2, "average_s": 0.4}


@asynccontextmanager
async def added(office: LiveCoordinator, name: str, role: DeclaredRole) -> AsyncIterator[LiveBroker]:
    """One more broker; the coordinator names its neighbours."""
    config = BrokerConfig(
        broker=BrokerId(name), address="127.0.0.1:0", role=role, coordinator=office.address, load_every_s=0.05
    )
    node = LiveBroker(config)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


def test_subscribers_move_and_every_event_comes_once(tmp_path: Path) -> None:
    """bad §4.5: all begin at one edge; when there is another one some go there, and nobody misses anything."""

    async def run() -> None:
        decides = msgspec.convert({"balancing": "ldm", "balance": FAST}, Decides)
        office = LiveCoordinator("127.0.0.1:0", store=tmp_path / "members.json", decides=decides)
        await office.start()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(office.stop)
            head = await stack.enter_async_context(added(office, "head", "head"))
            first = await stack.enter_async_context(added(office, "first", "edge"))
            await until(lambda: len(head.node.core.links.up()) == 1)
            got: list[list[int]] = [[] for _ in range(CLIENTS)]
            for number in range(CLIENTS):
                wire = await stack.enter_async_context(tidewire.connect(head.address, name=f"client{number}"))
                events = await stack.enter_async_context(wire.subscribe("n >= 0"))
                reader = asyncio.create_task(_read(events, got[number]))
                stack.callback(reader.cancel)
            assert len(first.node.core.clients.using("subscribe")) == CLIENTS
            second = await stack.enter_async_context(added(office, "second", "edge"))
            publisher = await stack.enter_async_context(tidewire.connect(head.address))
            sent = 0
            async with asyncio.timeout(60):
                while len(second.node.core.clients.using("subscribe")) < 2 or office.core.balancing.view().is_moving:
                    await publisher.publish({"n": sent})
                    sent += 1
                    await asyncio.sleep(0.002)
            for _ in range(100):
                await publisher.publish({"n": sent})
                sent += 1
            await until(lambda: all(len(one) == sent for one in got))
            assert all(one == list(range(sent)) for one in got)
            assert office.core.balancing.view().moved >= 2

    asyncio.run(run())


async def _read(events: Any, into: list[int]) -> None:
    while True:
        into.append((await events.get())["n"])


def test_the_calls_of_the_coordinator_over_http(tmp_path: Path) -> None:
    """bad §1.2: registeruser and requestbroker by their names; who is known survives a restart."""

    async def run() -> None:
        decides = msgspec.convert({"balancing": "sticky", "balance": FAST}, Decides)
        store = tmp_path / "members.json"
        office = LiveCoordinator("127.0.0.1:0", store=store, decides=decides)
        await office.start()
        async with (
            added(office, "head", "head") as head,
            added(office, "edge", "edge") as edge,
            door(Network(brokers=(head.address,), coordinator=office.address)) as live,
            httpx.AsyncClient(base_url=live.url, timeout=WAIT_S, trust_env=False) as client,
        ):
            await until(lambda: len(head.node.core.links.up()) == 1)
            unknown = await client.post("/v1/requestbroker", json={"user": "ann"})
            assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "user-unknown")
            registered = await client.post("/v1/registeruser", json={"user": "ann"})
            assert (registered.status_code, registered.json()) == (200, {"user": "ann"})
            await office.stop()
            office = LiveCoordinator(office.address, store=store, decides=decides)
            await office.start()
            await until(lambda: sum(one.is_alive for one in office.core.members()) == 2)
            found = await client.post("/v1/requestbroker", json={"user": "ann", "location": {"lat": 60, "lon": 24}})
            assert found.json() == {"user": "ann", "broker": "edge", "address": edge.address}
            await until(lambda: len(office.core.balancing.view().brokers) == 2)
            spread = (await client.get("/v1/balance")).json()
            assert (spread["policy"], spread["placement"], spread["cov"]) == ("sticky", "round-robin", 0.0)
            assert {one["broker"]: one["isOpen"] for one in spread["brokers"]} == {"head": False, "edge": True}
            seen = await Surveyor([head.address]).look()
            assert [one.balance.policy for one in seen.coordinators if one.balance is not None] == ["sticky"]
        await office.stop()

    asyncio.run(run())


def test_a_console_without_a_coordinator_says_so() -> None:
    async def run() -> None:
        async with brokers({}) as [node], door(Network(brokers=(node.address,))) as live:
            async with httpx.AsyncClient(base_url=live.url, timeout=WAIT_S, trust_env=False) as client:
                answer = await client.get("/v1/balance")
        assert answer.status_code == 503
        assert "--coordinator" in answer.json()["error"]["message"]

    asyncio.run(run())
