"""The kernel's index as a matcher: filters and events are encoded here, once, and matched there, in batches.

The data path uses ``KernelMatcher.native`` with bytes it already has; ``insert``, ``remove`` and ``match`` on Python
objects are for everyone else, and for the tests that hold it against the scan.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tidewire._kernel._native import Index, Matches, simd_paths
from tidewire._kernel.codec import encode_batch
from tidewire.matching.protocol import (
    DESTINATION_LIMIT,
    NUMBER_LIMIT,
    NUMBERS_MAX,
    Delivery,
    Destination,
    SubscriptionNumber,
    check_name,
)
from tidewire.model.errors import DamagedEvent, UnknownName, UnknownSubscription
from tidewire.model.events import Event
from tidewire.model.filters import Filter, encode_filter


class KernelMatcher:
    """The matching index of the kernel, for one thread; ``seed`` guards its hash tables against hostile values."""

    def __init__(self, *, seed: int = 0, simd: str = "") -> None:
        if simd and simd not in simd_paths():
            raise UnknownName(simd, what="SIMD path of this machine", known=simd_paths())
        self.native = Index(seed, simd)

    def insert(self, items: Iterable[tuple[Destination, SubscriptionNumber, Filter]]) -> None:
        """Take these subscriptions, or none of them."""
        rows = list(items)
        for destination, number, _ in rows:
            check_name(destination, number)
        self.native.insert(
            array("I", [destination for destination, _, _ in rows]),
            array("I", [number for _, number, _ in rows]),
            [encode_filter(wanted) for _, _, wanted in rows],
        )

    def remove(self, items: Iterable[tuple[Destination, SubscriptionNumber]]) -> None:
        """Forget these subscriptions, or none of them."""
        rows = list(items)
        for destination, number in rows:
            if not (0 <= destination < DESTINATION_LIMIT and 0 <= number < NUMBER_LIMIT):
                raise UnknownSubscription(f"destination {destination} has no subscription {number}")
        self.native.remove(array("I", [row[0] for row in rows]), array("I", [row[1] for row in rows]))

    def match(self, events: Sequence[Event]) -> list[list[Delivery]]:
        """For each event, who wants it, sorted by destination."""
        found = self.native.match(encode_batch(events), limit=NUMBERS_MAX)
        if found.damaged:
            raise DamagedEvent(f"event {found.damaged[0][0]} of the batch is damaged: {found.damaged[0][1]}")
        return deliveries(found)

    def __len__(self) -> int:
        return self.native.subscriptions


def deliveries(found: Matches) -> list[list[Delivery]]:
    """The kernel's flat answer as objects, per event, sorted by destination."""
    event_first, number_first, numbers = found.event_first, found.number_first, found.numbers
    rows = [
        Delivery(
            Destination(destination),
            tuple(SubscriptionNumber(n) for n in sorted(numbers[number_first[i] : number_first[i + 1]])),
            bool(found.more[i]),
        )
        for i, destination in enumerate(found.destination)
    ]
    return [sorted(rows[start:end], key=lambda delivery: delivery.destination) for start, end in pairwise(event_first)]
