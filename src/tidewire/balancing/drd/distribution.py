"""Which edge does a newcomer get? The one that has its class; else that with most left, or the nearest (epeer §2.7)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, Protocol

import msgspec

from tidewire.balancing.drd.config import DrdConfig
from tidewire.model.chance import Chance
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.offload_messages import LoadState
from tidewire.model.traffic import ClassKey

UNSEEN_S: Final = 30.0
"""So long a class counts as placed where its first client was sent, whether or not that broker says that it has it."""


REMEMBERED_MAX: Final = 65_536
"""Classes whose draw is remembered: with more it begins anew."""


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge that could take a newcomer."""

    broker: BrokerId
    state: LoadState
    available: float
    utilisation: float = 0.0
    """The highest."""
    hosts: frozenset[ClassKey] = frozenset()
    distance: float = inf
    """From the newcomer, in whatever unit; infinite: not known."""


class Distribution(Protocol):
    """Chooses edges for newcomers."""

    def choose(self, classes: Sequence[ClassKey], edges: Sequence[Edge], *, now_ns: Nanoseconds) -> BrokerId | None:
        """Which of these? None: there is none."""

    def moved(self, classes: Sequence[ClassKey], to: BrokerId, *, now_ns: Nanoseconds) -> None:
        """Clients of these are sent there: newcomers follow them."""


class Together:
    """Clients of a class come to the same edge, however full it is (principle 1)."""

    def __init__(self, config: DrdConfig) -> None:
        self._config = config
        self._placed: dict[ClassKey, tuple[BrokerId, int]] = {}
        """Where a class was sent last, and until when that holds if it is not seen there."""

    def choose(self, classes: Sequence[ClassKey], edges: Sequence[Edge], *, now_ns: Nanoseconds) -> BrokerId | None:
        """See ``Distribution``. Of several classes the first that somebody has decides."""
        if not edges:
            return None
        chosen = self._hosting(classes, edges, now_ns)
        if chosen is None:
            chosen = self._best(edges)
        self.moved(classes, chosen.broker, now_ns=now_ns)
        return chosen.broker

    def moved(self, classes: Sequence[ClassKey], to: BrokerId, *, now_ns: Nanoseconds) -> None:
        """See ``Distribution``."""
        until_ns = now_ns + int(UNSEEN_S * 1e9)
        for one in classes:
            self._placed.pop(one, None)
            self._placed[one] = to, until_ns  # behind all others: the first is the next to be forgotten

    def _hosting(self, classes: Sequence[ClassKey], edges: Sequence[Edge], now_ns: Nanoseconds) -> Edge | None:
        while self._placed and next(iter(self._placed.values()))[1] <= now_ns:
            del self._placed[next(iter(self._placed))]
        by_name = {edge.broker: edge for edge in edges}
        for one in classes:
            placed = self._placed.get(one)
            known = None if placed is None else by_name.get(placed[0])
            hosting = [known] if known is not None else [edge for edge in edges if one in edge.hosts]
            if self._config.colocate_skip_overloaded:
                hosting = [edge for edge in hosting if edge.state != "OVERLOAD"]
            if hosting:
                return min(hosting, key=lambda edge: (-edge.available, edge.broker))
        return None

    def _best(self, edges: Sequence[Edge]) -> Edge:
        for state in ("LOW", "HIGH"):
            found = [edge for edge in edges if edge.state == state]
            if found and state == "LOW" and self._config.environment == "wan":
                return min(found, key=lambda edge: (edge.distance, -edge.available, edge.broker))
            if found:
                return min(found, key=lambda edge: (-edge.available, edge.broker))
        return min(edges, key=lambda edge: (edge.utilisation, edge.broker))


class Scattered:
    """Any edge, whatever it has to do: the baseline (epeer §4.2). One draw for each class, or for each client."""

    def __init__(self, config: DrdConfig, chance: Chance) -> None:
        self._config = config
        self._chance = chance
        self._placed: dict[ClassKey, BrokerId] = {}

    def choose(self, classes: Sequence[ClassKey], edges: Sequence[Edge], *, now_ns: Nanoseconds) -> BrokerId | None:
        """See ``Distribution``."""
        if not edges:
            return None
        there = {edge.broker for edge in edges}
        if self._config.placement == "class":
            for one in classes:
                if self._placed.get(one) in there:
                    return self._placed[one]
                hosting = sorted(edge.broker for edge in edges if one in edge.hosts)
                if hosting:
                    return hosting[0]
        chosen = edges[int(self._chance.random() * len(edges))].broker
        self.moved(classes, chosen, now_ns=now_ns)
        return chosen

    def moved(self, classes: Sequence[ClassKey], to: BrokerId, *, now_ns: Nanoseconds) -> None:  # noqa: ARG002
        """See ``Distribution``."""
        if len(self._placed) >= REMEMBERED_MAX:
            self._placed.clear()
        self._placed |= dict.fromkeys(classes, to)
