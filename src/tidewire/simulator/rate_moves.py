"""Subscribers that move, over rates: each takes its time, and what that costs it is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

import msgspec

from tidewire.model.ids import Nanoseconds
from tidewire.simulator.rates import Rates

UNEXPECTED_S: Final = (0.1, 0.3)
"""How long a move holds up what a subscriber gets (epeer §4.2)."""


class Moved(msgspec.Struct, frozen=True):
    """One subscriber, once."""

    subscriber: str
    delay_s: float
    """What its class may take."""

    unexpected_s: float
    """What came on top of it."""


class Session(msgspec.Struct, frozen=True):
    """One donor's, from the choice to the last of those who moved."""

    at_s: float
    donor: str
    moved: list[Moved]

    @property
    def delay_ratio(self) -> float:
        """The sum over those who moved: Od."""
        return sum(one.unexpected_s / one.delay_s for one in self.moved)


class Moves:
    """Those who are on their way, and all who have been."""

    def __init__(self, rates: Rates, chance: Random, *, unexpected_s: tuple[float, float] = UNEXPECTED_S) -> None:
        self._rates = rates
        self._chance = chance
        self._unexpected_s = unexpected_s
        self.sessions: list[Session] = []
        self.clients = [(name, number) for number, one in enumerate(rates.traffic) for name in one.subscribers]
        """By the number that machines know them by: who it is, and its class."""
        self._due: list[tuple[int, int, int, str, Callable[[int, Nanoseconds], object]]] = []
        self._orders = count()

    def numbers(self) -> dict[str, int]:
        """What machines call each subscriber."""
        return {name: client for client, (name, _) in enumerate(self.clients)}

    def send(
        self,
        donor: str,
        orders: Sequence[tuple[str, Sequence[int]]],
        *,
        now_ns: Nanoseconds,
        on_moved: Callable[[int, Nanoseconds], object],
    ) -> None:
        """One session: these clients go there. ``on_moved`` is called for each, with the time."""
        moved = []
        for to, clients in orders:
            for client in clients:
                subscriber, number = self.clients[client]
                took_s = self._chance.uniform(*self._unexpected_s)
                moved.append(Moved(subscriber, self._rates.traffic[number].delay_s, took_s))
                heappush(self._due, (now_ns + int(took_s * 1e9), next(self._orders), client, to, on_moved))
        self.sessions.append(Session(now_ns / 1e9, donor, moved))

    def run(self, until_ns: Nanoseconds) -> None:
        """Those arrive who are due by then."""
        while self._due and self._due[0][0] <= until_ns:
            at_ns, _, client, to, on_moved = heappop(self._due)
            subscriber, number = self.clients[client]
            self._rates.move(subscriber, number, to=to)
            on_moved(client, Nanoseconds(at_ns))
