"""Guaranteed events with real brokers: receipts, durable subscriptions, their places, and what is refused."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tidewire
from tests.console.serving import served
from tests.integration.network import brokers, until
from tests.integration.test_commands import told
from tidewire._kernel._native import Log
from tidewire.broker.effects import Note
from tidewire.broker.status import BrokerStatus
from tidewire.live.operate import status_of
from tidewire.live.sockets import parse_address
from tidewire.live.store import open_log
from tidewire.live.subscription import Subscription
from tidewire.model.errors import BadConfiguration, FollowedElsewhere, Forgotten, NoStore, NotAdvertised, UsageError


def stored(folder: Path, *nodes: dict[str, Any]) -> list[dict[str, Any]]:
    """These brokers, each with a store."""
    return [{**node, "store": str(folder / str(i))} for i, node in enumerate(nodes)]


def head_and_edges(folder: Path) -> list[dict[str, Any]]:
    edges = [{"role": "edge", "neighbours": [0]}] * 2
    return stored(folder, {"role": "head"}, *edges)


async def take(subscription: Subscription, count: int) -> list[int]:
    """So many events; the last one is done when the next is asked for."""
    return [int(str((await subscription.get(20))["n"])) for _ in range(count)]


def test_what_was_published_while_nobody_listened_comes(tmp_path: Path) -> None:
    """By name, in order, once, at another broker; and the place is told, to go on from."""

    async def run() -> None:
        async with brokers(*head_and_edges(tmp_path)) as (head, edge, other):
            async with tidewire.connect(edge.address) as reader:
                subscription = await reader.subscribe("n >= 0", durable="alarms")
                async with tidewire.connect(head.address, guaranteed=True) as writer:
                    assert await writer.publish_many({"n": n} for n in range(10)) == 10
                    assert await take(subscription, 5) == list(range(5))
                    position = subscription.position
            async with tidewire.connect(head.address) as writer:
                await writer.publish_many(({"n": n} for n in range(10, 20)), guaranteed=True)
                await writer.publish({"n": 99})  # best effort: nobody is there
            async with tidewire.connect(other.address) as reader:
                subscription = await reader.subscribe("n >= 0", durable="alarms", position=position)
                assert await take(subscription, 15) == list(range(5, 20))
                again = await reader.subscribe("n >= 15", durable="another", since="earliest")
                assert await take(again, 5) == list(range(15, 20))

    asyncio.run(run())


def test_receipts_survive_a_restart(tmp_path: Path) -> None:
    """What is in the log of a broker that was stopped is there for whoever comes later."""

    async def run() -> None:
        [settings] = stored(tmp_path, {"role": "both"})
        async with brokers(settings) as (node,):
            async with tidewire.connect(node.address, guaranteed=True) as wire:
                await wire.publish_many({"n": n} for n in range(100))
        async with brokers(settings) as (node,):
            async with tidewire.connect(node.address) as wire:
                assert await take(await wire.subscribe("n >= 0", durable="x", since="earliest"), 100) == list(
                    range(100)
                )

    asyncio.run(run())


def test_a_name_has_one_session_and_can_be_forgotten(tmp_path: Path) -> None:
    async def run() -> None:
        [settings] = stored(tmp_path, {"role": "both"})
        async with brokers(settings) as (node,):
            first, second = tidewire.connect(node.address), tidewire.connect(node.address, guaranteed=True)
            async with first, second:
                had = await first.subscribe("n >= 0", durable="x")
                has = await second.subscribe("n >= 0", durable="x")
                with pytest.raises(FollowedElsewhere):
                    await had.get(20)
                await second.publish({"n": 1})
                assert await take(has, 1) == [1]
                for n in (2, 3):
                    await second.publish({"n": n})
                await until(lambda: has.waiting == 2)
                had = await first.subscribe("n >= 0", durable="x")
                await until(lambda: has.waiting == 0)  # the other one gets that
                with pytest.raises(FollowedElsewhere):
                    await has.get(20)
                assert await take(had, 3) == [1, 2, 3]
                has = await second.subscribe("n >= 0", durable="x")
                await has.unsubscribe()
                await second.publish({"n": 2})
                await second.forget("x")
                anew = await second.subscribe("n >= 0", durable="x")
                await second.publish({"n": 3})
                assert await take(anew, 1) == [3]

    asyncio.run(run())


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    """A broker without a store, an event that was not advertised, names and times that are none."""

    async def run() -> None:
        [settings] = stored(tmp_path, {"role": "both"})
        async with brokers({"role": "both"}) as (plain,), tidewire.connect(plain.address, guaranteed=True) as wire:
            with pytest.raises(NoStore, match="no store"):
                await wire.publish({"n": 1})
        async with brokers(settings) as (node,), tidewire.connect(node.address, guaranteed=True) as wire:
            await wire.advertise("n < 10")
            with pytest.raises(NotAdvertised):
                await wire.publish_many([{"n": 1}, {"n": 11}])
            for given in ({"durable": ""}, {"durable": "x" * 300}, {"durable": "x", "since": -1.0}):
                with pytest.raises(UsageError):
                    wire.subscribe("n >= 0", **given)

    asyncio.run(run())


def test_over_http(tmp_path: Path) -> None:
    """Answered when it is durable; each event by itself; and without a store it is said that there is none."""

    async def run() -> None:
        async with served(*stored(tmp_path, {"role": "both"})) as (http, (node,)):
            sent = await http.post("/v1/events", params={"guaranteed": "true"}, json=[{"n": 1}, {"n": [2]}, {"n": 3}])
            assert sent.status_code == 202
            assert sent.json()["accepted"] == 2
            assert [one["index"] for one in sent.json()["refused"]] == [1]
            async with tidewire.connect(node.address) as wire:
                assert await take(await wire.subscribe("n >= 0", durable="x", since="earliest"), 2) == [1, 3]
            wrong = await http.post("/v1/events", params={"guaranteed": "perhaps"}, json={"n": 1})
            assert wrong.status_code == 400
        async with served({"role": "both"}) as (http, _):
            refused = await http.post("/v1/events", params={"guaranteed": "true"}, json={"n": 1})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no-store")

    asyncio.run(run())


@pytest.mark.parametrize("chance", [0, 6, 2**64 - 1])
def test_numbers_of_publishers_reach_every_pubend(chance: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A publisher's pubend is its number's remainder: odd numbers alone would leave half of them idle. 0 is nobody."""
    monkeypatch.setattr("tidewire.live.session.os.urandom", lambda size: chance.to_bytes(size, "little"))

    async def run() -> None:
        async with brokers(*stored(tmp_path, {"role": "both", "pubends": 4})) as (node,):
            async with tidewire.connect(node.address, guaranteed=True) as wire:
                await wire.publish({"n": 1})
                assert wire.publisher == max(1, chance >> 1)
            status = msgspec.json.decode(await status_of(node.address), type=BrokerStatus)
            assert status.log is not None
            taken = [one.events for one in status.log.pubends]
            assert taken == [int(i == wire.publisher % 4) for i in range(4)]

    asyncio.run(run())


