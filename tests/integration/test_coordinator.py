"""Brokers find each other through a coordinator, and go on without it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tidewire
from tests.integration.network import until
from tidewire.broker.config import BrokerConfig
from tidewire.live.broker import LiveBroker
from tidewire.live.coordinator import LiveCoordinator
from tidewire.model.errors import BadConfiguration
from tidewire.model.ids import BrokerId


def test_the_network_forms_survives_its_coordinator_and_grows(tmp_path: Path) -> None:
    async def run() -> None:
        office = LiveCoordinator("127.0.0.1:0", store=tmp_path / "members.json")
        await office.start()
        nodes: list[LiveBroker] = []

        async def add(name: str, role: Any) -> LiveBroker:
            config = BrokerConfig(broker=BrokerId(name), address="127.0.0.1:0", role=role, coordinator=office.address)
            nodes.append(LiveBroker(config))
            await nodes[-1].start()
            return nodes[-1]

        try:
            head = await add("head", "head")
            await add("edge1", "edge")
            await add("edge2", "edge")
            await until(lambda: len(head.node.core.links.up()) == 2)
            async with tidewire.connect(head.address) as wire, wire.subscribe("n > 0") as events:
                await wire.publish({"n": 1})
                assert (await events.get(5))["n"] == 1
                await office.stop()
                await wire.publish({"n": 2})
                assert (await events.get(5))["n"] == 2
                office = LiveCoordinator(office.address, store=tmp_path / "members.json")
                await office.start()
                await add("edge3", "edge")
                await until(lambda: len(head.node.core.links.up()) == 3)
                await until(lambda: sum(one.is_alive for one in office.core.members()) == 4)
        finally:
            for node in nodes:
                await node.stop()
            await office.stop()

    asyncio.run(run())


def test_a_store_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(BadConfiguration, match="members cannot be remembered"):
        LiveCoordinator("127.0.0.1:0", store=tmp_path / "file" / "members.json")


def test_an_address_that_a_coordinator_invents_does_no_harm() -> None:
    """What cannot be dialled is tried again, as what does not answer is; the others are connected."""

    async def run() -> None:
        names = ("one", "two")
        config = [BrokerConfig(broker=BrokerId(name), address="127.0.0.1:0", reconnect_s=0.01) for name in names]
        one, two = (LiveBroker(each) for each in config)
        await one.start()
        await two.start()
        try:
            odd, links = ["foo:bar", "a..b:1", "x\0y:1"], one.node.core.links
            links.assign([*odd, two.address])
            one._time_passed()
            await until(lambda: bool(links.up()))
            await until(lambda: all(links._targets[address].attempts > 1 for address in odd))
            assert links.unreached() == odd
        finally:
            await one.stop()
            await two.stop()

    asyncio.run(run())


def test_an_address_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(BadConfiguration, match="neighbours: 'foo:bar' is no address"):
        LiveBroker(BrokerConfig(broker=BrokerId("one"), address="127.0.0.1:0", neighbours=["foo:bar"]))
