"""Guaranteed events with real brokers: receipts, durable subscriptions, their places, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tidewire
from tests.console.serving import served
from tests.integration.network import brokers
from tidewire.live.subscription import Subscription
from tidewire.model.errors import FollowedElsewhere, NoStore, NotAdvertised, UsageError


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