@pytest.mark.parametrize("change", [{"pubends": 3}, {"pubends": 1}, {"broker": "another"}])
def test_a_store_stays_with_its_broker_and_its_pubends(change: dict[str, Any], tmp_path: Path) -> None:
    """With others, what is in it would be told to nobody: that is said, and nothing is touched."""
    [settings] = stored(tmp_path, {"broker": "one", "role": "both", "pubends": 2})

    async def run() -> None:
        async with brokers(settings) as (node,):
            async with tidewire.connect(node.address, guaranteed=True) as wire:
                await wire.publish({"n": 1})
        with pytest.raises(BadConfiguration, match="of the broker one with pubends = 2"):
            async with brokers(settings | change):
                pass
        async with brokers(settings) as (node,):
            async with tidewire.connect(node.address) as wire:
                assert await take(await wire.subscribe("n >= 0", durable="late", since="earliest"), 1) == [1]

    asyncio.run(run())


@pytest.mark.parametrize("ends", ["close", "unsubscribe", "with"])
def test_an_orderly_end_is_where_the_next_session_goes_on(ends: str, tmp_path: Path) -> None:
    """A worker that takes a few and leaves gets the next ones when it comes back, at once, and none twice."""

    async def work(address: str, count: int) -> list[int]:
        async with tidewire.connect(address) as wire:
            if ends == "with":
                async with wire.subscribe("n >= 0", durable="worker", since="earliest") as jobs:
                    return await take(jobs, count)
            jobs = await wire.subscribe("n >= 0", durable="worker", since="earliest")
            found = await take(jobs, count)
            if ends == "unsubscribe":
                await jobs.unsubscribe()
            return found

    async def run() -> None:
        async with brokers(*head_and_edges(tmp_path)) as (head, edge, other):
            async with tidewire.connect(head.address, guaranteed=True) as wire:
                await wire.publish_many({"n": n} for n in range(9))
            assert await work(edge.address, 3) == [0, 1, 2]
            assert await work(other.address, 3) == [3, 4, 5]
            assert await work(edge.address, 3) == [6, 7, 8]

    asyncio.run(run())


