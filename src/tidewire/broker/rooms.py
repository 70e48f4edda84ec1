"""What have the brokers of a cluster, and what of it is used? Each measures itself; an edge tells its head.

A budget is the output of a broker, what it can match, or what one of its links carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tidewire.balancing.load import Sample
from tidewire.broker.config import BrokerConfig
from tidewire.congestion.fdcc.links import LinkMeter
from tidewire.congestion.fdcc.selection import Budget
from tidewire.congestion.fdcc.watch import smoothed
from tidewire.model.ids import BrokerId, Conn
from tidewire.model.shortage_messages import BudgetRoom, Room
from tidewire.model.traffic import ClassKey

SAID_AGAIN: Final = 5
"""An edge that has said nothing for so many periods is left out."""
RESERVED_MAX: Final = 0.5
"""Of what a link carries: so much at most is kept for what waits already."""
BUSY_MIN: Final = 0.05
"""A broker whose engine is busy for a smaller share of its time does not know what it could match."""


def budget(broker: str, what: str) -> Budget:
    """The name of something that a broker has only so much of: ``output``, ``match``, or ``>neighbour``."""
    return Budget(f"{broker} {what}")


class OwnRoom:
    """What this broker has."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._before: Sample | None = None
        self._output = self._matched = 0.0
        self._busy: float | None = None
        self.links: dict[Conn, LinkMeter] = {}

    def measured(self, sample: Sample, links: Iterable[tuple[Conn, int, int]]) -> float:
        """A period has passed; how long was it, in seconds? Of each link: what was sent in all, and what waits."""
        before, self._before = self._before, sample
        elapsed_s = 0.0 if before is None else (sample.at_ns - before.at_ns) / 1e9
        there: dict[Conn, LinkMeter] = {}
        for conn, sent, queued in links:
            there[conn] = self.links.get(conn) or LinkMeter()
            there[conn].measured(sent_bytes=sent, queued_bytes=queued, elapsed_s=elapsed_s)
        self.links = there
        if before is not None and elapsed_s > 0:
            self._output = (sample.bytes_out - before.bytes_out) / elapsed_s
            self._matched = (sample.events_in - before.events_in) / elapsed_s
            busy_s = (sample.busy_ns - before.busy_ns) / 1e9 / self._config.cpu_share
            done = sample.events_done - before.events_done
            self._busy = smoothed(self._busy, busy_s / done if done else 0.0)
        return elapsed_s

    def budgets(self, names: Mapping[Conn, BrokerId]) -> Iterator[tuple[str, float, float]]:
        """What there is, and what of it is used. ``names``: whom the links lead to."""
        config = self._config
        yield "output", config.output_bytes_s, self._output
        if self._busy and self._matched and self._busy * self._matched > BUSY_MIN:
            yield "match", 1 / self._busy, self._matched
        for conn, meter in self.links.items():
            if meter.capacity_bytes_s is not None and conn in names:
                yield f">{names[conn]}", meter.capacity_bytes_s, meter.used_bytes_s

    def reserves(self, names: Mapping[Conn, BrokerId]) -> Iterator[tuple[str, float]]:
        """What of each link is for what waits there already, so that it is worked off in time."""
        for conn, meter in self.links.items():
            if meter.capacity_bytes_s is not None and conn in names:
                most = RESERVED_MAX * meter.capacity_bytes_s
                yield f">{names[conn]}", min(most, meter.backlog_bytes / self._config.fdcc.drain_s)


class Rooms:
    """Of a cluster, as its head knows it."""

    def __init__(self) -> None:
        self._rooms: dict[BrokerId, tuple[int, Room]] = {}
        self._period = 0

    def said(self, edge: BrokerId, room: Room) -> None:
        """An edge has told how it is."""
        self._rooms[edge] = self._period, room

    def passed(self) -> None:
        """A period has; who has been silent for long is forgotten."""
        self._period += 1
        self._rooms = {edge: one for edge, one in self._rooms.items() if self._period - one[0] <= SAID_AGAIN}

    def edges(self) -> dict[BrokerId, Room]:
        """Those that are known."""
        return {edge: room for edge, (_, room) in self._rooms.items()}

    @property
    def is_any_short(self) -> bool:
        """Is one of them overloaded, and nobody takes it over?"""
        return any(room.is_short for _, room in self._rooms.values())

    def budgets(self) -> Iterator[tuple[BrokerId, BudgetRoom]]:
        """What they have."""
        for edge, (_, room) in self._rooms.items():
            yield from ((edge, one) for one in room.budgets)

    def voices(self) -> dict[ClassKey, float]:
        """How many want each class, in the whole cluster."""
        found: dict[ClassKey, float] = {}
        for _, room in self._rooms.values():
            for one in room.wanted:
                key = ClassKey(one.traffic_class)
                found[key] = found.get(key, 0.0) + one.voices
        return found
