"""How long does it take to decide who moves? PRESS and one decision of each offload algorithm, in CPU time.

The donor has as many clients as the workload has subscriptions, one each; the acceptor has a third as many, of the same
kind. Matching the samples is not counted: brokers match every event anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from random import Random
from time import process_time
from typing import Final, TypeVar

import msgspec
import numpy as np

from tidewire._kernel._native import Index, Poset, encode_event, join_events
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.estimates import LoadInfo
from tidewire.balancing.offload import OFFLOADS
from tidewire.balancing.plans import Action, OffloadSnapshot
from tidewire.balancing.press import Press, Profile
from tidewire.benchmarks.workloads import Workload
from tidewire.language import compile_filter
from tidewire.model.filters import encode_filter
from tidewire.model.ids import BrokerId, Conn, Nanoseconds

SHARE: Final = 3
"""The donor has so many times the acceptor's clients."""
INPUT_RATE: Final = 100.0
EVENT_BYTES: Final = 200.0
DONOR_UTILISATION: Final = 0.75
OVERLOADED_UTILISATION: Final = 0.97

_NOW: Final = Nanoseconds(0)
_Made = TypeVar("_Made")


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time, in seconds."""

    subscriptions: int
    candidates: int
    """Distinct filters."""
    vectors: int
    """That differ."""
    press_s: float
    decisions_s: dict[str, float]
    moves: dict[str, int]

    @property
    def longest_s(self) -> float:
        """PRESS and the decision that took longest: what one session costs."""
        return self.press_s + max(self.decisions_s.values())

    @property
    def total_s(self) -> float:
        """PRESS and one decision of each."""
        return self.press_s + sum(self.decisions_s.values())


def measure_decisions(work: Workload, config: BalancingConfig) -> Decisions:
    """PRESS with the workload's events as samples, then each algorithm once, of a broker that is not overloaded."""
    filters = work.filters()
    theirs = list(dict.fromkeys(filters[::SHARE]))
    wanted = {Conn(client): (one,) for client, one in enumerate(filters)}
    events = join_events([encode_event(event) for event in work.events[: config.press_samples]])
    rows, has = _matches(filters, events), [bool(row) for row in _matches(theirs, events)]

    def profile() -> Profile:
        press = Press(samples_max=config.press_samples, until_ns=Nanoseconds(1))
        for row, acceptor in zip(rows, has, strict=True):
            press.take(row, acceptor=acceptor)
        return press.profile(wanted, {}, input_rate=INPUT_RATE, event_bytes=EVENT_BYTES)

    return _measured(profile, theirs, config)


def measure_scattered(
    subscriptions: int, config: BalancingConfig, *, density: float, acceptor_gets: float, is_overloaded: bool = False
) -> Decisions:
    """The same where nothing is alike: filters that have nothing in common, with random vectors.

    A client wants a sample with the probability ``density``; the acceptor gets this share of the samples in any case.
    If that is all of them, its one filter covers everything.
    """
    random = Random(1)
    samples = config.press_samples
    bits = {
        Conn(client): sum(1 << place for place in range(samples) if random.random() < density)
        for client in range(subscriptions)
    }
    wanted = {client: (encode_filter(compile_filter(f"x = {client}")),) for client in bits}
    theirs = [encode_filter(compile_filter("x >= 0"))] if acceptor_gets == 1 else []
    acceptor_bits = (1 << round(acceptor_gets * samples)) - 1

    def profile() -> Profile:
        press = Press(samples_max=samples, until_ns=Nanoseconds(1))
        press.fill(samples, bits, acceptor_bits=acceptor_bits)
        return press.profile(wanted, {}, input_rate=INPUT_RATE, event_bytes=EVENT_BYTES)

    return _measured(profile, theirs, config, is_overloaded=is_overloaded)


def _measured(
    profile: Callable[[], Profile], theirs: list[bytes], config: BalancingConfig, *, is_overloaded: bool = False
) -> Decisions:
    press_s, seen = _timed(profile)
    snapshot = _snapshot(seen, theirs, is_overloaded=is_overloaded)
    decisions_s: dict[str, float] = {}
    moves: dict[str, int] = {}
    actions: list[Action] = list(OFFLOADS)
    for action in actions:
        planner = OFFLOADS[action](config)
        decisions_s[action], plan = _timed(partial(planner.plan, snapshot, now_ns=_NOW))
        moves[action] = len(plan.moves)
    return Decisions(
        subscriptions=snapshot.donor.subscriptions,
        candidates=len(seen.candidates),
        vectors=len({one.bits for one in seen.candidates}),
        press_s=press_s,
        decisions_s=decisions_s,
        moves=moves,
    )


def _timed(made: Callable[[], _Made]) -> tuple[float, _Made]:
    began_s = process_time()
    result = made()
    return process_time() - began_s, result


def _matches(filters: list[bytes], events: bytes) -> list[list[Conn]]:
    """For each event, who wants it."""
    index = Index(0)
    clients = np.arange(len(filters), dtype=np.uint32)
    index.insert(clients.data, np.zeros(len(filters), dtype=np.uint32).data, filters)
    found = index.match(events)
    first = found.event_first.tolist()
    clients_of = [Conn(client) for client in found.destination.tolist()]
    return [clients_of[begin:end] for begin, end in pairwise(first)]


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
