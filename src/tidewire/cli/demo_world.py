"""What happens in the demo: subscriptions in the kernel's index, events through it, and the reasons."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from time import perf_counter, thread_time
from typing import Any, Final

import msgspec

from tidewire._kernel._native import Index, Matches, encode_event, join_events
from tidewire.benchmarks.scene import Interest, name_of
from tidewire.language import Explanation, explain
from tidewire.matching.protocol import NUMBERS_MAX, Destination, SubscriptionNumber
from tidewire.matching.scan import ScanMatcher
from tidewire.model.events import make_event
from tidewire.model.filters import Filter, encode_filter

BATCH_EVENTS: Final = 128
SCANNED_EVENTS: Final = 2
NEAR_MISSES_TRIED: Final = 2_000


class Reason(msgspec.Struct, frozen=True):
    """Someone, and why their subscription matches an event or not."""

    person: str
    explanation: Explanation


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One event: how many people get it, one of them and why, and one who just does not."""

    event: dict[str, Any]
    people: int
    gets_it: Reason | None
    does_not: Reason | None


class Tally(msgspec.Struct, kw_only=True):
    """The counters of the stream."""

    events: int = 0
    deliveries: int = 0
    match_s: float = 0.0
    loudest: dict[str, Any] | None = None
    loudest_people: int = 0
    last: dict[str, Any] | None = None

    @property
    def us_per_event(self) -> float:
        return self.match_s / max(1, self.events) * 1e6


class World:
    """Subscriptions in the kernel's index, and a stream of events for them."""

    def __init__(self, interests: list[Interest], filters: list[Filter], events: list[dict[str, Any]]) -> None:
        self.interests, self.filters, self.events = interests, filters, events
        self.index = Index()
        start = perf_counter()
        self.index.insert(
            array("I", [one.person for one in interests]),
            array("I", [one.number for one in interests]),
            [encode_filter(one) for one in filters],
        )
        self.insert_s = perf_counter() - start
        self.people = interests[-1].person + 1

    def play(self, tally: Tally, on_batch: Callable[[], object]) -> None:
        """Send every event through the index, batch by batch."""
        for at in range(0, len(self.events), BATCH_EVENTS):
            events = self.events[at : at + BATCH_EVENTS]
            batch = join_events([encode_event(event) for event in events])
            start = thread_time()
            found = self.index.match(batch, limit=NUMBERS_MAX)
            tally.match_s += thread_time() - start
            tally.events += len(events)
            tally.deliveries += len(found.destination)
            tally.last = events[-1]
            firsts = found.event_first.tolist()
            for event, begin, end in zip(events, firsts, firsts[1:], strict=False):
                if event["class"] == "QUAKE" and end - begin > tally.loudest_people:
                    tally.loudest, tally.loudest_people = event, end - begin
            on_batch()

    def example(self, event: dict[str, Any]) -> Example:
        """Who gets this event and why, and who just does not."""
        found = self.index.match(join_events([encode_event(event)]), limit=0)
        getting = dict.fromkeys(_named(found))
        return Example(
            event=event,
            people=len(found.destination),
            gets_it=next((self._reason(one, event) for one in self.interests if one[:2] in getting), None),
            does_not=self._near_miss(event, getting),
        )

    def _reason(self, one: Interest, event: dict[str, Any]) -> Reason:
        return Reason(name_of(one.person), explain(one.text, make_event(event).attributes))

    def _near_miss(self, event: dict[str, Any], getting: dict[tuple[int, int], None]) -> Reason | None:
        """Someone for whom all but one predicate held; for whom it was the size and not the place, if there is one."""
        best: Reason | None = None
        for one in self.interests[:NEAR_MISSES_TRIED]:
            if one[:2] in getting or f"'{event['class']}'" not in one.text:
                continue
            reason = self._reason(one, event)
            if len(reason.explanation.decisions) != 1:
                continue
            best = best or reason
            if reason.explanation.decisions[0].predicate.startswith(("magnitude", "volume")):
                return reason
        return best

    def scan_us_per_event(self) -> float:
        """The same question, asked of every subscription in Python; checked against the index."""
        scan = ScanMatcher()
        scan.insert(
            (Destination(one.person), SubscriptionNumber(one.number), wanted)
            for one, wanted in zip(self.interests, self.filters, strict=True)
        )
        some = self.events[:SCANNED_EVENTS]
        start = thread_time()
        theirs = scan.match([make_event(event) for event in some])
        spent = thread_time() - start
        ours = self.index.match(join_events([encode_event(event) for event in some]), limit=NUMBERS_MAX)
        firsts = ours.event_first.tolist()
        for begin, end, deliveries in zip(firsts, firsts[1:], theirs, strict=False):
            assert sorted(ours.destination[begin:end]) == [delivery.destination for delivery in deliveries]
        return spent / len(some) * 1e6


def _named(found: Matches) -> Iterator[tuple[int, int]]:
    for i, person in enumerate(found.destination):
        for number in found.numbers[found.number_first[i] : found.number_first[i + 1]]:
            yield person, number
