"""The scan: asks every subscription about every event. Slow, short, and the oracle for all other matchers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidewire.matching.protocol import NUMBERS_MAX, Delivery, Destination, SubscriptionNumber, check_name
from tidewire.model.errors import DuplicateSubscription, UnknownSubscription
from tidewire.model.events import Event
from tidewire.model.filters import Filter

_Name = tuple[Destination, SubscriptionNumber]


class ScanMatcher:
    """A matcher (``matching/protocol.py``) without an index."""

    def __init__(self, *, numbers_max: int = NUMBERS_MAX) -> None:
        self._filters: dict[_Name, Filter] = {}
        self._numbers_max = numbers_max

    def insert(self, items: Iterable[tuple[Destination, SubscriptionNumber, Filter]]) -> None:
        """Take these subscriptions; DuplicateSubscription if a number is taken, in the index or in the call."""
        added: dict[_Name, Filter] = {}
        for destination, number, wanted in items:
            check_name(destination, number)
            name = (destination, number)
            if name in self._filters or name in added:
                raise DuplicateSubscription(f"destination {destination} already has a subscription {number}")
            added[name] = wanted
        self._filters |= added

    def remove(self, items: Iterable[tuple[Destination, SubscriptionNumber]]) -> None:
        """Forget these subscriptions; UnknownSubscription if one is not there, or named twice."""
        leaving: dict[_Name, None] = {}
        for destination, number in items:
            name = (destination, number)
            if name not in self._filters or name in leaving:
                raise UnknownSubscription(f"destination {destination} has no subscription {number}")
            leaving[name] = None
        for name in leaving:
            del self._filters[name]

    def match(self, events: Sequence[Event]) -> list[list[Delivery]]:
        """For each event, who wants it, sorted by destination."""
        return [self._deliveries(event) for event in events]

    def _deliveries(self, event: Event) -> list[Delivery]:
        matched: dict[Destination, list[SubscriptionNumber]] = {}
        for (destination, number), wanted in self._filters.items():
            if wanted.accepts(event.attributes):
                matched.setdefault(destination, []).append(number)
        return [self._delivery(destination, matched[destination]) for destination in sorted(matched)]

    def _delivery(self, destination: Destination, numbers: list[SubscriptionNumber]) -> Delivery:
        more = len(numbers) > self._numbers_max
        return Delivery(destination, () if more else tuple(sorted(numbers)), more)

    def __len__(self) -> int:
        return len(self._filters)
