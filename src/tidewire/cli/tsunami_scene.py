"""A warning system of broker processes: centres as clusters, a cable that breaks, and what each class makes of it.

The clusters are those of epeer §2.2: a regional centre, three national ones, and a coast. The first national centre
serves its coast by two edges over lines of which two thirds are lost. Who publishes what, and who wants it, is the same
with and without ePEER.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

import msgspec

from tidewire.benchmarks.processes import ServerProcess, free_port
from tidewire.benchmarks.settings_file import as_toml
from tidewire.broker.status import BrokerStatus
from tidewire.congestion.fdcc.utility import average, keyword_utility
from tidewire.live.connect import Wire, connect
from tidewire.live.notification import Notification
from tidewire.live.operate import status_of
from tidewire.model.errors import Overloaded, TidewireError, Unavailable
from tidewire.papers.shaping import ShapedLink

HEADS: Final = ("regional", "national1", "national2", "national3", "coast")
EDGES: Final = ("harbour", "islands")
"""Of the first national centre."""
LINKS: Final = (
    ("national1", "regional"),
    ("national2", "regional"),
    ("national3", "regional"),
    ("national2", "national1"),
    ("coast", "national1"),
)
START_S: Final = 60.0
EVENT_BYTES: Final = 600
LINE_BYTES_S: Final = 60_000.0
"""What each line to an edge still carries when the cable is broken."""
DEMAND: Final = 3.0
"""What is published, in that."""
WINDOW_S: Final = 4.0
"""What is shown is of so long."""

WORDS: Final = ("tsunami", "wave", "height", "warning")
NOISE: Final = ("music", "sale", "football", "lunch")


class Service(msgspec.Struct, frozen=True):
    """One class of events (epeer §1.1)."""

    name: str
    at: str
    """Where it is published."""
    share: float
    """Of all that is published."""
    delay_s: float
    """How long its events are of use."""
    words: tuple[int, ...]
    """For each of its publishers: how many of its four words are those that subscribers wait for."""


SERVICES: Final = (
    Service("warning", "regional", 0.05, 3.0, (4, 4)),
    Service("sensor", "coast", 0.20, 5.0, (4, 3, 0)),
    Service("workflow", "national2", 0.15, 10.0, (3, 2)),
    Service("advice", "national1", 0.25, 20.0, (3, 1, 0)),
    Service("social", "national1", 0.35, 30.0, (2, 0, 0, 0)),
)


class ServiceSeen(msgspec.Struct, frozen=True, kw_only=True):
    """How one class fares."""

    offered: int
    held_back: int
    """That no message was made of."""
    delivered: int
    late: int
    """Deliveries that came later than they were of use."""
    p99_s: float | None
    missing: int
    """That were sent and have not come."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one act: of what was published while the cable was broken, its first seconds left out."""

    is_epeer: bool
    services: dict[str, ServiceSeen]
    experience: float
    """The mean over subscribers of the mean utility of those whom each heard (Eq 5, 6)."""
    utility_s: float
    """Of all that came in time, added up, per second."""
    limited_after_s: float | None
    lifted_after_s: float | None


class Publisher:
    """Publishes at its own pace, whatever becomes of it."""

    def __init__(self, service: Service, number: int) -> None:
        self.service, self.number = service, number
        self.offered = self.held_back = 0
        self.is_limited = False
        count = service.words[number]
        self.keywords = " ".join((*WORDS[:count], *NOISE[count:]))
        self.utility = keyword_utility(WORDS, self.keywords.split()) or 0.0
        rate = service.share / len(service.words) * DEMAND * LINE_BYTES_S / EVENT_BYTES
        self._every_s = 1 / rate

    async def run(self, wire: Wire, readings: Readings) -> None:
        """Until it is cancelled."""
        due = time.monotonic()
        while True:
            due += self._every_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self.offered += 1
            event = readings.next(self.service.name)
            text = {"class": self.service.name, "from": self.number, "keywords": self.keywords, "due": due}
            padding = "x" * max(0, EVENT_BYTES - 220)
            try:
                await wire.publish({**event, **text, "padding": padding})
                self.is_limited = False
            except Overloaded:
                self.held_back += 1
                self.is_limited = True


