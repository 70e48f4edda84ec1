"""`tidewire bench wire`: our broker beside the peers, delivering the same events to the same client, in one run."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from tidewire.benchmarks.dialects import PAYLOAD_BYTES
from tidewire.benchmarks.load import Delays, Loaded, Traffic, executable, median_delays, run_load
from tidewire.benchmarks.measure import PAIRS_MIN, Ratio, machine, median_interval
from tidewire.benchmarks.networks import TWO_HOPS
from tidewire.benchmarks.peers import CACHE, PEERS, Broker, Peer, Server
from tidewire.benchmarks.processes import free_port
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.model.errors import Unavailable, UnknownName, UsageError

WARM_UP_EVENTS: Final = 1_000
WARM_UPS: Final = 4
FLOOD_DELIVERIES_MAX: Final = 2_000_000
"""A server that reads faster than it delivers keeps them all in memory."""

QUICK_TURN_S: Final = 0.2


class Scenario(msgspec.Struct, frozen=True):
    """How many subscribers one publisher has, and how fast it publishes (0: as fast as the server takes it)."""

    subscribers: int = 1
    rate: float = 0.0
    hops: int = 1
    """With two, publisher and subscriber are at different servers."""


SCENARIOS: Final[dict[str, Scenario]] = {
    "one_to_one": Scenario(),
    "fan_out_100": Scenario(subscribers=100),
    "two_hops": Scenario(hops=2),
    "paced_1000": Scenario(rate=1_000.0),
    "paced_20000": Scenario(rate=20_000.0),
}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured, beside whom."""

    peers: Sequence[str] = tuple(PEERS)
    scenarios: Sequence[str] = tuple(SCENARIOS)
    rounds: int = 11
    turn_s: float = 1.0
    cache: Path = CACHE
    needs_all_peers: bool = False
    """Is a peer that cannot be had an error, rather than reported as missing?"""

    def __post_init__(self) -> None:
        if self.rounds < PAIRS_MIN:
            raise UsageError(f"{self.rounds} rounds: an interval of 95 % needs at least {PAIRS_MIN}")
        for kind, names, known in (("peer", self.peers, PEERS), ("scenario", self.scenarios, SCENARIOS)):
            for name in names:
                if name not in known:
                    raise UnknownName(name, what=kind, known=known)

    def shortened(self) -> Plan:
        """The same with as few and as short turns as make any sense."""
        return msgspec.structs.replace(self, rounds=PAIRS_MIN, turn_s=QUICK_TURN_S)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One server in one scenario: medians over the rounds."""

    cpu_us_per_delivery: float
    """Of the server, with all its processes."""

    deliveries_per_s: float
    delay_us: Delays
    client_cpu_us_per_delivery: float
    rss_mb: float
    deliveries_per_round: int
    lost: int
    """In all rounds together."""

    out_of_order: int


class Ratios(msgspec.Struct, frozen=True):
    """How many times better than the peer we are, round by round; above one: we are."""

    cpu: Ratio
    deliveries: Ratio
    delay_p50: Ratio
    delay_p99: Ratio


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, by scenario and server."""

    benchmark: str
    machine: str
    payload_bytes: int
    rounds: int
    turn_s: float
    versions: dict[str, str]
    missing: dict[str, str]
    """Servers that could not be measured, and why."""

    scenarios: dict[str, dict[str, Figures]]
    ratios: dict[str, dict[str, Ratios]]
    """By scenario and peer."""

    two_hops_against_one: dict[str, Ratios]
    """Our two hops beside the one hop of each peer, for those who have no second."""


def run(plan: Plan, *, tell: Tell = tell_nobody, ours: Callable[[], Server] | None = Broker) -> Report:
    """Start ours and all peers that can be had, let them take turns, and compare; without ours there are no ratios."""
    makers = [*([ours] if ours else []), *(_peer(name, plan.cache) for name in plan.peers)]
    return _report(plan, *compare(plan, makers, tell=tell))


