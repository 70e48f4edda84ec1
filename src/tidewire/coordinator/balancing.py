"""How is load spread over the brokers, and who is to move? Reports in, plans out (bad §4).

A decision is made when every broker that reports has done so since the last one, and all clients that were sent
elsewhere have gone or stay: so it is made from what is, and never twice about the same.
"""

from __future__ import annotations

from math import isfinite
from typing import Final

import msgspec

from tidewire.coordinator.config import Decides
from tidewire.model.errors import PeerError
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.notes import Note
from tidewire.model.placement_messages import ClientMove, Migrate, Migrated, ReportedClient, ReportLoad
from tidewire.placement.averages import Averages
from tidewire.placement.loads import Balance, Loads, LoadSnapshot, Subscriber
from tidewire.placement.stages import Staged

PLAN_S_MAX: Final = 60.0
"""A broker that has not answered for so long is not waited for."""


class BrokerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """For people: one broker, as the coordinator sees it."""

    broker: BrokerId
    load_bytes_s: float
    """F: what it takes in and what it sends."""
    subscribers: int
    is_open: bool


class BalanceView(msgspec.Struct, frozen=True, kw_only=True):
    """For people: how the load is spread, and what was done about it."""

    policy: str
    placement: str
    brokers: list[BrokerLoad]
    mean_bytes_s: float
    cov: float
    is_moving: bool
    plans: int
    moved: int
    stayed: int
    moved_by: dict[str, int]
    """How many of them by plans of which stages, as in ``gsh, ldm``."""
    last_stages: list[str]
    last_reason: str
    last_cov_before: float
    last_cov_predicted: float


def together(one: BalanceView, other: BalanceView) -> BalanceView:
    """Of brokers that are balanced apart from each other, as if they were one network."""
    if not one.brokers or not other.brokers:
        return one if one.brokers or not other.brokers else other
    brokers = one.brokers + other.brokers
    balance = Balance(tuple(each.load_bytes_s for each in brokers if each.is_open))
    last = one if one.last_stages or not other.last_stages else other
    return msgspec.structs.replace(
        last,
        brokers=brokers,
        mean_bytes_s=round(balance.mean, 3),
        cov=round(balance.cov, 6),
        is_moving=one.is_moving or other.is_moving,
        plans=one.plans + other.plans,
        moved=one.moved + other.moved,
        stayed=one.stayed + other.stayed,
        moved_by={
            stages: one.moved_by.get(stages, 0) + other.moved_by.get(stages, 0)
            for stages in (*one.moved_by, *other.moved_by)
        },
    )


class _Reported:
    """What a broker told."""

    def __init__(self, window_s: float) -> None:
        self.sizes: Averages[bytes] = Averages(window_s)
        self.is_open = False
        self.is_fresh = False
        self.keys: list[bytes] = []
        self.clients: list[ReportedClient] = []


class _Who(msgspec.Struct, frozen=True, gc=False):
    broker: BrokerId
    client: ReportedClient


class Orders(msgspec.Struct, frozen=True):
    """What follows from a report."""

    orders: dict[BrokerId, Migrate]
    notes: list[Note]


