"""Where a durable subscription begins and goes on; and by a terminal, that nothing is taken before it is shown."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time
from typing import Any

import pytest

import tidewire
from tests.integration.network import brokers, until
from tests.integration.test_commands import running, says, told
from tests.integration.test_guaranteed import stored, take
from tidewire.broker.config import BrokerConfig
from tidewire.cli.gaps import Gaps
from tidewire.client.events import Tell
from tidewire.live.broker import LiveBroker
from tidewire.live.inbox import WAITING_MAX
from tidewire.live.subscription import Subscription
from tidewire.model.errors import UsageError
from tidewire.model.events import Envelope, make_event
from tidewire.model.ids import BrokerId
from tidewire.model.ticks import tick_at


async def in_streams(address: str, monkeypatch: pytest.MonkeyPatch, **numbers: range) -> None:
    """Events with these numbers, into the first stream or the second: a publisher's is its number's remainder."""
    for stream, chosen in numbers.items():
        who = 2 * (1 + chosen[0]) + ("first", "second").index(stream)  # nobody was it before
        number = 2 * who  # half of it is taken
        monkeypatch.setattr("tidewire.live.session.os.urandom", lambda size, n=number: n.to_bytes(size, "little"))
        async with tidewire.connect(address, guaranteed=True) as wire:
            await wire.publish_many({"n": n} for n in chosen)


async def all_of(subscription: Subscription, count: int) -> list[int]:
    """So many, whichever stream they come from; and no more are under way."""
    found = sorted(await take(subscription, count))
    with pytest.raises(TimeoutError):
        await subscription.get(0.3)
    return found


def test_a_position_says_where_to_go_on_in_the_streams_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In others a known name goes on where it was, and a new one begins as ``since`` says."""

    async def run() -> None:
        async with brokers(*stored(tmp_path, {"role": "both", "pubends": 2})) as (node,):
            await in_streams(node.address, monkeypatch, first=range(2))
            async with tidewire.connect(node.address) as wire:
                known = await wire.subscribe("n >= 0", durable="known", since="earliest")
                assert await all_of(known, 2) == [0, 1]
                stream = max(known.position, key=lambda name: known.position[name])  # the other one has not moved
                place = {stream: known.position[stream]}
                await in_streams(node.address, monkeypatch, first=range(2, 5), second=range(10, 13))
                whole = await all_of(known, 6)
                assert whole == [2, 3, 4, 10, 11, 12]
                await known.unsubscribe()

                known = await wire.subscribe("n >= 0", durable="known", position=place)
                assert await all_of(known, 3) == [2, 3, 4]
                fresh = await wire.subscribe("n >= 0", durable="fresh", position=place, since="earliest")
                assert await all_of(fresh, 6) == whole
                later = await wire.subscribe("n >= 0", durable="later", position=place)
                assert later.position[stream] == place[stream]  # also before anything is taken
                assert await all_of(later, 3) == [2, 3, 4]
                assert len(later.position) == len(fresh.position) == 2
                assert fresh.position[stream] == later.position[stream] == known.position[stream]

    asyncio.run(run())


def test_nothing_begins_in_the_future(tmp_path: Path) -> None:
    async def run() -> None:
        async with brokers(*stored(tmp_path, {"role": "both"})) as (node,), tidewire.connect(node.address) as wire:
            await wire.subscribe("n >= 0", durable="a", since=time())
            for since in (time() + 3600, float("inf")):
                with pytest.raises(UsageError, match="is in the future"):
                    wire.subscribe("n >= 0", durable="b", since=since)

    asyncio.run(run())


