"""Who wants which of the events that come? PRESS, the profile of peer §7.1, and the rates that follow from it.

The next events are samples. Each client, and the acceptor's covering set, has a vector: an integer with one bit for
each sample, the first one right-most. What a client adds to the acceptor's input is then ``bits & ~acceptor``.

Clients that want the same are one *candidate*. A client with several subscriptions is as good as one that subscribes to
their union, and counts as many times as it has subscriptions; with one each this is the thesis exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from operator import or_

import msgspec

from tidewire.balancing.clientele import Clientele, Wanted
from tidewire.balancing.estimates import Change
from tidewire.model.ids import Conn, Nanoseconds


class Candidate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Clients that want the same: any number of them may move. Two candidates are never equal."""

    wanted: Wanted
    clients: tuple[Conn, ...]
    bits: int
    """The samples that they want."""

    @property
    def each(self) -> int:
        """How many subscriptions go with one client."""
        return len(self.wanted)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What the samples say of the donor's clients."""

    samples: int
    """As many as there were, N; there may be none."""
    input_rate: float
    """Events per second while they were taken, i_r."""
    event_bytes: float
    """On average."""
    acceptor_bits: int
    """The samples that the acceptor gets in any case."""
    candidates: tuple[Candidate, ...]
    kept_bits: int = 0
    """The samples that those want who stay: they hold the donor's input up, whoever goes."""
    kept_filters: tuple[bytes, ...] = ()
    """What those want who stay, or are still here."""
    leaving: Change = Change()
    """What goes with those who are as good as gone."""
    clientele: Clientele | None = None
    """All of them, with their covering order; None: the order of what is known here is made when it is needed."""

    def rate(self, samples: int) -> float:
        """Events per second, if so many of the samples are meant (Eq. 4.1)."""
        return self.input_rate * samples / self.samples if self.samples else 0.0

    def vector(self, bits: int) -> str:
        """As the thesis writes it: the first sample is the right-most."""
        return f"{bits:0{self.samples}b}"


class Press:
    """Takes the samples of one session. It ends when there are enough, or when time is up."""

    def __init__(self, *, samples_max: int, until_ns: Nanoseconds) -> None:
        self._samples_max = samples_max
        self._until_ns = until_ns
        self._bits: dict[Conn, int] = {}
        self._acceptor_bits = 0
        self.samples = 0

    def take(self, clients: Iterable[Conn], *, acceptor: bool) -> None:
        """One event: these clients want it, and the acceptor gets it in any case, or not."""
        if self.samples >= self._samples_max:
            return
        bit = 1 << self.samples
        self.samples += 1
        bits = self._bits
        for client in clients:
            bits[client] = bits.get(client, 0) | bit
        if acceptor:
            self._acceptor_bits |= bit

    def fill(self, samples: int, wanted: Mapping[Conn, int], *, acceptor_bits: int) -> None:
        """All at once, by an engine that has kept the events: who wants them, with a bit for each."""
        self.samples = samples
        self._bits = dict(wanted)
        self._acceptor_bits = acceptor_bits

    def is_complete(self, *, now_ns: Nanoseconds) -> bool:
        """Is there nothing more to wait for?"""
        return self.samples >= self._samples_max or now_ns >= self._until_ns

    def profile(
        self,
        clientele: Clientele,
        *,
        staying: Collection[Conn] = (),
        leaving: Collection[Conn] = (),
        input_rate: float,
        event_bytes: float,
    ) -> Profile:
        """What was seen, for clients that may move, those that stay, and those that another broker serves already.

        Those stay that have been sent away and may yet come back (peer M7), are control's own (L7), or came after the
        first sample: nothing is known of what they would have wanted before.
        """
        seen, kept_bits, left_bits, deliveries, subscriptions = self._bits.get, 0, 0, 0, 0
        kept_filters: dict[bytes, None] = {}
        for client in staying:
            kept_bits |= seen(client, 0)
            kept_filters |= dict.fromkeys(clientele.wanted_by(client))
        for client in leaving:
            wanted = clientele.wanted_by(client)
            left_bits |= seen(client, 0)
            deliveries += seen(client, 0).bit_count()
            subscriptions += len(wanted)
            kept_filters |= dict.fromkeys(wanted)
        candidates = tuple(
            Candidate(wanted, clients, seen(clients[0], 0))
            for wanted, clients in clientele.alike(without=dict.fromkeys([*staying, *leaving]))
        )
        held = reduce(or_, (one.bits for one in candidates), kept_bits)
        each = input_rate / self.samples if self.samples else 0.0
        return Profile(
            samples=self.samples,
            input_rate=input_rate,
            event_bytes=event_bytes,
            acceptor_bits=self._acceptor_bits,
            candidates=candidates,
            kept_bits=kept_bits,
            kept_filters=tuple(kept_filters),
            leaving=Change(-each * (left_bits & ~held).bit_count(), -subscriptions, -each * deliveries * event_bytes),
            clientele=clientele,
        )
