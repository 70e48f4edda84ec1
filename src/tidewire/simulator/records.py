"""What has happened, as far as the checkers ask: what was published, wanted, received, and when what was down."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from tidewire._kernel.codec import decode
from tidewire.model.events import Event
from tidewire.model.filters import Filter
from tidewire.model.ids import TreeId
from tidewire.model.values import Value
from tidewire.wire.frames import Delivered

FOREVER_NS = 1 << 62


EventKey = tuple[int, int]
"""The publisher's number and the sequence: what an event's envelope says."""


SUPPRESSED: Final = 1 << 61
"""In the publisher of a key: the event was not sent, because its publisher was told that nobody wants it. Nobody may
lack it."""
GUARANTEED: Final = 1 << 62
"""In the publisher's part of a key: guaranteed events are counted apart from others."""


def key_of(event: Event) -> EventKey:
    """What an event's envelope says of who published it, and as which."""
    envelope = event.envelope
    publisher, sequence = envelope.publisher or 0, envelope.sequence or 0
    return (publisher | GUARANTEED, sequence) if envelope.tick is not None else (publisher, sequence)


class Publication(msgspec.Struct, frozen=True):
    """An event that was sent to a broker, or several equal ones at once; ``key`` and ``sequence`` are of the first."""

    key: EventKey
    publisher: str
    sequence: int
    time_ns: int
    attributes: Mapping[str, Value]
    broker: str
    tree: TreeId
    count: int = 1
    ttl_ns: int | None = None


class Receipt(msgspec.Struct, frozen=True):
    """An event that an application has got, or several equal ones at once; ``key`` is of the first."""

    key: EventKey
    time_ns: int
    attributes: Mapping[str, Value]
    subscriptions: tuple[int, ...]
    """Those of the receiver that matched, as the broker said; none: too many."""

    delay_ns: int
    """As the receiver's clock and what it knows of others say; of several events, that of the middle.

    A flow is told when its last event is born, so this includes the time for which the middle one waited to be told.
    """

    error_us: int
    via: tuple[str, ...]
    """The brokers from the source to the receiver, as the last of them knew them then."""

    count: int = 1
    life: int = 1
    """Of the receiver: one that begins again knows nothing of what came before."""

    pubend: int = 0
    """Of a guaranteed event: a publisher's events are in order in each stream."""


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """An event that a broker brought, or several in a row: ``key`` and ``position`` are of the first."""

    time_ns: int
    key: EventKey
    tree: TreeId
    position: int
    count: int
    left_ns: int
    """Since when the session had nothing to do with the connection; ``FOREVER_NS``: it had."""


class Line:
    """A connection of a session, and what came on it, ahead of all that the session keeps from its application."""

    def __init__(self, broker: str, *, now_ns: int) -> None:
        self.broker = broker
        self.arrivals: list[Arrival] = []
        self._left_ns = now_ns

    def look(self, *, is_awaited: bool, now_ns: int) -> None:
        """Does the session expect events here now?"""
        self._left_ns = FOREVER_NS if is_awaited else min(self._left_ns, now_ns)

    def bring(self, delivered: Delivered, *, count: int, now_ns: int) -> Event:
        """A broker has brought so many events: the first of them."""
        event = decode(delivered.event)
        tree = TreeId(event.envelope.tree or event.envelope.pubend or 0)
        self.arrivals.append(Arrival(now_ns, key_of(event), tree, delivered.position, count, self._left_ns))
        return event


class Part(NamedTuple):
    """What a receipt tells of one publication: so many events from this sequence on."""

    receipt: Receipt
    publication: Publication
    sequence: int
    events: int


class Publications(dict[EventKey, Publication]):
    """All of a world, each by the key of its first event."""

    def __init__(self) -> None:
        super().__init__()
        self._firsts: dict[int, list[int]] = {}

    @property
    def events(self) -> int:
        """How many events are these?"""
        return sum(one.count for one in self.values())

    def add(self, publication: Publication) -> None:
        """A publisher's sequences only grow."""
        self[publication.key] = publication
        self._firsts.setdefault(publication.key[0], []).append(publication.sequence)

    def covering(self, key: EventKey) -> Publication | None:
        """That of this event."""
        publisher, sequence = key
        firsts = self._firsts.get(publisher, [])
        at = bisect_right(firsts, sequence) - 1
        found = None if at < 0 else self[publisher, firsts[at]]
        return found if found is not None and sequence < found.sequence + found.count else None

    def parts(self, receipt: Receipt) -> list[Part]:
        """What this receipt tells of publications; of what nobody published, nothing."""
        publisher, at = receipt.key
        if receipt.count == 1:
            found = self.get(receipt.key) or self.covering(receipt.key)
            return [] if found is None else [Part(receipt, found, at, 1)]
        parts: list[Part] = []
        end = at + receipt.count
        while at < end:
            found = self.covering((publisher, at))
            until = at + 1 if found is None else min(end, found.sequence + found.count)
            if found is not None:
                parts.append(Part(receipt, found, at, until - at))
            at = until
        return parts


class Got:
    """Which events has a client got?"""

    def __init__(self, receipts: list[Receipt]) -> None:
        self._keys = {receipt.key for receipt in receipts if receipt.count == 1}
        self._has_several = len(self._keys) < len(receipts)
        """Did some come several at once?"""
        self._runs: dict[int, list[tuple[int, int]]] = {}
        """By publisher: from which sequence up to which, in their order."""
        for receipt in receipts:
            publisher, first = receipt.key
            self._runs.setdefault(publisher, []).append((first, first + receipt.count))
        for runs in self._runs.values():
            runs.sort()

    def lacking(self, publication: Publication) -> int:
        """How many events of this publication has it not got?"""
        if publication.count == 1 and (publication.key in self._keys or not self._has_several):
            return publication.key not in self._keys
        publisher, at = publication.key
        end, lacking = at + publication.count, 0
        runs = self._runs.get(publisher, [])
        for first, until in islice(runs, max(0, bisect_right(runs, (at, 0)) - 1), None):
            if first >= end:
                break
            lacking += max(0, first - at)
            at = max(at, until)
        return lacking + max(0, end - at)


class Span(msgspec.Struct):
    """From when to when somebody wanted something, under one number."""

    number: int
    text: str
    wanted: Filter
    asked_ns: int
    confirmed_ns: int = FOREVER_NS
    leaving_ns: int = FOREVER_NS
    """When its end, or another filter in its place, was asked for."""

    gone_ns: int = FOREVER_NS
    """When that was confirmed."""

    successor: Span | None = None
    follows: bool = False
    """Is it owed every guaranteed event? That is another promise (``guarantees.py``)."""


class Windows:
    """Times at which something was not as it should be."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self._since_ns: int | None = None

    @property
    def is_open(self) -> bool:
        """Is it so now?"""
        return self._since_ns is not None

    def note(self, *, is_good: bool, now_ns: int) -> None:
        """How it is now."""
        if is_good and self._since_ns is not None:
            self.spans.append((self._since_ns, now_ns))
            self._since_ns = None
        elif not is_good and self._since_ns is None:
            self._since_ns = now_ns

    def all_spans(self, now_ns: int) -> list[tuple[int, int]]:
        """Those that have ended, and the one that has not."""
        return self.spans if self._since_ns is None else [*self.spans, (self._since_ns, now_ns)]

    def touch(self, start_ns: int, end_ns: int) -> bool:
        """Was it so at some time from start to end?"""
        if self._since_ns is not None and self._since_ns <= end_ns:
            return True
        return any(since <= end_ns and until >= start_ns for since, until in self.spans)
