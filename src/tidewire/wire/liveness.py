"""Is the other side still there, and what is its time?

Each side pings at its own pace, whatever else is sent; whoever hears nothing for three paces takes the other for
dead. A client that only listens pings with every third pace, and waits for five: there may be ten thousand of them, and
an answer still has two paces to come. The answers also give the offset between the clocks: half the way there and back
is the bound of its error, so the quickest of the last answers counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidewire.model.ids import Nanoseconds
from tidewire.model.messages import Ping, Pong

_REMEMBERED: Final = 16
_PACES: Final = 3
CALM_PING_PACES: Final = 3
_CALM_PACES: Final = 5
_HURRIED: Final = 5
_HURRY: Final = 20
"""The first pings follow each other quickly: the sooner the clock is known, the better."""

_OFFSET_NS_MAX: Final = 2**62
"""No two clocks are further apart: that is more than a century."""


class Clock(msgspec.Struct, frozen=True):
    """Our time less theirs, and how far off that may be."""

    offset_ns: int
    error_us: int


class Readings:
    """What the answers to our pings say about the other clock."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: list[tuple[int, int]] = []

    def forget(self) -> None:
        """What the next answers say counts alone."""
        self._answers.clear()

    def add(self, pong: Pong, *, now_ns: Nanoseconds) -> Clock | None:
        """What the answers so far say; None if this one cannot be true."""
        way_ns = (now_ns - pong.ping_ns) - (pong.sent_ns - pong.received_ns)
        if way_ns < 0 or pong.ping_ns > now_ns:
            return None
        offset_ns = ((pong.ping_ns + now_ns) - (pong.received_ns + pong.sent_ns)) // 2
        if abs(offset_ns) > _OFFSET_NS_MAX:
            return None
        self._answers = [*self._answers[1 - _REMEMBERED :], (way_ns, offset_ns)]
        return self.clock()

    def clock(self) -> Clock | None:
        """What is known of the other clock."""
        if not self._answers:
            return None
        best_way_ns, best_offset_ns = min(self._answers)
        return Clock(best_offset_ns, min(best_way_ns // 2000 + 1, 0xFFFF_FFFF))


class Liveness:
    """One connection's heartbeat."""

    def __init__(self, heartbeat_s: float, *, now_ns: Nanoseconds) -> None:
        self._pace_ns = int(heartbeat_s * 1e9)
        self._is_calm = False
        self._pinged_ns = now_ns
        self._pings = 0
        self._heard_ns = now_ns
        self._readings = Readings()

    def calm(self, *, is_calm: bool) -> None:
        """Is it enough to know a little later that the other side has gone?"""
        self._is_calm = is_calm

    def heard(self, now_ns: Nanoseconds) -> None:
        """Something has come."""
        self._heard_ns = now_ns

    def is_dead(self, now_ns: Nanoseconds) -> bool:
        """Has nothing come for too long?"""
        return now_ns >= self._dead_ns()

    def ping(self, now_ns: Nanoseconds) -> Ping | None:
        """The ping that is due now, if one is."""
        if now_ns < self._next_ping_ns():
            return None
        self._pings += 1
        self._pinged_ns = now_ns
        return Ping(now_ns)

    def _next_ping_ns(self) -> int:
        if self._pings < _HURRIED:
            return self._pinged_ns + (self._pace_ns // _HURRY if self._pings else 0)
        return self._pinged_ns + self._pace_ns * (CALM_PING_PACES if self._is_calm else 1)

    def _dead_ns(self) -> int:
        return self._heard_ns + self._pace_ns * (_CALM_PACES if self._is_calm else _PACES)

    def deadline_ns(self) -> Nanoseconds:
        """When to look again."""
        return Nanoseconds(min(self._next_ping_ns(), self._dead_ns()))

    def clock_of(self, pong: Pong, *, now_ns: Nanoseconds) -> Clock | None:
        """What the answers so far say about the other clock; None if this one cannot be true."""
        return self._readings.add(pong, now_ns=now_ns)

    def clock(self) -> Clock | None:
        """What is known of the other clock."""
        return self._readings.clock()


def answer(ping: Ping, *, now_ns: Nanoseconds) -> Pong:
    """What a ping is answered with at once."""
    return Pong(ping.sent_ns, now_ns, now_ns)
