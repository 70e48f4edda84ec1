"""The prototype for real: a coordinator, five edge brokers, a data cluster on Spark, each in a process of its own.

Two more brokers carry what is published: a head, and an edge for the feeds. The subscribers are sessions of this process: each asks the coordinator for a broker, subscribes to channels, tells
where it is, and is moved by the coordinator's plans. Time is compressed. What is seen are the loads that the brokers
report; what came is compared with what was due (``due.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tidewire.benchmarks.processes import ServerProcess, cpu_s, free_port, process_tree
from tidewire.benchmarks.settings_file import as_toml
from tidewire.broker.status import BrokerStatus
from tidewire.channels.commands import CreateChannel
from tidewire.live.channels import ChannelNotification
from tidewire.live.connect import Wire, connect
from tidewire.live.operate import balance_of, command_channels, status_of
from tidewire.model.errors import TidewireError, Unavailable
from tidewire.model.ticks import tick_at
from tidewire.papers.bad import declarations, emergencies
from tidewire.papers.bad.declarations import Shelter, Told, Walker, channel_name
from tidewire.papers.bad.due import Heard, Reckoning, Row, Seen, Verdict, judge, whole
from tidewire.papers.bad.emergencies import City, Key
from tidewire.papers.bad.scene import Look
from tidewire.placement.config import StageConfig
from tidewire.placement.loads import Balance

SPEED: Final = 10.0
"""So many times faster than in the paper: its half hour takes three minutes."""
POSITION_EVERY_S: Final = 10.0
"""In the paper's time, where it was every second: Spark would do little else."""
START_S: Final = 180.0
LAST_S: Final = 60.0
"""So long after the last report the last result may come."""
QUIET_S: Final = 4.0
"""Nothing comes any more, if nothing has for so long: longer than any period."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it is played."""

    people: int = 1
    """So many times fewer."""
    seconds: float = emergencies.SECONDS
    """Up to here, in the paper's time."""


QUICK: Final = Scale(people=8, seconds=780.0)


def compressed(config: StageConfig) -> StageConfig:
    """The same decisions in shorter time: bytes come so much faster."""
    return replace(
        config,
        cycle_s=emergencies.CYCLE_S / SPEED,
        average_s=emergencies.AVERAGE_S / SPEED,
        shuffle_pause_s=config.shuffle_pause_s / SPEED,
        migrate_load_min=config.migrate_load_min * SPEED,
        shuffle_load_min=config.shuffle_load_min * SPEED,
    )


class Processes:
    """All nodes, on this machine."""

    def __init__(self, folder: Path, *, place: str, policy: str, config: StageConfig) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._started: list[ServerProcess] = []
        self.tables = folder / "tables"
        self.coordinator, self.head, self._feeder, self.data_cluster = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.edges = {name: f"127.0.0.1:{free_port()}" for name in emergencies.brokers()}
        self._decides = {"placement": place, "balancing": policy, "balance": config, "always_reports": True}

    def start(self, tell: Callable[[str], object]) -> None:
        """Until all are there; Unavailable if one does not come."""
        tell("starting the coordinator and seven brokers")
        self._launch("coordinator", {"address": self.coordinator, **self._decides}, self.coordinator)
        shared = {"coordinator": self.coordinator, "data_cluster": self.data_cluster, "load_every_s": 0.25}
        head = {"broker": "head", "role": "head", "address": self.head, "store": str(self._folder / "log"), **shared}
        self._launch("broker", head, self.head)
        for name, where in emergencies.brokers().items():
            edge = {"broker": name, "role": "edge", "address": self.edges[name], "location": where, **shared}
            self._launch("broker", edge, self.edges[name])
        # Feeds are subscribers too, who want everything: at one of the five they would be most of its load.
        feeder = {"broker": "feeder", "role": "edge", "address": self._feeder, "neighbours": [self.head]}
        self._launch("broker", feeder, self._feeder)
        tell("starting Spark")
        flags = ["--at", self._feeder, "--folder", str(self.tables), "--listen", self.data_cluster, "--json"]
        self._run(["datacluster", *flags]).wait_until_said('"what":"datacluster"', timeout_s=START_S)

    def _launch(self, command: str, settings: Mapping[str, Any], address: str) -> None:
        file = self._folder / f"{settings.get('broker', command)}.toml"
        file.write_text(as_toml(msgspec.to_builtins(settings)), encoding="utf-8")
        process = self._run([command, "--config", str(file), "--json"])
        process.wait_until_listening(int(address.rpartition(":")[2]), timeout_s=START_S)

    def _run(self, argv: list[str]) -> ServerProcess:
        process = ServerProcess([sys.executable, "-m", "tidewire", *argv], env=os.environ, folder=self._folder)
        self._stack.callback(process.end)
        self._started.append(process)
        return process

    def cpu_s(self) -> float:
        """Of all of them so far, and of this process."""
        return cpu_s([os.getpid(), *(pid for one in self._started for pid in process_tree(one.pid))])

    def end(self) -> None:
        """All of them."""
        self._stack.close()


