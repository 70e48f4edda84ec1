"""Channels from the data cluster to clients, with live brokers: the reference cluster stands for the one on Spark."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import tidewire
from tests.channels.emergencies import emergencies
from tests.datacluster.hosting import DataCluster
from tests.integration.network import brokers, until
from tidewire.broker.events import MoveClient
from tidewire.channels.commands import CreateChannel, DropChannel, ListChannels, ListNames
from tidewire.channels.evaluator import FedRow
from tidewire.channels.reference_cluster import Fed
from tidewire.live.broker import LiveBroker
from tidewire.live.channels import ChannelNotification, ChannelSubscription
from tidewire.live.clock import now
from tidewire.live.operate import command_channels, status_of
from tidewire.model.errors import BadParameters, FollowedElsewhere, Unavailable, UnknownName, UsageError
from tidewire.model.ids import PubendId, Tick

OF_TYPE = """create channel of_type(type string) continuous as
select r.id, r.zone from EmergencyReports r where r.type = :type"""
SOON = {"reconnect_s": 0.05, "reconnect_s_max": 0.1}


@asynccontextmanager
async def city(*settings: dict[str, Any]) -> AsyncIterator[tuple[DataCluster, list[LiveBroker]]]:
    """A data cluster with a channel, and brokers that are connected to it."""
    async with DataCluster(emergencies()) as cluster:
        cluster.server.post(cluster.host.cluster.asked(CreateChannel(OF_TYPE), now_ns=now())[1])
        attached = [{"data_cluster": cluster.address, **SOON, **one} for one in settings or ({},)]
        async with brokers(*attached) as nodes:
            await until(lambda: all(node.node.core.channels.is_there for node in nodes))
            yield cluster, nodes


def report(cluster: DataCluster, *numbers: int, of: str = "fire") -> None:
    """Reports come in, each in a run of its own."""
    for number in numbers:
        row: dict[str, Any] = {"id": number, "type": of, "zone": "north"}
        cluster.fed(Fed("EmergencyReports", (FedRow(row, (PubendId(3), Tick(number))),)))


async def ids(found: ChannelSubscription, count: int) -> list[Any]:
    """The reports that the next notifications tell of."""
    return [row["id"] for _ in range(count) for row in (await found.get(30)).rows]


async def of_channels(node: LiveBroker) -> dict[str, Any] | None:
    """What a broker's status says of them."""
    found: dict[str, Any] = json.loads(await status_of(node.address))
    channels: dict[str, Any] | None = found["channels"]
    return channels


def test_a_notification_carries_what_was_asked_and_where_it_came_from() -> None:
    """Channel, parameters, rows by their columns, provenance; equal subscriptions share one of the data cluster."""

    async def story() -> None:
        async with city() as (cluster, [node]), tidewire.connect(node.address) as wire:
            there = {"data_cluster": cluster.address, "is_connected": True, "channels": 1}
            async with wire.channel("of_type", type="fire") as fires, wire.channel("of_type", type="fire") as same:
                report(cluster, 1, of="flood")
                report(cluster, 2)
                notification = await fires.get(30)
                assert isinstance(notification, ChannelNotification)
                assert (notification.channel, notification.parameters) == ("of_type", {"type": "fire"})
                [row] = notification
                assert dict(row) == {"id": 2, "zone": "north"}
                assert row.origins == [(f"{3:016x}", 2)]
                assert await ids(same, 1) == [2]
                [document] = cluster.host.cluster.asked(ListChannels(), now_ns=now())[0].channels
                assert document.subscriptions == 1
                assert await of_channels(node) == {**there, "subscriptions": 2, "shared": 1}
            assert await of_channels(node) == {**there, "subscriptions": 0, "shared": 0}
            [document] = cluster.host.cluster.asked(ListChannels(), now_ns=now())[0].channels
            assert document.subscriptions == 0

    asyncio.run(story())


def test_what_cannot_be_is_refused_with_the_reason() -> None:
    """By the broker, which knows the channels."""

    async def story() -> None:
        async with city() as (_, [node]), tidewire.connect(node.address) as wire:
            with pytest.raises(UnknownName, match="no channel named 'nothing'; known: of_type"):
                await wire.channel("nothing")
            with pytest.raises(BadParameters, match="did you mean type"):
                await wire.channel("of_type", typ="fire")
            with pytest.raises(BadParameters, match="type is a string"):
                await wire.channel("of_type", type=5)
            with pytest.raises(UsageError, match="1 to 255 printable"):
                wire.channel("of_type", name="", type="fire")

    asyncio.run(story())


