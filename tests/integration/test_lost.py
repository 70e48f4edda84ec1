"""Stores that have lost something, with real brokers: their subscribers and their operators hear of it."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import tidewire
from tests.integration.network import brokers, until
from tests.integration.test_guaranteed import head_and_edges, stored, take
from tidewire.broker.pubends import pubend_of
from tidewire.broker.status import BrokerStatus
from tidewire.client.events import Tell
from tidewire.live.broker import LiveBroker
from tidewire.live.operate import status_of
from tidewire.model.ids import BrokerId
from tidewire.model.ticks import TICK_MAX


async def doctor(node: LiveBroker) -> tuple[int, dict[str, str]]:
    """What `tidewire doctor` finds about losses, and its exit code."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tidewire", "doctor", "--json", "--at", node.address, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await program.communicate()
    assert program.returncode is not None
    (found,) = [one for one in json.loads(printed)["findings"] if one["check"] == "losses"]
    return program.returncode, found


class Reader:
    """A durable subscriber, and the gaps that it is told of."""

    def __init__(self) -> None:
        self.gaps: list[dict[str, Any]] = []

    def hear(self, notice: Tell) -> None:
        if notice.what == "gap":
            self.gaps.append(notice.facts)


async def losses_of(node: LiveBroker) -> list[Any]:
    """As its status says."""
    status = msgspec.json.decode(await status_of(node.address), type=BrokerStatus)
    assert status.log is not None
    return status.log.losses


def test_a_store_that_was_deleted_is_told_to_those_who_know_more(tmp_path: Path) -> None:
    """They hear of one gap from where they were to where it begins anew, and get what is published then."""

    async def run() -> None:
        reader = Reader()
        nodes = head_and_edges(tmp_path)
        async with brokers(*nodes) as (head, edge, _):
            async with tidewire.connect(edge.address) as wire:
                subscription = await wire.subscribe("n >= 0", durable="alarms")
                async with tidewire.connect(head.address, guaranteed=True) as writer:
                    await writer.publish_many({"n": n} for n in range(10))
                assert await take(subscription, 5) == list(range(5))
                position = subscription.position
        shutil.rmtree(tmp_path / "0")
        pubend = f"{pubend_of(BrokerId('B0'), 0):016x}"
        async with brokers(*nodes) as (head, edge, _):
            async with tidewire.connect(edge.address, on_notice=reader.hear) as wire:
                async with tidewire.connect(head.address, guaranteed=True) as writer:
                    await writer.publish({"n": 100})
                    subscription = await wire.subscribe("n >= 0", durable="alarms", position=position)
                    await writer.publish({"n": 101})
                    assert await take(subscription, 2) == [100, 101]
            (gap,) = [one for one in reader.gaps if one["pubend"] == pubend]
            assert gap["first"] == position[pubend]
            assert await losses_of(head) == []

    asyncio.run(run())


def test_a_position_that_never_was_is_no_problem_of_the_store(tmp_path: Path) -> None:
    """Before the stream: a gap for whoever gives it, and no finding. Ahead of it: a warning, as the client's word."""

    async def run() -> None:
        reader = Reader()
        async with brokers(*stored(tmp_path, {"role": "both"})) as (node,):
            stream = f"{pubend_of(BrokerId('B0'), 0):016x}"
            async with tidewire.connect(node.address, on_notice=reader.hear, guaranteed=True) as wire:
                for place, count in ((1, 1), (TICK_MAX, 2)):
                    subscription = await wire.subscribe("n >= 0", durable=f"from {place}", position={stream: place})
                    await wire.publish({"n": place})
                    assert await take(subscription, 1) == [place]
                    assert len(reader.gaps) == count
                    assert [one.why for one in await losses_of(node)] == ["said"] * (count - 1)
            code, found = await doctor(node)
            assert (code, found["level"]) == (0, "warning")
            assert f"has less of stream {stream} than subscribers say they have had" in found["message"]
            assert "that say so: 1)" in found["message"]

    asyncio.run(run())


