"""How long does it take to decide who moves? PRESS and one decision of each offload algorithm, in CPU time.

The donor has as many clients as the workload has subscriptions, one each; the acceptor has a third as many, of the same
kind. PRESS is all that a broker does when its samples are complete: it asks its engine who wants them, and makes the
candidates. Its covering order is not counted: that is kept from subscription to subscription.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from time import process_time
from typing import Final, TypeVar

import msgspec

from tidewire._kernel._native import Poset, encode_event
from tidewire.balancing.clientele import Clientele
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.estimates import LoadInfo
from tidewire.balancing.offload import OFFLOADS
from tidewire.balancing.plans import Action, OffloadSnapshot
from tidewire.balancing.press import Press, Profile
from tidewire.benchmarks.measure import Spread, spread
from tidewire.benchmarks.workloads import Workload, make_workload
from tidewire.broker.peer_balancing import wanted_bits
from tidewire.dataplane.kernel import KernelEngine
from tidewire.language import compile_filter
from tidewire.model.filters import encode_filter
from tidewire.model.ids import BrokerId, Conn, Nanoseconds, TreeId
from tidewire.wire.frames import publish_frame

SHARE: Final = 3
"""The donor has so many times the acceptor's clients."""
INPUT_RATE: Final = 100.0
EVENT_BYTES: Final = 200.0
DONOR_UTILISATION: Final = 0.75
OVERLOADED_UTILISATION: Final = 0.97
SCATTERED: Final = {
    "random 0.1, acceptor gets nothing": (0.1, 0.0),
    "random 0.5, acceptor gets nothing": (0.5, 0.0),
    "random 0.1, acceptor gets everything": (0.1, 1.0),
}
"""Filters that have nothing in common, with random vectors: a client wants a sample with this probability, and the
acceptor gets this share of the samples in any case. If that is all of them, its one filter covers everything."""

_NOW: Final = Nanoseconds(0)
_PUBLISHER: Final = Conn(0)
_Made = TypeVar("_Made")


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time, in seconds, over repeats."""

    workload: str
    is_overloaded: bool
    subscriptions: int
    candidates: int
    """Distinct filters."""
    vectors: int
    """That differ."""
    press_s: Spread
    decisions_s: dict[str, Spread]
    session_s: Spread
    """PRESS and the decision that takes longest."""
    moves: dict[str, int]


class Case:
    """Clients and samples: what decisions are made of."""

    def __init__(self, name: str, wanted: list[bytes], theirs: list[bytes], profile: Callable[[Clientele], Profile]):
        self.name = name
        self._theirs = theirs
        self._profile = profile
        self._wanted = {Conn(client): (one,) for client, one in enumerate(wanted, start=1)}
        self._clientele = Clientele(self._wanted)
        self._clientele.settle()

    def made_anew_s(self) -> float:
        """What it takes to look at all clients and put their filters in order: decisions are spared that."""
        return timed(lambda: Clientele(self._wanted).settle())[0]

    def measure(self, config: BalancingConfig, *, is_overloaded: bool, repeats: int) -> Decisions:
        """PRESS, then each algorithm, so many times."""
        press_s: list[float] = []
        taken_s: dict[Action, list[float]] = {action: [] for action in OFFLOADS}
        moves: dict[str, int] = {}
        seen = self._profile(self._clientele)
        snapshot = _snapshot(seen, self._theirs, is_overloaded=is_overloaded)
        for _ in range(repeats):
            press_s.append(timed(lambda: self._profile(self._clientele))[0])
            for action, planner in OFFLOADS.items():
                seconds, plan = timed(partial(planner(config).plan, snapshot, now_ns=_NOW))
                taken_s[action].append(seconds)
                moves[action] = len(plan.moves)
        return Decisions(
            workload=self.name,
            is_overloaded=is_overloaded,
            subscriptions=snapshot.donor.subscriptions,
            candidates=len(seen.candidates),
            vectors=len({one.bits for one in seen.candidates}),
            press_s=spread(press_s),
            decisions_s={action: spread(values) for action, values in taken_s.items()},
            session_s=spread([one + max(rest) for one, *rest in zip(press_s, *taken_s.values(), strict=True)]),
            moves=moves,
        )


def of_workload(work: Workload, config: BalancingConfig, *, name: str) -> Case:
    """With the workload's events as samples, kept and matched by the engine."""
    filters = work.filters()
    theirs = list(dict.fromkeys(filters[::SHARE]))
    engine = KernelEngine(budget_ns=0)
    engine.own_tree(TreeId(1))
    engine.open(_PUBLISHER, is_link=False, when_full="wait")
    engine.may_publish(_PUBLISHER, publisher=1, next_sequence=1)
    for client, one in enumerate(filters, start=1):
        engine.open(Conn(client), is_link=False, when_full="wait", queue_bytes_max=1 << 20)
        engine.add_routes(Conn(client), [1], [one], None)
    engine.sample(config.press_samples)
    for event in work.events[: config.press_samples]:
        engine.receive(_PUBLISHER, publish_frame(encode_event(event), born_ns=0), now_ns=_NOW)

    def profile(clientele: Clientele) -> Profile:
        press = Press(samples_max=config.press_samples, until_ns=_NOW)
        samples = engine.samples()
        press.fill(len(samples.events), samples.wanted, acceptor_bits=wanted_bits(samples.events, theirs))
        return press.profile(clientele, input_rate=INPUT_RATE, event_bytes=EVENT_BYTES)

    return Case(name, filters, theirs, profile)