def test_a_broker_without_a_data_cluster_says_so() -> None:
    """At once, if it has none; in a while, if it cannot be reached."""

    async def story() -> None:
        away = {"data_cluster": "127.0.0.1:9", **SOON}
        async with brokers({}, away) as (without, lonely):
            assert await of_channels(without) is None
            assert (await of_channels(lonely) or {})["is_connected"] is False
            async with tidewire.connect(without.address) as wire:
                with pytest.raises(UsageError, match="has no data cluster"):
                    await wire.channel("of_type", type="fire")
            async with tidewire.connect(lonely.address) as wire:
                with pytest.raises(Unavailable, match=r"the data cluster at 127\.0\.0\.1:9 cannot be reached"):
                    await wire.channel("of_type", type="fire")

    asyncio.run(story())


def test_a_dropped_channel_ends_its_subscriptions() -> None:
    """With an error that says so."""

    async def story() -> None:
        async with city() as (cluster, [node]), tidewire.connect(node.address) as wire:
            fires = await wire.channel("of_type", type="fire")
            report(cluster, 1)
            assert await ids(fires, 1) == [1]
            cluster.server.post(cluster.host.cluster.asked(DropChannel("of_type"), now_ns=now())[1])
            with pytest.raises(UnknownName, match="is no more"):
                await fires.get(30)

    asyncio.run(story())


def test_a_restart_of_the_data_cluster_loses_and_repeats_nothing() -> None:
    """Subscriptions stay, and what ran meanwhile is told."""

    async def story() -> None:
        async with city() as (cluster, [node]), tidewire.connect(node.address) as wire:
            async with wire.channel("of_type", type="fire") as fires:
                report(cluster, 1)
                assert await ids(fires, 1) == [1]
                await cluster.restart()
                report(cluster, 2, 3)
                assert await ids(fires, 2) == [2, 3]

    asyncio.run(story())


def test_a_client_that_moves_gets_everything_once_and_in_order() -> None:
    """Its place goes with it: to another broker, while results come."""

    async def story() -> None:
        settings: list[dict[str, Any]] = [{"role": "head"}, *({"role": "edge", "neighbours": [0]} for _ in range(2))]
        async with city(*settings) as (cluster, [_, one, other]), tidewire.connect(one.address) as wire:
            async with wire.channel("of_type", type="fire") as fires:
                report(cluster, *range(5))
                here, there = (one, other) if wire.subscribed_at == one.config.broker else (other, one)
                [conn] = here.node.core.clients.conns()
                here._tell(MoveClient(conn, "subscribe", there.address))
                report(cluster, *range(5, 10))
                await until(lambda: wire.subscribed_at == there.config.broker)
                report(cluster, *range(10, 15))
                assert await ids(fires, 15) == list(range(15))
                assert fires.waiting == 0

    asyncio.run(story())


def test_a_client_survives_the_end_of_its_broker() -> None:
    """It goes on at another one, behind what it had."""

    async def story() -> None:
        async with city({"role": "both"}, {"role": "both"}) as (cluster, [one, other]):
            async with tidewire.connect([one.address, other.address]) as wire:
                async with wire.channel("of_type", type="fire") as fires:
                    report(cluster, 1, 2)
                    assert await ids(fires, 1) == [1]
                    await one.stop()
                    report(cluster, 3)
                    await until(lambda: wire.subscribed_at == other.config.broker)
                    report(cluster, 4)
                    assert await ids(fires, 3) == [2, 3, 4]

    asyncio.run(story())


