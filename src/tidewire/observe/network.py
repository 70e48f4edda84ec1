"""A whole network at one look: the brokers that answered, those that did not, and what the coordinator knows."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidewire.broker.status import BrokerStatus
from tidewire.coordinator.balancing import BalanceView
from tidewire.model.messages import DeclaredRole
from tidewire.observe.rates import Rates

BrokerState = Literal["serving", "full", "draining", "unreachable"]
"""How a broker is, in the one word that people see everywhere. *Full*: it takes no more clients than it must.
*Draining*: its clients are being moved away, whether it is full or not."""
UNREACHABLE: Final = "unreachable"


class Unanswered(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who should be there and did not answer."""

    broker: str
    """Its name, if it is known; else empty."""

    address: str
    code: str
    """Of the error that there was instead."""

    reason: str
    named_by: str
    """The broker or coordinator that spoke of it; empty if it was asked for."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that answered."""

    status: BrokerStatus
    where: str
    """The address that the asker reached it at."""

    rates: Rates | None
    """Since the look before; None in the first look, and after a restart."""

    took_s: float
    """From the question to the answer."""

    clock_ahead_s: float | None
    """Its calendar less the asker's, give or take half of ``took_s``."""


class KnownMember(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that the coordinator knows."""

    broker: str
    address: str
    declared: DeclaredRole
    is_alive: bool
    """Is it connected to the coordinator?"""


class CoordinatorView(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator, as far as it answered."""

    address: str
    members: list[KnownMember]
    reason: str
    """Why it did not answer; empty if it did."""

    code: str = ""
    """Of that reason."""

    placement: str = ""
    """How it chooses the broker of a newcomer; empty if it did not answer."""

    balance: BalanceView | None = None
    """How it sees load spread, if it places or moves subscribers by load."""


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """One look."""

    at_unix_s: float
    """By the asker's calendar."""

    brokers: list[Answered]
    """Sorted by name."""

    silent: list[Unanswered]
    coordinators: list[CoordinatorView]

    def statuses(self) -> list[BrokerStatus]:
        """Of those that answered."""
        return [one.status for one in self.brokers]

    def states(self) -> dict[str, BrokerState]:
        """Of those that answered, by name; the others are unreachable. That one is full, its neighbours know."""
        full = {one.broker: None for status in self.statuses() for one in status.neighbours if one.is_full}
        return {
            status.broker: "draining" if status.is_leaving else "full" if status.broker in full else "serving"
            for status in self.statuses()
        }

    def broker(self, name: str) -> Answered | None:
        """The one with this name, if it answered."""
        return next((one for one in self.brokers if one.status.broker == name), None)
