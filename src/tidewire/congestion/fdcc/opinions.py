"""What does a subscriber think of what it gets? The average per publisher and class, and nothing else: epeer Eq 1."""

from __future__ import annotations

from typing import Final

from tidewire.congestion.fdcc.utility import clamped
from tidewire.model.shortage_messages import FLOWS_MAX, Opinion, Opinions
from tidewire.model.traffic import ClassKey

PUBLISHERS_MAX: Final = FLOWS_MAX


class Averages:
    """What has come since it was last asked."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int, ClassKey], list[float]] = {}

    def add(self, source: int, publisher: int, traffic_class: ClassKey, utility: float) -> None:
        """An event has come, and is worth so much. Beyond a bound other publishers are left out until the next time."""
        key = source, publisher, traffic_class
        known = self._sums.get(key)
        if known is not None:
            known[0] += clamped(utility)
            known[1] += 1
        elif len(self._sums) < PUBLISHERS_MAX:
            self._sums[key] = [clamped(utility), 1]

    def taken(self) -> Opinions | None:
        """What to say; None if nothing has come. It begins anew."""
        sums, self._sums = self._sums, {}
        if not sums:
            return None
        return Opinions(
            [
                Opinion(source, publisher, kind, clamped(total / count), int(count))
                for (source, publisher, kind), (total, count) in sums.items()
            ]
        )
