"""How much does a link carry? What it took while something always waited for it; else what a train of messages says.

The thesis measures bandwidth by ping (epeer §2.6). A queue that stands says more, for nothing; but when traffic has
been limited none does, and nobody would hear that the link carries more again. So while there is a shortage a few
messages are sent at once now and then, and the other side says how fast they came.
"""

from __future__ import annotations

from typing import Final

from tidewire.congestion.fdcc.watch import smoothed

STANDING_BYTES: Final = 32 << 10
STANDING_S: Final = 0.1
"""With more than both of these waiting at the beginning and the end of a period, a link was never idle in it."""
GROWN_S: Final = 0.25
"""With more than this waiting at the end of a period, it carries less than it is to, whatever was at the beginning."""


class LinkMeter:
    """One link, as its sender sees it. Amounts are bytes, since the connection began."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None
        self._taken_bytes_s: float | None = None
        self.used_bytes_s = 0.0
        """What was to be sent, per second."""
        self.capacity_bytes_s: float | None = None
        """What it carries; None: more than was ever needed."""
        self.backlog_bytes = 0

    @property
    def is_standing(self) -> bool:
        """Did something always wait for it in the last period?"""
        return self._taken_bytes_s is not None

    def measured(self, *, sent_bytes: int, queued_bytes: int, elapsed_s: float) -> None:
        """So much has been put into its queue in all, and so much waits there."""
        before, self._before = self._before, (sent_bytes, queued_bytes)
        self.backlog_bytes = queued_bytes
        if before is None or elapsed_s <= 0 or sent_bytes < before[0]:
            return
        self.used_bytes_s = (sent_bytes - before[0]) / elapsed_s
        taken = max(0.0, (sent_bytes - queued_bytes - before[0] + before[1]) / elapsed_s)
        is_standing = min(before[1], queued_bytes) >= max(STANDING_BYTES, STANDING_S * taken)
        if is_standing or queued_bytes >= max(STANDING_BYTES, GROWN_S * taken):
            self.capacity_bytes_s = self._taken_bytes_s = smoothed(self._taken_bytes_s, taken)
        else:
            self._taken_bytes_s = None

    def carried(self, bytes_s: float | None) -> None:
        """A train has come so fast; None: too fast to tell. While a queue stands, the queue knows better."""
        if self._taken_bytes_s is None:
            self.capacity_bytes_s = bytes_s


class TrainMeter:
    """How fast trains come, as their receiver sees it."""

    def __init__(self) -> None:
        self._first: tuple[int, int] | None = None
        self._bytes = 0

    def came(
        self, number: int, place: int, size_bytes: int, *, is_last: bool, now_ns: int
    ) -> tuple[bool, float | None]:
        """One of a train has come. Is it complete, and if so, how many bytes a second was that; None: too fast to tell.

        What the first one weighs does not count: it says when the clock began.
        """
        if place == 0:
            self._first, self._bytes = (number, now_ns), 0
            return False, None
        if self._first is None or self._first[0] != number:
            return False, None
        self._bytes += size_bytes
        if not is_last:
            return False, None
        elapsed_ns = now_ns - self._first[1]
        self._first = None
        return True, None if elapsed_ns < FAST_NS else self._bytes * 1e9 / elapsed_ns


FAST_NS: Final = 1_000_000
"""A train that comes within a millisecond has met no bottleneck that matters."""
