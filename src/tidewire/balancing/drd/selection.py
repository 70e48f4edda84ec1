"""Who goes where, so that a broker is no longer overloaded and no other one becomes so? (epeer §2.9 b)

Whole bundles first; single clients only where they relieve something, and only if bundles alone do not suffice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidewire.balancing.drd.bundles import Bundle, Member, Scope, member_load, prioritised
from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.loads import Load, remaining, required, worst
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.offload_messages import METRICS, Amounts, Metric
from tidewire.model.traffic import ClassKey


class Acceptor(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that can take load."""

    broker: BrokerId
    load: Load
    hosts: frozenset[ClassKey] = frozenset()
    """Classes that come to it in any case."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that the donor knows when it decides who moves."""

    scope: Scope
    donor: Load
    bundles: tuple[Bundle, ...]
    acceptors: tuple[Acceptor, ...]


class BundleMove(msgspec.Struct, frozen=True, kw_only=True):
    """Clients of one bundle that go to one broker."""

    bundle: Bundle
    to: BrokerId
    clients: tuple[int, ...]
    load: Amounts
    """What that has to do for them."""
    relief: Amounts
    """What the donor no longer has to do."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Who moves, why no more do, and what is expected of it."""

    moves: tuple[BundleMove, ...]
    reason: str
    metric: Metric
    """What is too much at the donor."""
    needed: dict[Metric, float]
    """What would still be too much after it, by metric; at or below 0: nothing."""
    before: Load
    """The donor's."""
    predicted: Load
    acceptors: dict[BrokerId, Load]
    """Theirs, of those who get something."""
    made_ns: Nanoseconds = Nanoseconds(0)

    @property
    def is_enough(self) -> bool:
        """Will the donor no longer be overloaded?"""
        return all(left <= 0 for left in self.needed.values())


class Ledger:
    """What is left at the acceptors while clients are given to them, one after the other."""

    def __init__(self, donor: Load, acceptors: Iterable[Acceptor], config: DrdConfig) -> None:
        self.needed = required(donor, config)
        self._donor = donor
        self._given = Amounts()
        self._acceptors = {one.broker: one for one in acceptors}
        self._hosts = {broker: dict.fromkeys(sorted(one.hosts)) for broker, one in self._acceptors.items()}
        self._taken = {broker: Amounts() for broker in self._acceptors}
        self._config = config
        self.moves: list[BundleMove] = []

    @property
    def is_enough(self) -> bool:
        """Is nothing too much any more?"""
        return all(left <= 0 for left in self.needed.values())

    def cost(self, broker: BrokerId, bundle: Bundle, members: Sequence[Member] | None, scope: Scope) -> Amounts:
        """What these (None: all) cost this broker: what it gets in any case comes but once."""
        load = bundle.load
        if members is not None:
            each = [member_load(one, scope=scope) for one in members]
            whole = Amounts(load.input_bytes_s, 0.0, load.matching_events_s)
            load = sum(each, Amounts()) if scope == "publishers" else sum(each, whole)
        is_hosted = all(one in self._hosts[broker] for one in bundle.of_classes)
        return Amounts(output_bytes_s=load.output_bytes_s) if is_hosted and scope != "publishers" else load

    def left(self, broker: BrokerId) -> Amounts:
        """What this broker can still take."""
        return remaining(self._acceptors[broker].load, high=self._config.high) - self._taken[broker]

    def fits(self, broker: BrokerId, cost: Amounts) -> bool:
        """Would it not be overloaded by it?"""
        left = self.left(broker)
        return all(left.of(metric) >= cost.of(metric) for metric in METRICS)

    def load_of(self, broker: BrokerId) -> Load:
        """An acceptor's, with what it has been given."""
        return self._acceptors[broker].load.after(self._taken[broker])

    @property
    def donor(self) -> Load:
        """The donor's, without what it has given."""
        return self._donor.after(self._given.times(-1.0))

    def give(self, broker: BrokerId, move: BundleMove) -> None:
        """It is decided."""
        self.moves.append(move)
        self._taken[broker] += move.load
        self._given += move.relief
        self._hosts[broker] |= dict.fromkeys(move.bundle.of_classes)
        self.needed = {metric: left - move.relief.of(metric) for metric, left in self.needed.items()}

    def plan(self, *, reason: str, metric: Metric, now_ns: Nanoseconds) -> Plan:
        """What came of it."""
        return Plan(
            moves=tuple(self.moves),
            reason=reason,
            metric=metric,
            needed=self.needed,
            before=self._donor,
            predicted=self.donor,
            acceptors={broker: self.load_of(broker) for broker in dict.fromkeys(one.to for one in self.moves)},
            made_ns=now_ns,
        )