class Readings:
    """What sensors say: records of a buoy and of earthquakes, one after the other."""

    def __init__(self, buoy: list[tuple[float, float]], quakes: list[tuple[float, str]]) -> None:
        self._buoy, self._quakes = buoy, quakes
        self._at = 0

    def next(self, service: str) -> dict[str, Any]:
        """The next one."""
        self._at += 1
        if service == "sensor":
            at_s, metres = self._buoy[self._at % len(self._buoy)]
            return {"buoy": 32412, "seconds": at_s, "sea_level_m": metres}
        if service == "warning":
            magnitude, place = self._quakes[self._at % len(self._quakes)]
            return {"magnitude": magnitude, "place": place}
        return {}


class Scene:
    """One act: a network of processes, with ePEER or without."""

    def __init__(self, readings: Readings, *, is_epeer: bool) -> None:
        self.is_epeer = is_epeer
        self._readings = readings
        self._folder = Path(tempfile.mkdtemp(prefix="tidewire-tsunami-"))
        self._addresses = {name: f"127.0.0.1:{free_port()}" for name in (*HEADS, *EDGES)}
        self._links: list[ShapedLink] = []
        self._processes: list[ServerProcess] = []
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.publishers = [Publisher(one, number) for one in SERVICES for number in range(len(one.words))]
        self._came: dict[str, list[tuple[float, float, int, str]]] = {one.name: [] for one in SERVICES}
        """By class: when it was due, how long it took, from whom, to whom."""
        self.recent: dict[str, deque[tuple[float, float]]] = {one.name: deque() for one in SERVICES}
        self.outputs: dict[str, float] = {}
        """Of each edge: deliveries per second."""
        self.is_cut = False
        self.subscribers = 0
        self._sent: dict[str, tuple[float, int]] = {}

    # -- begin and end -------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """All processes start, and all who publish and subscribe are there."""
        for name in HEADS:
            near = [self._addresses[other] for one, other in LINKS if one == name]
            await asyncio.to_thread(self._launch, name, near)
        for edge in EDGES:
            link = ShapedLink(self._addresses["national1"])
            link.open()
            self._links.append(link)
            await asyncio.to_thread(self._launch, edge, [link.address])
        await self._until_linked()
        await self._subscribe()
        for publisher in self.publishers:
            name = f"{publisher.service.name}-{publisher.number}"
            wire = connect(self._addresses[publisher.service.at], name=name, timeout=600.0)
            await self._stack.enter_async_context(wire)
            self._tasks.append(asyncio.ensure_future(publisher.run(wire, self._readings)))
        self._tasks.append(asyncio.ensure_future(self._watch()))

    async def end(self) -> None:
        """All of it ends, however far it has come."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(TidewireError, TimeoutError):
            await asyncio.wait_for(self._stack.aclose(), 15.0)
        for link in self._links:
            await link.end()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self, name: str, neighbours: list[str]) -> None:
        settings: dict[str, Any] = {
            "broker": name,
            "address": self._addresses[name],
            "neighbours": neighbours,
            "role": "edge" if name in EDGES else "head",
            "balancing": "drd" if self.is_epeer else "never",
            # The lines are short here, and no balancing helps a line: there is nothing to wait for.
            "fdcc": {"policy": "fdcc" if self.is_epeer else "never", "tiers": False, "balancing_periods": 2},
        }
        file = self._folder / f"{name}.toml"
        file.write_text(as_toml(settings), encoding="utf-8")
        argv = [sys.executable, "-m", "tidewire", "broker", "--config", str(file)]
        process = ServerProcess(argv, env=os.environ, folder=self._folder)
        self._processes.append(process)
        process.wait_until_listening(int(self._addresses[name].rpartition(":")[2]), timeout_s=START_S)

    async def _until_linked(self) -> None:
        wanted = {name: sum(name in link for link in LINKS) for name in HEADS}
        wanted["national1"] += len(EDGES)
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            with contextlib.suppress(TidewireError):
                counts = {name: len((await self.status(name)).neighbours) for name in HEADS}
                if counts == wanted:
                    return
            await asyncio.sleep(0.1)
        raise Unavailable("the brokers of the warning system did not find each other in a minute")

    async def _subscribe(self) -> None:
        """Two at each edge want each class; the other centres want what concerns them."""
        places = [(edge, service) for edge in EDGES for service in SERVICES for _ in range(2)]
        wanted = {"regional": ("sensor",), "national2": ("warning", "workflow"), "national3": ("warning",)}
        places += [(head, one) for head, names in wanted.items() for one in SERVICES if one.name in names]
        for number, (place, service) in enumerate(places):
            wire = connect(self._addresses[place], name=f"{service.name}-reader-{number}")
            await self._stack.enter_async_context(wire)
            is_counted = place in EDGES
            await wire.subscribe(
                f"class = '{service.name}'",
                lambda event, who=f"{place}-{number}", counts=is_counted: self._take(event, who, counts),  # type: ignore[misc]
                delay_s=service.delay_s,
                keywords=WORDS,
            )
            self.subscribers += is_counted

    def _take(self, event: Notification, who: str, is_counted: bool) -> None:
        if not is_counted:
            return
        due, name = event["due"], str(event["class"])
        took_s = time.monotonic() - due
        self._came[name].append((due, took_s, int(event["from"]), who))
        self.recent[name].append((time.monotonic(), took_s))

    # -- what happens --------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Two thirds of each line are lost."""
        self.is_cut = True
        for link in self._links:
            link.shape(LINE_BYTES_S)

    def mend(self) -> None:
        """All as before."""
        self.is_cut = False
        for link in self._links:
            link.shape(None)

    async def status(self, broker: str) -> BrokerStatus:
        """How a broker is."""
        return msgspec.json.decode(await status_of(self._addresses[broker]), type=BrokerStatus)

    async def _watch(self) -> None:
        """What each broker sends; and who is late, of late."""
        while True:
            for name in EDGES:
                with contextlib.suppress(TidewireError, OSError):
                    now, sent = time.monotonic(), (await self.status(name)).deliveries
                    before_s, before = self._sent.get(name, (now, sent))
                    if now - before_s > 0:
                        self.outputs[name] = (sent - before) / (now - before_s)
                    self._sent[name] = now, sent
            oldest = time.monotonic() - WINDOW_S
            for values in self.recent.values():
                while values and values[0][0] < oldest:
                    values.popleft()
            await asyncio.sleep(1.0)

    # -- what is seen --------------------------------------------------------------------------------------------------

    def counts(self) -> dict[str, tuple[int, int]]:
        """By class: offered, and held back, so far."""
        found: dict[str, tuple[int, int]] = {}
        for one in self.publishers:
            offered, held = found.get(one.service.name, (0, 0))
            found[one.service.name] = offered + one.offered, held + one.held_back
        return found

    def experience(self, since: float, until: float) -> float:
        """Eq 5 and 6 over this time."""
        utilities = {(one.service.name, one.number): one.utility for one in self.publishers}
        heard: dict[tuple[str, str], dict[int, None]] = {}
        for name, came in self._came.items():
            for due, took_s, number, who in came:
                if since <= due + took_s < until:
                    heard.setdefault((name, who), {})[number] = None
        each = [average(utilities[name, number] for number in numbers) for (name, _), numbers in heard.items()]
        return average(one for one in each if one is not None) or 0.0

    def utility_s(self, since: float, until: float) -> float:
        """Of what came in this time, and was still of use."""
        utilities = {(one.service.name, one.number): one.utility for one in self.publishers}
        total = 0.0
        for service in SERVICES:
            for due, took_s, number, _ in self._came[service.name]:
                if since <= due + took_s < until and took_s <= service.delay_s:
                    total += utilities[service.name, number]
        return total / (until - since)

    def seen(
        self, since: float, until: float, before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]
    ) -> dict[str, ServiceSeen]:
        """By class, of what was published in this time."""
        found = {}
        for service in SERVICES:
            delays = sorted(took for due, took, _, _ in self._came[service.name] if since <= due < until)
            offered, held = (after[service.name][i] - before[service.name][i] for i in (0, 1))
            expected = (offered - held) * 2 * len(EDGES)
            found[service.name] = ServiceSeen(
                offered=offered,
                held_back=held,
                delivered=len(delays),
                late=sum(one > service.delay_s for one in delays),
                p99_s=delays[len(delays) * 99 // 100] if delays else None,
                missing=max(0, expected - len(delays)),
            )
        return found