def compare(
    plan: Plan, makers: Iterable[Callable[[], Server]], *, tell: Tell
) -> tuple[list[Contender], dict[str, str]]:
    """All that could be measured, in every scenario of the plan, and of the others why not. We may not be missing."""
    executable()
    missing: dict[str, str] = {}
    has_hops = any(SCENARIOS[name].hops > 1 for name in plan.scenarios)
    with contextlib.ExitStack() as stack:
        contenders = []
        for make in makers:
            server = make()
            tell(f"starting {server.name}")
            pair = _two_hops(server.name, plan.cache) if has_hops else None
            try:
                contenders.append(stack.enter_context(_running(server, pair, turn_s=plan.turn_s)))
            except Unavailable as problem:
                if plan.needs_all_peers or server.name == Broker.name:
                    raise
                missing[server.name] = problem.message
        rounds = _Rounds(contenders, plan, tell)
        rounds.run()
        missing |= rounds.failed
        return [c for c in contenders if c.name not in missing], missing


def _two_hops(name: str, cache: Path) -> Server | None:
    kind = TWO_HOPS.get(name)
    return None if kind is None else kind(cache) if issubclass(kind, Peer) else kind()


def _peer(name: str, cache: Path) -> Callable[[], Server]:
    return lambda: PEERS[name](cache)


