"""What live balancing needs: a head and edges as processes, somebody who publishes, a crowd that checks every event.

Capacities are enforced (``enforce_capacity``), as shares of a core that are small enough for all to fit on one machine:
matching takes microseconds of CPU, and milliseconds of a thousandth of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.load import Load
from tidewire.benchmarks.crowd import Subscriber, draw, event
from tidewire.benchmarks.processes import ServerProcess, free_port
from tidewire.benchmarks.progress import Tell
from tidewire.benchmarks.settings_file import as_toml
from tidewire.broker.decisions import Decision
from tidewire.live.connect import Wire, connect
from tidewire.live.operate import status_of
from tidewire.model.errors import TidewireError

START_S: Final = 300.0
PATIENCE_S: Final = 600.0
"""Of a client with its broker: one that is overloaded takes its time."""
SAMPLE_S: Final = 1.0
STEADY_SAMPLES: Final = 10
"""Loads are compared by their means over so many."""
HOLDS_S: Final = 10.0
"""For so long loads must stay near each other: their means touch for a moment while clients move past."""
BODY: Final = bytes(400)
"""Of each event: what clients get must outweigh what operators ask."""

BALANCE: Final = BalancingConfig(
    load_window_s=5.0,
    slope_step=20,
    local_pie_s=2.0,
    global_pie_s=4.0,
    local_detect_s_min=1.0,
    local_detect_s_max=2.0,
    global_detect_s_min=3.0,
    global_detect_s_max=4.0,
    stabilise_s=12.0,
    stable_window_s=5.0,
    stable_share=0.1,
    press_samples=100,
    press_s=5.0,
    reply_s=5.0,
    done_s=15.0,
)
"""The thesis's periods, some ten times shorter. Rates must not be measured over longer than it takes from one session's
end to the next one's decision: else a donor sends away again what has gone."""


