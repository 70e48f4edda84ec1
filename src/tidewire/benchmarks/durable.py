"""`tidewire bench durable`: events that are stored before they are acknowledged, and read by those who were away."""

from __future__ import annotations

import contextlib
import functools
import platform
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from tidewire.benchmarks.dialects import PAYLOAD_BYTES
from tidewire.benchmarks.disk import Disk, DiskProbe
from tidewire.benchmarks.durable_dialects import AT_ONCE
from tidewire.benchmarks.durable_load import Place, Turn
from tidewire.benchmarks.durable_peers import DURABLE_PEERS, DurableServer
from tidewire.benchmarks.load import executable
from tidewire.benchmarks.measure import PAIRS_MIN, Ratio, Spread, median_interval, spread
from tidewire.benchmarks.peers import CACHE
from tidewire.benchmarks.processes import free_port
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.model.errors import Unavailable, UnknownName, UsageError

FOLDER: Final = Path(".cache/durable")
CATCH_UP: Final = "catch_up"
WINDOW: Final = 256
WINDOWS_MIN: Final = 2
"""A turn has at least so many windows of each publisher: the last one is not refilled, and waits less."""

TURN_EVENTS_MAX: Final = 2_000_000
_WARM_UP_EVENTS: Final = 2_000
_FILLERS: Final = 10


class Scenario(msgspec.Struct, frozen=True):
    """How many publish, and how many events of each may wait for their acknowledgement."""

    publishers: int
    window: int = WINDOW


SCENARIOS: Final[dict[str, Scenario]] = {
    "publishers_1": Scenario(1),
    "publishers_10": Scenario(10),
    "publishers_100": Scenario(100),
    "in_flight_1": Scenario(1, window=1),
}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured, beside whom."""

    peers: Sequence[str] = tuple(DURABLE_PEERS)
    scenarios: Sequence[str] = (*SCENARIOS, CATCH_UP)
    rounds: int = 11
    turn_s: float = 1.0
    missed_events: int = 1_000_000
    """Stored while the durable subscriber was away."""

    folder: Path = FOLDER
    """On the disk that is to be measured."""

    cache: Path = CACHE
    needs_all_peers: bool = False
    """Is a peer that cannot be had an error, rather than reported as missing?"""

    def __post_init__(self) -> None:
        if self.rounds < PAIRS_MIN:
            raise UsageError(f"{self.rounds} rounds: an interval of 95 % needs at least {PAIRS_MIN}")
        if self.missed_events < 1 or self.missed_events % (AT_ONCE * _FILLERS):
            raise UsageError(f"{self.missed_events} missed events: a multiple of {AT_ONCE * _FILLERS} is needed")
        known_scenarios = (*SCENARIOS, CATCH_UP)
        for kind, names, known in (("peer", self.peers, DURABLE_PEERS), ("scenario", self.scenarios, known_scenarios)):
            for name in names:
                if name not in known:
                    raise UnknownName(name, what=kind, known=known)

    def shortened(self) -> Plan:
        """The same with as few and as short turns as make any sense."""
        return msgspec.structs.replace(self, rounds=PAIRS_MIN, turn_s=0.2, missed_events=200_000)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One server in one scenario, over the rounds."""

    cpu_us_per_event: Spread
    """Of the server, with all its processes."""

    events_per_s: Spread
    """Acknowledged, or read."""

    ack_p50_us: Spread | None
    """From sending to acknowledgement; none for reading."""

    ack_p99_us: Spread | None
    client_cpu_us_per_event: float
    client_cpu_share: float
    """Of the CPU that client and server took together."""

    events_per_round: int
    promise: str
    """What an acknowledgement of this server says."""

    syncs: bool
    """Before it acknowledges."""


class Ratios(msgspec.Struct, frozen=True, kw_only=True):
    """How many times better than the peer we are, round by round; above one: we are."""

    cpu: Ratio
    events: Ratio
    ack_p50: Ratio | None
    ack_p99: Ratio | None


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """Ours beside the fastest of those who sync before they acknowledge."""

    peer: str
    events: Ratio


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, by scenario and server; in the scenario of catching up, also by way of reading."""

    benchmark: str
    machine: str
    payload_bytes: int
    rounds: int
    turn_s: float
    missed_events: int
    disk: Disk
    versions: dict[str, str]
    missing: dict[str, str]
    """Servers that could not be had, and why."""

    scenarios: dict[str, dict[str, Figures]]
    ratios: dict[str, dict[str, Ratios]]
    best_that_syncs: dict[str, Best]
    warnings: list[str]
    """Where the client took more CPU than the server: there the figures are not the server's alone."""


