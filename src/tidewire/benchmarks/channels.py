"""`tidewire bench channels`: what do channels cost, by subscriptions, by front-ends, by channels; how late are they?

Everything runs as in a data cluster: the same jobs on Spark, the same tables, the same host. Publications are rows of a
feed, in batches of ten thousand; what it takes to store them is `bench ingest`. CPU is that of this process, of Spark
and of its workers together.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, Self
from uuid import uuid4

import msgspec

from tidewire.benchmarks.channels_delay import ENOUGH_P50_S, Crowd, Delay, measured_delays
from tidewire.benchmarks.channels_fronts import FrontEnds
from tidewire.benchmarks.durable import FOLDER
from tidewire.benchmarks.measure import machine
from tidewire.benchmarks.processes import cpu_s, process_tree
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.channels.commands import CreateChannel
from tidewire.channels.creation import create_channel
from tidewire.channels.messages import Began, Hold, Want
from tidewire.channels.results import SubscriptionId, SubscriptionRow
from tidewire.channels.schemas import Catalog
from tidewire.model.ids import BrokerId, Tick
from tidewire.spark.channel_host import ChannelHost
from tidewire.spark.channel_kinds import ChannelKind, Ran
from tidewire.spark.datasets import Declared, Feed, Warehouse, columns_of, declare
from tidewire.spark.engine import SparkEngine
from tidewire.spark.rows import fed_rows
from tidewire.spark.session import SparkConfig, close_session, open_session
from tidewire.spark.sink import Part, commit_part, create_tables
from tidewire.spark.tables import write_files

PUBLICATIONS: Final = 10_000
MATCHES: Final = 10
"""Of a publication, about."""
ENOUGH_CPU_S: Final = 1.0
"""At most, for a run with a million subscriptions."""
KINDS: Final = 8
FRONT_BROKERS: Final = 10
FRONT_WANTS: Final = 100
_FEED: Final = "quotes"
_COLUMNS: Final = "id bigint, symbol string, price double, lat double, lon double"
_STREAM: Final = "00000000000000aa"
_AREA_M2: Final = 10 * 111_195.0 * 15 * 111_195.0 * math.cos(math.radians(45))
"""Of the box in which everything happens: 10 by 15 degrees around 45° north."""

Values = tuple[str] | tuple[float, ...]

Turn = tuple[float, float, int]
"""Seconds, CPU-seconds, and what was found."""


class Shape(msgspec.Struct, frozen=True):
    """A kind of channel, and what its subscriptions give, so that ten match a publication."""

    text: str
    given: Callable[[Random, int], Values]


def _symbol(random: Random, count: int) -> Values:
    return (f"s{random.randrange(max(1, count // MATCHES))}",)


def _range(random: Random, count: int) -> Values:
    low = random.random()
    return (low, low + MATCHES / count)


def _circle(random: Random, count: int) -> Values:
    return (random.uniform(40, 50), random.uniform(0, 15), math.sqrt(MATCHES / count * _AREA_M2 / math.pi))


SHAPES: Final = {
    "equality": Shape(
        "create channel c(s string) period 1s as select q.id, q.price from quotes q where q.symbol = :s", _symbol
    ),
    "range": Shape(
        "create channel c(a double, b double) period 1s as select q.id, q.price from quotes q"
        " where q.price >= :a and q.price < :b",
        _range,
    ),
    "spatial": Shape(
        "create channel c(lat double, lon double, m double) period 1s as select q.id, q.price from quotes q"
        " where within(q.lat, q.lon, :lat, :lon, :m)",
        _circle,
    ),
}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, and how often."""

    rounds: int = 10
    subscriptions: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    holders: tuple[int, ...] = (1, 10, 100)
    front_ends: tuple[int, ...] = (1000, 10_000, 100_000)
    channels: tuple[int, ...] = (1, 10, 100, 1000)
    naive: tuple[int, ...] = (1, 10, 100)
    rates_per_s: tuple[int, ...] = (1000, 10_000)
    delay_s: float = 20.0
    crowd: Crowd = Crowd()
    folder: Path = FOLDER

    def shortened(self) -> Plan:
        """The same, small."""
        return msgspec.structs.replace(
            self, rounds=3, subscriptions=(10_000,), holders=(1, 10), front_ends=(1000, 2000), channels=(1, 16),
            naive=(1, 5), rates_per_s=(1000,), delay_s=8.0, crowd=Crowd(clients=10),
        )  # fmt: skip


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Of ten thousand publications: the medians over the rounds."""

    seconds: float
    cpu_s: float
    results: int


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """A shape with so many subscriptions."""

    shape: str
    subscriptions: int
    run: Cost
    ready_cpu_s: float
    """Once: until all workers have the subscriptions in their index."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    benchmark: str
    machine: str
    publications: int
    rounds: int
    sizes: list[Sized]
    holders: dict[int, Cost]
    """By how many brokers hold the same thousand subscriptions, each for as many clients as it has."""
    front_ends: dict[int, Cost]
    """By how many clients of ten brokers want the same hundred things; with what brokers pull. Results: notified."""
    channels: dict[int, Cost]
    """By how many channels of eight kinds share ten thousand subscriptions."""
    naive: dict[int, Cost]
    """One query of Spark for each subscription."""
    delays: list[Delay]
    enough_cpu_s: float
    enough_p50_s: float


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """One Spark for all but the delays, which are those of processes."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=plan.folder.resolve(), prefix="channels-") as name:
        with _Bench(Path(name), plan, tell) as bench:
            sizes = [bench.sized(shape, count) for shape in SHAPES for count in plan.subscriptions]
            naive = {count: bench.naive(count) for count in plan.naive}
            holders = {count: bench.hosted(brokers=count, channels=1, each=1000) for count in plan.holders}
            front_ends = {count: bench.fronted(count) for count in plan.front_ends}
            channels = {
                count: bench.hosted(brokers=1, channels=count, each=max(1, 10_000 // count)) for count in plan.channels
            }
        delays = measured_delays(Path(name), plan.rates_per_s, plan.delay_s, tell=tell, crowd=plan.crowd)
    return Report(
        benchmark="channels",
        machine=machine(),
        publications=PUBLICATIONS,
        rounds=plan.rounds,
        sizes=sizes,
        holders=holders,
        front_ends=front_ends,
        channels=channels,
        naive=naive,
        delays=delays,
        enough_cpu_s=ENOUGH_CPU_S,
        enough_p50_s=ENOUGH_P50_S,
    )


class _Bench(contextlib.ExitStack):
    """A Spark, and a folder for each thing that is measured."""

    def __init__(self, folder: Path, plan: Plan, tell: Tell) -> None:
        super().__init__()
        self._folder = folder
        self._plan = plan
        self._tell = tell
        self._places = 0

    def __enter__(self) -> Self:
        super().__enter__()
        self._tell("starting Spark")
        config = SparkConfig(log=self._folder / "spark.log", java_home=os.environ.get("JAVA_HOME"))
        self._spark = open_session(config, tell=lambda _: None)
        self.callback(close_session, self._spark)
        self._engine = SparkEngine(self._spark)
        return self

    def _place(self) -> _Quotes:
        self._places += 1
        return _Quotes(Warehouse(self._folder / f"place{self._places}"))

    def sized(self, name: str, count: int) -> Sized:
        """The runs of one kind: job, tasks, results by subscription, stored."""
        self._tell(f"{name}, {count:,} subscriptions")
        shape, place, random = SHAPES[name], self._place(), Random(count)
        channel = create_channel(shape.text, Catalog([place.declared.dataset]))
        kind = ChannelKind(place.warehouse, channel, life=uuid4().hex)
        self.callback(kind.drop)
        for number in range(count):
            values = channel.member.row_values(shape.given(random, count))
            kind.files.add(SubscriptionRow(SubscriptionId(number), "c", values))

        def act() -> int:
            upto = kind.version()
            job = kind.job({"c": upto - 1}, kind.files.take(), upto=upto)
            [found] = self._engine.run([job], "bench")
            if isinstance(found, Exception):
                raise found
            ran = Ran(kind, ["c"], found)
            assert ran.subscriptions("c")
            rows = ran.stored({"c": Tick(1)})
            assert rows is not None
            kind.results.store(kind.results.last_run + 1, rows)
            return len(rows)

        ready = [self._timed(place, count, random, act)[1] for _ in range(2 * len(os.sched_getaffinity(0)))]
        return Sized(shape=name, subscriptions=count, run=self._cost(place, count, random, act), ready_cpu_s=sum(ready))

    def _cost(self, place: _Quotes, count: int, random: Random, act: Callable[[], int]) -> Cost:
        return _of_turns([self._timed(place, count, random, act) for _ in range(self._plan.rounds)])

    def _timed(self, place: _Quotes, count: int, random: Random, act: Callable[[], int]) -> Turn:
        place.publish(random, symbols=max(1, count // MATCHES))
        before_s, spent_s = time.monotonic(), _spent_s()
        found = act()
        return time.monotonic() - before_s, _spent_s() - spent_s, found

    def naive(self, count: int) -> Cost:
        """A query of Spark for each subscription, over the same rows."""
        self._tell(f"one query for each of {count} subscriptions")
        place, random = self._place(), Random(count)

        def act() -> int:
            rows = self._spark.read.parquet(place.newest)
            return sum(len(rows.where(rows.symbol == f"s{n}").select("id", "price").collect()) for n in range(count))

        self._timed(place, 10_000, random, act)
        return self._cost(place, 10_000, random, act)

    def hosted(self, *, brokers: int, channels: int, each: int) -> Cost:
        """Runs of whole hosts, with brokers that hold the same subscriptions to each of the channels."""
        self._tell(f"{channels} channels, {brokers} brokers")
        return asyncio.run(self._hosted(brokers=brokers, channels=channels, each=each))

    async def _hosted(self, *, brokers: int, channels: int, each: int) -> Cost:
        place, random = self._place(), Random(channels)
        host = ChannelHost(place.warehouse, self._engine, say=lambda *_: None)
        names = [f"c{number}" for number in range(channels)]
        for number, name in enumerate(names):
            await host.asked(CreateChannel(_of_kind(name, number % KINDS)))
        wants = [Want(name, (f"s{number}",)) for name in names for number in range(each)]
        for number in range(brokers):
            broker = BrokerId(f"b{number}")
            holds = tuple(Hold(broker=broker, life=1, request=n, want=want) for n, want in enumerate(wants))
            await host.told(Began(broker=broker, life=1, holds=holds))

        async def counted(told: list[Any]) -> Turn:
            return 0.0, 0.0, sum(len(one.message.ids) for one in told)

        return await self._run_rounds(place, random, host, counted)

    async def _run_rounds(
        self, place: _Quotes, random: Random, host: ChannelHost, follow: Callable[[list[Any]], Awaitable[Turn]]
    ) -> Cost:
        """Runs of a host, each with what follows on it; the first three are not counted."""
        told: list[Any] = []
        host.post = told.extend
        turns = []
        for _ in range(3 + self._plan.rounds):
            place.publish(random, symbols=1000)
            told.clear()
            before_s, spent_s = time.monotonic(), _spent_s()
            host.start_all()
            await host.settled()
            seconds, spent = time.monotonic() - before_s, _spent_s() - spent_s
            more_s, more_spent, found = await follow(told)
            turns.append((seconds + more_s, spent + more_spent, found))
        await host.close()
        return _of_turns(turns[3:])

    def fronted(self, count: int) -> Cost:
        """Runs of a host, with what ten brokers pull for so many clients that want the same hundred things."""
        self._tell(f"{count:,} clients, {FRONT_WANTS} wants")
        return asyncio.run(self._fronted(count))

    async def _fronted(self, count: int) -> Cost:
        place, random = self._place(), Random(count)
        host = ChannelHost(place.warehouse, self._engine, say=lambda *_: None)
        await host.asked(CreateChannel(_of_kind("c0", 0)))
        fronts = FrontEnds(host, brokers=FRONT_BROKERS)
        # Each broker has some clients for each want: what one holds does not depend on how many they are.
        await fronts.subscribe("c0", ({"s": f"s{number // FRONT_BROKERS % FRONT_WANTS}"} for number in range(count)))

        async def pulled(told: list[Any]) -> Turn:
            seconds = spent = 0.0
            pulls, notified = fronts.hear(told)
            while pulls:
                before_s, spent_s = time.monotonic(), _spent_s()
                sends = [send for pull in pulls for send in await host.told(pull)]
                seconds, spent = seconds + time.monotonic() - before_s, spent + _spent_s() - spent_s
                pulls, more = fronts.hear(sends)
                notified += more
            return seconds, spent, notified

        return await self._run_rounds(place, random, host, pulled)


class _Quotes:
    """A feed, whose rows come as the data cluster stores them."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.declared: Declared = declare(
            _FEED, columns_of(_COLUMNS), feed=Feed(wanted="class = 'Q'", takes_others=True)
        )
        create_tables(warehouse, self.declared)
        warehouse.add(self.declared)
        self._tick = 1
        self.newest = ""

    def publish(self, random: Random, *, symbols: int) -> None:
        """Ten thousand more."""
        count, table = PUBLICATIONS, self.warehouse.table(self.declared, "rows")
        columns: dict[str, list[Any]] = {
            "id": list(range(self._tick, self._tick + count)),
            "symbol": [f"s{random.randrange(symbols)}" for _ in range(count)],
            "price": [random.random() for _ in range(count)],
            "lat": [random.uniform(40, 50) for _ in range(count)],
            "lon": [random.uniform(0, 15) for _ in range(count)],
        }
        files = write_files(table, fed_rows(self.declared, columns, stream=_STREAM, first=self._tick))
        self._tick += count
        self.newest = str(table / files[0].path)
        commit_part(self.warehouse, self.declared, Part(rows=files, ends={_STREAM: self._tick}))


def _of_kind(name: str, kind: int) -> str:
    """Channels of eight kinds, which tell other columns, and want the same."""
    columns = ["q.id", "q.price", "q.lat", "q.lon"]
    told = ", ".join(columns[: 1 + kind % 4])
    more = " and q.price >= 0.0" if kind >= 4 else ""
    return f"create channel {name}(s string) period 24h as select {told} from quotes q where q.symbol = :s{more}"


def _of_turns(turns: list[Turn]) -> Cost:
    seconds, spent, results = zip(*turns, strict=True)
    return Cost(seconds=_median(seconds), cpu_s=_median(spent), results=int(_median(results)))


def _spent_s() -> float:
    return cpu_s(process_tree(os.getpid()))


def _median(values: Iterator[float] | Any) -> float:
    ordered = sorted(values)
    return float(ordered[len(ordered) // 2])