class Taken:
    """One subscription of one session, and what came."""

    def __init__(self, person: Listener, key: Key, given: Mapping[str, Any]) -> None:
        self.person, self.key, self.given = person, key, given
        self.asked = self.confirmed = 0
        self.came: list[tuple[int, bytes]] = []
        """The tick of each notification, and what stands for its rows."""

    def take(self, notification: ChannelNotification) -> None:
        """A run has found something."""
        self.person.scene.ledger.take(self, notification)


class Ledger:
    """What came, to everybody: equal bytes are kept once."""

    def __init__(self) -> None:
        self.notifications: dict[tuple[Key, int, bytes], tuple[ChannelNotification, float]] = {}
        """By subscription, tick and digest: the first one, and when it came."""
        self.bytes_in: dict[str, int] = {}
        self.bytes_out: dict[str, int] = {}
        """By broker, as the sessions know it: results that came to it, and that it sent."""
        self._brought: set[tuple[str, Key, int]] = set()
        self.last_s = 0.0

    def take(self, taken: Taken, notification: ChannelNotification) -> None:
        self.last_s = time.monotonic()
        data = notification.data
        digest = blake2b(data, digest_size=16).digest()
        taken.came.append((notification.tick, digest))
        self.notifications.setdefault((taken.key, notification.tick, digest), (notification, time.time()))
        broker = taken.person.broker
        self.bytes_out[broker] = self.bytes_out.get(broker, 0) + len(data)
        brought = (broker, taken.key, notification.tick)
        if brought not in self._brought:
            self._brought.add(brought)
            self.bytes_in[broker] = self.bytes_in.get(broker, 0) + len(data)