# -- at a terminal -----------------------------------------------------------------------------------------------------


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Where a broker with a store listens."""
    with running("broker", "--listen", "127.0.0.1:0", "--store", "log", folder=folder) as node:
        yield node.until(says("broker"))["address"]
        assert node.end() == 0


def test_what_is_not_shown_is_not_done(tmp_path: Path) -> None:
    """However many have come: the next one who listens by the name gets the next one."""
    with broker(tmp_path) as where:
        listen = ["sub", "n >= 0", "--durable", "x", "--since", "earliest", "--at", where, "--count"]
        typed = "\n".join(f'{{"n": {n}}}' for n in range(6))
        told("pub", "-", "--guaranteed", "--at", where, folder=tmp_path, typed=typed)
        shown = []
        for count in (1, 2, 3):
            with running(*listen, str(count), folder=tmp_path) as subscriber:
                shown += [subscriber.until(lambda one: "event" in one)["event"]["n"] for _ in range(count)]
                assert subscriber.process.wait(30) == 0
        assert shown == list(range(6))


@pytest.mark.parametrize(
    ("flags", "says_what"),
    [
        (["--since", "earliest"], "add --durable NAME"),
        (["--durable", "x", "--since", "2999-01-01T00:00:00Z"], "is in the future"),
        (["--durable", "x", "--since", "soon"], "now, earliest, seconds since 1970, or 2026-11-15T12:00:00Z"),
        (["--durable", ""], "1 to 255 printable characters"),
        (["--durable", "a\nb"], "1 to 255 printable characters"),
        (["n = 7", "--durable", "x"], "one filter"),
    ],
)
def test_what_cannot_be_is_refused_before_anybody_is_asked(flags: list[str], says_what: str, tmp_path: Path) -> None:
    refused = told("sub", "n >= 0", *flags, "--at", "127.0.0.1:1", folder=tmp_path, code=2)
    assert refused["error"]["code"] == "usage"
    assert says_what in refused["error"]["message"]


def test_a_gap_is_a_document(tmp_path: Path) -> None:
    """Here it is retention that has let go of what nobody came for."""

    async def run() -> None:
        [settings] = stored(tmp_path, {"role": "both", "release": "retention", "retain_s": 0.0})
        async with brokers(settings) as (node,), tidewire.connect(node.address, guaranteed=True) as wire:
            await wire.publish({"n": 0})
            async with wire.subscribe("n >= 0", durable="x"), wire.subscribe("n >= 0", durable="y") as seen:
                await wire.publish({"n": 1})
                tick = (await seen.get(20)).event.envelope.tick
            assert tick is not None
            await until(lambda: all(one.released > tick for one in node.engine.streams()))
            command = [
                sys.executable,
                "-m",
                "tidewire",
                "sub",
                "n >= 0",
                "--durable",
                "x",
                "--at",
                node.address,
                "--json",
            ]
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=tmp_path)
            assert process.stdout is not None
            told = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))["gap"]
            process.send_signal(signal.SIGINT)
            rest, _ = await asyncio.wait_for(process.communicate(), 30)
            assert rest == b""
            assert (told["durable"], len(told["stream"])) == ("x", 16)
            assert told["first"] <= tick <= told["last"]
            assert told["from"] <= told["to"]

    asyncio.run(run())


def gap(stream: int, first: int, last: int) -> Tell:
    return Tell("gap", {"number": 1, "pubend": f"{stream:016x}", "first": tick_at(first), "last": tick_at(last) - 1})


class Waiting:
    """A subscription in which nothing waits."""

    waiting = 0


def test_one_loss_is_one_line_where_its_events_would_have_been(capsys: pytest.CaptureFixture[str]) -> None:
    """Also if it is told in pieces; each stream has its own order; what is left is told at the end."""

    def event(stream: int, at: int) -> Any:
        made = make_event({"n": 1}, envelope=Envelope(pubend=stream, tick=tick_at(at)))
        return type("Came", (), {"event": made})

    async def run() -> None:
        gaps = Gaps("alarms", as_json=True)
        with gaps.told_beside(Waiting()):  # type: ignore[arg-type]
            for told_of in (gap(7, 1000, 2000), gap(8, 1000, 2000), gap(7, 2000, 3000), gap(7, 5000, 6000)):
                gaps.add(told_of)
            gaps.before(event(7, 999))
            assert capsys.readouterr().out == ""
            gaps.before(event(7, 3000))
            told = json.loads(capsys.readouterr().out)["gap"]
            assert (told["stream"], told["from"]) == (f"{7:016x}", "1970-01-01T00:00:01.000+00:00")
            assert (told["first"], told["last"]) == (tick_at(1000), tick_at(3000) - 1)
        assert len(capsys.readouterr().out.splitlines()) == 2

    asyncio.run(run())


def store(folder: Path, address: str = "127.0.0.1:0", **more: Any) -> LiveBroker:
    """A broker that keeps events."""
    return LiveBroker(BrokerConfig(broker=BrokerId("A"), address=address, role="both", store=str(folder), **more))


def edge(of: LiveBroker) -> LiveBroker:
    """One that keeps none, beside it."""
    return LiveBroker(BrokerConfig(broker=BrokerId("B"), address="127.0.0.1:0", role="both", neighbours=[of.address]))


@pytest.mark.parametrize("has_edge", [True, False])
def test_what_has_come_and_is_not_done_comes_again_also_if_its_store_was_away(tmp_path: Path, has_edge: bool) -> None:
    """The session goes on where it is when the store is back. It dies, and the next one gets what was not done."""

    async def run() -> None:
        first = store(tmp_path / "log")
        await first.start()
        near = edge(first) if has_edge else first
        if has_edge:
            await near.start()
        async with tidewire.connect(near.address, timeout=30) as reader:
            await reader.subscribe("n >= 0", durable="x")
        async with tidewire.connect(first.address, guaranteed=True, timeout=30) as wire:
            await wire.publish_many({"n": n} for n in range(50))
        with suppress(RuntimeError):
            async with tidewire.connect(near.address, timeout=30) as reader:
                subscription = await reader.subscribe("n >= 0", durable="x")
                assert [(await subscription.get(20))["n"] for _ in range(11)] == list(range(11))
                await until(lambda: subscription.waiting == 39)
                address = first.address
                await first.stop()
                first = store(tmp_path / "log", address)
                await first.start()
                await until(lambda: first.node.core.streams.pubends.holds.names() != [])
                async with tidewire.connect(first.address, guaranteed=True, timeout=30) as wire:
                    await wire.publish({"n": 50})
                await until(lambda: subscription.waiting == 40)  # it follows again
                raise RuntimeError("no orderly end")
        near = near if has_edge else first
        async with tidewire.connect(near.address, timeout=30) as reader:
            subscription = await reader.subscribe("n >= 0", durable="x")
            assert [(await subscription.get(20))["n"] for _ in range(41)] == list(range(10, 51))
        for node in dict.fromkeys((near, first)):
            await node.stop()

    asyncio.run(run())


def test_an_orderly_end_while_the_store_is_away_is_told_later(tmp_path: Path) -> None:
    """By the broker where it was: nothing comes twice."""

    async def run() -> None:
        first = store(tmp_path / "log")
        await first.start()
        near = edge(first)
        await near.start()
        async with tidewire.connect(near.address, timeout=30) as reader:
            await reader.subscribe("n >= 0", durable="x")
        async with tidewire.connect(first.address, guaranteed=True, timeout=30) as wire:
            await wire.publish_many({"n": n} for n in range(20))
        async with tidewire.connect(near.address, timeout=30) as reader:
            subscription = await reader.subscribe("n >= 0", durable="x")
            await until(lambda: subscription.waiting == 20)
            address = first.address
            await first.stop()
            assert [(await subscription.get(20))["n"] for _ in range(20)] == list(range(20))
            await subscription.unsubscribe()
        first = store(tmp_path / "log", address)
        await first.start()
        async with tidewire.connect(first.address, guaranteed=True, timeout=30) as wire:
            await wire.publish({"n": 20})
        async with tidewire.connect(near.address, timeout=30) as reader:
            subscription = await reader.subscribe("n >= 0", durable="x")
            assert (await subscription.get(20))["n"] == 20
        await near.stop()
        await first.stop()

    asyncio.run(run())


def test_a_subscription_that_is_over_holds_up_no_other(tmp_path: Path) -> None:
    """It had so much unread that nothing was read any more."""

    async def run() -> None:
        async with brokers({"role": "both", "store": str(tmp_path / "log")}) as (node,):
            async with tidewire.connect(node.address, timeout=30) as reader:
                other = await reader.subscribe("m >= 0")
                unread = await reader.subscribe("n >= 0", durable="x")
                async with tidewire.connect(node.address, guaranteed=True, timeout=30) as wire:
                    await wire.publish_many({"n": n} for n in range(WAITING_MAX + 1))
                    await until(lambda: unread.waiting >= WAITING_MAX)
                    await reader.forget("x")
                    await wire.publish({"m": 1}, guaranteed=False)
                    assert (await other.get(20))["m"] == 1

    asyncio.run(run())


def test_a_filter_may_be_changed_again_and_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            brokers(*stored(tmp_path, {"role": "both"})) as (node,),
            tidewire.connect(node.address, guaranteed=True) as wire,
        ):
            for name in ("x", "y", "z"):
                subscription = await wire.subscribe("n >= 0", durable=name)
                for n in range(8):
                    await subscription.change(f"n = {n}")
                await wire.publish_many({"n": n} for n in range(9))
                assert await all_of(subscription, 1) == [7]
                await subscription.unsubscribe()

    asyncio.run(run())


def test_what_waits_to_be_read_must_match_the_filter_that_it_is_changed_to(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            brokers(*stored(tmp_path, {"role": "both"})) as (node,),
            tidewire.connect(node.address, guaranteed=True) as wire,
        ):
            for durable in ("x", None):
                subscription = await wire.subscribe("n >= 0", durable=durable)
                await wire.publish_many({"n": n} for n in range(10))
                await until(lambda one=subscription: one.waiting == 10)
                assert (await subscription.get(5))["n"] == 0
                await subscription.change("n >= 5")
                assert await all_of(subscription, 5) == [5, 6, 7, 8, 9]
                await subscription.unsubscribe()

    asyncio.run(run())