def of_random(subscriptions: int, config: BalancingConfig, *, name: str) -> Case:
    """Where nothing is alike; here the vectors are not found by matching."""
    density, acceptor_gets = SCATTERED[name]
    random, samples = Random(1), config.press_samples
    bits = {
        Conn(client): sum(1 << place for place in range(samples) if random.random() < density)
        for client in range(1, subscriptions + 1)
    }
    wanted = [encode_filter(compile_filter(f"x = {client}")) for client in bits]
    theirs = [encode_filter(compile_filter("x >= 0"))] if acceptor_gets == 1 else []
    acceptor_bits = (1 << round(acceptor_gets * samples)) - 1

    def profile(clientele: Clientele) -> Profile:
        press = Press(samples_max=samples, until_ns=_NOW)
        press.fill(samples, bits, acceptor_bits=acceptor_bits)
        return press.profile(clientele, input_rate=INPUT_RATE, event_bytes=EVENT_BYTES)

    return Case(name, wanted, theirs, profile)


def case_of(name: str, subscriptions: int, config: BalancingConfig, *, seed: int = 1) -> Case:
    """The case of this name: a workload, or one where nothing is alike."""
    if name in SCATTERED:
        return of_random(subscriptions, config, name=name)
    work = make_workload(
        name, filters=subscriptions, events=config.press_samples, seed=seed, destinations=subscriptions
    )
    return of_workload(work, config, name=name)


def timed(made: Callable[[], _Made]) -> tuple[float, _Made]:
    """What it takes, in CPU time, and what it makes."""
    began_s = process_time()
    result = made()
    return process_time() - began_s, result


def _snapshot(profile: Profile, theirs: list[bytes], *, is_overloaded: bool) -> OffloadSnapshot:
    order = Poset(0)
    order.insert(theirs)
    count = sum(len(one.clients) for one in profile.candidates)
    deliveries = sum(one.bits.bit_count() * len(one.clients) for one in profile.candidates)
    output = profile.rate(deliveries) * profile.event_bytes
    used = OVERLOADED_UTILISATION if is_overloaded else DONOR_UTILISATION
    slope_s = used / INPUT_RATE / count
    donor = LoadInfo(
        input_rate=INPUT_RATE,
        matching_delay_s=slope_s * count,
        matching_slope_s=slope_s,
        cpu_utilisation=used,
        subscriptions=count,
        output_bytes_s=output,
        output_bytes_s_max=output / used,
        engine_bytes=100.0 * count,
        memory_bytes_max=1000.0 * count,
    )
    rate = profile.rate(profile.acceptor_bits.bit_count())
    acceptor = msgspec.structs.replace(
        donor,
        input_rate=rate,
        matching_delay_s=donor.matching_delay_s / SHARE,
        cpu_utilisation=rate * donor.matching_delay_s / SHARE,
        subscriptions=count // SHARE,
        output_bytes_s=output / SHARE,
        engine_bytes=donor.engine_bytes / SHARE,
    )
    return OffloadSnapshot(
        is_overloaded=is_overloaded,
        to=BrokerId("acceptor"),
        donor=donor,
        acceptor=acceptor,
        acceptor_filters=tuple(order.filter(node) for node in order.roots()),
        profile=profile,
    )