def test_a_name_is_owed_what_comes_while_nobody_is_there() -> None:
    """At any broker it goes on behind what was dealt with; when it is forgotten, it begins anew."""

    async def story() -> None:
        async with city({"role": "both"}, {"role": "both"}) as (cluster, nodes):
            one, other = nodes
            async with tidewire.connect(one.address) as wire, wire.channel("of_type", name="ann", type="fire") as fires:
                report(cluster, 1, 2)
                assert await ids(fires, 2) == [1, 2]
            report(cluster, 3)
            async with tidewire.connect(other.address) as wire:
                fires = await wire.channel("of_type", name="ann", type="fire")
                report(cluster, 4)
                assert await ids(fires, 2) == [3, 4]
                await fires.__aexit__(ZeroDivisionError, None, None)  # so it is not done with 4
                async with wire.channel("of_type", name="ann", type="fire") as fires:
                    assert await ids(fires, 1) == [4]
                    await fires.forget()
                report(cluster, 5)
                async with wire.channel("of_type", name="ann", type="fire") as fires:
                    report(cluster, 6)
                    assert await ids(fires, 1) == [6]

    asyncio.run(story())


def test_a_name_hears_that_its_channel_was_made_anew() -> None:
    """What it was owed of the first one is lost: a notice says so; then all comes that the other one finds."""

    async def story() -> None:
        async with city() as (cluster, [node]):
            async with (
                tidewire.connect(node.address) as wire,
                wire.channel("of_type", name="ann", type="fire") as fires,
            ):
                report(cluster, 1)
                assert await ids(fires, 1) == [1]
            report(cluster, 2)
            [known] = (await command_channels(cluster.address, ListChannels())).channels
            [owed] = (await command_channels(cluster.address, ListNames())).names
            assert (owed.name, owed.owner, owed.channel) == ("ann", "anonymous", "of_type")
            assert owed.parameters == {"type": "fire"}
            assert owed.behind_s > 0
            await command_channels(cluster.address, DropChannel("of_type"))
            assert (await command_channels(cluster.address, ListNames())).names == []
            frontends = node.node.core.channels.frontends
            await until(lambda: frontends.channels == 0)
            await command_channels(cluster.address, CreateChannel(known.text))
            await until(lambda: frontends.channels == 1)
            report(cluster, 3)
            notices: list[str] = []
            async with tidewire.connect(node.address, on_notice=lambda one: notices.append(one.what)) as wire:
                async with wire.channel("of_type", name="ann", type="fire") as fires:
                    assert await ids(fires, 1) == [3]
                    assert notices == ["results lost"]

    asyncio.run(story())


def test_whoever_says_a_name_last_has_it() -> None:
    """The other session hears of it."""

    async def story() -> None:
        async with city({"role": "both"}, {"role": "both"}) as (cluster, [one, other]):
            async with tidewire.connect(one.address) as wire, tidewire.connect(other.address) as later:
                first = await wire.channel("of_type", name="ann", type="fire")
                second = await later.channel("of_type", name="ann", type="fire")
                with pytest.raises(FollowedElsewhere):
                    await first.get(30)
                report(cluster, 1)
                assert await ids(second, 1) == [1]

    asyncio.run(story())


def test_one_who_does_not_read_is_told_no_more_than_it_has_room_for() -> None:
    """The rest waits in the data cluster, and comes when there is room; others are told meanwhile."""

    async def story() -> None:
        async with city() as (cluster, [node]), tidewire.connect(node.address) as wire:
            async with wire.channel("of_type", type="fire") as slow, wire.channel("of_type", type="fire") as quick:
                count, rows = 6, 4000
                for batch in range(count):
                    many = [FedRow({"id": batch * rows + one, "type": "fire"}) for one in range(rows)]
                    cluster.fed(Fed("EmergencyReports", tuple(many)))
                assert await ids(quick, count) == list(range(count * rows))
                assert slow.waiting == 10_000 // rows
                assert await ids(slow, count) == list(range(count * rows))

    asyncio.run(story())


def test_results_longer_than_a_frame_come_whole() -> None:
    """In pieces, put together again."""

    async def story() -> None:
        async with city() as (cluster, [node]), tidewire.connect(node.address) as wire:
            async with wire.channel("of_type", type="fire") as fires:
                zone = "x" * 100_000
                many = [FedRow({"id": one, "type": "fire", "zone": zone}) for one in range(60)]
                cluster.fed(Fed("EmergencyReports", tuple(many)))
                notification = await fires.get(30)
                assert [(row["id"], row["zone"] == zone) for row in notification] == [(n, True) for n in range(60)]

    asyncio.run(story())