def test_whoever_leaves_because_of_an_error_is_not_done_with_what_it_has_in_hand(tmp_path: Path) -> None:
    async def fail(address: str) -> None:
        async with tidewire.connect(address) as wire:
            await take(await wire.subscribe("n >= 0", durable="worker", since="earliest"), 2)
            raise ZeroDivisionError

    async def run() -> None:
        async with brokers(*stored(tmp_path, {"role": "both"})) as (node,):
            async with tidewire.connect(node.address, guaranteed=True) as wire:
                await wire.publish_many({"n": n} for n in range(3))
            with pytest.raises(ZeroDivisionError):
                await fail(node.address)
            async with tidewire.connect(node.address) as wire:
                jobs = await wire.subscribe("n >= 0", durable="worker")
                assert await take(jobs, 2) == [1, 2]

    asyncio.run(run())


def test_a_broker_that_is_stopped_remembers_how_far_its_subscribers_were(tmp_path: Path) -> None:
    """As it should be: nothing comes twice because a broker was updated."""
    [settings] = stored(tmp_path, {"role": "both"})

    async def run() -> None:
        async with brokers(settings) as (node,), tidewire.connect(node.address, guaranteed=True) as wire:
            jobs = await wire.subscribe("n >= 0", durable="worker")
            await wire.publish_many({"n": n} for n in range(6))
            assert await take(jobs, 6) == list(range(6))
            await jobs.unsubscribe()
        async with brokers(settings) as (node,), tidewire.connect(node.address, guaranteed=True) as wire:
            jobs = await wire.subscribe("n >= 0", durable="worker")
            await wire.publish({"n": 6})
            assert await take(jobs, 1) == [6]

    asyncio.run(run())


BAD: list[dict[str, Any]] = [
    {"durable": ""},
    {"durable": "x" * 300},
    {"durable": 5},
    {"durable": "a", "since": "yesterday"},
    {"durable": "a", "since": None},
    {"durable": "a", "since": True},
    {"durable": "a", "since": -1},
    {"durable": "a", "position": []},
    {"durable": "a", "position": {"zz": 1}},
    {"durable": "a", "position": {"1" * 17: 1}},
    {"durable": "a", "position": {"1": -1}},
    {"durable": "a", "position": {"1": "x"}},
    {"durable": "a", "position": {"1": 2**63}},
    {"since": "earliest"},
    {"position": {}},
]


@pytest.mark.parametrize("asked", BAD, ids=str)
def test_what_no_durable_subscription_can_be_is_the_callers_fault(asked: dict[str, Any], tmp_path: Path) -> None:
    async def run() -> None:
        async with brokers(*stored(tmp_path, {"role": "both"})) as (node,):
            async with tidewire.connect(node.address) as wire:
                with pytest.raises(UsageError):
                    await wire.subscribe("n >= 0", **asked)
                with pytest.raises(UsageError):
                    await wire.forget(asked.get("durable", "") if asked.get("durable") != "a" else "\0")

    asyncio.run(run())


def test_the_filter_of_a_durable_subscription_can_be_changed(tmp_path: Path) -> None:
    """In place or by subscribing again; it goes on behind the last event that it got."""

    async def run() -> None:
        async with brokers(*head_and_edges(tmp_path)) as (head, edge, other):
            async with tidewire.connect(head.address, guaranteed=True) as writer:
                async with tidewire.connect(edge.address) as reader:
                    few = await reader.subscribe("n < 5", durable="worker")
                    await writer.publish_many({"n": n} for n in (1, 7))
                    assert await take(few, 1) == [1]
                    await few.change("n >= 2")
                    await writer.publish_many({"n": n} for n in (0, 2, 8))
                    assert await take(few, 3) == [7, 2, 8]
                await writer.publish_many({"n": n} for n in (0, 3))
                async with tidewire.connect(other.address) as reader:
                    again = await reader.subscribe("n < 100", durable="worker")
                    assert await take(again, 2) == [0, 3]

    asyncio.run(run())


def test_a_name_is_held_where_nothing_was_ever_published(tmp_path: Path) -> None:
    """The first publisher ever, at a broker that nobody has published at, while nobody is there by that name."""

    async def run() -> None:
        heads = stored(tmp_path, {"role": "head"}, {"role": "head", "neighbours": [0]})
        async with brokers(*heads, {"role": "edge", "neighbours": [0]}) as (one, two, edge):
            async with tidewire.connect(edge.address) as reader:
                await reader.subscribe("n >= 0", durable="alarms")
            for start, head in ((0, two), (10, one)):
                async with tidewire.connect(head.address, guaranteed=True) as writer:
                    await writer.publish_many({"n": n} for n in range(start, start + 10))
            async with tidewire.connect(edge.address) as reader:
                subscription = await reader.subscribe("n >= 0", durable="alarms")
                assert sorted(await take(subscription, 20)) == list(range(20))

    asyncio.run(run())


