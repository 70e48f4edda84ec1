"""What somebody who publishes is told: of each event whether it was taken, and of many, which one failed."""

from __future__ import annotations

import asyncio
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


def test_one_bad_event_among_many_is_named_with_what_was_taken(tmp_path: Path) -> None:
    async def run() -> None:
        async with brokers(lone(tmp_path)) as (node,), tidewire.connect(node.address, guaranteed=True) as wire:
            with pytest.raises(UnsupportedType, match=r"^event 3: .*; of \d+ events: \d+ durable, 1 not taken; none"):
                await wire.publish_many([{"n": 1}, {"n": 2}, {"n": [3]}, *({"n": n} for n in range(4, 9))])
            told = str((await asyncio.gather(wire.publish_many([{"n": 20}, {"n": [21]}]), return_exceptions=True))[0])
            assert told.endswith("; of 2 events: 1 durable, 1 not taken; none after them was begun")
            with pytest.raises(UnsupportedType, match=r"^event 2: .*; of 2 events: 1 published, 1 not taken; none"):
                await wire.publish_many([{"n": 30}, {"n": [31]}, {"n": 32}], guaranteed=False)
            found = await taken(node)
            assert {1, 2, 20} <= set(found) <= {*range(1, 3), *range(4, 9), 20}
            assert found == sorted(found)

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
    """Of guaranteed events: so many are durable, and those without a receipt are in doubt."""

    async def run() -> None:
        async with brokers(lone(tmp_path)) as (node,), tidewire.connect(node.address) as wire:
            seen = await wire.subscribe("n >= 0", durable="who looks")
            command = [sys.executable, "-m", "tidewire", "pub", "-", "--guaranteed", "--at", node.address]
            pipe = subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stderr=pipe, cwd=tmp_path)
            assert process.stdin is not None
            process.stdin.write(b'{"n": 1}\n{"n": 2}\n')
            assert [(await seen.get(20))["n"] for _ in range(2)] == [1, 2]
            hold_receipts(node)
            process.stdin.write(b'{"n": 3}\n')
            await until(lambda: sum(one.events for one in node.engine.streams()) == 3)
            process.send_signal(signal.SIGINT)
            _, told = await asyncio.wait_for(process.communicate(), 30)
            assert b"interrupted; of 3 events: 2 durable, 1 in doubt; none after them was begun" in told
            assert process.returncode == 130

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
                with pytest.raises(EventTooLarge):
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
