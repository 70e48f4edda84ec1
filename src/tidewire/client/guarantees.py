"""Guaranteed events that are on their way into a log: sent again until there is a receipt, always to the same broker.

An event that may be in a broker's log and has no receipt is *in doubt*. Said again there, it is known by its sequence,
and is not taken twice; another broker would not know it. So as long as something is in doubt a session sticks to the
broker that it is in doubt at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from tidewire.client.events import Finished
from tidewire.model.errors import TidewireError, Unavailable
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.wire.frames import guarantee_frame


class _Event(msgspec.Struct):
    sequence: int
    token: int
    frame: bytes
    since_ns: int
    """Since when it waits, or was last sent."""

    is_sent: bool = False


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

    def unsent(self, broker: BrokerId, *, now_ns: Nanoseconds) -> list[bytes]:
        """The frames to send now, on a connection to this broker."""
        frames: list[bytes] = []
        for event in reversed(self._events):
            if event.is_sent:
                break
            event.is_sent, event.since_ns = True, now_ns
            frames.append(event.frame)
            self.broker = broker
        frames.reverse()
        return frames

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
        """Those for which there was no connection for too long. Whoever is connected waits: that is back-pressure."""
        while not is_served and self._events and now_ns >= self._events[0].since_ns + self._give_up_ns:
            event = self._events.popleft()
            doubt = f"it may have been taken at {self.broker}" if self.broker is not None else "it was not taken"
            yield Finished(event.token, Unavailable(f"a guaranteed event has no receipt, and {doubt}: {why}"))
        self._settle()

    def no_longer_served(self, now_ns: Nanoseconds) -> None:
        """The connection is gone: from now on they wait for another."""
        for event in self._events:
            event.since_ns = now_ns

    def abandoned(self, error: TidewireError) -> Iterator[Finished]:
        """Nobody will ever take them."""
        yield from (Finished(event.token, error) for event in self._events)
        self._events.clear()
        self._settle()

    def deadline_ns(self, *, is_served: bool) -> int | None:
        """When the oldest will have waited for too long."""
        return None if is_served or not self._events else self._events[0].since_ns + self._give_up_ns

    def _settle(self) -> None:
        if not self._events:
            self.broker = None
