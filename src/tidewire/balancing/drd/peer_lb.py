"""The thesis's baseline, which minds balance and not deadlines (epeer §4.2, §4.3), and the same in the order of delays.

Two edges whose loads differ by more than a tenth are made even: clients go from the one to the other, class by class,
until hardly anything is between them. It is not PEER as that is described in its own right (``balancing/``), which
samples, estimates and waits; the thesis runs it so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from tidewire.balancing.drd.bundles import Bundle, prioritised
from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.loads import Load
from tidewire.balancing.drd.selection import BundleMove, Ledger, Plan, Snapshot
from tidewire.model.chance import Chance
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.offload_messages import METRICS, LoadState, Metric

Order = Literal["random", "largest", "delay"]


def gap(donor: Load, acceptor: Load, metric: Metric, *, config: DrdConfig) -> float:
    """By how much the donor's load exceeds the acceptor's."""
    more, less = donor.utilisation(metric), acceptor.utilisation(metric)
    larger = max(more, less) if config.difference == "relative" else 1.0
    return (more - less) / larger if larger else 0.0


def widest(donor: Load, acceptor: Load, *, config: DrdConfig) -> tuple[float, Metric]:
    """The metric in which the donor exceeds the acceptor most, and by how much.

    What hardly loads either of them is no reason: only the metric that the donor is most loaded on counts.
    """
    metric = max(METRICS, key=donor.utilisation)
    return gap(donor, acceptor, metric, config=config), metric


def uneven(edges: Mapping[BrokerId, tuple[LoadState, Load]], *, config: DrdConfig) -> tuple[BrokerId, BrokerId] | None:
    """The two whose loads differ most, donor and acceptor; None if no two differ by too much.

    Who is BUSY counts for nothing; only one that is LOW takes anything.
    """
    found: tuple[float, BrokerId, BrokerId] | None = None
    for donor, (state, load) in sorted(edges.items()):
        for acceptor, (accepts, other) in sorted(edges.items()):
            if state == "BUSY" or accepts != "LOW" or donor == acceptor:
                continue
            wide, _ = widest(load, other, config=config)
            if wide > config.imbalance and (found is None or wide > found[0]):
                found = wide, donor, acceptor
    return None if found is None else (found[1], found[2])


class Evening:
    """Moves bundles from one edge to another until both are even."""

    def __init__(self, config: DrdConfig, order: Order, chance: Chance) -> None:
        self._config = config
        self._order = order
        self._chance = chance

    def plan(self, snapshot: Snapshot, *, now_ns: Nanoseconds) -> Plan:
        """Who is to move to the first of the acceptors?"""
        acceptor = snapshot.acceptors[0]
        _, metric = widest(snapshot.donor, acceptor.load, config=self._config)
        ledger = Ledger(snapshot.donor, [acceptor], self._config)
        ledger.needed = {}
        reason = "nothing more makes them more even"
        for bundle in self._ordered(snapshot, metric):
            wide = gap(ledger.donor, ledger.load_of(acceptor.broker), metric, config=self._config)
            if wide <= self._config.balanced:
                reason = "they are even"
                break
            cost = ledger.cost(acceptor.broker, bundle, None, snapshot.scope)
            after = (
                ledger.donor.after(bundle.relief.times(-1.0)),
                ledger.load_of(acceptor.broker).after(cost),
            )
            if bundle.relief.of(metric) > 0 and gap(*after, metric, config=self._config) >= -self._config.balanced:
                clients = tuple(member.client for member in bundle.members)
                move = BundleMove(bundle=bundle, to=acceptor.broker, clients=clients, load=cost, relief=bundle.relief)
                ledger.give(acceptor.broker, move)
        return ledger.plan(reason=reason, metric=metric, now_ns=now_ns)

    def _ordered(self, snapshot: Snapshot, metric: Metric) -> Sequence[Bundle]:
        if self._order == "delay":
            return prioritised(snapshot.bundles, scope=snapshot.scope, metric=metric)
        by_name = sorted(snapshot.bundles, key=lambda one: one.key)
        if self._order == "largest":
            return sorted(by_name, key=lambda one: -one.relief.of(metric))
        self._chance.shuffle(by_name)
        return by_name
