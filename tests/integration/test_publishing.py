"""What somebody who publishes is told: of each event whether it was taken, and of many, which one failed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidewire
from tests.integration.network import brokers, until
from tidewire.live.broker import LiveBroker
from tidewire.model.errors import EventTooLarge, InDoubt, NotAdvertised, Unavailable, UnsupportedType, UsageError


def lone(folder: Path, **settings: Any) -> dict[str, Any]:
    """A broker with a store."""
    return {"role": "both", "store": str(folder / "log"), **settings}


async def taken(node: LiveBroker) -> list[int]:
    """What is in the log of a broker where nothing happens any more, up to the number 99, which is put there."""
    found: list[int] = []
    async with tidewire.connect(node.address, guaranteed=True) as wire:
        await wire.publish({"n": 99})
        async for event in await wire.subscribe("n >= 0", durable="who looks", since="earliest"):
            found.append(int(str(event["n"])))
            if found[-1] == 99:
                return found[:-1]
    raise AssertionError("it ends with 99")


def hold_receipts(node: LiveBroker) -> None:
    """From now on nothing becomes durable there, as on a disk that hangs."""
    node._submit = lambda: None  # type: ignore[method-assign]


@pytest.mark.parametrize("guaranteed", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_nothing_is_begun_behind_a_bad_event(tmp_path: Path, *, guaranteed: bool, is_first: bool) -> None:
    """Whether it is the first that the session publishes, or not; it is named, with what was taken."""
    good = "durable" if guaranteed else "published"
    large = {"n": 5, "text": "x" * 9000}

    async def run() -> None:
        node_settings = lone(tmp_path, frame_bytes_max=8192)
        async with brokers(node_settings) as (node,), tidewire.connect(node.address, guaranteed=guaranteed) as wire:
            if not is_first:
                await wire.publish({"n": 0}, guaranteed=True)
            for bad, code in (({"n": [3]}, UnsupportedType), (large, EventTooLarge)):
                with pytest.raises(code) as failed:
                    await wire.publish_many([{"n": 1}, {"n": 2}, bad, *({"n": n} for n in range(4, 3000))])
                told = f"; of 3 events: 2 {good}, 1 not taken; none after them was begun"
                assert failed.value.message.startswith("event 3: ")
                assert failed.value.message.endswith(told)
            assert await taken(node) == [0] * (not is_first) + [1, 2, 1, 2] * guaranteed

    asyncio.run(run())


def test_whoever_waits_for_more_hears_of_the_first_failure_at_once(tmp_path: Path) -> None:
    """Of lines that come now and then: nothing is published behind a hole, and nobody waits for the next line."""

    async def run() -> None:
        async with brokers(lone(tmp_path)) as (node,), tidewire.connect(node.address) as wire:
            seen = await wire.subscribe("n >= 0", durable="who looks")
            command = [sys.executable, "-m", "tidewire", "pub", "-", "--guaranteed", "--at", node.address]
            pipe = subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stderr=pipe, cwd=tmp_path)
            assert process.stdin is not None
            process.stdin.write(b'{"n": 1}\n{"n": 2}\n')
            assert [(await seen.get(20))["n"] for _ in range(2)] == [1, 2]
            await node.stop()
            process.stdin.write(b'{"n": 3}\n{"n": 4}\n')
            assert process.stderr is not None
            told = (await asyncio.wait_for(process.stderr.read(), 30)).decode()
            assert "event 3: a guaranteed event was not sent: no broker could be reached" in told
            assert "of 4 events: 2 durable, 2 not taken; none after them was begun" in told
            assert await process.wait() == 2

    asyncio.run(run())


def test_what_gives_the_events_may_fail_too(tmp_path: Path) -> None:
    """Its error is raised when it is known what has become of those before."""

    def some(error: Exception) -> Iterator[dict[str, int]]:
        yield from ({"n": n} for n in range(3))
        raise error

    async def run() -> None:
        async with brokers(lone(tmp_path)) as (node,), tidewire.connect(node.address, guaranteed=True) as wire:
            with pytest.raises(UsageError, match=r"^no line; of 3 events: 3 durable; none after them was begun$"):
                await wire.publish_many(some(UsageError("no line")))
            with pytest.raises(KeyError) as failed:
                await wire.publish_many(some(KeyError("mine")))
            assert failed.value.__notes__ == ["of 3 events: 3 durable; none after them was begun"]
            assert await taken(node) == [0, 1, 2, 0, 1, 2]

    asyncio.run(run())


def test_a_session_that_is_closed_says_how_each_event_stands(tmp_path: Path) -> None:
    """Sent and without a receipt: in doubt. Never sent: not taken. With a receipt: nothing is said."""

    async def run() -> None:
        async with brokers(lone(tmp_path)) as (node,):
            wire = tidewire.connect(node.address, guaranteed=True, timeout=0.5)
            await wire.__aenter__()
            await wire.publish({"n": 0})
            hold_receipts(node)
            publishing = asyncio.create_task(wire.publish({"n": 1}))
            await until(lambda: wire._session.core._promised._guarantees.broker is not None)
            with pytest.raises(
                Unavailable, match=r"^guaranteed events without a receipt, which may have been taken: 1:"
            ):
                await wire.close()
            with pytest.raises(InDoubt, match=r"was sent to B0 and has no receipt, so it may have been taken.*closed"):
                await publishing
            with pytest.raises(Unavailable, match=r"^a guaranteed event was not sent: this session is closed$"):
                await wire.publish({"n": 2})

    asyncio.run(run())


def test_who_interrupts_the_command_learns_what_was_taken(tmp_path: Path) -> None:
    """Of guaranteed events: so many are durable, and those without a receipt are in doubt. As a document, too."""

    async def run() -> None:
        async with brokers(lone(tmp_path)) as (node,), tidewire.connect(node.address) as wire:
            seen = await wire.subscribe("n >= 0", durable="who looks")
            command = [sys.executable, "-m", "tidewire", "pub", "-", "--guaranteed", "--json", "--at", node.address]
            pipe = subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path)
            assert process.stdin is not None
            process.stdin.write(b'{"n": 1}\n{"n": 2}\n')
            assert [(await seen.get(20))["n"] for _ in range(2)] == [1, 2]
            hold_receipts(node)
            process.stdin.write(b'{"n": 3}\n')
            await until(lambda: sum(one.events for one in node.engine.streams()) == 3)
            process.send_signal(signal.SIGINT)
            printed, told = await asyncio.wait_for(process.communicate(), 30)
            assert b"interrupted; of 3 events: 2 durable, 1 in doubt; none after them was begun" in told
            assert process.returncode == 130
            done = json.loads(printed)
            assert done.pop("seconds") > 0
            counts = {"published": 2, "durable": 2, "refused": 0, "not_taken": 0, "in_doubt": 1}
            assert done == {**counts, "broker": "B0", "interrupted": True}

    asyncio.run(run())


def test_the_end_of_a_session_waits_for_receipts_and_does_not_complain(tmp_path: Path) -> None:
    async def run() -> None:
        async with brokers(lone(tmp_path)) as (node,):
            async with tidewire.connect(node.address, guaranteed=True) as wire:
                await wire.publish({"n": 0})
                publishing = [asyncio.create_task(wire.publish({"n": n})) for n in range(1, 50)]
                await asyncio.sleep(0)
            await asyncio.gather(*publishing)
            assert not wire.notices
            assert await taken(node) == list(range(50))

    asyncio.run(run())


def test_nobody_complains_at_the_end_when_nothing_is_in_doubt(tmp_path: Path) -> None:
    """The broker is gone, and all that was published has its receipt."""

    async def run() -> None:
        async with brokers(lone(tmp_path)) as (node,):
            wire = tidewire.connect(node.address, guaranteed=True, timeout=0.5)
            await wire.__aenter__()
            await wire.publish({"n": 1})
            await node.stop()
            await until(lambda: any(notice.what == "connection lost" for notice in wire.notices))
            with pytest.raises(Unavailable, match=r"^a guaranteed event was not sent: no broker could be reached at"):
                await wire.publish({"n": 2})
            await wire.close()

    asyncio.run(run())


def test_an_event_that_is_too_large_is_refused_and_the_next_one_taken(tmp_path: Path) -> None:
    async def run() -> None:
        settings = lone(tmp_path, frame_bytes_max=8192)
        async with brokers(settings) as (node,), tidewire.connect(node.address, guaranteed=True) as wire:
            for size in (8000, 8050, 8100, 8150, 8192, 9000, 1 << 20):
                publishing = wire.publish({"n": 0}, body=b"x" * size, content_type="text/plain")
                if size == 8000:
                    await publishing
                    continue
                with pytest.raises(EventTooLarge, match=r"bytes, [\d,]+ too many: .* frame_bytes_max is 8,192"):
                    await asyncio.wait_for(publishing, 20)
            await wire.publish({"n": 1})
            assert not wire.notices
            assert await taken(node) == [0, 1]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"class": "Q", "n": 11}, "class = 'Q' and n < 10 (n < 10 is false: n is 11)"),
        ({"n": 1}, "(class = 'Q' is unknown: class is missing)"),
        ({"class": "Q", "n": 1, "colour": "red"}, "(it does not name colour; for any value: colour is not null)"),
    ],
)
def test_what_was_not_advertised_is_refused_with_the_attribute(event: dict[str, Any], why: str, tmp_path: Path) -> None:
    """Of many events too; and it is said what to do."""

    async def run() -> None:
        async with brokers(lone(tmp_path)) as (node,), tidewire.connect(node.address, guaranteed=True) as wire:
            await wire.advertise("class = 'Q' and n < 10")
            for publishing in (wire.publish(event), wire.publish_many([event])):
                with pytest.raises(NotAdvertised) as refused:
                    await publishing
                assert why in refused.value.message
                assert "Mend the event, or advertise it too" in refused.value.message
            await wire.publish({"class": "Q", "n": 1})

    asyncio.run(run())
