"""What will both brokers be like when what has been picked so far has moved? One plan in the making (peer O5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from tidewire.balancing.estimates import Change, completed
from tidewire.balancing.plans import Move, OffloadSnapshot, Plan, Predicted
from tidewire.balancing.press import Candidate
from tidewire.balancing.tally import Tally
from tidewire.model.ids import Conn, Nanoseconds


class Taken(msgspec.Struct, frozen=True):
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
        self.acceptor_bits = self.profile.acceptor_bits
        """The samples that the acceptor will get."""
        self.holders = Tally()
        """How many candidates of the donor want each sample? Those count that will not have gone entirely."""
        self.holders.add(self.profile.kept_bits)
        for bits, times in Counter(one.bits for one in self.profile.candidates).items():
            self.holders.add(bits, times=times)
        self.picked: dict[Candidate, None] = {}
        self._moves: list[Move] = []

    @property
    def left(self) -> list[Candidate]:
        """The candidates that have not been picked."""
        return [one for one in self.profile.candidates if one not in self.picked]

    def move(self, taken: Sequence[Taken]) -> None:
        """These have been picked."""
        wanted = self.holders.some
        gained = subscriptions = deliveries = 0
        for one in taken:
            self.picked[one.candidate] = None
            gained |= one.candidate.bits
            subscriptions += one.candidate.each * len(one.clients)
            deliveries += one.candidate.bits.bit_count() * len(one.clients)
            if one.is_whole:
                self.holders.remove(one.candidate.bits)
            self._moves += [Move(client, self._to) for client in one.clients]
        reduced = wanted & ~self.holders.some
        output = self.profile.rate(deliveries) * self.profile.event_bytes
        self.donor = self.donor.after(Change(-self.profile.rate(reduced.bit_count()), -subscriptions, -output))
        extra = self.profile.rate((gained & ~self.acceptor_bits).bit_count())
        self.acceptor = self.acceptor.after(Change(extra, subscriptions, output))
        self.acceptor_bits |= gained

    def plan(self, reason: str, *, now_ns: Nanoseconds) -> Plan:
        """What has been picked."""
        predicted = Predicted(donor=self.donor, acceptor=self.acceptor)
        return Plan(moves=tuple(self._moves), reason=reason, before=self._before, predicted=predicted, made_ns=now_ns)


def whole(taken: Iterable[Taken]) -> list[Candidate]:
    """Those that have gone with all their clients."""
    return [one.candidate for one in taken if one.is_whole]
