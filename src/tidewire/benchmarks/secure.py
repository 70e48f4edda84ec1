"""`tidewire bench secure`: what TLS costs, beside peers with TLS; and permissions, beside a broker without."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import msgspec

from tidewire.benchmarks import filters, wire
from tidewire.benchmarks.certificates import Certificates, certificates
from tidewire.benchmarks.dialects import PAYLOAD_BYTES
from tidewire.benchmarks.filter_dialects import Ours
from tidewire.benchmarks.measure import PAIRS_MIN, Ratio, machine, median_interval
from tidewire.benchmarks.peers import CACHE, PEERS, Broker, Server
from tidewire.benchmarks.permits import PUBLISH, Permits, grants, measure_permits
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.benchmarks.workloads import make_workload
from tidewire.identity.grants import Grant
from tidewire.model.errors import UnknownName, UsageError

PARTS: Final = ("tls", "permissions")
TLS_PEERS: Final = ("nats", "redis")
SCENARIOS: Final = ("one_to_one", "fan_out_100")
TLS_SHARE_MAX: Final = 0.60
"""Of the CPU per delivery of the better peer: the target."""

PERMISSIONS_MAX: Final = 1.05
"""CPU per event with permissions over that without, the upper end of its interval: the target."""

_EVENTS: Final = 4_000
_PERMISSIONS_TURN_S: Final = 0.05


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured, beside whom."""

    parts: Sequence[str] = PARTS
    peers: Sequence[str] = TLS_PEERS
    scenarios: Sequence[str] = SCENARIOS
    rounds: int = 11
    turn_s: float = 1.0
    filters: int = 10_000
    starts: int = 5
    """Pairs of brokers, one after the other, that permissions are measured with: two of the same differ a little."""

    pairs: int = 150
    """Turns of each pair of brokers: many and short, because what disturbs them changes slowly."""

    seed: int = 1
    folder: Path | None = None
    cache: Path = CACHE
    needs_all_peers: bool = False

    def __post_init__(self) -> None:
        for kind, names, known in (("peer with TLS", self.peers, TLS_PEERS), ("part", self.parts, PARTS)):
            for name in names:
                if name not in known:
                    raise UnknownName(name, what=kind, known=known)
        if self.rounds < PAIRS_MIN or self.starts * self.pairs < PAIRS_MIN:
            raise UsageError(f"an interval of 95 % needs at least {PAIRS_MIN} rounds")

    def shortened(self) -> Plan:
        """The same with as few and as short turns as make any sense."""
        return msgspec.structs.replace(self, rounds=PAIRS_MIN, turn_s=0.2, starts=1, pairs=4 * PAIRS_MIN)


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody with TLS 1.3 and one cipher, and ours without."""

    scenarios: dict[str, dict[str, wire.Figures]]
    ratios: dict[str, dict[str, wire.Ratios]]
    """By scenario and peer: how many times better ours is."""

    cpu_share_of_better: dict[str, Ratio]
    """CPU per delivery: ours over that of the better peer in each scenario."""

    cpu_over_plain: dict[str, Ratio]
    """CPU per delivery: ours with TLS over ours without."""

    share_max: float


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """With permissions or without: medians over the turns of all brokers."""

    cpu_us_per_event: float
    events_per_s: float
    lost: int


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """A broker whose clients have narrow permissions, beside one whose clients may do everything; both with TLS."""

    filters: int
    subscribers: int
    pairs: int
    on: Side
    off: Side
    cpu: Ratio
    """Per event: on over off."""

    cpu_max: float
    engine: Permits
    """The same in the engine alone."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Both parts, or the one that was asked for."""

    benchmark: str
    machine: str
    payload_bytes: int
    rounds: int
    turn_s: float
    versions: dict[str, str]
    missing: dict[str, str]
    tls: Tls | None
    permissions: Permissions | None


class PlainBroker(Broker):
    """Ours, without TLS."""

    name = "tidewire, plain"


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """The parts that are asked for."""
    versions: dict[str, str] = {}
    missing: dict[str, str] = {}
    tls = None
    if "tls" in plan.parts:
        tls, versions, missing = _tls(plan, tell)
    return Report(
        benchmark="secure",
        machine=machine(),
        payload_bytes=PAYLOAD_BYTES,
        rounds=plan.rounds,
        turn_s=plan.turn_s,
        versions=versions,
        missing=missing,
        tls=tls,
        permissions=_permissions(plan, tell) if "permissions" in plan.parts else None,
    )


# -- TLS ---------------------------------------------------------------------------------------------------------------


