"""Guaranteed events go to where a session publishes. While something is in doubt there, it publishes nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidewire.client.events import ClientEffect, Finished, SendFrames, Tell
from tidewire.client.guarantees import Guarantees
from tidewire.client.lines import Lines
from tidewire.client.moving import Moving
from tidewire.model.errors import TidewireError
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.stream_messages import Pace


class Promised:
    """What a session has promised, or was promised, about its guaranteed events."""

    def __init__(self, lines: Lines, moving: Moving, *, give_up_s: float) -> None:
        self._lines = lines
        self._moving = moving
        self._guarantees = Guarantees(give_up_s=give_up_s)
        self._conn: Conn | None = None
        """Where events may be published now."""
        self._is_used = False
        self._untold: Pace | None = None
        """What the application has not heard of, because it did not concern it yet."""
        self.pace: float | None = None
        """How many guaranteed events a second the broker takes from all who share our stream; None: any number."""

    def goes_to(self, conn: Conn | None, *, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        """Here is published from now on; None: nowhere at present."""
        self._conn = conn
        if conn is None:
            self._guarantees.no_longer_served(now_ns)
            return
        self._guarantees.begin()
        yield from self.send(now_ns=now_ns)

    def add(self, token: int, event: bytes, *, born_ns: int, now_ns: Nanoseconds) -> None:
        """One more; ``send`` sends it."""
        self._is_used = True
        self._guarantees.add(token, event, born_ns=born_ns, now_ns=now_ns)

    def send(self, *, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        """What has not been sent goes, if there is somewhere to go. One who comes to a slow stream hears of it then."""
        yield from self._tell_pace()
        line = None if self._conn is None else self._lines.get(self._conn)
        if self._conn is None or line is None or line.welcome is None:
            return
        yield from self._guarantees.too_large(line.welcome.frame_bytes_max)
        frames = self._guarantees.unsent(line.welcome.broker, now_ns=now_ns)
        if frames:
            yield SendFrames(self._conn, frames)
            self._lines.pinned = line.welcome.broker, line.welcome.address or line.address
            self._moving.is_in_doubt = True
        else:
            yield from self._settled()

    def receipted(self, sequence: int) -> Iterator[ClientEffect]:
        """All up to this one are durable."""
        yield from self._guarantees.receipted(sequence)
        yield from self._settled()

    def refused(self, sequences: Iterable[int], error: TidewireError) -> Iterator[ClientEffect]:
        """These were not taken."""
        yield from self._guarantees.refused(sequences, error)
        yield from self._settled()

    def given_up(self, *, now_ns: Nanoseconds) -> Iterator[ClientEffect]:
        """Those that have waited for a broker for too long."""
        why = self._lines.unreached(self._lines.pinned)
        yield from self._guarantees.given_up(now_ns, is_served=self._conn is not None, why=why)
        yield from self._settled()

    def abandoned(self, error: TidewireError) -> Iterator[Finished]:
        """Nobody will ever take them, or say so."""
        yield from self._guarantees.abandoned(error)

    def paced(self, pace: Pace) -> Iterator[ClientEffect]:
        """The broker takes so many; the application hears of it if that concerns it."""
        self.pace, self._untold = pace.events_s, pace
        yield from self._tell_pace()

    def _tell_pace(self) -> Iterator[ClientEffect]:
        pace = self._untold
        if self._is_used and pace is not None:
            self._untold = None
            yield Tell("pace", {"events/s": "any" if pace.events_s is None else pace.events_s, "reason": pace.reason})

    def deadline_ns(self) -> int | None:
        """When the oldest will have waited for too long."""
        return self._guarantees.deadline_ns(is_served=self._conn is not None)

    def _settled(self) -> Iterator[ClientEffect]:
        if self._guarantees.broker is None and self._moving.is_in_doubt:
            self._lines.pinned, self._moving.is_in_doubt = None, False
            yield from self._moving.no_longer_in_doubt()
