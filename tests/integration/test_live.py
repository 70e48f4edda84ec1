"""Real brokers on loopback: what users do, end to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import tidewire
from tests.integration.network import HEAD_AND_TWO_EDGES, brokers, until
from tidewire.broker.config import BrokerConfig
from tidewire.broker.events import MoveClient
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import Received
from tidewire.live.broker import LiveBroker
from tidewire.model.errors import FilterSyntaxError, Unavailable
from tidewire.model.ids import Conn, Nanoseconds


def test_an_event_reaches_who_wants_it_and_says_how_long_it_took() -> None:
    async def run() -> None:
        async with brokers({}) as (node,), tidewire.connect(node.address) as wire:
            async with wire.subscribe("class = 'QUAKE' and magnitude >= 6") as quakes:
                await wire.publish({"class": "QUAKE", "magnitude": 5.9})
                await wire.publish({"class": "QUAKE", "magnitude": 6.4, "where": {"lat": 38.3}}, body=b"map")
                event = await quakes.get(5)
                assert (event["magnitude"], event["where.lat"], event.body) == (6.4, 38.3, b"map")
                assert 0 <= event.latency < 5
                assert event.subscriptions == (quakes,)
                assert event.event.envelope.sequence == 2

    asyncio.run(run())


def test_clients_are_led_to_where_they_belong() -> None:
    """peer A4: a publisher at an edge goes to its head, a subscriber at a head to an edge."""

    async def run() -> None:
        async with brokers(*HEAD_AND_TWO_EDGES) as (head, edge, _):
            async with tidewire.connect(edge.address) as publisher, tidewire.connect(head.address) as subscriber:
                async with subscriber.subscribe("n > 0") as events:
                    await publisher.publish({"n": 1})
                    assert (await events.get(5))["n"] == 1
                assert publisher.publishing_at == "B0"
                assert subscriber.subscribed_at in ("B1", "B2")

    asyncio.run(run())


def test_roles_follow_from_the_neighbours() -> None:
    """peer A1–A3: with the third broker the middle one becomes a head, and its subscribers move to the edges."""

    async def run() -> None:
        async with brokers({}, {"neighbours": [0]}) as (first, second):
            assert [first.node.core.links.role, second.node.core.links.role] == ["both", "both"]
            async with tidewire.connect(first.address) as wire, wire.subscribe("n >= 0") as events:
                assert wire.subscribed_at == "B0"
                settings = {"broker": "B2", "address": "127.0.0.1:0", "neighbours": [first.address]}
                third = LiveBroker(BrokerConfig(**settings))  # type: ignore[arg-type]
                await third.start()
                try:
                    await until(lambda: wire.subscribed_at in ("B1", "B2"))
                    assert [node.node.core.links.role for node in (first, second, third)] == ["head", "edge", "edge"]
                    await wire.publish({"n": 5})
                    assert (await events.get(5))["n"] == 5
                finally:
                    await third.stop()

    asyncio.run(run())


def test_a_thousand_subscribers_move_under_load_and_miss_nothing() -> None:
    """peer M3–M5a: exactly once and in order, while publishers go on, there and back."""
    subscribers, events_each = 1000, 60

    async def run() -> None:
        async with brokers(*HEAD_AND_TWO_EDGES) as (head, one, other):
            sessions = [tidewire.connect(one.address, name=f"s{at}", timeout=60) for at in range(subscribers)]
            got: list[list[int]] = [[] for _ in range(subscribers)]
            async with tidewire.connect(head.address) as publisher:
                for at, session in enumerate(sessions):
                    await session.__aenter__()
                    await session.subscribe(f"n >= 0 and part = {at % 10}", _into(got[at]))
                hosted = [s.subscribed_at for s in sessions]
                assert set(hosted) == {"B1"}
                clients = one.node.core.clients.using("subscribe")
                publishing = asyncio.create_task(_publish(publisher, events_each))
                for conn in clients:
                    one._tell(MoveClient(conn, "subscribe", other.address))
                    await asyncio.sleep(0)
                await publishing
                await until(lambda: {s.subscribed_at for s in sessions} == {"B2"}, seconds=60)
                await until(lambda: all(len(each) == events_each for each in got), seconds=60)
            assert all(each == sorted(set(each)) for each in got)
            for session in sessions:
                await session.close()

    async def _publish(publisher: tidewire.Wire, count: int) -> None:
        for n in range(count):
            for part in range(10):
                await publisher.publish({"n": n, "part": part})
            await asyncio.sleep(0.02)

    asyncio.run(run())


def _into(numbers: list[int]) -> Callable[[tidewire.Notification], None]:
    return lambda event: numbers.append(event["n"])


def test_a_publisher_moves_and_its_events_keep_their_order() -> None:
    async def run() -> None:
        async with brokers({}, {"neighbours": [0]}) as (one, other):
            async with tidewire.connect(one.address) as publisher, tidewire.connect(other.address) as subscriber:
                got: list[int] = []
                await subscriber.subscribe("n >= 0", lambda e: got.append(e["n"]))
                for n in range(3000):
                    await publisher.publish({"n": n})
                    if n in (500, 1500, 2500):
                        here = one if publisher.publishing_at == "B0" else other
                        there = other if here is one else one
                        conn = here.node.core.clients.using("publish")[0]
                        here._tell(MoveClient(conn, "publish", there.address))
                    if n % 50 == 0:
                        await asyncio.sleep(0.002)
                await until(lambda: len(got) == 3000)
                assert got == list(range(3000))
                assert [note.what for note in publisher.notices] == ["moved"] * 3

    asyncio.run(run())


def test_a_filter_is_changed_in_place() -> None:
    """No event that matches both is missed or comes twice, while events flow."""

    async def run() -> None:
        async with brokers(*HEAD_AND_TWO_EDGES) as (head, edge, _):
            async with tidewire.connect(head.address) as publisher, tidewire.connect(edge.address) as subscriber:
                events = await subscriber.subscribe("n >= 0 and side = 'left'")

                async def flow() -> None:
                    for n in range(2000):
                        await publisher.publish({"n": n, "side": "left"})
                        if n % 20 == 0:
                            await asyncio.sleep(0.001)

                flowing = asyncio.create_task(flow())
                for _ in range(10):
                    await events.change("n >= 0 and side like 'l%'")
                    await events.change("n >= 0 and side = 'left'")
                await flowing
                assert [(await events.get(5))["n"] for _ in range(2000)] == list(range(2000))

    asyncio.run(run())


def test_a_session_outlives_its_broker() -> None:
    """After a restart the client reconnects, subscribes again, and goes on."""

    async def run() -> None:
        async with brokers({}) as (first,):
            async with tidewire.connect(first.address) as wire, wire.subscribe("n >= 0") as events:
                await wire.publish({"n": 1})
                assert (await events.get(5))["n"] == 1
                await first.stop()
                second = LiveBroker(first.config)
                await second.start()
                try:
                    await until(lambda: second.node.core.clients.using("subscribe"))
                    await wire.publish({"n": 2})
                    assert (await events.get(5))["n"] == 2
                    assert "connection lost" in [note.what for note in wire.notices]
                finally:
                    await second.stop()

    asyncio.run(run())


def test_an_event_outside_of_what_was_advertised_is_refused() -> None:
    async def run() -> None:
        async with brokers({}) as (node,), tidewire.connect(node.address) as wire:
            events = await wire.subscribe("n >= 0")
            await wire.advertise("n > 10")
            await wire.publish({"n": 5})
            await wire.publish({"n": 11, "not named": True})
            await wire.publish({"n": 15})
            assert (await events.get(5))["n"] == 15
            assert sum(int(note.facts["events"]) for note in wire.notices) == 2

    asyncio.run(run())


def test_nobody_there_is_told_soon() -> None:
    async def run() -> None:
        with pytest.raises(Unavailable, match=r"no broker could be reached at 127\.0\.0\.1:1 "):
            async with tidewire.connect("127.0.0.1:1", timeout=0.3):
                pass

    asyncio.run(run())


def test_a_bad_filter_never_leaves_the_client() -> None:
    async def run() -> None:
        async with brokers({}) as (node,), tidewire.connect(node.address) as wire:
            with pytest.raises(FilterSyntaxError):
                await wire.subscribe("n >")

    asyncio.run(run())


def test_the_blocking_twin() -> None:
    async def run() -> None:
        async with brokers({}) as (node,):
            await asyncio.get_running_loop().run_in_executor(None, _blocking, node.address)

    asyncio.run(run())


def _blocking(address: str) -> None:
    with tidewire.sync.connect(address) as wire, wire.subscribe("n >= 0") as events:
        wire.publish_many({"n": n} for n in range(1000))
        wire.flush()
        assert [events.get(5)["n"] for _ in range(1000)] == list(range(1000))
        events.change("n < 0")
        wire.publish({"n": 7})
        wire.publish({"n": -7})
        assert events.get(5)["n"] == -7
        with pytest.raises(TimeoutError):
            events.get(0.05)


class Hasty(KernelEngine):
    """Says of everyone whose events were read that it is blocked, and that it no longer is, before anyone could act."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._freed: list[Conn] = []
        self.times = 0

    def pump(self, conn: Conn, *, now_ns: Nanoseconds) -> Received | None:
        received = super().pump(conn, now_ns=now_ns)
        if received is not None or self.work().events <= self.times:
            return received
        self.times = self.work().events
        self._freed.append(conn)
        return Received("blocked")

    def unblocked(self) -> list[Conn]:
        freed, self._freed = self._freed, []
        return super().unblocked() + freed


def test_a_publisher_that_is_blocked_and_goes_on_in_one_turn_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.live.broker.KernelEngine", Hasty)

    async def run() -> None:
        async with brokers({}) as (node,), tidewire.connect(node.address) as wire, wire.subscribe("n >= 0") as events:
            for n in range(3):
                await wire.publish({"n": n})
                assert (await events.get(5))["n"] == n
            assert isinstance(node.engine, Hasty)
            assert node.engine.times == 3

    asyncio.run(run())