def run(plan: Plan, *, tell: Tell = tell_nobody, ours: Callable[[], DurableServer] | None = None) -> Report:
    """All that can be had take turns; without ours there are no ratios. PeerError if a count is wrong."""
    executable()
    plan.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=plan.folder.resolve(), prefix="run-") as folder:
        probe = DiskProbe(Path(folder))
        contenders, missing = _contenders(plan, ours, Path(folder), tell)
        bench = _Rounds(contenders, plan, probe, tell)
        bench.store()
        if CATCH_UP in plan.scenarios:
            bench.catch_up()
    own = contenders[0] if ours is not None else None
    return _report(plan, contenders, own, missing, probe.found())


def _contenders(
    plan: Plan, ours: Callable[[], DurableServer] | None, folder: Path, tell: Tell
) -> tuple[list[Contender], dict[str, str]]:
    """Those that come up, and of the others why not. Ours is the first, and may not be missing."""
    makers: list[Callable[[], DurableServer]] = [ours] if ours else []
    makers += [functools.partial(DURABLE_PEERS[name], plan.cache) for name in plan.peers]
    found: list[Contender] = []
    missing: dict[str, str] = {}
    for make in makers:
        contender = Contender(make(), plan, folder)
        tell(f"starting {contender.server.name}")
        try:
            contender.server.fetch()
            with contender.running():
                found.append(contender)
        except Unavailable as problem:
            if plan.needs_all_peers or make is ours:
                raise
            missing[contender.server.name] = problem.message
    return found, missing