class DelayDriven:
    """Who can wait longest goes first."""

    def __init__(self, config: DrdConfig) -> None:
        self._config = config

    def plan(self, snapshot: Snapshot, *, now_ns: Nanoseconds) -> Plan:
        """Who is to move? A plan that does not suffice says what is still needed."""
        metric = worst(snapshot.donor)
        ordered = prioritised(snapshot.bundles, scope=snapshot.scope, metric=metric)
        return self.ordered(snapshot, ordered, metric=metric, now_ns=now_ns)

    def ordered(self, snapshot: Snapshot, bundles: Sequence[Bundle], *, metric: Metric, now_ns: Nanoseconds) -> Plan:
        """The same, with bundles in this order."""
        ledger = Ledger(snapshot.donor, snapshot.acceptors, self._config)
        if not ledger.needed:
            return ledger.plan(reason="nothing is too much", metric=metric, now_ns=now_ns)
        left = [one for one in bundles if any(one.relief.of(m) > 0 for m in ledger.needed)]
        brokers = sorted(
            snapshot.acceptors,
            key=lambda one: (-remaining(one.load, high=self._config.high).of(metric), one.broker),
        )
        for acceptor in brokers:
            for bundle in list(left):
                if ledger.is_enough:
                    break
                cost = ledger.cost(acceptor.broker, bundle, None, snapshot.scope)
                if ledger.fits(acceptor.broker, cost):
                    ledger.give(acceptor.broker, _whole(bundle, acceptor.broker, cost))
                    left.remove(bundle)
        if not ledger.is_enough and metric == ("input" if snapshot.scope == "publishers" else "output"):
            _one_by_one(ledger, left, [one.broker for one in brokers], snapshot.scope)
        reason = "it suffices" if ledger.is_enough else "nobody can take more"
        return ledger.plan(reason=reason, metric=metric, now_ns=now_ns)


def _whole(bundle: Bundle, to: BrokerId, cost: Amounts) -> BundleMove:
    clients = tuple(member.client for member in bundle.members)
    return BundleMove(bundle=bundle, to=to, clients=clients, load=cost, relief=bundle.relief)


def _one_by_one(ledger: Ledger, bundles: Sequence[Bundle], brokers: Sequence[BrokerId], scope: Scope) -> None:
    """Single clients, in the same order: of each only what goes to or comes from it is gained."""
    for bundle in bundles:
        members = list(bundle.members)
        for broker in brokers:
            for member in list(members):
                if ledger.is_enough:
                    return
                cost = ledger.cost(broker, bundle, [member], scope)
                if ledger.fits(broker, cost):
                    members.remove(member)
                    relief = member_load(member, scope=scope) if members else _last(bundle, member, scope)
                    ledger.give(
                        broker,
                        BundleMove(bundle=bundle, to=broker, clients=(member.client,), load=cost, relief=relief),
                    )


def _last(bundle: Bundle, last: Member, scope: Scope) -> Amounts:
    """With the last of them the class itself is gone: all that it took but what the others did."""
    others = (member_load(one, scope=scope) for one in bundle.members if one != last)
    return bundle.relief - sum(others, Amounts())
