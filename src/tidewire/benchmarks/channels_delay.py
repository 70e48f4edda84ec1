"""From publish to notification: a broker, a data cluster and many subscribers, each in a process of its own.

Every event matches ten subscriptions, and every subscriber is told all of its own: a result that is missing, or comes
twice, ends the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from tidewire.benchmarks.processes import ServerProcess, cpu_s, free_port, process_tree
from tidewire.benchmarks.progress import Tell
from tidewire.channels.commands import CreateChannel
from tidewire.live.channels import ChannelNotification
from tidewire.live.connect import Wire, connect
from tidewire.live.operate import ask
from tidewire.model.channel_messages import Command
from tidewire.model.errors import PeerError, Unavailable, UnknownName, error_of
from tidewire.model.messages import Refused
from tidewire.spark.datasets import Feed, Warehouse, columns_of, declare
from tidewire.spark.sink import create_tables

ENOUGH_P50_S: Final = 2.0
"""With a period of a second."""
MATCHES: Final = 10
"""Of an event: as many subscriptions to its symbol, each with another limit that it is above."""
_CHANNEL: Final = """create channel mine(s string, least double) period 1s as
select q.at_ns from quotes q where q.symbol = :s and q.price >= :least"""
_START_S: Final = 180.0
_PATIENCE_S: Final = 120.0
_TURN_S: Final = 0.05


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told."""

    clients: int = 100
    each: int = 100
    """Subscriptions of a client, no two of all clients alike."""

    @property
    def symbols(self) -> int:
        """So many are published, one after the other."""
        return self.clients * self.each // MATCHES


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """At one rate; every event was told to ten."""

    events_per_s: int
    p50_s: float
    p99_s: float
    told: int
    """Rows, in all notifications together."""

    subscriptions: int
    busy_cores: dict[str, float]
    """What each process used meanwhile; of this one, clients and the publisher."""


def measured_delays(
    folder: Path, rates_per_s: tuple[int, ...], seconds: float, *, tell: Tell, crowd: Crowd | None = None
) -> list[Delay]:
    """One network for all rates."""
    if not rates_per_s:
        return []
    warehouse = Warehouse(folder / "delays")
    columns = columns_of("symbol string, price double, at_ns bigint")
    declared = declare("quotes", columns, feed=Feed(wanted="class = 'Q'", takes_others=True))
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
        scene = _Scene(crowd or Crowd(), {"broker": broker.pid, "data cluster": node.pid, "clients": os.getpid()})
        return asyncio.run(scene.measured(at, cluster, rates_per_s, seconds, tell))


class _Scene:
    """A publisher, and subscribers with a connection each."""

    def __init__(self, crowd: Crowd, processes: dict[str, int]) -> None:
        self._crowd = crowd
        self._processes = processes
        self._delays: list[float] = []
        self._is_complete = asyncio.Event()
        self._due = 0

    async def measured(
        self, at: str, cluster: str, rates_per_s: tuple[int, ...], seconds: float, tell: Tell
    ) -> list[Delay]:
        await _create(cluster)
        async with connect(at, guaranteed=True) as publisher, contextlib.AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(connect(at)) for _ in range(self._crowd.clients)]
            await _heard(wires[0])
            tell(f"{self._crowd.clients * self._crowd.each:,} subscriptions")
            await asyncio.gather(*(self._subscribe(wire, client) for client, wire in enumerate(wires)))
            found = []
            for rate in rates_per_s:
                tell(f"{rate:,} events/s")
                await self._at_rate(publisher, rate, 5.0)
                found.append(await self._at_rate(publisher, rate, seconds))
            return found

    async def _subscribe(self, wire: Wire, client: int) -> None:
        """To ten limits of some symbols: one client has all subscriptions to a symbol, or nearly."""
        first = client * self._crowd.each
        for number in range(first, first + self._crowd.each):
            symbol, limit = divmod(number, MATCHES)
            await wire.channel("mine", s=f"s{symbol}", least=limit / MATCHES, callback=self._came)

    def _came(self, notification: ChannelNotification) -> None:
        now_ns = time.monotonic_ns()
        self._delays += [(now_ns - row["at_ns"]) / 1e9 for row in notification.rows]
        if len(self._delays) >= self._due:
            self._is_complete.set()

    async def _at_rate(self, publisher: Wire, rate: int, seconds: float) -> Delay:
        turns, each = int(seconds / _TURN_S), int(rate * _TURN_S)
        self._due, self._delays = turns * each * MATCHES, []
        self._is_complete.clear()
        before = {name: _spent_s(pid) for name, pid in self._processes.items()}
        start = time.monotonic()
        for turn in range(turns):
            now_ns = time.monotonic_ns()
            numbers = range(turn * each, (turn + 1) * each)
            await publisher.publish_many(
                {"class": "Q", "symbol": f"s{number % self._crowd.symbols}", "price": 1.0, "at_ns": now_ns}
                for number in numbers
            )
            await asyncio.sleep(max(0.0, start + (turn + 1) * _TURN_S - time.monotonic()))
        async with asyncio.timeout(_PATIENCE_S):
            await self._is_complete.wait()
        lasted_s = time.monotonic() - start
        busy = {name: (_spent_s(pid) - before[name]) / lasted_s for name, pid in self._processes.items()}
        await asyncio.sleep(1.5)  # what came twice would be here by now
        delays = sorted(self._delays)
        if len(delays) != self._due:
            raise PeerError(f"{len(delays):,} rows were told, and {self._due:,} were to be")
        return Delay(
            events_per_s=rate,
            p50_s=delays[len(delays) // 2],
            p99_s=delays[int(len(delays) * 0.99)],
            told=len(delays),
            subscriptions=self._crowd.clients * self._crowd.each,
            busy_cores=busy,
        )


def _spent_s(pid: int) -> float:
    return cpu_s([pid] if pid == os.getpid() else process_tree(pid))


async def _heard(subscriber: Wire) -> None:
    """Until the broker has heard of the channel."""
    async with asyncio.timeout(_START_S):
        while True:
            try:
                async with subscriber.channel("mine", s="none", least=0.0):
                    return
            except (Unavailable, UnknownName):
                await asyncio.sleep(0.1)


async def _create(cluster: str) -> None:
    question = Command(1, msgspec.json.encode(CreateChannel(_CHANNEL)), "")
    answer = await ask(cluster, question, seconds=_PATIENCE_S)
    if isinstance(answer, Refused):
        raise error_of(answer.code, answer.reason)
