"""Brokers that do not speak the wire: they register and report by calls, and are told by the answers who is to move.

Nobody hears when such a broker ends, so it is known only as long as it calls again and again (bad §1.2, §4.5). Its
subscribers are moved among its own kind: a client of ours could not follow them, nor they a client of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tidewire.coordinator.balancing import PLAN_S_MAX, BalanceView, Balancing
from tidewire.coordinator.config import Decides
from tidewire.model.errors import LimitReached, SameName, UnknownBroker
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.notes import Note
from tidewire.model.placement_messages import Migrate, Migrated, RegisterBroker, ReportLoad
from tidewire.placement.choices import Candidate, Location

FOREIGN_MAX: Final = 1000
CALLS_MISSED_MAX: Final = 3
"""A broker that has missed so many reports is gone."""
GONE_AFTER_S_MIN: Final = 10.0


class ForeignBroker(msgspec.Struct, frozen=True):
    """One of them, as it is remembered."""

    broker: BrokerId
    address: str
    location: Location | None = None


class ForeignMove(msgspec.Struct, frozen=True):
    """A subscriber that is to go, and where to."""

    user: str
    broker: BrokerId
    address: str


class ForeignAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What such a broker is told."""

    report_every_s: float
    gone_after_s: float
    """Unless it calls before."""
    moves: list[ForeignMove] = []


class Foreign:
    """All of them."""

    def __init__(self, known: Sequence[ForeignBroker], config: Decides) -> None:
        self._every_s = config.balance.cycle_s
        self._gone_after_s = max(GONE_AFTER_S_MIN, CALLS_MISSED_MAX * self._every_s)
        self._balancing = Balancing(config, plan_s=max(PLAN_S_MAX, CALLS_MISSED_MAX * self._every_s))
        self._locations = config.locations
        self._brokers = {one.broker: one for one in known}
        self._due_ns: dict[BrokerId, int] = {}
        """When each must have called again."""
        self._orders: dict[BrokerId, Migrate] = {}
        """What each is to be told when it calls next."""
        self._given: dict[BrokerId, Migrate] = {}
        """What each was told: its next report shows who has gone."""

    def __contains__(self, broker: BrokerId) -> bool:
        return broker in self._brokers

    def begin(self, now_ns: Nanoseconds) -> None:
        """Those who are remembered get as long to call as those who have just called."""
        self._due_ns = dict.fromkeys(self._brokers, now_ns + int(self._gone_after_s * 1e9))

    def all(self) -> list[ForeignBroker]:
        """To be remembered."""
        return list(self._brokers.values())

    def register(self, asked: RegisterBroker, location: Location | None, *, now_ns: Nanoseconds) -> bool:
        """Know this one from now on, or for longer. True if that is news. SameName if another one has its name."""
        one = ForeignBroker(asked.broker, asked.address, location)
        known = self._brokers.get(asked.broker)
        if known is not None and known.address != one.address:
            left_s = max(0.0, (self._due_ns[asked.broker] - now_ns) / 1e9)
            raise SameName(
                f"a broker called {asked.broker!r} has registered at {known.address}: names must differ. If it is the"
                f" same one, and has moved: it is forgotten in {left_s:.0f} s, unless it calls"
            )
        if known is None and len(self._brokers) >= FOREIGN_MAX:
            raise LimitReached(f"a coordinator knows at most {FOREIGN_MAX} brokers that register by a call")
        self._brokers[asked.broker] = one
        self._called(asked.broker, now_ns)
        return known != one

    def answer(self) -> ForeignAnswer:
        """To one that has registered."""
        return ForeignAnswer(report_every_s=self._every_s, gone_after_s=self._gone_after_s)

    def reported(
        self, broker: BrokerId, report: ReportLoad, *, now_ns: Nanoseconds
    ) -> tuple[ForeignAnswer, list[Note]]:
        """One has told how loaded it is, and is told who is to go. UnknownBroker if it has not registered."""
        if broker not in self._brokers:
            raise UnknownBroker(
                f"there is no broker {broker!r}: register it first (registerbroker). One that has not called for"
                f" {self._gone_after_s:g} s is forgotten"
            )
        self._balancing.check(report)
        self._called(broker, now_ns)
        given = self._given.pop(broker, None)
        if given is not None:
            here = {one.name for one in report.clients}
            stayed = sum(move.name in here for move in given.moves)
            self._balancing.migrated(broker, Migrated(given.plan, len(given.moves) - stayed, stayed))
        addresses = {one.broker: one.address for one in self._brokers.values()}
        found = self._balancing.reported(broker, report, addresses, now_ns=now_ns)
        self._orders |= found.orders
        return self._told(broker), found.notes

    def _told(self, broker: BrokerId) -> ForeignAnswer:
        order = self._orders.pop(broker, None)
        if order is None:
            return self.answer()
        self._given[broker] = order
        there = [move for move in order.moves if move.broker in self._brokers]
        moves = [ForeignMove(move.name, move.broker, move.address) for move in there]
        return msgspec.structs.replace(self.answer(), moves=moves)

    def candidates(self) -> list[Candidate]:
        """Those that take subscribers."""
        loads = self._balancing.loads()
        closed = self._balancing.closed()
        return [
            Candidate(
                broker=one.broker,
                location=self._locations.get(one.broker, one.location),
                load=loads.get(one.broker, 0.0),
            )
            for one in self._brokers.values()
            if one.broker not in closed
        ]

    def address_of(self, broker: BrokerId) -> str:
        """Where it is."""
        return self._brokers[broker].address

    def view(self) -> BalanceView:
        """For people."""
        return self._balancing.view()

    # -- time ----------------------------------------------------------------------------------------------------------

    def _called(self, broker: BrokerId, now_ns: Nanoseconds) -> None:
        self._due_ns[broker] = now_ns + int(self._gone_after_s * 1e9)

    def deadline_ns(self) -> int | None:
        """When to look again."""
        return min(self._due_ns.values(), default=None)

    def gone(self, now_ns: Nanoseconds) -> list[BrokerId]:
        """Those that have not called for too long: they are forgotten."""
        gone = [broker for broker, due_ns in self._due_ns.items() if now_ns >= due_ns]
        for broker in gone:
            del self._due_ns[broker], self._brokers[broker]
            self._orders.pop(broker, None)
            self._given.pop(broker, None)
            self._balancing.gone(broker)
        return gone