class Contender:
    """A server that runs, and what it did so far in each scenario."""

    def __init__(self, servers: dict[int, tuple[Server, int]], *, turn_s: float) -> None:
        """The servers, with their ports, by how many hops they have."""
        self.name, self.version = servers[1][0].name, servers[1][0].version
        self.loaded: dict[str, list[Loaded]] = {}
        self.rss_bytes: dict[str, int] = {}
        self._events: dict[str, int] = {}
        self._servers, self._turn_s = servers, turn_s
        self._subjects = count(1)

    def has(self, name: str) -> bool:
        """Can it take part in this scenario?"""
        return SCENARIOS[name].hops in self._servers

    def warm_up(self, name: str) -> None:
        """A few turns that do not count: some servers compile themselves at first."""
        scenario = SCENARIOS[name]
        if scenario.rate > 0:
            self._events[name] = max(1, round(scenario.rate * self._turn_s))
            return
        self._events[name] = max(1, WARM_UP_EVENTS // scenario.subscribers)
        for _ in range(WARM_UPS):
            self._load(name)

    def take_turn(self, name: str) -> None:
        """One run, remembered."""
        self.loaded.setdefault(name, []).append(self._load(name))
        server, _ = self._servers[SCENARIOS[name].hops]
        self.rss_bytes[name] = max(self.rss_bytes.get(name, 0), server.rss_bytes())

    def _load(self, name: str) -> Loaded:
        scenario = SCENARIOS[name]
        traffic = Traffic(events=self._events[name], subscribers=scenario.subscribers, rate=scenario.rate)
        # A subject of its own: what an earlier turn left behind in the server does not come to this one.
        subject = f"bench.{next(self._subjects):06}"
        server, port = self._servers[scenario.hops]
        loaded = run_load(
            server.dialect,
            traffic,
            port=server.subscriber_ports(port)[0],
            publish_port=port,
            subject=subject,
            authority=server.authority,
            server_cpu_s=server.cpu_s,
        )
        if not loaded.deliveries or loaded.errors:
            reason = "; ".join(loaded.errors) or "nothing was delivered"
            raise Unavailable(f"{self.name}, {name}: {reason}")
        if scenario.rate <= 0:  # as many as make a turn, as fast as it is now
            deliveries = min(loaded.deliveries_per_s * self._turn_s, FLOOD_DELIVERIES_MAX)
            self._events[name] = max(1, round(deliveries / scenario.subscribers))
        return loaded

    def figures(self, name: str) -> Figures:
        """The medians so far."""
        runs = self.loaded[name]

        def median(of: Callable[[Loaded], float]) -> float:
            return statistics.median(of(one) for one in runs)

        return Figures(
            cpu_us_per_delivery=median(lambda one: one.server_us_per_delivery),
            deliveries_per_s=median(lambda one: one.deliveries_per_s),
            delay_us=median_delays(runs),
            client_cpu_us_per_delivery=median(lambda one: one.client_cpu_s * 1e6 / one.deliveries),
            rss_mb=self.rss_bytes[name] / 2**20,
            deliveries_per_round=round(median(lambda one: one.deliveries)),
            lost=sum(one.lost for one in runs),
            out_of_order=sum(one.out_of_order for one in runs),
        )


@contextlib.contextmanager
def _running(server: Server, pair: Server | None, *, turn_s: float) -> Iterator[Contender]:
    with contextlib.ExitStack() as stack:
        servers = {}
        for hops, one in ((1, server), (2, pair)):
            if one is None:
                continue
            one.fetch()
            port = free_port()
            one.start(port)
            stack.callback(one.stop)
            servers[hops] = (one, port)
        yield Contender(servers, turn_s=turn_s)


class _Rounds:
    """Interleaves the contenders, every other round backwards, so that none always follows the same neighbour."""

    def __init__(self, contenders: Sequence[Contender], plan: Plan, tell: Tell) -> None:
        self._contenders, self._plan, self._tell = contenders, plan, tell
        self.failed: dict[str, str] = {}

    def run(self) -> None:
        for name in self._plan.scenarios:
            self._tell(f"{name}: warming up")
            self._each(self._contenders, Contender.warm_up, name)
        for number in range(self._plan.rounds):
            order = self._contenders if number % 2 == 0 else self._contenders[::-1]
            for name in self._plan.scenarios:
                self._tell(name, number + 1, self._plan.rounds)
                self._each(order, Contender.take_turn, name)

    def _each(self, contenders: Sequence[Contender], act: Callable[[Contender, str], None], name: str) -> None:
        """A peer that fails is reported and left out from then on; we may not fail."""
        for contender in contenders:
            if contender.name in self.failed or not contender.has(name):
                continue
            try:
                act(contender, name)
            except Unavailable as problem:
                if self._plan.needs_all_peers or contender.name == Broker.name:
                    raise
                self.failed[contender.name] = problem.message


def _report(plan: Plan, contenders: Sequence[Contender], missing: dict[str, str]) -> Report:
    ours = next((c for c in contenders if c.name == Broker.name), None)
    peers = [c for c in contenders if c is not ours]
    ratios: dict[str, dict[str, Ratios]] = {}
    against_one: dict[str, Ratios] = {}
    if ours is not None:
        ratios = {s: {c.name: ratios_of(ours, c, s) for c in peers if c.has(s)} for s in plan.scenarios}
        if {"two_hops", "one_to_one"} <= set(plan.scenarios) and ours.has("two_hops"):
            against_one = {c.name: ratios_of(ours, c, "two_hops", theirs="one_to_one") for c in peers}
    return Report(
        benchmark="wire",
        machine=machine(),
        payload_bytes=PAYLOAD_BYTES,
        rounds=plan.rounds,
        turn_s=plan.turn_s,
        versions={c.name: c.version for c in contenders},
        missing=missing,
        scenarios={s: {c.name: c.figures(s) for c in contenders if c.has(s)} for s in plan.scenarios},
        ratios=ratios,
        two_hops_against_one=against_one,
    )


def ratios_of(ours: Contender, peer: Contender, scenario: str, *, theirs: str | None = None) -> Ratios:
    """How many times better ours was in this scenario, beside the peer in the same one or in another."""

    def ratio(of: Callable[[Loaded], float]) -> Ratio:
        """The peer's over ours."""
        pairs = zip(peer.loaded[theirs or scenario], ours.loaded[scenario], strict=True)
        return median_interval([of(one) / max(of(own), 1e-9) for one, own in pairs])

    return Ratios(
        cpu=ratio(lambda one: one.server_us_per_delivery),
        deliveries=ratio(lambda one: 1 / one.deliveries_per_s),
        delay_p50=ratio(lambda one: one.delay_us.p50),
        delay_p99=ratio(lambda one: one.delay_us.p99),
    )
