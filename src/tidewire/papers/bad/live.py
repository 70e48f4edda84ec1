"""The prototype for real: a coordinator, five edge brokers, a data cluster on Spark, each in a process of its own.

Two more brokers carry what is published: a head, and an edge for the feeds. The subscribers are sessions of this
process: each asks the coordinator for a broker, subscribes to channels, tells where it is, and is moved by the
coordinator's plans. Time is compressed. What is seen are the loads that the brokers report; what came is compared with
what was due (``due.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from tidewire.broker.status import BrokerStatus
from tidewire.channels.commands import CreateChannel
from tidewire.coordinator.balancing import BalanceView
from tidewire.live.connect import connect
from tidewire.live.operate import balance_of, command_channels, status_of
from tidewire.model.errors import TidewireError, Unavailable
from tidewire.papers.bad import declarations, emergencies
from tidewire.papers.bad.declarations import Shelter, Told, channel_name
from tidewire.papers.bad.due import Heard, Reckoning, Row, Seen, Verdict, judge, whole
from tidewire.papers.bad.emergencies import City, Key
from tidewire.papers.bad.listeners import PATIENCE_S, POSITION_EVERY_S, Ledger, Listener
from tidewire.papers.bad.nodes import SPEED, START_S, Processes, compressed
from tidewire.papers.bad.scene import Look, name_of
from tidewire.placement.config import StageConfig
from tidewire.placement.loads import Balance

ASK_S: Final = 30.0
LAST_S: Final = 240.0
"""So long after the last report the last result may come."""
QUIET_S: Final = 10.0
"""Nothing comes any more, if nothing has for so long: longer than any period, and what a run takes."""


QUICK_SCALE: Final = 8
"""So many times fewer subscribers."""
QUICK_SECONDS: Final = 780
"""Of the paper's 1,800."""


class LiveCity:
    """The whole scene, in compressed time. It must be closed."""

    def __init__(self, city: City, nodes: Processes, *, seed: int, seconds: float) -> None:
        self.city, self.nodes, self.seed, self.seconds = city, nodes, seed, seconds
        self.wardens = [name_of(number) for number in declarations.wardens(city.people)]
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
        self.end: BalanceView | None = None
        """What the coordinator saw in the end."""
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
        await asyncio.gather(self._watch(tell), self._publish(), *(one.live() for one in self.listeners))
        self.measured["CPU, cores"] = (self.nodes.cpu_s() - cpu_before) / (time.monotonic() - self._start)
        self.measured["load reported / delivered"] = self._reported_bytes() / max(1, self.ledger.bytes_in_all())
        tell("waiting for the last results")
        await self._until_over()
        self.end = await balance_of(self.nodes.coordinator, seconds=ASK_S)

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
            await self.stack.enter_async_context(
                connect(self.nodes.head, name=f"publisher{number}", guaranteed=True, timeout=PATIENCE_S)
            )
            for number in range(emergencies.PUBLISHERS)
        ]
        under_way: list[asyncio.Task[object]] = []
        for number, report in enumerate(self.city.reports):
            if report.at_s >= self.seconds:
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
        while at_s <= self.seconds:
            await self.until(at_s)
            try:
                view = await balance_of(self.nodes.coordinator, seconds=ASK_S)
            except Unavailable:  # a machine that is too busy to answer: look later
                at_s = max(at_s + emergencies.CYCLE_S, self.now_s)
                continue
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

    def _reported_bytes(self) -> float:
        """What the brokers took in and sent, by the loads that they reported."""
        times = [0.0, *(look.at_s for look in self.looks)]
        return sum(
            sum(look.after.loads) * (at_s - before_s)
            for look, before_s, at_s in zip(self.looks, times, times[1:], strict=False)
        )

    async def _until_over(self) -> None:
        """All reports are stored, and nothing more has come for a while."""
        from tidewire.spark.datasets import Warehouse
        from tidewire.spark.reports import rows_in

        warehouse = Warehouse(self.nodes.tables)
        declared = warehouse.get("EmergencyReports")
        end, stored_s = time.monotonic() + LAST_S, 0.0
        while time.monotonic() < end:
            await asyncio.sleep(0.5)
            if not stored_s and await asyncio.to_thread(rows_in, warehouse, declared) == len(self.reports):
                stored_s = time.monotonic()
            if stored_s and time.monotonic() > max(stored_s, self.ledger.last_s) + QUIET_S:
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

    def __init__(
        self,
        city: City,
        *,
        place: str,
        policy: str,
        tell: Callable[[str], object],
        seed: int = 1,
        seconds: float = emergencies.SECONDS,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tidewire-paper-"))
        config = compressed(StageConfig())
        nodes = Processes(self._folder, place=place, policy=policy, config=config, seed=seed)
        scene = LiveCity(city, nodes, seed=seed, seconds=seconds)
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
        self.end = scene.end
        self.subscriptions = _subscriptions(scene.listeners)
        self.measured = _measured(scene)

    @staticmethod
    async def _play(scene: LiveCity, tell: Callable[[str], object]) -> None:
        try:
            await scene.play(tell)
        finally:
            await scene.close()

    def told(self) -> str:
        """How it went, for people."""
        found = self.measured
        return (
            f"{found['delay p50, s']:.1f} s of our time from a report to the first who heard of it, at the median,"
            f" {found['delay p99, s']:.1f} s at p99; {found['CPU, cores']:.2f} cores used; the loads reported are"
            f" {found['load reported / delivered']:.2f} of what the subscribers got"
        )

    def since(self, at_s: float) -> list[Look]:
        """From then on."""
        return [look for look in self.looks if look.at_s >= at_s]


def notes(last: Look, *, is_quick: bool) -> list[str]:
    """How it was done, and what was scaled."""
    seconds = QUICK_SECONDS if is_quick else emergencies.SECONDS
    return [
        (
            "live: a coordinator, five edge brokers, a head for what is published, an edge for the feeds, a data"
            " cluster on Spark, each in a process of its own;"
            f" {sum(last.subscribers)} sessions of subscribers"
        ),
        (
            f"{SPEED:g} times as fast as in the paper: {seconds:.0f} s in {seconds / SPEED:.0f} s, periods, cycles and"
            " averages shorter by as much; loads and times are given in the paper's time"
        ),
        f"positions every {POSITION_EVERY_S:g} s of the paper, in place of every second",
        "loads as the brokers reported them to the coordinator",
    ]


def _subscriptions(listeners: Iterable[Listener]) -> tuple[int, int]:
    wanted = [one.key for person in listeners for one in person.taken]
    return len(set(wanted)), len(wanted)


def _measured(scene: LiveCity) -> dict[str, float]:
    """How it went, beyond loads."""
    delays = scene.delays_s() or [0.0]
    return {
        **scene.measured,
        "delay p50, s": delays[len(delays) // 2],
        "delay p99, s": delays[int(len(delays) * 0.99)],
        "stayed": scene.stayed,
    }


_played: dict[tuple[str, str, int, bool], LiveRun] = {}
"""Of this process: a run takes minutes, and X4 to X6 look again at those of X1 to X3."""


def played(place: str, policy: str, *, seed: int, is_quick: bool, tell: Callable[[str], object]) -> LiveRun:
    """A run, or the one that was."""
    key = (place, policy, seed, is_quick)
    if key not in _played:
        city = emergencies.city(seed=seed, scale=QUICK_SCALE if is_quick else 1)
        seconds = QUICK_SECONDS if is_quick else emergencies.SECONDS
        _played[key] = LiveRun(city, place=place, policy=policy, seed=seed, seconds=seconds, tell=tell)
    return _played[key]
