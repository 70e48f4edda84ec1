"""`tidewire bench store`: how fast do events become durable, and come back, in our log and in what libraries give?"""

from __future__ import annotations

import platform
import random
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

import msgspec

from tidewire.benchmarks.measure import PAIRS_MIN, Ratio, median_interval
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.benchmarks.stores import STORES, EventStore
from tidewire.model.errors import Unavailable, UnknownName

OURS: Final = "tidewire"
FOLDER: Final = Path(".cache/store")
_SEED: Final = 12


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which stores, groups of how many events, and how long."""

    stores: Sequence[str] = tuple(STORES)
    groups: Sequence[int] = (1, 16, 256, 4096)
    rounds: int = 10
    turn_s: float = 0.5
    event_bytes: int = 200
    read_events: int = 500_000
    folder: Path = FOLDER
    """On the disk that is to be measured."""

    def shortened(self) -> Plan:
        """To look at."""
        return msgspec.structs.replace(self, rounds=PAIRS_MIN, turn_s=0.05, read_events=20_000)


class Commits(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the turns; the CPU time is that of all threads."""

    events_per_s: float
    commit_us_p50: float
    commit_us_p99: float
    cpu_us_per_event: float


class Reads(msgspec.Struct, frozen=True, kw_only=True):
    """Everything from the first event to the last, from the page cache."""

    events_per_s: float
    cpu_us_per_event: float


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One store."""

    version: str
    promise: str
    commits: dict[int, Commits]
    """By the events of a group."""
    reads: Reads


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All figures; a ratio says how many times more events a second ours takes."""

    benchmark: str
    machine: str
    rounds: int
    event_bytes: int
    stores: dict[str, Side]
    commit_ratios: dict[int, dict[str, Ratio]]
    read_ratios: dict[str, Ratio]
    missing: dict[str, str]


class _Turns:
    """What a store did, turn by turn."""

    def __init__(self) -> None:
        self.events_per_s: list[float] = []
        self.cpu_us: list[float] = []
        self.commit_us: list[float] = []

    def commits(self) -> Commits:
        ordered = sorted(self.commit_us)
        return Commits(
            events_per_s=statistics.median(self.events_per_s),
            commit_us_p50=statistics.median(ordered),
            commit_us_p99=ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
            cpu_us_per_event=statistics.median(self.cpu_us),
        )

    def reads(self) -> Reads:
        return Reads(events_per_s=statistics.median(self.events_per_s), cpu_us_per_event=statistics.median(self.cpu_us))


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """All stores take turns on one disk."""
    for name in plan.stores:
        if name not in STORES:
            raise UnknownName(name, what="store", known=STORES)
    missing: dict[str, str] = {}
    kinds: dict[str, type[EventStore]] = {}
    for name in plan.stores:
        tell(f"fetching {name}")
        try:
            STORES[name].fetch()
            kinds[name] = STORES[name]
        except Unavailable as problem:
            missing[name] = str(problem)
    chance = random.Random(_SEED)
    events = [chance.randbytes(plan.event_bytes) for _ in range(max(plan.groups))]
    committed = {count: _commit_turns(plan, kinds, events[:count], tell) for count in plan.groups}
    read, versions = _read_turns(plan, kinds, events, tell)
    sides = {
        name: Side(
            version=versions[name],
            promise=kind.promise,
            commits={count: committed[count][name].commits() for count in plan.groups},
            reads=read[name].reads(),
        )
        for name, kind in kinds.items()
    }
    return Report(
        benchmark="store",
        machine=platform.platform(),
        rounds=plan.rounds,
        event_bytes=plan.event_bytes,
        stores=sides,
        commit_ratios={count: _ratios(turns) for count, turns in committed.items()},
        read_ratios=_ratios(read),
        missing=missing,
    )


def _ratios(turns: dict[str, _Turns]) -> dict[str, Ratio]:
    if OURS not in turns:
        return {}
    ours = turns[OURS].events_per_s
    return {
        name: median_interval([mine / theirs for mine, theirs in zip(ours, other.events_per_s, strict=True)])
        for name, other in turns.items()
        if name != OURS
    }


@contextmanager
def _opened(plan: Plan, kinds: dict[str, type[EventStore]]) -> Iterator[dict[str, EventStore]]:
    with ExitStack() as stack:
        plan.folder.mkdir(parents=True, exist_ok=True)
        folder = Path(stack.enter_context(TemporaryDirectory(dir=plan.folder, prefix="run-")))
        opened: dict[str, EventStore] = {}
        for name, kind in kinds.items():
            (folder / name).mkdir()
            opened[name] = kind(folder / name)
            stack.callback(opened[name].close)
        yield opened


def _in_turns(stores: dict[str, EventStore], rounds: int) -> Iterator[tuple[int, str, EventStore]]:
    for i in range(rounds):
        order = list(stores.items())
        for name, store in order if i % 2 == 0 else reversed(order):
            yield i, name, store


def _commit_turns(
    plan: Plan, kinds: dict[str, type[EventStore]], events: Sequence[bytes], tell: Tell
) -> dict[str, _Turns]:
    turns = {name: _Turns() for name in kinds}
    with _opened(plan, kinds) as stores:
        for store in stores.values():
            store.commit(events)
        for i, name, store in _in_turns(stores, plan.rounds):
            tell(f"groups of {len(events)}", i + 1, plan.rounds)
            of = turns[name]
            count, cpu, start = 0, process_time(), perf_counter()
            now = start
            while now < start + plan.turn_s:
                store.commit(events)
                before, now = now, perf_counter()
                of.commit_us.append((now - before) * 1e6)
                count += len(events)
            of.events_per_s.append(count / (now - start))
            of.cpu_us.append((process_time() - cpu) * 1e6 / count)
    return turns


def _read_turns(
    plan: Plan, kinds: dict[str, type[EventStore]], events: Sequence[bytes], tell: Tell
) -> tuple[dict[str, _Turns], dict[str, str]]:
    turns = {name: _Turns() for name in kinds}
    with _opened(plan, kinds) as stores:
        for name, store in stores.items():
            tell(f"filling {name}")
            for _ in range(0, plan.read_events, len(events)):
                store.commit(events)
        for i, name, store in _in_turns(stores, plan.rounds):
            tell("reading", i + 1, plan.rounds)
            cpu, start = process_time(), perf_counter()
            count = store.read_all()
            turns[name].events_per_s.append(count / (perf_counter() - start))
            turns[name].cpu_us.append((process_time() - cpu) * 1e6 / count)
        return turns, {name: store.version for name, store in stores.items()}