class Balancing:
    """All brokers that report."""

    def __init__(self, config: Decides, *, plan_s: float = PLAN_S_MAX) -> None:
        self._config = config
        self._plan_s = plan_s
        self._staged = Staged(config.balancing, config.balance)
        self._reports: dict[BrokerId, _Reported] = {}
        self._waits_for: dict[BrokerId, None] = {}
        self._until_ns = 0
        self._plans = self._moved = self._stayed = 0
        self._moved_by: dict[str, int] = {}
        self._stages: tuple[str, ...] = ()
        self._reason = ""
        self._covs = (0.0, 0.0)

    @property
    def wants_reports(self) -> bool:
        """Does anybody have to report?"""
        config = self._config
        return config.balancing != "never" or config.placement == "least-loaded" or config.always_reports

    def gone(self, broker: BrokerId) -> None:
        """It is not there any more, and neither are its subscribers."""
        self._reports.pop(broker, None)
        self._waits_for.pop(broker, None)

    def reported(
        self, broker: BrokerId, report: ReportLoad, addresses: dict[BrokerId, str], *, now_ns: Nanoseconds
    ) -> Orders:
        """A broker has told how loaded it is."""
        told = self._reports.setdefault(broker, _Reported(self._config.balance.average_s))
        told.sizes.add(dict(zip(report.keys, report.sizes, strict=True)), seconds=report.seconds, now_ns=now_ns)
        told.is_open, told.is_fresh = report.is_open, True
        told.keys, told.clients = report.keys, report.clients
        if now_ns >= self._until_ns:
            self._waits_for.clear()
        is_one_alone = sum(one.is_open for one in self._reports.values()) < 2
        if is_one_alone or self._waits_for or not all(one.is_fresh for one in self._reports.values()):
            return Orders({}, [])
        for one in self._reports.values():
            one.is_fresh = False
        return self._decide(addresses, now_ns)

    def check(self, report: ReportLoad) -> None:
        """PeerError if it cannot be: what its parts say of each other must fit."""
        if len(report.keys) != len(report.sizes) or len(set(report.keys)) != len(report.keys):
            raise PeerError("a report has one size for each of its filters")
        if not all(isfinite(size) for size in report.sizes):
            raise PeerError("a size in a report is a number of bytes")
        if any(place >= len(report.keys) for one in report.clients for place in one.wants):
            raise PeerError("a subscriber in a report wants what is not in it")

    def migrated(self, broker: BrokerId, answer: Migrated) -> None:
        """All that were with this broker and should go have gone, or stay."""
        if answer.plan == self._plans:
            self._waits_for.pop(broker, None)
            self._moved += answer.moved
            stages = ", ".join(self._stages)
            self._moved_by[stages] = self._moved_by.get(stages, 0) + answer.moved
            self._stayed += answer.stayed
            for one in self._reports.values():
                one.is_fresh = False  # what was told before they moved is no longer so

    def loads(self) -> dict[BrokerId, float]:
        """Of those that take subscribers, as they were reported last."""
        snapshot, _ = self._snapshot()
        return dict(zip(snapshot.brokers, Loads(snapshot).loads, strict=True))

    def closed(self) -> dict[BrokerId, None]:
        """Those that take no subscribers, as they were reported last."""
        return {broker: None for broker, told in self._reports.items() if not told.is_open}

    def view(self) -> BalanceView:
        """For people."""
        snapshot, _ = self._snapshot()
        balance = Loads(snapshot).balance()
        loads = dict(zip(snapshot.brokers, balance.loads, strict=True))
        return BalanceView(
            policy=self._config.balancing,
            placement=self._config.placement,
            brokers=[
                BrokerLoad(
                    broker=broker,
                    load_bytes_s=round(loads.get(broker, 0.0), 3),
                    subscribers=len(told.clients),
                    is_open=told.is_open,
                )
                for broker, told in self._reports.items()
            ],
            mean_bytes_s=round(balance.mean, 3),
            cov=round(balance.cov, 6),
            is_moving=bool(self._waits_for),
            plans=self._plans,
            moved=self._moved,
            stayed=self._stayed,
            moved_by=dict(self._moved_by),
            last_stages=list(self._stages),
            last_reason=self._reason,
            last_cov_before=round(self._covs[0], 6),
            last_cov_predicted=round(self._covs[1], 6),
        )

    # -- a decision ----------------------------------------------------------------------------------------------------

    def _snapshot(self) -> tuple[LoadSnapshot, list[_Who]]:
        """Those that take subscribers, and what was told of them.

        What is wanted at several brokers comes to all of them alike: its rate is the mean of what they told, each as
        long as it has told of it. So where it is new it counts little.
        """
        open_ones = {broker: told for broker, told in self._reports.items() if told.is_open}
        sums: dict[bytes, tuple[float, float]] = {}
        for told in open_ones.values():
            known = told.sizes.told()
            for key in told.keys:
                (total, told_s), (more, more_s) = sums.get(key, (0.0, 0.0)), known[key]
                sums[key] = (total + more, told_s + more_s)
        places = {key: k for k, key in enumerate(sums)}
        who: list[_Who] = []
        subscribers: list[Subscriber] = []
        for j, (broker, told) in enumerate(open_ones.items()):
            for client in told.clients:
                wants = dict.fromkeys(places[told.keys[place]] for place in client.wants)
                subscribers.append(Subscriber(str(len(who)), j, tuple(wants)))
                who.append(_Who(broker, client))
        snapshot = LoadSnapshot(
            brokers=tuple(open_ones),
            rates=tuple(total / told_s for total, told_s in sums.values()),
            subscribers=tuple(subscribers),
        )
        return snapshot, who

    def _decide(self, addresses: dict[BrokerId, str], now_ns: Nanoseconds) -> Orders:
        snapshot, who = self._snapshot()
        plan = self._staged.plan(snapshot, now_ns=now_ns)
        self._reason = plan.reason
        self._covs = (plan.before.cov, plan.predicted.cov)
        if not plan.moves:
            return Orders({}, [])
        self._plans += 1
        self._stages = plan.stages
        orders: dict[BrokerId, Migrate] = {}
        for source, moves in plan.by_source().items():
            clients = [(who[int(move.subscriber)].client, move.to) for move in moves]
            told = [ClientMove(one.conn, one.name, to, addresses[to]) for one, to in clients]
            orders[source] = Migrate(self._plans, told)
        self._waits_for = dict.fromkeys(orders)
        self._until_ns = now_ns + int(self._plan_s * 1e9)
        facts: dict[str, str | int | float] = {
            "stages": ", ".join(plan.stages),
            "moves": len(plan.moves),
            "cov": round(plan.before.cov, 4),
            "predicted": round(plan.predicted.cov, 4),
            "why no more": plan.reason,
        }
        return Orders(orders, [Note("subscribers are to move", facts)])
