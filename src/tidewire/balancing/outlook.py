"""What will both brokers be like when what has been picked so far has moved? One plan in the making (peer O5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tidewire.balancing.estimates import Change, Forecast, completed
from tidewire.balancing.plans import Move, OffloadSnapshot, Plan, Predicted
from tidewire.balancing.press import Candidate
from tidewire.balancing.tally import Tally
from tidewire.model.ids import Conn, Nanoseconds

SPENT: Final = "as much was looked at as may be"
"""Why a plan ends that might go on."""


class Taken(msgspec.Struct, frozen=True, gc=False):
    """A candidate that has been picked, with the clients that move; the rest stays."""

    candidate: Candidate
    clients: tuple[Conn, ...]

    @property
    def is_whole(self) -> bool:
        """Do all of them move?"""
        return len(self.clients) == len(self.candidate.clients)


class Outlook:
    """Both brokers, as picks change them."""

    def __init__(self, snapshot: OffloadSnapshot) -> None:
        self._to = snapshot.to
        self._before = Predicted(donor=snapshot.donor, acceptor=snapshot.acceptor)
        self.profile = snapshot.profile
        self.donor = snapshot.donor
        self.acceptor = completed(snapshot.acceptor, by=snapshot.donor)
        self.donor_then, self.acceptor_then = Forecast(self.donor), Forecast(self.acceptor)
        """What they would be like, if more were picked."""
        self.acceptor_bits = self.profile.acceptor_bits
        """The samples that the acceptor will get."""
        self.holders = Tally()
        """How many candidates of the donor want each sample? Those count that will not have gone entirely."""
        self.holders.add([self.profile.kept_bits, *(one.bits for one in self.profile.candidates)])
        self._held_by: dict[int, int] = {}
        self.looks = 0
        """What it has cost to come so far: looks at a number of clients, or at what covers a candidate."""
        self.picked: dict[Candidate, None] = {}
        self._moves: list[Move] = []

    @property
    def left(self) -> list[Candidate]:
        """The candidates that have not been picked."""
        return [one for one in self.profile.candidates if one not in self.picked]

    def held_by(self, candidates: int) -> int:
        """The samples that so many candidates of the donor want, no more and no fewer."""
        found = self._held_by.get(candidates)
        if found is None:
            found = self._held_by[candidates] = self.holders.exactly(candidates)
        return found

    def move(self, taken: Sequence[Taken]) -> None:
        """These have been picked."""
        wanted = self.holders.some
        gained = subscriptions = deliveries = 0
        to = self._to
        for one in taken:
            candidate, clients = one.candidate, len(one.clients)
            self.picked[candidate] = None
            gained |= candidate.bits
            subscriptions += len(candidate.wanted) * clients
            deliveries += candidate.bits.bit_count() * clients
            self._moves += [Move(client, to) for client in one.clients]
        self.holders.remove([one.bits for one in whole(taken)])
        self._held_by.clear()
        reduced = wanted & ~self.holders.some
        output = self.profile.rate(deliveries) * self.profile.event_bytes
        self.donor = self.donor.after(Change(-self.profile.rate(reduced.bit_count()), -subscriptions, -output))
        extra = self.profile.rate((gained & ~self.acceptor_bits).bit_count())
        self.acceptor = self.acceptor.after(Change(extra, subscriptions, output))
        self.acceptor_bits |= gained
        self.donor_then, self.acceptor_then = Forecast(self.donor), Forecast(self.acceptor)

    def plan(self, reason: str, *, now_ns: Nanoseconds) -> Plan:
        """What has been picked."""
        predicted = Predicted(donor=self.donor, acceptor=self.acceptor)
        return Plan(moves=tuple(self._moves), reason=reason, before=self._before, predicted=predicted, made_ns=now_ns)


def whole(taken: Iterable[Taken]) -> list[Candidate]:
    """Those that have gone with all their clients."""
    return [one.candidate for one in taken if one.is_whole]
