"""`tidewire bench ingest`: how fast do events that a broker has logged become rows, and what does it cost whom?"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from tidewire.benchmarks.durable import FOLDER, WINDOW
from tidewire.benchmarks.durable_load import Place
from tidewire.benchmarks.durable_peers import DurableBroker
from tidewire.benchmarks.measure import PAIRS_MIN, Spread, machine, spread
from tidewire.benchmarks.processes import ServerProcess, cpu_s, free_port, process_tree
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.model.errors import PeerError, Unavailable, UsageError
from tidewire.spark.datasets import Feed, Warehouse, columns_of, declare
from tidewire.spark.reports import rows_in, set_aside
from tidewire.spark.sink import create_tables

ENOUGH_PER_S: Final = 50_000
"""What it has to reach."""

_PUBLISHERS: Final = 10
_SYMBOL: Final = "bench.rows"
_COLUMNS: Final = "class string, symbol string, price double, volume bigint, pad binary"
_START_S: Final = 180.0
_LIMIT_S: Final = 600.0
_POLL_S: Final = 0.05


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much is stored, and how often."""

    rounds: int = PAIRS_MIN
    events: int = 1_000_000
    folder: Path = FOLDER

    def __post_init__(self) -> None:
        if self.rounds < PAIRS_MIN:
            raise UsageError(f"{self.rounds} rounds: an interval of 95 % needs at least {PAIRS_MIN}")
        if self.events < 1 or self.events % _PUBLISHERS:
            raise UsageError(f"{self.events} events: a multiple of {_PUBLISHERS} is needed")

    def shortened(self) -> Plan:
        """The same with few events."""
        return msgspec.structs.replace(self, events=200_000)


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One dataset, from its declaration to its last row."""

    seconds: float
    broker_cpu_s: float
    cluster_cpu_s: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All rounds; every one stored every event once."""

    benchmark: str
    machine: str
    rounds: int
    events: int
    event_bytes: int
    events_per_s: Spread
    broker_us_per_event: Spread
    cluster_us_per_event: Spread
    """CPU of the data cluster, with Spark."""

    enough_per_s: int


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """One broker, one data cluster; each round is a new dataset of the same events. PeerError if a row is missing."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=plan.folder.resolve(), prefix="run-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        server, port = DurableBroker(), free_port()
        server.start(port, within=folder)
        stack.callback(server.stop)
        tell("publishing")
        Place(server, port, _SYMBOL).store(publishers=_PUBLISHERS, window=WINDOW, events=plan.events // _PUBLISHERS)
        tell("starting Spark")
        warehouse = Warehouse(folder / "data")
        cluster = _started(port, warehouse, folder)
        stack.callback(cluster.end)
        turns = []
        for number in range(plan.rounds + 1):
            tell("storing" if number else "warming up", number, plan.rounds)
            turns.append(_stored(warehouse, f"round{number}", plan.events, server, cluster))
        return _report(plan, turns[1:])


def _started(port: int, warehouse: Warehouse, folder: Path) -> ServerProcess:
    flags = ["datacluster", "--json", "--at", f"127.0.0.1:{port}", "--folder", str(warehouse.root)]
    program = [sys.executable, "-c", "from tidewire.cli import main; main()"]
    cluster = ServerProcess([*program, *flags], env=os.environ, folder=folder)
    cluster.wait_until_said('"what":"datacluster"', timeout_s=_START_S)
    return cluster


def _stored(warehouse: Warehouse, name: str, events: int, server: DurableBroker, cluster: ServerProcess) -> Turn:
    before_s, broker_s, cluster_s = time.monotonic(), server.cpu_s(), cpu_s(process_tree(cluster.pid))
    declared = declare(name, columns_of(_COLUMNS), feed=Feed(wanted=f"symbol = '{_SYMBOL}'"))
    create_tables(warehouse, declared)
    warehouse.add(declared)
    while rows_in(warehouse, declared) < events:
        if time.monotonic() > before_s + _LIMIT_S:
            raise Unavailable(f"{rows_in(warehouse, declared):,} of {events:,} rows in {_LIMIT_S:g} s")
        time.sleep(_POLL_S)
    seconds = time.monotonic() - before_s
    broker_s, cluster_s = server.cpu_s() - broker_s, cpu_s(process_tree(cluster.pid)) - cluster_s
    rows, aside = rows_in(warehouse, declared), set_aside(warehouse, declared)
    if rows != events or aside:
        raise PeerError(f"{rows:,} rows of {events:,} events, and set aside: {aside}")
    return Turn(seconds=seconds, broker_cpu_s=broker_s, cluster_cpu_s=cluster_s)


def _report(plan: Plan, turns: list[Turn]) -> Report:
    per_event = 1e6 / plan.events
    return Report(
        benchmark="ingest",
        machine=machine(),
        rounds=plan.rounds,
        events=plan.events,
        event_bytes=200,
        events_per_s=spread([plan.events / one.seconds for one in turns]),
        broker_us_per_event=spread([one.broker_cpu_s * per_event for one in turns]),
        cluster_us_per_event=spread([one.cluster_cpu_s * per_event for one in turns]),
        enough_per_s=ENOUGH_PER_S,
    )
