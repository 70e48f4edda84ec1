"""What a matcher is: subscriptions in, and for each event the destinations that want it.

A subscription is named by its destination and a small number that is local to it, so that equal deliveries to
different destinations are equal bytes (design §5.3). Every implementation gives the same answers; the scan is the one
that is obviously right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NewType, Protocol

import msgspec

from tidewire.model.errors import ValueOutOfRange
from tidewire.model.events import Event
from tidewire.model.filters import Filter

Destination = NewType("Destination", int)
"""A connection: a subscriber or a neighbouring broker."""

SubscriptionNumber = NewType("SubscriptionNumber", int)
"""A subscription among those of its destination."""

NUMBERS_MAX: Final = 16
DESTINATION_LIMIT: Final = 1 << 20
NUMBER_LIMIT: Final = 1 << 24
"""Destinations and numbers are small and used again: below these."""


def check_name(destination: int, number: int) -> None:
    """ValueOutOfRange if a subscription cannot be named so."""
    if not 0 <= destination < DESTINATION_LIMIT:
        raise ValueOutOfRange(f"destination {destination} is not from 0 to {DESTINATION_LIMIT - 1}")
    if not 0 <= number < NUMBER_LIMIT:
        raise ValueOutOfRange(f"subscription {number} is not from 0 to {NUMBER_LIMIT - 1}")


class Delivery(msgspec.Struct, frozen=True):
    """One destination that wants an event, once, and which of its subscriptions matched, ascending.

    If more than ``NUMBERS_MAX`` matched, then ``more`` is true and ``numbers`` is empty: the receiver's own index
    finds them.
    """

    destination: Destination
    numbers: tuple[SubscriptionNumber, ...]
    more: bool = False


class Matcher(Protocol):
    """An index of subscriptions. A call that raises has changed nothing."""

    def insert(self, items: Iterable[tuple[Destination, SubscriptionNumber, Filter]]) -> None:
        """Take these subscriptions; DuplicateSubscription if a number is taken, in the index or in the call."""

    def remove(self, items: Iterable[tuple[Destination, SubscriptionNumber]]) -> None:
        """Forget these subscriptions; UnknownSubscription if one is not there, or named twice."""

    def match(self, events: Sequence[Event]) -> list[list[Delivery]]:
        """For each event, who wants it, sorted by destination."""

    def __len__(self) -> int:
        """How many subscriptions are held?"""