def test_who_follows_by_a_name_that_is_forgotten_hears_of_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with brokers(*head_and_edges(tmp_path)) as (head, edge, other):
            async with (
                tidewire.connect(edge.address) as reader,
                tidewire.connect(other.address) as operator,
                tidewire.connect(head.address, guaranteed=True) as writer,
            ):
                subscription = await reader.subscribe("n >= 0", durable="alarms")
                await writer.publish({"n": 1})
                await operator.forget("alarms")
                assert await take(subscription, 1) == [1]
                with pytest.raises(Forgotten):
                    await subscription.get(20)
                begun = await reader.subscribe("n >= 0", durable="alarms")
                await writer.publish({"n": 2})
                assert await take(begun, 1) == [2]

    asyncio.run(run())


def test_without_a_store_nobody_can_subscribe_by_a_name() -> None:
    async def run() -> None:
        async with brokers({"role": "both"}) as (node,):
            async with tidewire.connect(node.address) as wire:
                with pytest.raises(NoStore, match="none has a store"):
                    await wire.subscribe("n >= 0", durable="alarms")
                with pytest.raises(NoStore):
                    await wire.forget("alarms")
                async with wire.subscribe("n >= 0") as plain:
                    await wire.publish({"n": 3})
                    assert await take(plain, 1) == [3]

    asyncio.run(run())


def test_a_broker_is_not_reached_before_its_log_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long log takes a while. Who comes meanwhile is refused at once, tries again, and loses nothing."""
    where: list[str] = []
    tried: list[type[BaseException] | None] = []

    def long_log(folder: Path) -> tuple[Log, list[Note]]:
        opened = open_log(folder)
        for address in where:
            try:
                socket.create_connection(parse_address(address), timeout=5).close()
                tried.append(None)
            except OSError as error:
                tried.append(type(error))
        return opened

    monkeypatch.setattr("tidewire.live.broker.open_log", long_log)

    async def run() -> None:
        [settings] = stored(tmp_path, {"role": "both"})
        async with brokers(settings) as (node,):
            where.append(node.address)
            wire = tidewire.connect(node.address, guaranteed=True)
            await wire.__aenter__()
            await wire.publish({"n": 1})
        publishing = asyncio.create_task(wire.publish({"n": 2}))
        async with brokers({**settings, "address": where[0]}):
            await publishing
            assert await take(await wire.subscribe("n >= 0", durable="x", since="earliest"), 2) == [1, 2]
            await wire.close()

    asyncio.run(run())
    assert tried == [ConnectionRefusedError]


def test_only_clients_count_as_publishers(tmp_path: Path) -> None:
    """Not what the log offers of those who were here; who only follows by a name is a subscriber."""

    async def status(address: str) -> tuple[int, int, int]:
        found = msgspec.json.decode(await status_of(address), type=BrokerStatus)
        return found.clients, found.publishers, found.subscribers

    async def run() -> None:
        [settings] = stored(tmp_path, {"role": "both"})
        async with brokers(settings) as (node,):
            async with tidewire.connect(node.address, guaranteed=True) as wire:
                await wire.publish({"n": 1})
                assert await status(node.address) == (1, 1, 0)
            await until(lambda: not len(node.node.core.clients))
            assert await status(node.address) == (0, 0, 0)
            async with tidewire.connect(node.address) as wire:
                await wire.subscribe("n > 0", durable="x")
                assert await status(node.address) == (1, 0, 1)

    asyncio.run(run())


def test_people_can_see_for_whom_events_are_kept(tmp_path: Path) -> None:
    """And end what nobody comes back for."""

    async def run() -> None:
        async with brokers(*head_and_edges(tmp_path)) as (head, edge, _):
            async with tidewire.connect(edge.address) as reader:
                await reader.subscribe("n >= 0", durable="alarms")
            async with tidewire.connect(head.address, guaranteed=True) as writer:
                await writer.publish({"n": 1})
            names = await asyncio.to_thread(told, "names", "--at", head.address, folder=tmp_path)
            (alarms,) = names["names"]
            assert (names["held"], alarms["name"], alarms["owner"]) == (1, "alarms", "anonymous")
            assert head.config.broker in alarms["brokers"]
            ended = await asyncio.to_thread(told, "forget", "alarms", "--at", edge.address, folder=tmp_path)
            assert ended == {"forgotten": "alarms"}
            names = await asyncio.to_thread(told, "names", "--at", head.address, folder=tmp_path)
            assert [one["brokers"] for one in names["names"] if head.config.broker in one["brokers"]] == []

    asyncio.run(run())
