"""Guaranteed events that are on their way into a log: sent again until there is a receipt, always to the same broker.

An event that may be in a broker's log and has no receipt is *in doubt*. Said again there, it is known by its sequence,
and is not taken twice; another broker would not know it. So as long as something is in doubt a session sticks to the
broker that it is in doubt at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile

import msgspec

from tidewire.client.events import Finished
from tidewire.model.errors import EventTooLarge, InDoubt, TidewireError, Unavailable, error_of
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.wire.frames import GUARANTEE_AHEAD, excess, guarantee_frame


class _Event(msgspec.Struct):
    sequence: int
    token: int
    frame: bytes
    since_ns: int
    """Since when it waits, or was last sent."""

    is_sent: bool = False
    """On the connection that there is now."""

    sent_to: BrokerId | None = None
    """Where it may be in the log; None: it has never been sent."""

    def excess(self, frame_bytes_max: int) -> str | None:
        """Why a broker that takes such frames does not take it; None: it does."""
        return excess(len(self.frame) - GUARANTEE_AHEAD, frame_bytes_max, is_guaranteed=True)

    def failed(self, error: TidewireError) -> Finished:
        """It has come to nothing, for this reason: may it have been taken all the same?"""
        if self.sent_to is None:
            return Finished(self.token, error_of(error.code, f"a guaranteed event was not sent: {error.message}"))
        doubt = (
            f"a guaranteed event was sent to {self.sent_to} and has no receipt, so it may have been taken;"
            f" if you publish it again, it may be there twice: {error.message}"
        )
        return Finished(self.token, InDoubt(doubt))


class Guarantees:
    """The guaranteed events of a session that have no receipt, the oldest first."""

    def __init__(self, *, give_up_s: float) -> None:
        self._give_up_ns = int(give_up_s * 1e9)
        self._events: deque[_Event] = deque()
        self._sequence = 0
        self.broker: BrokerId | None = None
        """Where some may be in the log already; None: nowhere."""

    def __len__(self) -> int:
        return len(self._events)

    def add(self, token: int, event: bytes, *, born_ns: int, now_ns: Nanoseconds) -> None:
        """One more; it is sent by ``unsent``."""
        self._sequence += 1
        frame = guarantee_frame(event, born_ns=born_ns, sequence=self._sequence)
        self._events.append(_Event(self._sequence, token, frame, now_ns))

    def begin(self) -> None:
        """There is a new connection: all is to be sent there, the oldest first."""
        for event in self._events:
            event.is_sent = False

    def too_large(self, bytes_max: int) -> Iterator[Finished]:
        """Those that a broker that takes frames of so many bytes would refuse, or end the connection for, each time."""
        gone = {one.sequence: why for one in self._newest() if (why := one.excess(bytes_max))}
        if not gone:
            return
        large = [one for one in self._events if one.sequence in gone]
        self._events = deque(one for one in self._events if one.sequence not in gone)
        yield from (one.failed(EventTooLarge(gone[one.sequence])) for one in large)
        self._settle()

    def unsent(self, broker: BrokerId, *, now_ns: Nanoseconds) -> list[bytes]:
        """The frames to send now, on a connection to this broker."""
        frames: list[bytes] = []
        for event in self._newest():
            event.is_sent, event.sent_to, event.since_ns = True, broker, now_ns
            frames.append(event.frame)
            self.broker = broker
        frames.reverse()
        return frames

    def _newest(self) -> Iterator[_Event]:
        """Those that are not sent, the newest first: all behind those that are."""
        return takewhile(lambda one: not one.is_sent, reversed(self._events))

    def receipted(self, sequence: int) -> Iterator[Finished]:
        """All up to this one are durable."""
        while self._events and self._events[0].sequence <= sequence:
            yield Finished(self._events.popleft().token)
        self._settle()

    def refused(self, sequences: Iterable[int], error: TidewireError) -> Iterator[Finished]:
        """These were not taken."""
        gone = dict.fromkeys(sequences)
        yield from (Finished(event.token, error) for event in self._events if event.sequence in gone)
        self._events = deque(event for event in self._events if event.sequence not in gone)
        self._settle()

    def given_up(self, now_ns: Nanoseconds, *, is_served: bool, why: str) -> Iterator[Finished]:
        """When there was no connection for too long for the first of them. Whoever is connected waits: that is
        back-pressure. Those behind it are given up with it: taken later, they would leave a hole where it was."""
        if is_served or not self._events or now_ns < self._events[0].since_ns + self._give_up_ns:
            return
        while self._events:
            yield self._events.popleft().failed(Unavailable(why))
        self._settle()

    def no_longer_served(self, now_ns: Nanoseconds) -> None:
        """The connection is gone: from now on they wait for another."""
        for event in self._events:
            event.since_ns = now_ns

    def abandoned(self, error: TidewireError) -> Iterator[Finished]:
        """Nobody will ever take them, or say so."""
        yield from (event.failed(error) for event in self._events)
        self._events.clear()
        self._settle()

    def deadline_ns(self, *, is_served: bool) -> int | None:
        """When the oldest will have waited for too long."""
        return None if is_served or not self._events else self._events[0].since_ns + self._give_up_ns

    def _settle(self) -> None:
        if not self._events:
            self.broker = None
