"""Applications that do what applications do: read slowly, fail, publish without a pause, share a subscription."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import tidewire
import tidewire.sync
from tests.integration.network import brokers, until
from tidewire.live.inbox import WAITING_MAX
from tidewire.live.session import COALESCED_BYTES
from tidewire.model.errors import EventTooLarge, UsageError


def test_one_who_reads_slowly_misses_nothing_and_stays_connected() -> None:
    """Longer than a broker may be silent; and what it asks for meanwhile is answered."""

    async def run() -> None:
        async with brokers({"role": "both", "heartbeat_s": 0.5}) as (node,):
            async with tidewire.connect(node.address) as reader, tidewire.connect(node.address) as writer:
                slow = await reader.subscribe("n >= 0")
                count = 3 * WAITING_MAX
                await writer.publish_many({"n": n} for n in range(count))
                await until(lambda: slow.waiting >= WAITING_MAX)
                await asyncio.sleep(2.0)  # longer than a broker may be silent
                async with asyncio.timeout(10):
                    other = await reader.subscribe("n < 0")
                    await other.change("n < -1")
                    await other.unsubscribe()
                got = [(await slow.get(timeout=10))["n"] for _ in range(count)]
                assert got == list(range(count))
                assert [notice.what for notice in reader.notices] == []

    asyncio.run(run())


def test_a_backlog_that_is_given_up_lets_the_others_go_on() -> None:
    async def run() -> None:
        async with brokers({"role": "both"}) as (node,):
            async with tidewire.connect(node.address) as reader, tidewire.connect(node.address) as writer:
                unread, read = await reader.subscribe("n >= 0"), await reader.subscribe("n < 0")
                await writer.publish_many({"n": n} for n in range(2 * WAITING_MAX))
                await until(lambda: unread.waiting >= WAITING_MAX)
                await unread.unsubscribe()
                await writer.publish({"n": -1})
                assert (await read.get(timeout=10))["n"] == -1

    asyncio.run(run())


def test_a_callback_that_fails_costs_one_event_and_is_told() -> None:
    async def run() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
        async with brokers({"role": "both"}) as (node,), tidewire.connect(node.address) as wire:
            got: list[int] = []

            def take(event: tidewire.Notification) -> None:
                if event["n"] == 3:
                    raise ValueError("no three")
                got.append(event["n"])

            await wire.subscribe("n >= 0", take)
            await wire.publish_many({"n": n} for n in range(10))
            await until(lambda: len(got) == 9)
        assert [str(one["exception"]) for one in failures] == ["no three"]

    asyncio.run(run())


def test_who_publishes_without_a_pause_lets_others_run() -> None:
    """Though nothing makes it wait: all of this fits into the buffers of the connection."""

    async def run() -> None:
        async with brokers({"role": "both"}) as (node,), tidewire.connect(node.address) as wire:
            await wire.publish({"n": 0})
            turns = 0

            async def take_turns() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.create_task(take_turns())
            await asyncio.sleep(0)
            before = turns
            for _ in range(4):
                await wire.publish({"n": 1, "text": "x" * (COALESCED_BYTES // 2)})
            assert turns - before == 2
            other.cancel()

    asyncio.run(run())


def test_several_tasks_share_a_subscription() -> None:
    """Each event goes to one of them; all end with it."""

    async def run() -> None:
        async with brokers({"role": "both"}) as (node,), tidewire.connect(node.address) as wire:
            shared = await wire.subscribe("n >= 0")
            got: list[int] = []

            async def read() -> None:
                async for event in shared:
                    got.append(event["n"])
                    await asyncio.sleep(0)

            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(read())
                impatient = group.create_task(shared.get())
                await asyncio.sleep(0)
                impatient.cancel()
                await wire.publish_many({"n": n} for n in range(30))
                await until(lambda: len(got) == 30)
                await shared.unsubscribe()
            assert sorted(got) == list(range(30))

    asyncio.run(run())


def test_an_event_goes_to_the_next_who_waits_when_the_first_gives_up() -> None:
    """It gives up after it was woken, and before it runs."""

    async def run() -> None:
        async with brokers({"role": "both"}) as (node,), tidewire.connect(node.address) as wire:
            shared = await wire.subscribe("n >= 0")
            first, second = (asyncio.create_task(shared.get(timeout=10)) for _ in range(2))

            def give_up(_: tidewire.Notification) -> None:
                first.cancel()

            await wire.subscribe("n >= 0", give_up)
            await wire.publish({"n": 1})
            assert (await second)["n"] == 1
            assert first.cancelled()

    asyncio.run(run())


def test_one_who_asks_in_vain_leaves_nothing_behind() -> None:
    async def run() -> None:
        async with brokers({"role": "both"}) as (node,), tidewire.connect(node.address) as wire:
            events = await wire.subscribe("n >= 0")
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    await events.get(timeout=0.001)
            assert len(events._waiters) == 0
            await wire.publish({"n": 1})
            assert (await events.get(timeout=10))["n"] == 1

    asyncio.run(run())


def test_an_event_that_no_frame_holds_is_refused_here() -> None:
    async def run() -> None:
        async with brokers({"role": "both"}) as (node,), tidewire.connect(node.address) as wire:
            events = await wire.subscribe("n >= 0")
            await wire.publish({"n": 0})
            with pytest.raises(EventTooLarge, match="too many: this broker takes"):
                await wire.publish({"n": 1}, body=bytes(3 << 20))
            await wire.publish({"n": 2})
            assert [(await events.get(timeout=10))["n"] for _ in range(2)] == [0, 2]

    asyncio.run(run())


def test_a_callback_of_the_blocking_twin_may_not_wait_for_its_own_thread() -> None:
    refused: list[UsageError] = []
    is_told, is_over = threading.Event(), threading.Event()
    addresses: list[str] = []

    async def serve() -> None:
        async with brokers({"role": "both"}) as (node,):
            addresses.append(node.address)
            while not is_over.is_set():
                await asyncio.sleep(0.01)

    server = threading.Thread(target=lambda: asyncio.run(serve()))
    server.start()
    while not addresses:
        time.sleep(0.01)
    with tidewire.sync.connect(addresses[0]) as wire:

        def take(_event: tidewire.Notification) -> None:
            try:
                wire.publish({"n": -1})
            except UsageError as error:
                refused.append(error)
                is_told.set()

        wire.subscribe("n >= 0", take)
        wire.publish({"n": 1})
        assert is_told.wait(10)
    is_over.set()
    server.join()
    assert "another thread" in str(refused[0])


def test_a_session_needs_an_address() -> None:
    with pytest.raises(UsageError, match="address of a broker"):
        tidewire.connect([])
