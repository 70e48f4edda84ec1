"""May one more be published now? It is asked before a message is made: what is discarded is free: epeer §2.10."""

from __future__ import annotations

from math import inf
from typing import Final, Protocol

from tidewire.model.ids import Nanoseconds

SECOND_NS: Final = 1_000_000_000


class RateFilter(Protocol):
    """Holds one flow to its limit."""

    def passes(self, *, now_ns: Nanoseconds) -> bool:
        """May one more go? If so, it counts."""

    def retry_after_s(self, *, now_ns: Nanoseconds) -> float:
        """When one may go again; infinite: not before the limit changes."""


class FixedWindows:
    """In every second the first so many pass. This is how the experiments do it."""

    def __init__(self, limit_msgs_s: float) -> None:
        self.limit_msgs_s = limit_msgs_s
        self._second = -1
        self._passed = 0

    def passes(self, *, now_ns: Nanoseconds) -> bool:
        """May one more go? If so, it counts."""
        second = now_ns // SECOND_NS
        if second != self._second:
            self._second, self._passed = second, 0
        if self._passed + 1 > self.limit_msgs_s:
            return False
        self._passed += 1
        return True

    def retry_after_s(self, *, now_ns: Nanoseconds) -> float:
        """When the next second begins, if any may go at all."""
        return inf if self.limit_msgs_s < 1 else (SECOND_NS - now_ns % SECOND_NS) / SECOND_NS


class TokenBucket:
    """One second's worth may go at once, and no more than the limit for long. This is how clients do it."""

    def __init__(self, limit_msgs_s: float, *, now_ns: Nanoseconds) -> None:
        self.limit_msgs_s = limit_msgs_s
        self._tokens = self._most
        self._filled_ns = now_ns

    @property
    def _most(self) -> float:
        """Less than one message a second still lets one go."""
        return max(1.0, self.limit_msgs_s) if self.limit_msgs_s > 0 else 0.0

    def limit(self, limit_msgs_s: float, *, now_ns: Nanoseconds) -> None:
        """Another limit holds from now on; what was saved up stays, as far as it may."""
        self._fill(now_ns)
        self.limit_msgs_s = limit_msgs_s
        self._tokens = min(self._tokens, self._most)

    def passes(self, *, now_ns: Nanoseconds) -> bool:
        """May one more go? If so, it counts."""
        self._fill(now_ns)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def retry_after_s(self, *, now_ns: Nanoseconds) -> float:
        """When one may go again; infinite: not before the limit changes."""
        self._fill(now_ns)
        return max(0.0, 1 - self._tokens) / self.limit_msgs_s if self.limit_msgs_s > 0 else inf

    def _fill(self, now_ns: Nanoseconds) -> None:
        elapsed_ns = max(0, now_ns - self._filled_ns)
        self._filled_ns = max(self._filled_ns, now_ns)
        self._tokens = min(self._most, self._tokens + elapsed_ns * self.limit_msgs_s / SECOND_NS)