def test_a_store_that_was_emptied_is_a_problem_if_another_broker_knows(tmp_path: Path) -> None:
    """The one that had brought a follower to the end of the stream; the follower hears of one gap."""

    async def run() -> None:
        reader = Reader()
        async with brokers(*head_and_edges(tmp_path)) as (head, edge, _):
            async with tidewire.connect(edge.address, on_notice=reader.hear) as wire:
                subscription = await wire.subscribe("n >= 0", durable="alarms")
                async with tidewire.connect(head.address, guaranteed=True) as writer:
                    await writer.publish({"n": 1})
                assert await take(subscription, 1) == [1]
                await head.stop()
                shutil.rmtree(tmp_path / "0")
                again = LiveBroker(msgspec.structs.replace(head.config, address=head.address))
                await again.start()
                try:
                    async with tidewire.connect(again.address, guaranteed=True) as writer:
                        await writer.publish({"n": 2})
                    assert await take(subscription, 1) == [2]
                    await until(lambda: len(reader.gaps) == 1)
                    assert [one.why for one in await losses_of(again)] == ["younger"]
                    code, found = await doctor(again)
                    assert (code, found["level"]) == (3, "problem")
                    assert "is younger than what brokers have told of stream" in found["message"]
                finally:
                    await again.stop()

    asyncio.run(run())


@pytest.mark.parametrize("is_far", [False, True])
def test_what_is_damaged_is_a_gap_and_a_problem(tmp_path: Path, *, is_far: bool) -> None:
    """The events around it come; also through a broker that has no store, which must not take it for silence."""

    async def run() -> None:
        reader = Reader()
        nodes = head_and_edges(tmp_path)[:2] if is_far else stored(tmp_path, {"role": "both"})
        async with brokers(*nodes) as (node, *_):
            assert (await doctor(node))[1]["level"] == "ok"
            async with tidewire.connect(node.address, guaranteed=True) as wire:
                for n in range(9):
                    await wire.publish({"n": n, "text": f"this is number {n}"})
        (segment,) = [file for file in (tmp_path / "0").glob("*.log") if b"number 4" in file.read_bytes()]
        with segment.open("r+b") as file:
            file.seek(segment.read_bytes().index(b"number 4"))
            file.write(b"nothing!")
        async with brokers(*nodes) as (node, *others):
            async with tidewire.connect([node, *others][-1].address, on_notice=reader.hear) as wire:
                subscription = await wire.subscribe("n >= 0", durable="x", since="earliest")
                assert await take(subscription, 8) == [0, 1, 2, 3, 5, 6, 7, 8]
            (gap,) = reader.gaps
            (loss,) = await losses_of(node)
            assert (loss.why, loss.ticks) == ("damaged", gap["last"] - gap["first"] + 1)
            code, found = await doctor(node)
            assert (code, found["level"]) == (3, "problem")
            assert "damaged: it lacks a part of stream" in found["message"]

    asyncio.run(run())


def test_the_first_event_behind_much_damage_is_looked_for_once(tmp_path: Path) -> None:
    """Else a broker would read all that is damaged again and again, and do nothing else."""

    async def run() -> None:
        async with brokers({"role": "both", "store": str(tmp_path / "log")}) as (node,):
            streams = node.node.streams
            assert streams is not None
            assert streams.log is not None
            looked: list[int] = []
            log, find = streams.log, streams.log.first_tick

            def first_tick(pubend: int) -> int:
                looked.append(pubend)
                return find(pubend)

            log_seen = SimpleNamespace(
                first_tick=first_tick,
                **{name: getattr(log, name) for name in ("released_tick", "losses")},
                **{name: getattr(log, name) for name in ("trouble", "trouble_text", "disk_bytes", "durable")},
            )
            async with tidewire.connect(node.address, guaranteed=True) as wire:
                await wire.publish({"n": 1})

                def firsts() -> list[int]:
                    looked.clear()
                    return [first for _, first in streams._log_seen(log_seen).firsts]

                before = firsts()
                assert sum(first > 0 for first in before) == 1
                assert (firsts(), looked) == (before, [])
                await wire.publish({"n": 2})
                assert firsts() == before
                [stream] = [pubend for (pubend, _), first in zip(streams.engine.heads(), before, strict=True) if first]
                assert looked == []
                log.release(stream, log.last_tick(stream))
                await until(lambda: log.released_tick(stream) == log.last_tick(stream))
                assert max(firsts()) == log.last_tick(stream)
                assert looked == [stream]

    asyncio.run(run())
