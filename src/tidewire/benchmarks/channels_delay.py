"""From publish to notification: a broker, a data cluster and a subscriber, each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from tidewire.benchmarks.processes import ServerProcess, free_port
from tidewire.benchmarks.progress import Tell
from tidewire.channels.commands import CreateChannel
from tidewire.live.connect import connect
from tidewire.live.operate import ask
from tidewire.model.channel_messages import Command
from tidewire.model.errors import Unavailable, UnknownName, error_of
from tidewire.model.messages import Refused
from tidewire.spark.datasets import Feed, Warehouse, columns_of, declare
from tidewire.spark.sink import create_tables

ENOUGH_P50_S: Final = 2.0
"""With a period of a second."""
_CHANNEL: Final = "create channel mine(s string) period 1s as select q.at_ns from quotes q where q.symbol = :s"
_SYMBOLS: Final = 100
_START_S: Final = 180.0
_PATIENCE_S: Final = 60.0
_TURN_S: Final = 0.05


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """At one rate; every event that was wanted was told."""

    events_per_s: int
    p50_s: float
    p99_s: float
    told: int


def measured_delays(folder: Path, rates_per_s: tuple[int, ...], seconds: float, *, tell: Tell) -> list[Delay]:
    """One network for all rates."""
    if not rates_per_s:
        return []
    warehouse = Warehouse(folder / "delays")
    declared = declare(
        "quotes", columns_of("symbol string, at_ns bigint"), feed=Feed(wanted="class = 'Q'", takes_others=True)
    )
    create_tables(warehouse, declared)
    warehouse.add(declared)
    at, cluster = (f"127.0.0.1:{free_port()}" for _ in range(2))
    program = [sys.executable, "-c", "from tidewire.cli import main; main()"]
    with contextlib.ExitStack() as stack:
        tell("starting a broker and a data cluster")
        flags = ["broker", "--json", "--listen", at, "--role", "both", "--store", str(folder / "log")]
        broker = ServerProcess([*program, *flags, "--data-cluster", cluster], env=os.environ, folder=folder)
        stack.callback(broker.end)
        broker.wait_until_said(at, timeout_s=_START_S)
        flags = ["datacluster", "--json", "--at", at, "--folder", str(warehouse.root), "--listen", cluster]
        node = ServerProcess([*program, *flags], env=os.environ, folder=folder)
        stack.callback(node.end)
        node.wait_until_said('"what":"datacluster"', timeout_s=_START_S)
        return asyncio.run(_delays(at, cluster, rates_per_s, seconds, tell))


async def _delays(at: str, cluster: str, rates_per_s: tuple[int, ...], seconds: float, tell: Tell) -> list[Delay]:
    await _create(cluster)
    async with connect(at, guaranteed=True) as publisher, connect(at) as subscriber:
        await _heard(subscriber)
        async with subscriber.channel("mine", s="s1") as wanted:
            found = []
            for rate in rates_per_s:
                tell(f"{rate:,} events/s")
                await _at_rate(publisher, wanted, rate, 3.0)
                found.append(await _at_rate(publisher, wanted, rate, seconds))
            return found


async def _heard(subscriber: Any) -> None:
    """Until the broker has heard of the channel."""
    async with asyncio.timeout(_START_S):
        while True:
            try:
                async with subscriber.channel("mine", s="s0"):
                    return
            except (Unavailable, UnknownName):
                await asyncio.sleep(0.1)


async def _create(cluster: str) -> None:
    question = Command(1, msgspec.json.encode(CreateChannel(_CHANNEL)), "")
    answer = await ask(cluster, question, seconds=_PATIENCE_S)
    if isinstance(answer, Refused):
        raise error_of(answer.code, answer.reason)


async def _at_rate(publisher: Any, wanted: Any, rate: int, seconds: float) -> Delay:
    """A hundredth of the events is wanted."""
    turns, each = int(seconds / _TURN_S), int(rate * _TURN_S)
    due = sum(1 for number in range(turns * each) if number % _SYMBOLS == 1)
    delays: list[float] = []

    async def listen() -> None:
        while len(delays) < due:
            notification = await wanted.get(_PATIENCE_S)
            now_ns = time.monotonic_ns()
            delays.extend((now_ns - row["at_ns"]) / 1e9 for row in notification.rows)

    listening = asyncio.create_task(listen())
    start = time.monotonic()
    for turn in range(turns):
        now_ns = time.monotonic_ns()
        numbers = range(turn * each, (turn + 1) * each)
        await publisher.publish_many(
            {"class": "Q", "symbol": f"s{number % _SYMBOLS}", "at_ns": now_ns} for number in numbers
        )
        await asyncio.sleep(max(0.0, start + (turn + 1) * _TURN_S - time.monotonic()))
    await listening
    delays.sort()
    return Delay(
        events_per_s=rate,
        p50_s=delays[len(delays) // 2],
        p99_s=delays[int(len(delays) * 0.99)],
        told=len(delays),
    )
