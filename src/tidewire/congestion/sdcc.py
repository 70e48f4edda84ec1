"""How much of what is missing may be asked for at once? SDCC: a NACK window led by the recovery rate. Gryphon §3.

The window opens by a step when a larger one has brought a higher rate, and closes by one when the rate has fallen. All
in integers: 1000 → 1100 at one round trip is a rise of exactly a tenth, which binary fractions would miss.

What the window counts is the caller's business: milliseconds of stream, or bytes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from tidewire.congestion.config import CongestionConfig, nanoseconds
from tidewire.model.ids import Nanoseconds

_RETRY_ROUND_TRIPS: Final = 4


class Sdcc:
    """One window, from ``step`` to ``most``. ``size`` is what may be outstanding."""

    def __init__(self, config: CongestionConfig, *, first: int, step: int, most: int) -> None:
        assert 0 < step <= first <= most, f"a window cannot begin at {first} between {step} and {most}"
        self.size = self._first = first
        self._step = step
        self._most = most
        self._rise = _exact(config.nack_rise)
        self._fall = _exact(config.nack_fall)
        self._weight = _exact(config.round_trip_weight)
        self._retry_ns = nanoseconds(config.nack_retry_s)
        self._reference: tuple[int, int] | None = None
        self._round_trip_ns: int | None = None
        self._changed_ns = self._judged_ns = Nanoseconds(0)

    @property
    def retry_ns(self) -> Nanoseconds:
        """What has not come for so long after it was asked for is to be asked for again."""
        return Nanoseconds(max(self._retry_ns, _RETRY_ROUND_TRIPS * (self._round_trip_ns or 0)))

    def restart(self, *, now_ns: Nanoseconds) -> None:
        """A new recovery begins: what the last one has learned is old."""
        self.size = self._first
        self._reference = self._round_trip_ns = None
        self._changed_ns = self._judged_ns = now_ns

    def answered(self, *, asked_ns: Nanoseconds, now_ns: Nanoseconds) -> bool:
        """What was asked for then has come. Has the window changed? It does at most once per round trip."""
        if asked_ns < self._changed_ns:
            return False  # asked for under another window: it says nothing about this one
        taken_ns = max(1, now_ns - asked_ns)
        if self._round_trip_ns is None:
            self._round_trip_ns = taken_ns
        else:
            self._round_trip_ns += int(self._weight * (taken_ns - self._round_trip_ns))
        if now_ns - self._judged_ns < self._round_trip_ns:
            return False
        self._judged_ns = now_ns
        size = min(self._most, max(self._step, self.size + self._step * self._direction(self._round_trip_ns)))
        if size == self.size:
            return False
        self._reference = self.size, self._round_trip_ns
        self.size = size
        self._changed_ns, self._round_trip_ns = now_ns, None
        return True

    def _direction(self, round_trip_ns: int) -> int:
        """Is the rate, window over round trip, higher or lower than at the last change? At first it opens."""
        if self._reference is None:
            return 1
        size, then_ns = self._reference
        ratio = Fraction(self.size * then_ns, size * round_trip_ns)
        return 1 if ratio >= 1 + self._rise else -1 if ratio <= 1 - self._fall else 0


def _exact(setting: float) -> Fraction:
    """0.1 as people mean it."""
    return Fraction(str(setting))
