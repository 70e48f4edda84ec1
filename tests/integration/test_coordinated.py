"""Sessions that ask a live coordinator which broker to use (bad §1.1 step 3, §3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tidewire
from tests.integration.network import until
from tests.integration.secured import Installation
from tidewire.broker.config import BrokerConfig
from tidewire.coordinator.config import Decides
from tidewire.identity.grants import Grant
from tidewire.live.broker import LiveBroker
from tidewire.live.coordinator import LiveCoordinator
from tidewire.live.notification import Notification
from tidewire.live.survey import Surveyor
from tidewire.model.errors import NotAuthenticated, Unavailable, UsageError
from tidewire.model.ids import BrokerId
from tidewire.model.messages import Bye
from tidewire.observe.diagnosis import diagnose
from tidewire.wire.frames import message_frame

ROLES = {"head": "head", "edge1": "edge", "edge2": "edge"}


class Town:
    """A coordinator, and brokers that it knows, by name."""

    def __init__(self, office: LiveCoordinator, brokers: dict[str, LiveBroker]) -> None:
        self.office = office
        self.brokers = brokers

    def subscribers(self) -> dict[str, int]:
        """How many each edge has."""
        edges = {name: self.brokers[name] for name in ("edge1", "edge2")}
        return {name: len(node.node.core.clients.using("subscribe")) for name, node in edges.items()}


@asynccontextmanager
async def town(security: Path | None = None, *, names: dict[str, str] = ROLES, **decides: Any) -> AsyncIterator[Town]:
    """A head and two edges. ``names``: their roles."""
    office = LiveCoordinator("127.0.0.1:0", security=security, decides=msgspec.convert(decides, Decides))
    await office.start()
    brokers: dict[str, LiveBroker] = {}
    async with AsyncExitStack() as stack:
        stack.push_async_callback(office.stop)
        for name, role in names.items():
            settings = {"broker": name, "address": "127.0.0.1:0", "role": role, "coordinator": office.address}
            settings |= {} if security is None else {"security": str(security)}
            brokers[name] = LiveBroker(msgspec.convert(settings, BrokerConfig))
            await brokers[name].start()
            stack.push_async_callback(brokers[name].stop)
        await until(lambda: len(office.core.members()) == len(names))
        first = next(iter(brokers.values()))
        await until(lambda: len(first.node.core.links.up()) == len(names) - 1)
        yield Town(office, brokers)


def test_sessions_go_to_the_edges_in_turn_and_events_come() -> None:
    async def run() -> None:
        async with town() as here, AsyncExitStack() as stack:
            connects = [tidewire.connect(coordinator=here.office.address) for _ in range(4)]
            wires = [await stack.enter_async_context(wire) for wire in connects]
            inboxes = [await stack.enter_async_context(wire.subscribe("n > 0")) for wire in wires]
            assert here.subscribers() == {"edge1": 2, "edge2": 2}
            await wires[0].publish({"n": 1})
            assert wires[0].publishing_at == "head"
            assert [(await inbox.get(20))["n"] for inbox in inboxes] == [1] * 4

    asyncio.run(run())


def test_a_session_whose_broker_is_gone_asks_again_and_goes_on() -> None:
    async def run() -> None:
        async with town() as here, tidewire.connect(coordinator=here.office.address) as wire:
            async with wire.subscribe("n > 0") as events, tidewire.connect(here.brokers["head"].address) as publisher:
                assert wire.subscribed_at == "edge1"
                await here.brokers["edge1"].stop()
                await until(lambda: wire.subscribed_at == "edge2")
                await wire.flush()
                async with asyncio.timeout(20):  # that all is said again there is not told to the application
                    while not events.waiting:
                        await publisher.publish({"n": 1})
                        await asyncio.sleep(0.01)
                assert (await events.get(20))["n"] == 1

    asyncio.run(run())


def test_the_nearest_broker_and_what_is_needed_for_it() -> None:
    places = {"edge1": {"lat": 60.2, "lon": 24.9}, "edge2": {"lat": -17.7, "lon": 178.0}}

    async def run() -> None:
        async with town(placement="nearest", locations=places) as here:
            office = here.office.address
            async with tidewire.connect(coordinator=office, location=(-18.0, 179.0)) as wire:
                async with wire.subscribe("true"):
                    assert wire.subscribed_at == "edge2"
            with pytest.raises(UsageError, match="say where you are"):
                async with tidewire.connect(coordinator=office):
                    pass

    asyncio.run(run())


def test_a_blocking_session_asks_too() -> None:
    async def run() -> None:
        async with town() as here:

            def talk() -> tuple[str | None, int]:
                with tidewire.sync.connect(coordinator=here.office.address) as wire, wire.subscribe("n > 0") as events:
                    wire.publish({"n": 7})
                    return wire.wire.subscribed_at, events.get(20)["n"]

            assert await asyncio.to_thread(talk) == ("edge1", 7)

    asyncio.run(run())


def test_a_coordinator_that_is_not_there_is_named_and_known_brokers_will_do() -> None:
    async def run() -> None:
        async with town() as here:
            office = here.office.address
            await here.office.stop()
            with pytest.raises(Unavailable, match=f"through the coordinator at {office} for 1 s: .*refused"):
                async with tidewire.connect(coordinator=office, timeout=1.0):
                    pass
            head = here.brokers["head"].address
            async with tidewire.connect(head, coordinator=office) as wire, wire.subscribe("true"):
                assert wire.subscribed_at in ("edge1", "edge2")
                assert [told.what for told in wire.notices] == ["the coordinator names no broker"]

    asyncio.run(run())


def test_where_it_is_secured_only_who_is_known_is_told_a_broker(tmp_path: Path) -> None:
    """A token that may subscribe is enough: nobody need be allowed to observe."""
    keys = Installation(tmp_path)

    async def run() -> None:
        async with town(keys.folder, names={"B0": "head", "B1": "edge"}) as here:
            office = f"tidewires://{here.office.address}"
            shown = keys.token(Grant(subscribe="n > 0"))
            async with tidewire.connect(coordinator=office, credentials=shown) as wire, wire.subscribe("n > 5"):
                assert wire.subscribed_at == "B1"
            with pytest.raises(NotAuthenticated):
                async with tidewire.connect(coordinator=office, credentials=keys.show(None)):
                    pass

    asyncio.run(run())


def _into(numbers: list[int]) -> Callable[[Notification], None]:
    return lambda event: numbers.append(event["n"])


def test_a_session_follows_where_the_coordinator_moves_it() -> None:
    """bad §4.5: and it is asked again when the new broker is gone."""
    fast = {"migrate_load_min": 1, "cycle_s": 0.2, "average_s": 0.4}

    async def run() -> None:
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(
                town(names={"head": "head", "edge1": "edge"}, balancing="ldm", balance=fast)
            )
            office = here.office.address
            wires = [await stack.enter_async_context(tidewire.connect(coordinator=office)) for _ in range(4)]
            got: list[list[int]] = [[] for _ in wires]
            for wire, numbers in zip(wires, got, strict=True):
                await wire.subscribe("n >= 0", _into(numbers))
            config = BrokerConfig(
                broker=BrokerId("edge2"), address="127.0.0.1:0", role="edge", coordinator=office, load_every_s=0.05
            )
            here.brokers["edge2"] = LiveBroker(config)
            await here.brokers["edge2"].start()
            stack.push_async_callback(here.brokers["edge2"].stop)
            publisher = await stack.enter_async_context(tidewire.connect(coordinator=office))
            sent = 0
            async with asyncio.timeout(60):
                while (
                    all(wire.subscribed_at != "edge2" for wire in wires) or here.office.core.balancing.view().is_moving
                ):
                    await publisher.publish({"n": sent})
                    sent += 1
                    await asyncio.sleep(0.002)
            await until(lambda: all(numbers == list(range(sent)) for numbers in got))
            await here.brokers["edge2"].stop()
            await until(lambda: all(wire.subscribed_at == "edge1" for wire in wires))

    asyncio.run(run())


def test_a_look_at_the_network_begins_at_the_coordinator_too() -> None:
    """At its address, or where it is known beside that of a broker that is gone."""

    async def run() -> None:
        async with town() as here:
            office, head = here.office.address, here.brokers["head"].address
            for surveyor in (Surveyor([office]), Surveyor([head], coordinator=office)):
                look = await surveyor.look()
                assert [one.status.broker for one in look.brokers] == ["edge1", "edge2", "head"]
                assert [(one.address, one.placement) for one in look.coordinators] == [(office, "round-robin")]
                assert look.silent == []
            await here.brokers["head"].stop()
            look = await Surveyor([head], coordinator=office).look()
            assert [one.status.broker for one in look.brokers] == ["edge1", "edge2"]
            [found] = [one for one in diagnose(look) if one.check == "coordinator"]
            assert "head" in found.message

    asyncio.run(run())


def test_whoever_is_neither_broker_nor_coordinator_is_no_coordinator_that_does_not_answer() -> None:
    async def run() -> None:
        async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(message_frame(Bye("protocol", "this is something else", -1.0)))
            writer.close()

        async with await asyncio.start_server(hangs_up, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            look = await Surveyor([f"{host}:{port}"]).look()
            assert look.coordinators == []
            assert ["this is something else" in one.reason for one in look.silent] == [True]

    asyncio.run(run())
