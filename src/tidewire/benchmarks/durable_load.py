"""Storing events in a server and reading them again, with the counts checked: a wrong one is an error, not a figure."""

from __future__ import annotations

import socket
import time
from typing import Final

import msgspec

from tidewire.benchmarks.dialects import play
from tidewire.benchmarks.durable_dialects import DurableDialect
from tidewire.benchmarks.durable_peers import DurableServer
from tidewire.benchmarks.load import Delays, Side, Traffic, connection_lines, generating, plan_head
from tidewire.model.errors import PeerError, Unavailable

_IDLE_S: Final = 20.0
_LIMIT_S: Final = 1_800.0
_SETTLE_S: Final = 0.05
"""In which an event too many would have come."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """So many events stored and acknowledged, or read."""

    events: int
    seconds: float
    """From the first sending to the last acknowledgement; from coming back to the last event."""

    ack_us: Delays | None
    """From sending to acknowledgement; none if they were read."""

    server_cpu_s: float
    client_cpu_s: float

    @property
    def events_per_s(self) -> float:
        """By the clock."""
        return self.events / self.seconds

    @property
    def cpu_us_per_event(self) -> float:
        """Of the server."""
        return self.server_cpu_s * 1e6 / self.events

    @property
    def client_us_per_event(self) -> float:
        """Of the load generator."""
        return self.client_cpu_s * 1e6 / self.events


class Place:
    """A subject under which a server stores events, with durable subscribers that are away."""

    def __init__(self, server: DurableServer, port: int, subject: str, *, readers: int = 1) -> None:
        self._server, self._port, self._subject = server, port, subject
        self._dialect: DurableDialect = server.durable
        self._publishers = self._events = 0
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=_IDLE_S) as connection:
                play(connection, self._dialect.prepare(subject, readers=readers))
        except OSError as problem:
            raise Unavailable(f"{server.name} does not make a place for events: {problem}") from problem

    def store(self, *, publishers: int, window: int, events: int) -> Turn:
        """So many events of each publisher, of which so many may wait for their acknowledgement."""
        assert not self._events, "readers count from the first event"
        self._publishers, self._events = publishers, publishers * events
        with generating(self._publishing_plan(window, events)) as generator:
            before = self._server.cpu_s()
            generator.go(events, self._events)
            side = generator.result(_LIMIT_S)
            spent = self._server.cpu_s() - before
        self._check(side, "acknowledged")
        return _turn(side, spent, ack_us=side.delay_us)

    def read(self, *, reader: int = 0, way: str | None = None, gives_way: bool = False) -> Turn:
        """A durable subscriber comes back and reads all: exactly what was stored, in order for each publisher."""
        with generating(self._reading_plan(reader, way or self._dialect.ways[0]), gives_way=gives_way) as generator:
            before = self._server.cpu_s()
            generator.go(0, self._events)
            side = generator.result(_LIMIT_S)
            spent = self._server.cpu_s() - before
            self._check(side, "read")
            generator.go(0, 1)
            time.sleep(_SETTLE_S)
            generator.stop()
            if more := generator.result(_LIMIT_S).deliveries:
                raise PeerError(f"{self._server.name} delivered {more} events more than were stored")
        return _turn(side, spent, ack_us=None)

    def _check(self, side: Side, done: str) -> None:
        """Every event once and in its order."""
        is_right = side.deliveries == self._events and not side.out_of_order and not side.complaints
        if is_right and not side.errors:
            return
        reasons = [f"{side.out_of_order:,} out of order", f"{side.complaints:,} complaints", *side.errors]
        raise PeerError(f"{self._server.name}: {side.deliveries:,} of {self._events:,} {done}; {'; '.join(reasons)}")

    def _publishing_plan(self, window: int, events: int) -> str:
        who = [self._dialect.publishing(self._subject, publisher=number) for number in range(self._publishers)]
        lines = self._head(events)
        lines += [f"window {window}", f"number {who[0].number_at}", f"sequence {who[0].sequence_at}"]
        for one in who:
            lines += connection_lines("publish", self._port, one.steps, [one.message])
        return "\n".join(lines) + "\n"

    def _reading_plan(self, reader: int, way: str) -> str:
        reading = self._dialect.reading(self._subject, reader=reader, way=way)
        lines = self._head(0) + connection_lines("subscribe", self._port, reading.steps) + reading.lines()
        return "\n".join(lines) + "\n"

    def _head(self, events: int) -> list[str]:
        return plan_head(self._dialect, Traffic(events=events, publishers=self._publishers, idle_s=_IDLE_S))


def _turn(side: Side, server_cpu_s: float, *, ack_us: Delays | None) -> Turn:
    return Turn(
        events=side.deliveries,
        seconds=side.seconds,
        ack_us=ack_us,
        server_cpu_s=server_cpu_s,
        client_cpu_s=side.cpu_s,
    )