class Contender:
    """A server, and what it did so far in each scenario."""

    def __init__(self, server: DurableServer, plan: Plan, folder: Path) -> None:
        self.server = server
        self.turns: dict[str, dict[str, list[Turn]]] = {}
        """By scenario, and by name with the way of reading."""

        self._plan, self._folder = plan, folder
        self._events: dict[str, int] = {}
        self._subjects = count(1)
        self._missed: Place | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[int]:
        """On its port, with nothing stored yet; at the end its files go, and nobody has to wait for their writing."""
        port = free_port()
        self.server.start(port, within=self._folder)
        try:
            yield port
        finally:
            self.server.stop()

    def store(self) -> None:
        """One turn in each scenario of storing; what was stored is read again, outside of the turn."""
        scenarios = [name for name in self._plan.scenarios if name != CATCH_UP]
        with self.running() as port:
            for name in scenarios:
                few = self._store(name, port, max(1, _WARM_UP_EVENTS // SCENARIOS[name].publishers))
                self._events.setdefault(name, self._wanted(name, few))
            for name in scenarios:
                turn = self._store(name, port, self._events[name])
                self._events[name] = self._wanted(name, turn)
                self.turns.setdefault(name, {}).setdefault(self.server.name, []).append(turn)

    def _store(self, name: str, port: int, events: int) -> Turn:
        scenario, place = SCENARIOS[name], self._place(port)
        turn = place.store(publishers=scenario.publishers, window=scenario.window, events=events)
        place.read()
        return turn

    def _wanted(self, name: str, turn: Turn) -> int:
        """As many events of each publisher as make a turn, as fast as it was now."""
        scenario = SCENARIOS[name]
        events = min(turn.events_per_s * self._plan.turn_s, TURN_EVENTS_MAX)
        return max(WINDOWS_MIN * scenario.window, round(events / scenario.publishers))

    def _place(self, port: int, *, readers: int = 1) -> Place:
        return Place(self.server, port, f"bench.{next(self._subjects):06}", readers=readers)

    def miss(self, port: int) -> None:
        """Events are stored while the durable subscribers are away: anew, if others have read them for good."""
        dialect = self.server.durable
        if self._missed is not None and not dialect.is_read_once:
            return
        readers = 1 if dialect.is_read_once else self._plan.rounds * len(dialect.ways)
        self._missed = self._place(port, readers=readers)
        self._missed.store(publishers=_FILLERS, window=WINDOW, events=self._plan.missed_events // _FILLERS)

    def catch_up(self, number: int) -> None:
        """A durable subscriber comes back, in this round, for each way of reading."""
        dialect = self.server.durable
        assert self._missed is not None, "nothing was missed"
        for at, way in enumerate(dialect.ways):
            reader = 0 if dialect.is_read_once else number * len(dialect.ways) + at
            name = self.server.name if len(dialect.ways) == 1 else f"{self.server.name} {way}"
            turn = self._missed.read(reader=reader, way=way)
            self.turns.setdefault(CATCH_UP, {}).setdefault(name, []).append(turn)


class _Rounds:
    """Interleaves the contenders, every other round backwards, so that none always follows the same neighbour."""

    def __init__(self, contenders: Sequence[Contender], plan: Plan, probe: DiskProbe, tell: Tell) -> None:
        self._contenders, self._plan, self._probe, self._tell = contenders, plan, probe, tell

    def store(self) -> None:
        """In every round each server runs alone, with a folder of its own."""
        is_asked_for = any(name != CATCH_UP for name in self._plan.scenarios)
        for number in range(self._plan.rounds):
            self._probe.take_turn()
            for contender in self._order(number) if is_asked_for else ():
                self._tell(f"storing in {contender.server.name}", number + 1, self._plan.rounds)
                contender.store()

    def catch_up(self) -> None:
        """The servers run all the time: some keep what was stored for all rounds."""
        with contextlib.ExitStack() as stack:
            ports = {c.server.name: stack.enter_context(c.running()) for c in self._contenders}
            for number in range(self._plan.rounds):
                for contender in self._order(number):
                    name = contender.server.name
                    self._tell(f"storing in {name} what is missed", number + 1, self._plan.rounds)
                    contender.miss(ports[name])
                    self._tell(f"catching up from {name}", number + 1, self._plan.rounds)
                    contender.catch_up(number)

    def _order(self, number: int) -> Sequence[Contender]:
        return self._contenders if number % 2 == 0 else self._contenders[::-1]


def _report(
    plan: Plan, contenders: Sequence[Contender], ours: Contender | None, missing: dict[str, str], disk: Disk
) -> Report:
    figures = {
        scenario: {name: _figures(turns, c.server) for c in contenders for name, turns in c.turns[scenario].items()}
        for scenario in plan.scenarios
    }
    ratios = {}
    if ours is not None:
        peers = [c for c in contenders if c is not ours]
        ratios = {scenario: _beside(ours, peers, scenario) for scenario in plan.scenarios}
    best = {scenario: _best(figures[scenario], beside) for scenario, beside in ratios.items()}
    return Report(
        benchmark="durable",
        machine=f"{platform.machine()}, Python {platform.python_version()}",
        payload_bytes=PAYLOAD_BYTES,
        rounds=plan.rounds,
        turn_s=plan.turn_s,
        missed_events=plan.missed_events,
        disk=disk,
        versions={c.server.name: c.server.version for c in contenders},
        missing=missing,
        scenarios=figures,
        ratios=ratios,
        best_that_syncs={scenario: one for scenario, one in best.items() if one is not None},
        warnings=_warnings(figures),
    )


def _figures(turns: Sequence[Turn], server: DurableServer) -> Figures:
    def median(of: Callable[[Turn], float]) -> float:
        return statistics.median(map(of, turns))

    client, own = median(lambda one: one.client_us_per_event), median(lambda one: one.cpu_us_per_event)
    acks = [one.ack_us for one in turns if one.ack_us is not None]
    return Figures(
        cpu_us_per_event=spread([one.cpu_us_per_event for one in turns]),
        events_per_s=spread([one.events_per_s for one in turns]),
        ack_p50_us=spread([one.p50 for one in acks]) if acks else None,
        ack_p99_us=spread([one.p99 for one in acks]) if acks else None,
        client_cpu_us_per_event=client,
        client_cpu_share=client / (client + own),
        events_per_round=round(median(lambda one: one.events)),
        promise=server.promise,
        syncs=server.syncs,
    )


def _beside(ours: Contender, peers: Sequence[Contender], scenario: str) -> dict[str, Ratios]:
    """By the first way of reading that ours has."""
    own = next(iter(ours.turns[scenario].values()))
    return {name: _ratios(own, turns) for c in peers for name, turns in c.turns[scenario].items()}


def _ratios(ours: Sequence[Turn], theirs: Sequence[Turn]) -> Ratios:
    pairs = list(zip(theirs, ours, strict=True))
    acks = [(one.ack_us, own.ack_us) for one, own in pairs if one.ack_us and own.ack_us]
    return Ratios(
        cpu=median_interval([one.cpu_us_per_event / own.cpu_us_per_event for one, own in pairs]),
        events=median_interval([own.events_per_s / one.events_per_s for one, own in pairs]),
        ack_p50=median_interval([one.p50 / own.p50 for one, own in acks]) if acks else None,
        ack_p99=median_interval([one.p99 / own.p99 for one, own in acks]) if acks else None,
    )


def _best(figures: dict[str, Figures], ratios: dict[str, Ratios]) -> Best | None:
    """None if none of the peers syncs."""
    rates = {name: one.events_per_s.median for name, one in figures.items() if one.syncs and name in ratios}
    if not rates:
        return None
    name = max(rates, key=rates.__getitem__)
    return Best(peer=name, events=ratios[name].events)


def _warnings(scenarios: dict[str, dict[str, Figures]]) -> list[str]:
    return [
        f"{name}, {scenario}: the load generator took {one.client_cpu_share:.0%} of the CPU, more than the server"
        for scenario, servers in scenarios.items()
        for name, one in servers.items()
        if one.client_cpu_share > 1 / 2
    ]