def _tls(plan: Plan, tell: Tell) -> tuple[Tls, dict[str, str], dict[str, str]]:
    rounds = wire.Plan(
        peers=plan.peers,
        scenarios=plan.scenarios,
        rounds=plan.rounds,
        turn_s=plan.turn_s,
        cache=plan.cache,
        needs_all_peers=plan.needs_all_peers,
    )
    with certificates() as own:
        makers = [lambda: Broker(certificates=own), PlainBroker, *(_peer(name, plan.cache, own) for name in plan.peers)]
        contenders, missing = wire.compare(rounds, makers, tell=tell)
    ours, plain = contenders[:2]
    return compared(ours, plain, contenders[2:], plan.scenarios), {c.name: c.version for c in contenders}, missing


def _peer(name: str, cache: Path, own: Certificates) -> Callable[[], Server]:
    return lambda: PEERS[name](cache, certificates=own)


def compared(
    ours: wire.Contender, plain: wire.Contender, peers: Sequence[wire.Contender], scenarios: Sequence[str]
) -> Tls:
    """What the rounds say."""

    def share(scenario: str, other: wire.Contender) -> Ratio:
        pairs = zip(ours.loaded[scenario], other.loaded[scenario], strict=True)
        return median_interval([a.server_us_per_delivery / b.server_us_per_delivery for a, b in pairs])

    def better(scenario: str) -> wire.Contender:
        return min(peers, key=lambda peer: peer.figures(scenario).cpu_us_per_delivery)

    return Tls(
        scenarios={s: {c.name: c.figures(s) for c in (ours, plain, *peers)} for s in scenarios},
        ratios={s: {peer.name: wire.ratios_of(ours, peer, s) for peer in peers} for s in scenarios},
        cpu_share_of_better={s: share(s, better(s)) for s in scenarios if peers},
        cpu_over_plain={s: share(s, plain) for s in scenarios},
        share_max=TLS_SHARE_MAX,
    )


# -- permissions -------------------------------------------------------------------------------------------------------


def _permissions(plan: Plan, tell: Tell) -> Permissions:
    tell(f"making the workload: {plan.filters:,} filters")
    work = make_workload("selective", filters=plan.filters, events=_EVENTS, seed=plan.seed, folder=plan.folder)
    bench = filters.Bench(filters.Plan(turn_s=_PERMISSIONS_TURN_S, seed=plan.seed, cache=plan.cache), work)
    engine = measure_permits(work, subscribers=filters.SUBSCRIBERS, pairs=plan.pairs, turn_s=_PERMISSIONS_TURN_S)
    turns: dict[bool, list[filters.Turn]] = {True: [], False: []}
    with certificates() as own:
        tokens = {has: _tokens(own, has_permissions=has) for has in (True, False)}
        for start in range(plan.starts):
            tell(f"permissions: subscribing, {start + 1} of {plan.starts}")
            order = (True, False) if start % 2 else (False, True)
            with contextlib.ExitStack() as stack:
                found = {has: stack.enter_context(_permitted(bench, own, tokens[has])) for has in order}
                for number in range(plan.pairs):
                    tell("permissions", start * plan.pairs + number + 1, plan.starts * plan.pairs)
                    for has in order if number % 2 else order[::-1]:
                        found[has].take_turn()
                for has, contender in found.items():
                    turns[has] += contender.turns
    pairs = zip(turns[True], turns[False], strict=True)
    return Permissions(
        filters=plan.filters,
        subscribers=filters.SUBSCRIBERS,
        pairs=len(turns[True]),
        on=_side(turns[True]),
        off=_side(turns[False]),
        cpu=median_interval([a.cpu_us_per_event / b.cpu_us_per_event for a, b in pairs]),
        cpu_max=PERMISSIONS_MAX,
        engine=engine,
    )


def _permitted(
    bench: filters.Bench, own: Certificates, tokens: tuple[str, Sequence[str]]
) -> AbstractContextManager[filters.Contender]:
    publisher, subscribers = tokens
    return bench.contender(Broker(certificates=own), Ours(publisher=publisher, subscribers=subscribers))


def _tokens(own: Certificates, *, has_permissions: bool) -> tuple[str, Sequence[str]]:
    """Of the publisher, and of each subscriber. All events are within the permissions: both sides deliver the same."""
    if not has_permissions:
        return own.token("publisher"), [own.token("subscriber")] * filters.SUBSCRIBERS
    subscribers = [own.token(f"subscriber{who}", grants(who)) for who in range(filters.SUBSCRIBERS)]
    return own.token("restricted", Grant(publish=PUBLISH)), subscribers


def _side(turns: Sequence[filters.Turn]) -> Side:
    return Side(
        cpu_us_per_event=statistics.median(turn.cpu_us_per_event for turn in turns),
        events_per_s=statistics.median(turn.events / turn.loaded.seconds for turn in turns),
        lost=sum(turn.loaded.lost for turn in turns),
    )
