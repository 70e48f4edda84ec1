"""`tidewire bench catchup`: what do others notice while a durable subscriber reads a million events that it missed?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from tidewire.benchmarks.beside import Flow, flow_of, more
from tidewire.benchmarks.disk import Disk, DiskProbe
from tidewire.benchmarks.durable import FOLDER, WINDOW
from tidewire.benchmarks.durable_dialects import AT_ONCE, TidewireStream
from tidewire.benchmarks.durable_load import Place, Turn
from tidewire.benchmarks.durable_peers import DurableBroker
from tidewire.benchmarks.load import Load, Loaded, Traffic, connected, connection_lines, plan_head, plan_text
from tidewire.benchmarks.measure import PAIRS_MIN, Ratio, Spread, machine, spread
from tidewire.benchmarks.processes import confined, free_port, split_cpus
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.model.errors import PeerError, UsageError

DELAY_MAX: Final = 1.5
"""How many times longer the others' p99 may be."""

_FILLERS: Final = 10
_IDLE_S: Final = 10.0
_WARM_UP_S: Final = 0.5
_MISSED: Final = "bench.missed"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much was missed, and what flows meanwhile."""

    rounds: int = 41
    missed_events: int = 1_000_000
    readers: int = 4
    """Catch up in a round, one behind the other: all the time that the others are measured."""

    rate: float = 1_000.0
    """Of each flow, in events/s."""

    folder: Path = FOLDER
    """On the disk that is meant."""

    def __post_init__(self) -> None:
        if self.rounds < PAIRS_MIN:
            raise UsageError(f"{self.rounds} rounds: an interval of 95 % needs at least {PAIRS_MIN}")
        if self.missed_events < 1 or self.missed_events % (AT_ONCE * _FILLERS):
            raise UsageError(f"{self.missed_events} missed events: a multiple of {AT_ONCE * _FILLERS} is needed")

    def shortened(self) -> Plan:
        """The same with few rounds."""
        return msgspec.structs.replace(self, rounds=PAIRS_MIN)


class Others(msgspec.Struct, frozen=True, kw_only=True):
    """A flow to others, without and beside one who catches up; the ratios say how many times longer it takes beside."""

    alone: Flow
    beside: Flow
    delay_p50: Ratio
    delay_p99: Ratio


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Both kinds of flow, and how fast was caught up at the same time."""

    benchmark: str
    machine: str
    rounds: int
    missed_events: int
    rate: float
    disk: Disk
    flows: dict[str, Others]
    """``best_effort`` and ``guaranteed``."""

    events_per_s: Spread
    """Of one who catches up."""

    covered: float
    """Of the time that the flows were measured, somebody was catching up."""

    delay_max: float
    """How many times longer the p99 of the others may be."""


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """One broker; with and without catching up take turns. PeerError if anything is lost.

    The broker has a CPU of its own, as on a machine of its own; all who use it share the rest.
    """
    plan.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=plan.folder.resolve(), prefix="run-") as folder, contextlib.ExitStack() as stack:
        probe = DiskProbe(Path(folder))
        server, port = DurableBroker(), free_port()
        ours, theirs = split_cpus()
        with confined(ours):
            server.start(port, within=Path(folder))
        stack.callback(server.stop)
        stack.enter_context(confined(theirs))
        tell("storing what is missed")
        missed = Place(server, port, _MISSED, readers=plan.readers * plan.rounds + 1)
        missed.store(publishers=_FILLERS, window=WINDOW, events=plan.missed_events // _FILLERS)
        bench = _Rounds(plan, missed, {name: stack.enter_context(_flow(name, server, port, plan)) for name in _FLOWS})
        bench.warm_up()
        for number in range(plan.rounds):
            tell("catching up beside others", number + 1, plan.rounds)
            probe.take_turn()
            bench.take_turn(number)
        return _report(plan, bench, probe.found())


# -- what flows --------------------------------------------------------------------------------------------------------


class _BestEffort(TidewireStream):
    """PUBLISH to a subscriber."""

    def plans(self, port: int, traffic: Traffic) -> tuple[str, str]:
        """Of the publisher's process, and of the subscriber's."""
        publish = plan_text(self, traffic, port=port, subject="bench.plain", publishes=True, subscribes=False)
        return publish, plan_text(self, traffic, port=port, subject="bench.plain", publishes=False, subscribes=True)


class _Guaranteed(TidewireStream):
    """GUARANTEE to a follower, which says what it has taken."""

    def plans(self, port: int, traffic: Traffic) -> tuple[str, str]:
        """The same of these."""
        publishing, following = self.publishing("bench.kept", publisher=0), self.following("bench.kept")
        publish = [*plan_head(self, traffic), f"sequence {publishing.sequence_at}"]
        publish += connection_lines("publish", port, publishing.steps, [publishing.message])
        subscribe = plan_head(self, traffic) + connection_lines("subscribe", port, following.steps)
        return "\n".join(publish) + "\n", "\n".join(subscribe + following.lines()) + "\n"


_FLOWS: Final[dict[str, _BestEffort | _Guaranteed]] = {"best_effort": _BestEffort(), "guaranteed": _Guaranteed()}


@contextlib.contextmanager
def _flow(name: str, server: DurableBroker, port: int, plan: Plan) -> Iterator[Load]:
    publish, subscribe = _FLOWS[name].plans(port, Traffic(events=0, rate=plan.rate, idle_s=_IDLE_S))
    with connected(publish=publish, subscribe=subscribe, server_cpu_s=server.cpu_s) as load:
        yield load


class _Rounds:
    """The turns so far."""

    def __init__(self, plan: Plan, missed: Place, flows: dict[str, Load]) -> None:
        self._plan, self._missed, self._flows = plan, missed, flows
        self.found: dict[bool, dict[str, list[Loaded]]] = {False: {}, True: {}}
        self.caught_up: list[Turn] = []
        self._readers = iter(range(plan.readers * plan.rounds + 1))
        self._seconds = _WARM_UP_S

    def warm_up(self) -> None:
        """How long does catching up take?"""
        self._let_flow()
        self._seconds = self._plan.readers * self._read().seconds

    def take_turn(self, number: int) -> None:
        """With and without, every other round the other way round."""
        for is_beside in (False, True) if number % 2 else (True, False):
            for name, loaded in (self._beside() if is_beside else self._let_flow()).items():
                if loaded.lost or loaded.out_of_order or loaded.complaints or loaded.errors:
                    raise PeerError(f"{name}: {loaded.lost} lost, {loaded.out_of_order} out of order; {loaded.errors}")
                self.found[is_beside].setdefault(name, []).append(loaded)

    def _let_flow(self) -> dict[str, Loaded]:
        events = max(1, round(self._plan.rate * self._seconds))
        with ThreadPoolExecutor(len(self._flows)) as pool:
            turns = {name: pool.submit(one.go, events=events, expect=events) for name, one in self._flows.items()}
            return {name: turn.result() for name, turn in turns.items()}

    def _beside(self) -> dict[str, Loaded]:
        with ThreadPoolExecutor(1) as pool:
            caught_up: Future[list[Turn]] = pool.submit(self._catch_up)
            loaded = self._let_flow()
            self.caught_up += caught_up.result()
        return loaded

    def _catch_up(self) -> list[Turn]:
        return [self._read() for _ in range(self._plan.readers)]

    def _read(self) -> Turn:
        """Who catches up takes the CPU that the others leave: what they notice is what the broker does to them."""
        return self._missed.read(reader=next(self._readers), gives_way=True)


def _report(plan: Plan, bench: _Rounds, disk: Disk) -> Report:
    flowed = sum(one.seconds for one in bench.found[True]["best_effort"])
    return Report(
        benchmark="catchup",
        machine=machine(),
        rounds=plan.rounds,
        missed_events=plan.missed_events,
        rate=plan.rate,
        disk=disk,
        flows={name: _others(bench.found[False][name], bench.found[True][name]) for name in _FLOWS},
        events_per_s=spread([one.events_per_s for one in bench.caught_up]),
        covered=min(1.0, sum(one.seconds for one in bench.caught_up) / flowed),
        delay_max=DELAY_MAX,
    )


def _others(alone: Sequence[Loaded], beside: Sequence[Loaded]) -> Others:
    ratios = more(alone, beside)
    return Others(
        alone=flow_of(alone, subscribers=1),
        beside=flow_of(beside, subscribers=1),
        delay_p50=ratios.delay_p50,
        delay_p99=ratios.delay_p99,
    )