class Edge(msgspec.Struct, frozen=True):
    """What an edge has."""

    name: str
    cpu_share: float
    output_bytes_s: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How it is to be run."""

    edges: tuple[Edge, ...] = ()
    """The first is the weakest: there all subscribers come. Without any they follow from the weights."""
    weights: tuple[int, ...] = (1, 2, 3, 4)
    """What edges have, in proportion; together it is as much as leaves these shares in use."""
    cpu_used: float = 0.3
    output_used: float = 0.25
    """All at the weakest are then some three times what it can do. Many times more, and what waits there for its turn
    takes longer than all the rest: a client leaves behind what was sent to it before."""
    idle_used: float = 0.2
    """An event costs an edge something whoever wants it. It may be so much of what the weakest has: else nothing could
    balance that one, and when a busy machine makes it cost more, it would never be through with what comes."""
    subscribers: int = 2000
    streams: int = 20
    publishers: int = 1
    events_s: float = 40.0
    burst: int = 40
    """So many at once."""
    join_s: float = 60.0
    seconds_max: float = 300.0
    """For balance to be reached, once all have joined."""
    kills: bool = False
    """Is an edge killed in the middle of a session?"""
    seed: int = 1
    balance: BalancingConfig = BALANCE

    def shortened(self) -> Plan:
        """To look at."""
        return msgspec.structs.replace(self, subscribers=300, join_s=10.0, seconds_max=120.0)


class Sample(msgspec.Struct, frozen=True):
    """One edge at one moment."""

    at_s: float
    input: float
    output: float
    cpu: float
    delay_s: float
    subscribers: int


class _Status(msgspec.Struct):
    load: Load | None
    subscribers: int
    decisions: list[Decision]


class Scene:
    """The processes, those who publish, and the crowd."""

    def __init__(self, plan: Plan, tell: Tell) -> None:
        self.plan = plan
        self._tell = tell
        self._folder = Path(tempfile.mkdtemp(prefix="tidewire-balance-"))
        self._addresses = {name: f"127.0.0.1:{free_port()}" for name in ("B0", *(edge.name for edge in plan.edges))}
        self._processes: dict[str, ServerProcess] = {}
        self.published = [0] * plan.streams
        chance = Random(plan.seed)
        self.crowd = [
            Subscriber(f"s{number}", draw(chance, streams=plan.streams), self.published)
            for number in range(plan.subscribers)
        ]
        self._wires: list[Wire] = []
        self._start = time.monotonic()
        self.series: dict[str, list[Sample]] = {edge.name: [] for edge in plan.edges}
        self.decisions: dict[str, list[Decision]] = {}
        self.killed: str | None = None
        self._is_publishing = True

    @property
    def now_s(self) -> float:
        """Since it began."""
        return time.monotonic() - self._start

    @property
    def living(self) -> list[Edge]:
        """Edges that were not killed."""
        return [edge for edge in self.plan.edges if edge.name != self.killed]

    # -- its beginning and end -----------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start the brokers, all at once, and wait until they listen."""
        self._launch("B0", {"role": "head"})
        for edge in self.plan.edges:
            capacity = {"cpu_share": edge.cpu_share, "output_bytes_s": edge.output_bytes_s, "enforce_capacity": True}
            self._launch(edge.name, {"role": "edge", "neighbours": [self._addresses["B0"]], **capacity})
        for name, process in self._processes.items():
            process.wait_until_listening(int(self._addresses[name].rpartition(":")[2]), timeout_s=START_S)

    def _launch(self, name: str, further: dict[str, Any]) -> None:
        settings = {"broker": name, "address": self._addresses[name], "balancing": "peer", "load_every_s": 0.5}
        balance = msgspec.to_builtins(self.plan.balance)
        file = self._folder / f"{name}.toml"
        file.write_text(as_toml({**settings, **further, "balance": balance}), encoding="utf-8")
        argv = [sys.executable, "-m", "tidewire", "broker", "--config", str(file)]
        self._processes[name] = ServerProcess(argv, env=os.environ, folder=self._folder)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            process.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While those who publish do, and loads are looked at."""
        for number in range(self.plan.publishers):
            wire = connect(self._addresses["B0"], name=f"p{number}", timeout=PATIENCE_S)
            self._wires.append(await wire.__aenter__())
        self._start = time.monotonic()
        tasks = [asyncio.create_task(self._publish()), asyncio.create_task(self._watch())]
        try:
            yield
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            ends = [one.leave() for one in self.crowd] + [wire.close() for wire in self._wires]
            await asyncio.gather(*ends, return_exceptions=True)

    # -- what goes on --------------------------------------------------------------------------------------------------

    async def _publish(self) -> None:
        """In bursts: an event that comes alone costs more than many that come together, whoever wants it."""
        loop, due = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        at = 0
        while self._is_publishing:
            for stream in (number % self.plan.streams for number in range(at, at + self.plan.burst)):
                number = self.published[stream] + 1
                self.published[stream] = number
                await self._wires[stream % len(self._wires)].publish(event(stream, number), body=BODY)
            at += self.plan.burst
            due = max(due + self.plan.burst / self.plan.events_s, loop.time() - 1)
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _watch(self) -> None:
        while True:
            for edge in self.living:
                with contextlib.suppress(TidewireError):  # it may have been killed since
                    document = await status_of(self._addresses[edge.name], seconds=PATIENCE_S)
                    self._note(edge.name, msgspec.json.decode(document, type=_Status))
            await asyncio.sleep(SAMPLE_S)

    def _note(self, name: str, status: _Status) -> None:
        self.decisions[name] = status.decisions
        load = status.load
        if load is not None:
            ratios = load.input_utilisation, load.output_utilisation, load.cpu_utilisation
            self.series[name].append(Sample(self.now_s, *ratios, load.matching_delay_s, status.subscribers))

    async def join(self, places: Sequence[str] = ()) -> None:
        """All subscribers, one after the other, whether or not those before have been served: at the weakest edge, or
        at these in turn."""
        names = [*(edge.name for edge in self.plan.edges), "B0"]
        places = places or names[:1]
        every_s = self.plan.join_s / max(1, len(self.crowd))
        start, joined = self.now_s, 0

        async def come(number: int, one: Subscriber) -> None:
            nonlocal joined
            await asyncio.sleep(max(0.0, start + number * every_s - self.now_s))
            first = places[number % len(places)]
            addresses = [self._addresses[name] for name in dict.fromkeys([first, *names])]
            await one.join(addresses, patience_s=PATIENCE_S)
            joined += 1
            if joined % 100 == 0:
                self._tell("subscribers join", joined, len(self.crowd))

        await asyncio.gather(*(come(number, one) for number, one in enumerate(self.crowd)))

    async def settle(self) -> None:
        """Until rates and means are of what is there now."""
        await asyncio.sleep(self.plan.balance.load_window_s + (STEADY_SAMPLES + 2) * SAMPLE_S)

    def sessions(self) -> int:
        """That have ended, counted where clients were given away."""
        ended = [one for told in self.decisions.values() for one in told if one.what == "session ended"]
        return sum(one.times for one in ended if "acceptor" in one.facts)

    def spread(self) -> dict[str, float]:
        """The greatest difference of two edges, by index; empty before there is enough to say."""
        means = [mean_of(self.series[edge.name]) for edge in self.living]
        found: dict[str, float] = {}
        for name in ("input", "output", "delay_s"):
            values = [mean[name] for mean in means if mean]
            if len(values) < len(means):
                return {}
            found[name] = max(values) - min(values)
        found["delay"] = found.pop("delay_s") / self.plan.balance.delay_norm_s
        return found

    def is_balanced(self) -> bool:
        """Is no edge overloaded, and no two further apart than the thresholds? Output is best effort (peer §8.6)."""
        spread, config = self.spread(), self.plan.balance
        highest = [max(mean["input"], mean["cpu"]) for edge in self.living if (mean := mean_of(self.series[edge.name]))]
        is_near = bool(spread) and spread["input"] <= config.local_ratio and spread["delay"] <= config.local_delay
        return is_near and max(highest) < config.overload_lower

    async def until_balanced(self) -> float | None:
        """How long it takes from now on until it is so, and stays; None: longer than there is time."""
        begin, since = self.now_s, None
        while self.now_s < begin + self.plan.seconds_max:
            since = (self.now_s if since is None else since) if self.is_balanced() else None
            if since is not None and self.now_s >= since + HOLDS_S:
                return since - begin
            self._tell("brokers balance", int(self.now_s - begin), int(self.plan.seconds_max))
            await asyncio.sleep(SAMPLE_S)
        return None

    async def kill_in_a_session(self) -> None:
        """Kill -9 an edge that takes clients over, as soon as one does."""
        end = self.now_s + self.plan.seconds_max
        while self.killed is None and self.now_s < end:
            for edge in self.plan.edges[1:]:
                if self._is_taking(edge.name):
                    os.kill(self._processes[edge.name].pid, signal.SIGKILL)
                    self.killed = edge.name
                    self._tell(f"{edge.name} is killed")
                    return
            await asyncio.sleep(SAMPLE_S / 4)

    def _is_taking(self, name: str) -> bool:
        """By what it said last: has it begun to take over more lately than it ended to?"""
        ages = {
            what: min(
                (one.age_s for one in self.decisions.get(name, []) if one.what == what and "donor" in one.facts),
                default=float("inf"),
            )
            for what in ("takes over", "session ended")
        }
        return ages["takes over"] < ages["session ended"] and any(one.served_by == name for one in self.crowd)

    async def recover(self) -> list[int]:
        """Those who lost a connection are served again; what had been published by then."""
        async with asyncio.timeout(PATIENCE_S):
            while left := sum(one.served_by in (None, self.killed) for one in self.crowd):
                self._tell("those it served find another", len(self.crowd) - left, len(self.crowd))
                await asyncio.sleep(SAMPLE_S / 4)
        hit = [one for one in self.crowd if one.is_hit]
        await asyncio.gather(*(one.confirm() for one in hit))
        return list(self.published)

    async def finish(self) -> None:
        """No more is published; wait until everything has come."""
        self._is_publishing = False
        end = self.now_s + self.plan.seconds_max
        while self.now_s < end and any(one.lacks() for one in self.crowd):
            self._tell("the last events come")
            await asyncio.sleep(SAMPLE_S)


def mean_of(samples: Sequence[Sample]) -> dict[str, float]:
    """Over the last of them; empty if there are too few."""
    last = [msgspec.structs.asdict(one) for one in samples[-STEADY_SAMPLES:]]
    if len(last) < STEADY_SAMPLES:
        return {}
    return {name: sum(one[name] for one in last) / len(last) for name in last[0] if name != "at_s"}
