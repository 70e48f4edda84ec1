"""Subscribers of one broker who want the same: who they are, where each of them is, and what is kept for them."""

from __future__ import annotations

from collections import deque

from tidewire.channels.frontend_events import Subscriber
from tidewire.channels.messages import Want
from tidewire.channels.results import BEGINNING, Found, Packed, SubscriptionId
from tidewire.model.ids import Tick


class Group:
    """All that a broker knows of one want."""

    def __init__(self, want: Want, born: int) -> None:
        self.want = want
        self.born = born
        """The first request for it: what answers an earlier one is not for this group."""

        self.id: SubscriptionId | None = None
        self.told = BEGINNING
        """There may be something up to this tick."""

        self.is_pulling = False
        self.places: dict[Subscriber, Tick] = {}
        """Of those whom it was confirmed to: what they have had."""

        self.waiting: dict[Subscriber, Tick | None] = {}
        """Whom it was not confirmed to yet, and where they want to begin."""

        self.asked: dict[int, tuple[Subscriber, Tick | None]] = {}
        """The same, of durable subscribers, by their requests."""

        self.names: dict[Subscriber, tuple[str, int]] = {}
        """Of durable subscribers, with their claims."""

        self.unsettled: dict[Subscriber, deque[tuple[Tick, int]]] = {}
        """What subscribers were told and have not dealt with: ticks, and how many rows."""

        self.full: dict[Subscriber, None] = {}
        """Those who are told no more until they have dealt with some of it."""

        self.come_bytes = 0
        """Of results that have come since it was last asked."""
        self._counted = BEGINNING

        self.cache: list[tuple[Tick, Packed]] = []
        self.cached_from = self.cached_upto = BEGINNING
        """All results behind the first, up to the second, are in the cache."""

    def subscribers(self) -> list[Subscriber]:
        """Everyone, confirmed or not."""
        return [*self.places, *self.waiting, *(subscriber for subscriber, _ in self.asked.values())]

    def is_deserted(self) -> bool:
        """Does nobody want it?"""
        return not (self.places or self.waiting or self.asked)

    def cached_rows(self) -> int:
        """How many rows are in the cache."""
        return sum(packed.count for _, packed in self.cache)

    def count(self, found: Found) -> None:
        """Results have come. Those that had come before, for another subscriber, count once."""
        self.come_bytes += sum(len(packed.data) for tick, packed in found.runs if tick > self._counted)
        self._counted = max(self._counted, found.upto)

    def remove(self, subscriber: Subscriber) -> None:
        """It does not want it any more."""
        self.places.pop(subscriber, None)
        self.waiting.pop(subscriber, None)
        self.asked = {request: one for request, one in self.asked.items() if one[0] != subscriber}
        self.names.pop(subscriber, None)
        self.unsettled.pop(subscriber, None)
        self.full.pop(subscriber, None)

    def settled(self, subscriber: Subscriber, tick: Tick) -> bool:
        """It has dealt with everything up to this tick. Did it wait for room, and is there some now?"""
        unsettled = self.unsettled.get(subscriber, deque())
        while unsettled and unsettled[0][0] <= tick:
            unsettled.popleft()
        if subscriber not in self.full:
            return False
        del self.full[subscriber]
        return True
