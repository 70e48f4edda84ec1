"""What are events worth to a session, and what may it publish under shortage? Only if its brokers ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidewire.client.events import ClientEffect, Tell
from tidewire.client.restraint import Restraint
from tidewire.congestion.fdcc.expression import Expression
from tidewire.congestion.fdcc.opinions import Averages
from tidewire.language import render
from tidewire.model.errors import TidewireError
from tidewire.model.filters import decode_filter
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.shortage_messages import AskOpinions, Limits, Quench, QuenchHeard
from tidewire.model.values import Value
from tidewire.traffic.classes import Classes
from tidewire.traffic.config import ClassConfig, TrafficConfig
from tidewire.wire.connections import Send

FromBroker = AskOpinions | Limits | Quench


class Valuing:
    """Of one session."""

    def __init__(self) -> None:
        self._asked: dict[Conn, AskOpinions] = {}
        self._restraints: dict[Conn, Restraint] = {}
        self._classes: tuple[tuple[object, ...], Classes] | None = None
        self._averages = Averages()
        self._said_ns: int | None = None
        self._every_ns = 0
        self.restraint: Restraint | None = None
        """At the broker that it publishes at, if that has asked."""
        self.is_asked = False
        """Does the broker that it subscribes at want to know what events are worth?"""
        self.default_utility: Expression | None = None
        """For subscriptions that do not say how they judge."""

    def heard(self, conn: Conn, message: FromBroker, *, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        """A broker asks, or limits what may be published."""
        if isinstance(message, AskOpinions):
            self._asked[conn] = message
            self._restraints[conn] = Restraint(message, self._classes_of(message).of_attributes, now_ns=now_ns)
            self._every_ns, self.is_asked = int(message.every_s * 1e9), True
            self._said_ns = now_ns if self._said_ns is None else self._said_ns
            return
        restraint = self._restraints.get(conn)
        if restraint is None:
            return
        if isinstance(message, Limits):
            restraint.limited(message, now_ns=now_ns)
            for limit in message.limits:
                told = "any" if limit.msgs_s is None else limit.msgs_s
                why = "" if limit.msgs_s is None else limit.why
                yield Tell("limit", {"class": limit.traffic_class, "events/s": told, "reason": why})
            return
        restraint.quench(message)
        yield Send(conn, QuenchHeard(message.token), "control")
        if message.unwanted:
            yield Tell("unwanted", {"advertisements": len(message.unwanted)})
        if message.wanted:
            yield Tell("wanted again", {"advertisements": len(message.wanted)})

    def publishes_on(self, conn: Conn | None) -> None:
        """Here is published from now on; what another broker said of limits and silence does not hold here."""
        self.restraint = None if conn is None else self._restraints.get(conn)

    def _subscribes_on(self, conn: Conn | None) -> None:
        asked = None if conn is None else self._asked.get(conn)
        self.is_asked = asked is not None
        if asked is not None:
            self._every_ns = int(asked.every_s * 1e9)
            if self.default_utility is None or self.default_utility.text != asked.utility:
                self.default_utility = _expression(asked.utility)

    def closed(self, conn: Conn) -> None:
        """A connection has ended."""
        self._asked.pop(conn, None)
        if self._restraints.pop(conn, None) is self.restraint:
            self.restraint = None

    def judged(self, source: int, publisher: int, attributes: Mapping[str, Value], utility: float) -> None:
        """An event was worth so much. ``source``: its tree or, of a guaranteed one, its pubend."""
        if self._classes is not None:
            self._averages.add(source, publisher, self._classes[1].of_attributes(attributes), utility)

    def due(self, publishes: Conn | None, subscribes: Conn | None, *, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        """What is to be said by now."""
        offering = None if self.restraint is None else self.restraint.due(now_ns=now_ns)
        if offering is not None and publishes is not None:
            yield Send(publishes, offering, "control")
        self._subscribes_on(subscribes)
        if not self.is_asked or subscribes is None:
            return
        if self._said_ns is None or now_ns - self._said_ns >= self._every_ns:
            self._said_ns = now_ns
            opinions = self._averages.taken()
            if opinions is not None:
                yield Send(subscribes, opinions, "control")

    def deadline_ns(self) -> int | None:
        """When something is to be said next."""
        times = [] if self.restraint is None else [self.restraint.deadline_ns()]
        if self.is_asked:
            times.append((self._said_ns or 0) + self._every_ns)
        return min((time for time in times if time is not None), default=None)

    def _classes_of(self, asked: AskOpinions) -> Classes:
        key: tuple[object, ...] = asked.attribute, tuple(asked.classes)
        if self._classes is None or self._classes[0] != key:
            classes = [ClassConfig(name=name, filter=render(decode_filter(wanted))) for name, wanted in asked.classes]
            self._classes = key, Classes(TrafficConfig(attribute=asked.attribute, classes=classes))
        return self._classes[1]


def _expression(text: str) -> Expression | None:
    """One that we do not understand is none: another broker's is no reason to end."""
    try:
        return Expression(text) if text else None
    except TidewireError:
        return None
