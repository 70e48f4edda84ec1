"""How loaded is each broker, and what would a move do to it? (bad §2)

A broker takes in the results of every back-end subscription that one of its subscribers has, once, and sends them to
each of these: F_j = sum over k of z_jk (1 + n_jk) lambda_k. All questions about one subscriber are answered by a look
at what it wants, never at all brokers' subscriptions (bad §2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from typing import Final

import msgspec

from tidewire.model.errors import UsageError
from tidewire.model.ids import BrokerId

NOWHERE: Final = -1


class Subscriber(msgspec.Struct, frozen=True, gc=False):
    """One that is online: where it is, and what it wants."""

    name: str
    broker: int
    """Its place in the snapshot's brokers."""
    wants: tuple[int, ...]
    """Places in the snapshot's rates, each once."""


class LoadSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a plan is made from; it does not change meanwhile (bad §4.3 row 10)."""

    brokers: tuple[BrokerId, ...]
    rates: tuple[float, ...]
    """Of each back-end subscription, in bytes of results per second."""
    subscribers: tuple[Subscriber, ...]

    def __post_init__(self) -> None:
        for one in self.subscribers:
            if not 0 <= one.broker < len(self.brokers):
                raise UsageError(f"{one.name} is at broker {one.broker}: there are {len(self.brokers)}")
            if len(set(one.wants)) != len(one.wants):
                raise UsageError(f"{one.name} wants something twice: identical subscriptions are one")
            if one.wants and not (min(one.wants) >= 0 and max(one.wants) < len(self.rates)):
                raise UsageError(f"{one.name} wants what has no rate: there are {len(self.rates)} rates")


class Balance(msgspec.Struct, frozen=True):
    """How evenly is the load spread? (bad eq. 6 to 8)"""

    loads: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of all brokers."""
        return fsum(self.loads) / len(self.loads) if self.loads else 0.0

    @property
    def max(self) -> float:
        """Of the most loaded broker."""
        return max(self.loads, default=0.0)

    @property
    def cov(self) -> float:
        """The standard deviation over the mean; 0 where there is no load."""
        mean = self.mean
        if mean <= 0:
            return 0.0
        return sqrt(fsum((load - mean) ** 2 for load in self.loads) / len(self.loads)) / mean


class Loads:
    """The loads of all brokers while subscribers are placed and moved."""

    def __init__(self, snapshot: LoadSnapshot, *, is_empty: bool = False) -> None:
        """As the snapshot says, or with nobody placed yet."""
        self._rates = snapshot.rates
        self.wants = [one.wants for one in snapshot.subscribers]
        rates = snapshot.rates
        self.weights = [sum([rates[k] for k in wants]) for wants in self.wants]
        """What each subscriber gets, in bytes per second (u_i)."""
        self.loads = [0.0] * len(snapshot.brokers)
        """F of each broker."""
        self.where = [NOWHERE] * len(self.wants)
        self._fans = [[0] * len(rates) for _ in snapshot.brokers]
        """How many subscribers of each broker have each back-end subscription (n_jk)."""
        if not is_empty:
            for i, one in enumerate(snapshot.subscribers):
                self.where[i] = one.broker
                fans = self._fans[one.broker]
                for k in one.wants:
                    fans[k] += 1
            self.loads = list(self.measured().loads)

    def measured(self) -> Balance:
        """The loads by equation 5, from nothing but who is where."""
        return Balance(tuple(self.incoming(j) + self.outgoing(j) for j in range(len(self.loads))))

    def balance(self) -> Balance:
        """The loads as they have been kept."""
        return Balance(tuple(self.loads))

    def incoming(self, j: int) -> float:
        """I_j: what broker ``j`` takes in."""
        return fsum(rate for rate, fan in zip(self._rates, self._fans[j], strict=True) if fan)

    def outgoing(self, j: int) -> float:
        """O_j: what broker ``j`` sends."""
        return fsum(rate * fan for rate, fan in zip(self._rates, self._fans[j], strict=True) if fan)

    def fan(self, j: int, k: int) -> int:
        """n_jk."""
        return self._fans[j][k]

    # -- one subscriber ------------------------------------------------------------------------------------------------

    def similarity(self, i: int, j: int) -> float:
        """What ``i`` gets that broker ``j`` takes in anyway (sim)."""
        fans, rates = self._fans[j], self._rates
        return sum([rates[k] for k in self.wants[i] if fans[k]])

    def rise(self, i: int, j: int) -> float:
        """What ``i``, who is not there, would add to broker ``j``: 2 u_i - sim(i, j)."""
        fans, rates = self._fans[j], self._rates
        return self.weights[i] + sum([rates[k] for k in self.wants[i] if not fans[k]])

    def fall(self, i: int) -> float:
        """What the broker of ``i`` would lose with it."""
        fans, rates = self._fans[self.where[i]], self._rates
        return self.weights[i] + sum([rates[k] for k in self.wants[i] if fans[k] == 1])

    def place(self, i: int, j: int) -> None:
        """``i``, who is nowhere, is at broker ``j`` from now on."""
        assert self.where[i] == NOWHERE
        self.loads[j] += self.rise(i, j)
        self.where[i] = j
        fans = self._fans[j]
        for k in self.wants[i]:
            fans[k] += 1

    def remove(self, i: int) -> None:
        """``i`` is nowhere from now on."""
        b = self.where[i]
        self.loads[b] -= self.fall(i)
        self.where[i] = NOWHERE
        fans = self._fans[b]
        for k in self.wants[i]:
            fans[k] -= 1

    def move(self, i: int, j: int) -> None:
        """``i`` goes to broker ``j``."""
        self.remove(i)
        self.place(i, j)


def lower_bound(snapshot: LoadSnapshot) -> float:
    """No assignment has a smaller maximum load than this (bad §2.2)."""
    loads = Loads(snapshot, is_empty=True)
    wanted: Sequence[int] = [k for wants in loads.wants for k in wants]
    total = fsum(snapshot.rates[k] for k in wanted) + fsum(snapshot.rates[k] for k in dict.fromkeys(wanted))
    return max(total / len(snapshot.brokers), 2 * max(loads.weights, default=0.0))