class Listener:
    """A subscriber: a session that the coordinator places."""

    def __init__(self, scene: LiveCity, number: int) -> None:
        self.scene = scene
        self.name = f"p{number}"
        self.citizen = scene.city.people[number]
        near = scene.wardens.index(self.name) if self.name in scene.wardens else None
        self.walker = Walker(Random(f"{scene.seed}/{number}"), self.citizen.x, self.citizen.y, within=near)
        self.taken: list[Taken] = []
        self.wire: Wire | None = None

    @property
    def broker(self) -> str:
        """Which broker serves it now?"""
        return (self.wire and self.wire.subscribed_at) or ""

    async def live(self) -> None:
        """From its login to the end; its positions go on beside."""
        where = emergencies.location(self.citizen.x, self.citizen.y)
        await self.scene.until(self.citizen.login_s)
        self.wire = connect(
            coordinator=self.scene.nodes.coordinator, location=(where.lat, where.lon), name=self.name, guaranteed=True,
            timeout=60.0,
        )  # fmt: skip
        await self.scene.stack.enter_async_context(self.wire)
        await asyncio.gather(self._subscribe(self.wire), self._walk(self.wire))

    async def _subscribe(self, wire: Wire) -> None:
        for at_s, key in self.citizen.wants:
            if at_s >= self.scene.scale.seconds:
                return
            await self.scene.until(at_s)
            one = Taken(self, key, declarations.parameters(key, self.scene.wardens))
            self.taken.append(one)
            one.asked = tick_at(time.time_ns() // 1_000_000)
            await wire.channel(channel_name(key[0]), one.given, callback=one.take)
            one.confirmed = tick_at(time.time_ns() // 1_000_000 + 1)

    async def _walk(self, wire: Wire) -> None:
        at_s = self.citizen.login_s
        while at_s < self.scene.scale.seconds:
            await self.scene.until(at_s)
            position = self.walker.go()
            self.scene.positions[self.name, position["step"]] = (position["lat"], position["lon"])
            await wire.publish({**position, "user": self.name})
            at_s += POSITION_EVERY_S


class LiveCity:
    """The whole scene, in compressed time. It must be closed."""

    def __init__(self, city: City, nodes: Processes, *, seed: int, scale: Scale) -> None:
        self.city, self.nodes, self.seed, self.scale = city, nodes, seed, scale
        self.wardens = [f"p{number}" for number in declarations.wardens(city.people)]
        self.shelters: list[Shelter] = declarations.shelters(Random(f"{seed}/shelters"))
        self.reports: list[Told] = []
        self.published_s: list[float] = []
        self.positions: dict[tuple[str, int], tuple[float, float]] = {}
        self.ledger = Ledger()
        self.listeners = [Listener(self, number) for number in range(len(city.people))]
        self.looks: list[Look] = []
        self.moved_by: dict[str, int] = {}
        self.stayed = 0
        self.measured: dict[str, float] = {}
        self.stack = contextlib.AsyncExitStack()
        self._start = 0.0

    async def until(self, at_s: float) -> None:
        """In the paper's time."""
        await asyncio.sleep(max(0.0, self._start + at_s / SPEED - time.monotonic()))

    @property
    def now_s(self) -> float:
        """In the paper's time."""
        return (time.monotonic() - self._start) * SPEED

    def declare(self) -> None:
        """The three datasets; before the data cluster begins."""
        from tidewire.spark.datasets import Feed, Warehouse, columns_of, declare
        from tidewire.spark.loading import load
        from tidewire.spark.sink import create_tables

        warehouse = Warehouse(self.nodes.tables)
        feeds = {"EmergencyReports": declarations.REPORTS, "UserLocations": declarations.POSITIONS}
        for name, columns in declarations.COLUMNS_OF.items():
            feed = Feed(wanted=feeds[name], takes_others=True) if name in feeds else None
            key = ("user",) if name == "UserLocations" else ()
            one = declare(name, columns_of(columns), key=key, feed=feed)
            create_tables(warehouse, one)
            warehouse.add(one)
            if feed is None:
                file = self.nodes.tables / "shelters.json"
                file.write_bytes(b"\n".join(map(msgspec.json.encode, self.shelters)))
                load(warehouse, one, file, replace=False)

    async def play(self, tell: Callable[[str], object]) -> None:
        """From the first login to the last result."""
        tell("creating the channels")
        for text in declarations.declarations(speed=SPEED):
            await command_channels(self.nodes.data_cluster, CreateChannel(text), seconds=60.0)
        await self._until_attached()
        self._start = time.monotonic()
        cpu_before = self.nodes.cpu_s()
        watching = asyncio.create_task(self._watch(tell))
        await asyncio.gather(self._publish(), *(one.live() for one in self.listeners))
        self.measured["CPU, cores"] = (self.nodes.cpu_s() - cpu_before) / (time.monotonic() - self._start)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        tell("waiting for the last results")
        await self._until_over()

    async def close(self) -> None:
        """Everybody leaves."""
        with contextlib.suppress(TidewireError):
            await self.stack.aclose()

    async def _until_attached(self) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            answers = await asyncio.gather(*(status_of(address) for address in self.nodes.edges.values()))
            known = [msgspec.json.decode(one, type=BrokerStatus).channels for one in answers]
            if all(one is not None and one.channels == len(emergencies.CHANNELS) for one in known):
                return
            await asyncio.sleep(0.2)
        raise Unavailable("the brokers did not hear of the channels")

    async def _publish(self) -> None:
        """The emergencies, by eight publishers."""
        wires = [
            await self.stack.enter_async_context(connect(self.nodes.head, name=f"publisher{number}", guaranteed=True))
            for number in range(emergencies.PUBLISHERS)
        ]
        under_way: list[asyncio.Task[object]] = []
        for number, report in enumerate(self.city.reports):
            if report.at_s >= self.scale.seconds:
                break
            await self.until(report.at_s)
            one = declarations.told(number, report)
            self.reports.append(one)
            self.published_s.append(time.time())
            under_way.append(asyncio.ensure_future(wires[report.publisher].publish(one.event())))
        await asyncio.gather(*under_way)

    async def _watch(self, tell: Callable[[str], object]) -> None:
        """What the coordinator sees, once in each of its cycles."""
        names = list(self.nodes.edges)
        at_s, moved = emergencies.CYCLE_S, 0
        while True:
            await self.until(at_s)
            view = await balance_of(self.nodes.coordinator)
            found = {one.broker: one for one in view.brokers}
            loads = Balance(tuple(found[name].load_bytes_s / SPEED if name in found else 0.0 for name in names))
            before, self.moved_by, self.stayed = self.moved_by, dict(view.moved_by), view.stayed
            stages = [one for one, count in self.moved_by.items() if count > before.get(one, 0)]
            self.looks.append(
                Look(
                    at_s=at_s,
                    before=loads,
                    after=loads,
                    subscribers=tuple(found[name].subscribers if name in found else 0 for name in names),
                    moves=view.moved - moved,
                    stages=tuple(", ".join(stages).split(", ")) if stages else (),
                )
            )
            moved = view.moved
            tell(f"{at_s:.0f} s, cov {loads.cov:.3f}, {moved} moved")
            at_s = max(at_s + emergencies.CYCLE_S, self.now_s)

    async def _until_over(self) -> None:
        """All reports are stored, and nothing more has come for a while."""
        from tidewire.spark.datasets import Warehouse
        from tidewire.spark.reports import rows_in

        warehouse = Warehouse(self.nodes.tables)
        declared = warehouse.get("EmergencyReports")
        end = time.monotonic() + LAST_S
        while time.monotonic() < end:
            await asyncio.sleep(0.5)
            is_stored = await asyncio.to_thread(rows_in, warehouse, declared) == len(self.reports)
            if is_stored and time.monotonic() > self.ledger.last_s + QUIET_S:
                return
        raise Unavailable(f"results still came {LAST_S:.0f} s after the last report, or not all reports were stored")

    # -- what came of it -----------------------------------------------------------------------------------------------

    def judged(self) -> Verdict:
        """Was everybody told everything that was due, once? After the data cluster has ended."""
        from tidewire.spark.history import rows_by_version, runs_of

        tables = self.nodes.tables / "datasets"
        moved = rows_by_version(tables / "UserLocations" / "changes", ["user", "step"])
        reckoning = Reckoning(
            self.reports,
            self.shelters,
            arrived=(
                (version, [row["id"] for row in rows])
                for version, rows in rows_by_version(tables / "EmergencyReports" / "rows", ["id"])
            ),
            moved=(
                (version, [(row["user"], self.positions[row["user"], row["step"]]) for row in rows])
                for version, rows in moved
            ),
        )
        runs: dict[str, list[Seen]] = {}
        for folder in (self.nodes.tables / "channels").glob("*/results"):
            for run in runs_of(folder):
                for name, tick in run.ticks.items():
                    positions = run.datasets.get("UserLocations", 0)
                    seen = Seen(tick=tick, after=run.after, upto=run.upto, positions=positions)
                    runs.setdefault(name, []).append(seen)
        verdict = Verdict()
        for channel in emergencies.CHANNELS:
            self._judge(channel, whole(runs.get(channel_name(channel), [])), reckoning, verdict)
        return verdict

    def _judge(self, channel: str, runs: list[Seen], reckoning: Reckoning, verdict: Verdict) -> None:
        taken = [one for person in self.listeners for one in person.taken if one.key[0] == channel]
        givens = {one.key: one.given for one in taken}
        due = dict(zip(givens, reckoning.due(channel, runs, list(givens.values())), strict=True))
        ticks = [run.tick for run in runs]
        unpacked: dict[tuple[Key, int, bytes], Counter[Row]] = {}
        for one in taken:
            for tick, digest in one.came:
                if (one.key, tick, digest) not in unpacked:
                    notification, _ = self.ledger.notifications[one.key, tick, digest]
                    unpacked[one.key, tick, digest] = Counter(tuple(row.values()) for row in notification)
            heard = Heard(
                who=one.person.name,
                channel=channel,
                given=one.given,
                asked=one.asked,
                confirmed=one.confirmed,
                ticks=[tick for tick, _ in one.came],
                rows={tick: unpacked[one.key, tick, digest] for tick, digest in one.came},
            )
            judge(heard, due[one.key], ticks, verdict)

    def delays_s(self) -> list[float]:
        """From a report to who heard of it first, by channel and parameters: sorted."""
        return sorted(
            came_s - self.published_s[row["id"]]
            for notification, came_s in self.ledger.notifications.values()
            for row in notification
        )


class LiveRun:
    """One run of the scene under one placement and one policy: what was seen, and whether all was told."""

    def __init__(self, *, place: str, policy: str, seed: int, scale: Scale, tell: Callable[[str], object]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tidewire-paper-"))
        config = compressed(StageConfig())
        nodes = Processes(self._folder, place=place, policy=policy, config=config)
        scene = LiveCity(emergencies.city(seed=seed, scale=scale.people), nodes, seed=seed, scale=scale)
        try:
            scene.declare()
            nodes.start(tell)
            asyncio.run(self._play(scene, tell))
            nodes.end()
            tell("computing what was due")
            self.verdict = scene.judged()
        finally:
            nodes.end()
            shutil.rmtree(self._folder, ignore_errors=True)
        self.looks = scene.looks
        self.subscriptions = _subscriptions(scene.listeners)
        self.measured = _measured(scene)

    @staticmethod
    async def _play(scene: LiveCity, tell: Callable[[str], object]) -> None:
        try:
            await scene.play(tell)
        finally:
            await scene.close()

    @property
    def moves(self) -> int:
        """In all."""
        return sum(look.moves for look in self.looks)

    def since(self, at_s: float) -> list[Look]:
        """From then on."""
        return [look for look in self.looks if look.at_s >= at_s]


def notes(last: Look, *, is_quick: bool) -> list[str]:
    """How it was done, and what was scaled."""
    seconds = (QUICK if is_quick else Scale()).seconds
    return [
        "live: a coordinator, five edge brokers, a head for what is published, an edge for the feeds, a data cluster on"
        " Spark, each in a process of its own;"
        f" {sum(last.subscribers)} sessions of subscribers",
        f"{SPEED:g} times as fast as in the paper: {seconds:.0f} s in {seconds / SPEED:.0f} s, periods, cycles and"
        " averages shorter by as much; loads and times are given in the paper's time",
        f"positions every {POSITION_EVERY_S:g} s of the paper, in place of every second",
        "loads as the brokers reported them to the coordinator",
    ]


def _subscriptions(listeners: Iterable[Listener]) -> tuple[int, int]:
    wanted = [one.key for person in listeners for one in person.taken]
    return len(set(wanted)), len(wanted)


def _measured(scene: LiveCity) -> dict[str, float]:
    """How it went, beyond loads."""
    delays = scene.delays_s() or [0.0]
    brought = sum(scene.ledger.bytes_in.values()) + sum(scene.ledger.bytes_out.values())
    reported = sum(sum(look.after.loads) for look in scene.looks) * emergencies.CYCLE_S
    return {
        **scene.measured,
        "delay p50, s": delays[len(delays) // 2],
        "delay p99, s": delays[int(len(delays) * 0.99)],
        "load reported / delivered": reported / brought if brought else 0.0,
        "stayed": scene.stayed,
    }


_played: dict[tuple[str, str, int, bool], LiveRun] = {}
"""Of this process: a run takes minutes, and X4 to X6 look again at those of X1 to X3."""


def played(place: str, policy: str, *, seed: int, is_quick: bool, tell: Callable[[str], object]) -> LiveRun:
    """A run, or the one that was."""
    key = (place, policy, seed, is_quick)
    if key not in _played:
        scale = QUICK if is_quick else Scale()
        _played[key] = LiveRun(place=place, policy=policy, seed=seed, scale=scale, tell=tell)
    return _played[key]
