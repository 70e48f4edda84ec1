"""A cluster as rates per class and second, with queues in bytes: for runs of tens of millions of events.

What is published in a second reaches the head, which sends each class once to every edge that hosts it; an edge matches
each event once and sends it to each subscriber. What a broker cannot take in, match or send in a second waits in its
queues, which all classes share. Who is where, and who may publish how much, is said from outside: by the machines that
decide it in brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from random import Random
from typing import Final

import msgspec

NO_LOAD: Final = (0.0, 0.0, 0.0)


class Machine(msgspec.Struct, frozen=True):
    """What a broker can do."""

    input_bytes_s: float
    output_bytes_s: float
    matches_s: float
    """Events."""


class Source(msgspec.Struct, frozen=True):
    """One publisher of one class."""

    name: str
    events_s: float
    event_bytes: int


class Traffic(msgspec.Struct, frozen=True):
    """One class: who publishes it, who wants it, and how soon it must be there."""

    key: str
    delay_s: float
    sources: tuple[Source, ...]
    subscribers: tuple[str, ...]

    @property
    def events_s(self) -> float:
        """Of all its publishers."""
        return sum(one.events_s for one in self.sources)

    @property
    def bytes_s(self) -> float:
        """Of all its publishers."""
        return sum(one.events_s * one.event_bytes for one in self.sources)


class Demand(msgspec.Struct, frozen=True):
    """What a broker is to do in a second: bytes in, bytes out, events to match; of one class, or in all."""

    input_bytes_s: float
    output_bytes_s: float
    matches_s: float


class Queues(msgspec.Struct):
    """What waits in a broker."""

    input_bytes: float = 0.0
    output_bytes: float = 0.0
    dropped_bytes: float = 0.0
    """Since the beginning: there was no more room."""

    delay_s: float = 0.0
    """How long what comes now waits in it."""


class Rates:
    """One cluster. ``advance`` is one second."""

    def __init__(
        self,
        head: str,
        machines: Mapping[str, Machine],
        traffic: Sequence[Traffic],
        *,
        noise: float = 0.0,
        chance: Random,
        queue_bytes_max: float = inf,
    ) -> None:
        """``noise``: of one publisher's rate from second to second, its deviation over its mean."""
        self.head = head
        self.machines = dict(machines)
        self.edges = [name for name in machines if name != head]
        self.traffic = list(traffic)
        self.at_s = 0
        self.number = {one.key: number for number, one in enumerate(traffic)}
        self.factor = [0.0] * len(traffic)
        """By class: how much of its rate it publishes now. Nothing, before it has come."""
        self.hosts: list[dict[str, dict[str, None]]] = [{} for _ in traffic]
        """By class: the edges that host it, with its subscribers there."""
        self.changes = 0
        """How often somebody came or moved."""
        self.limits: dict[str, float] = {}
        """By publisher: so many events in a second, and no more."""
        self.offered: list[float] = [0.0] * len(traffic)
        """By class: events of this second, before limits."""
        self.swing: list[float] = [1.0] * len(traffic)
        """By class: this second's share of the mean rate."""
        self.events: list[float] = [0.0] * len(traffic)
        self.bytes: list[float] = [0.0] * len(traffic)
        """By class, of this second, behind limits."""
        self.queues = {name: Queues() for name in machines}
        self._totals = dict.fromkeys(machines, NO_LOAD)
        self.delivered_bytes = 0.0
        """In all."""
        self._queue_bytes_max = queue_bytes_max
        self._chance = chance
        self._spread = [noise / sqrt(len(one.sources)) for one in traffic]
        self._events_s = [one.events_s for one in traffic]
        self._bytes_s = [one.bytes_s for one in traffic]
        self._where = {source.name: (number, source) for number, one in enumerate(traffic) for source in one.sources}

    # -- who is where --------------------------------------------------------------------------------------------------

    def join(self, traffic_class: int, edge: str) -> None:
        """Its publishers begin, at the head; its subscribers come to this edge."""
        self.changes += 1
        self.factor[traffic_class] = 1.0
        self.hosts[traffic_class] = {edge: dict.fromkeys(self.traffic[traffic_class].subscribers)}

    def move(self, subscriber: str, traffic_class: int, *, to: str) -> None:
        """It is served there from now on; what was not there comes there with it."""
        self.changes += 1
        hosts = self.hosts[traffic_class]
        for edge, there in list(hosts.items()):
            if subscriber in there and edge != to:
                del there[subscriber]
                if not there:
                    del hosts[edge]
        hosts.setdefault(to, {})[subscriber] = None

    def classes_at(self, edge: str) -> list[int]:
        """Those that it hosts, in the order of their numbers."""
        return [number for number, hosts in enumerate(self.hosts) if edge in hosts]

    # -- a second ------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """One second passes: what is published, and what becomes of it."""
        self.at_s += 1
        gauss, spread, factor = self._chance.gauss, self._spread, self.factor
        # Every class draws in every second, so that runs with one seed meet the same whatever is decided in them.
        self.swing = swing = [max(0.0, 1.0 + gauss(0.0, one)) for one in spread]
        shares = [one * by for one, by in zip(swing, factor, strict=True)]
        self.offered = [one * by for one, by in zip(self._events_s, shares, strict=True)]
        self.events = list(self.offered)
        self.bytes = [one * by for one, by in zip(self._bytes_s, shares, strict=True)]
        for name, limit in self.limits.items():
            number, source = self._where[name]
            over = source.events_s * shares[number] - limit
            if over > 0.0:
                self.events[number] -= over
                self.bytes[number] -= over * source.event_bytes
        self._carry()

    def offered_by(self, source: str) -> float:
        """What this publisher would publish in this second, if it might."""
        number, one = self._where[source]
        return one.events_s * self.swing[number] * self.factor[number]

    def published_by(self, source: str) -> float:
        """What it does publish."""
        return min(self.offered_by(source), self.limits.get(source, inf))

    def demand(self, broker: str) -> dict[int, Demand]:
        """What this second asks of a broker, by class."""
        events, size, edge = self.events, self.bytes, broker
        if broker == self.head:
            return {
                number: Demand(size[number], size[number] * len(hosts), events[number])
                for number, hosts in enumerate(self.hosts)
                if self.factor[number]
            }
        return {
            number: Demand(size[number], size[number] * len(hosts[edge]), events[number])
            for number, hosts in enumerate(self.hosts)
            if edge in hosts
        }

    def totals(self) -> dict[str, tuple[float, float, float]]:
        """What this second asks of each broker in all: bytes in, bytes out, events."""
        return self._totals

    def offered_totals(self) -> dict[str, tuple[float, float, float]]:
        """What this second would have asked of them without limits."""
        size = [one * by * turn for one, by, turn in zip(self._bytes_s, self.factor, self.swing, strict=True)]
        return self._summed(self.offered, size)

    def mean_totals(self) -> dict[str, tuple[float, float, float]]:
        """What a second asks of them on average, by who is where now, before limits."""
        events = [one * by for one, by in zip(self._events_s, self.factor, strict=True)]
        size = [one * by for one, by in zip(self._bytes_s, self.factor, strict=True)]
        return self._summed(events, size)

    def _summed(self, events: list[float], size: list[float]) -> dict[str, tuple[float, float, float]]:
        found = {name: [0.0, 0.0, 0.0] for name in self.machines}
        head = found[self.head]
        for of_class, count, hosts in zip(size, events, self.hosts, strict=True):
            head[0] += of_class
            head[1] += of_class * len(hosts)
            head[2] += count
            for edge, there in hosts.items():
                sums = found[edge]
                sums[0] += of_class
                sums[1] += of_class * len(there)
                sums[2] += count
        return {name: (one[0], one[1], one[2]) for name, one in found.items()}

    def utilisations(
        self, totals: Mapping[str, tuple[float, float, float]] | None = None
    ) -> dict[str, tuple[float, float, float]]:
        """What this second asks of each, or what is given, over what each can do: input, output, matching."""
        found = {}
        for name, (input_bytes, output_bytes, events) in (totals or self._totals).items():
            machine = self.machines[name]
            found[name] = (
                input_bytes / machine.input_bytes_s,
                output_bytes / machine.output_bytes_s,
                events / machine.matches_s,
            )
        return found

    # -- queues --------------------------------------------------------------------------------------------------------

    def _carry(self) -> None:
        totals = self._totals = self._summed(self.events, self.bytes)
        through = self._pass(self.head, totals[self.head], 1.0)
        for edge in self.edges:
            self._pass(edge, totals[edge], through)
            self.delivered_bytes += self._sent

    def _pass(self, broker: str, total: tuple[float, float, float], share: float) -> float:
        """A broker's second, when this share of what it should get reaches it; the share that it sends on."""
        machine, queues = self.machines[broker], self.queues[broker]
        size, out, events = total
        came = size * share + queues.input_bytes
        event_bytes = size / events if events else 1.0
        rate = min(machine.input_bytes_s, machine.matches_s * event_bytes)
        taken = min(came, rate)
        queues.input_bytes = min(came - taken, self._queue_bytes_max)
        waiting = taken * (out / size if size else 0.0) + queues.output_bytes
        self._sent = sent = min(waiting, machine.output_bytes_s)
        left = waiting - sent
        queues.output_bytes = min(left, self._queue_bytes_max)
        queues.dropped_bytes += left - queues.output_bytes + came - taken - queues.input_bytes
        queues.delay_s = queues.input_bytes / rate + queues.output_bytes / machine.output_bytes_s
        return sent / out if out else 1.0
