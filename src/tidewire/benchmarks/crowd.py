"""Subscribers that know what they must get: each says what it lost, got twice or out of order, wherever it is served.

What is published is known to all: event ``number`` of a stream has a volume that follows from the two. So a subscriber
knows which event comes next, and notices a gap when it meets it. A stream has one publisher.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from tidewire.client.events import Tell as Notice
from tidewire.live.connect import Wire, connect
from tidewire.live.notification import Notification
from tidewire.live.subscription import Subscription

VOLUMES: Final = 1000
NOBODY: Final = -1
"""A stream that nobody publishes: who wants it gets nothing."""
IDLE_SHARE: Final = 0.25
"""Of all subscribers (peer §10, E1)."""

_MIX: Final = (("bound", 60), ("stream", 34), ("any", 5), ("all", 1))
"""The templates of peer §9.4, those with a bound as one: of one stream above a volume, all of one stream, of any
stream above a volume, everything."""


def volume(stream: int, number: int) -> int:
    """Of an event. A few that follow each other are spread evenly, so that the load is steady."""
    return (number * 619 + stream * 729) % VOLUMES


def event(stream: int, number: int) -> dict[str, str | int]:
    """What is published."""
    return {
        "class": "STOCK",
        "symbol": f"S{stream}",
        "volume": volume(stream, number),
        "stream": stream,
        "number": number,
    }


class Wanted(msgspec.Struct, frozen=True):
    """What a subscriber wants."""

    stream: int | None = None
    """None: any."""
    above: int = NOBODY
    """Events with more volume than this."""

    @property
    def text(self) -> str:
        """As a filter."""
        parts = ["class = 'STOCK'"]
        parts += [] if self.stream is None else [f"symbol = 'S{self.stream}'"]
        parts += [f"volume > {self.above}"] if self.above >= 0 else []
        return " and ".join(parts)

    def accepts(self, stream: int, number: int) -> bool:
        """Does it want this one?"""
        return self.stream in (None, stream) and volume(stream, number) > self.above

    def next_after(self, stream: int, number: int) -> int:
        """The first one after this that it wants. It must want some of the stream."""
        number += 1
        while not self.accepts(stream, number):
            number += 1
        return number

    def last_until(self, stream: int, number: int, *, beyond: int) -> int | None:
        """The last one up to this that it wants, if there is one beyond the other."""
        while number > beyond and not self.accepts(stream, number):
            number -= 1
        return number if number > beyond else None


def draw(chance: Random, *, streams: int) -> Wanted:
    """A subscriber of the mix."""
    stream = chance.randrange(streams)
    kind = chance.choices([name for name, _ in _MIX], [weight for _, weight in _MIX])[0]
    above = chance.randrange(VOLUMES // 10, VOLUMES - VOLUMES // 10)
    if chance.random() < IDLE_SHARE:
        return Wanted(NOBODY, above if kind == "bound" else NOBODY)
    match kind:
        case "bound":
            return Wanted(stream, above)
        case "stream":
            return Wanted(stream)
        case "any":
            return Wanted(None, above)
    return Wanted()


class Gap(msgspec.Struct, frozen=True):
    """Events of a stream that a subscriber should have got, from the first up to the one before ``end``."""

    stream: int
    first: int
    end: int


class Subscriber:
    """One session with one subscription. ``published`` says how many events of each stream there are so far."""

    def __init__(self, name: str, wanted: Wanted, published: Sequence[int]) -> None:
        self.name = name
        self.wanted = wanted
        self.received = self.repeated = self.moves = 0
        self.gaps: list[Gap] = []
        self.given_up = 0
        """Events that it no longer waits for; some of them may come all the same."""
        self.is_hit = False
        """Has it lost a connection?"""
        self._published = published
        self._since: list[int] | None = None
        """What was published when it was confirmed: what came later it must get."""
        self._last: dict[int, int] = {}
        self.wire: Wire | None = None
        self._subscription: Subscription | None = None

    async def join(self, addresses: list[str], *, patience_s: float) -> None:
        """Connect, subscribe, and be confirmed."""
        self.wire = connect(addresses, name=self.name, timeout=patience_s, on_notice=self._noticed)
        await self.wire.__aenter__()
        self._subscription = self.wire.subscribe(self.wanted.text, self.came)
        await self._subscription
        self._since = list(self._published)

    async def confirm(self) -> None:
        """Be confirmed again, where it is now: what is published from now on must come, what is lacking may not."""
        assert self._subscription is not None
        await self._subscription.change(self.wanted.text)
        self.given_up += sum(self.events_in(gap) for gap in self.lacks())
        self._since = list(self._published)

    def events_in(self, gap: Gap, *, beyond: int = 0) -> int:
        """How many events that it wants lie in a gap, beyond this one?"""
        numbers = range(max(gap.first, beyond + 1), gap.end)
        return sum(self.wanted.accepts(gap.stream, number) for number in numbers)

    async def leave(self) -> None:
        """End the session."""
        if self.wire is not None:
            await self.wire.close(is_orderly=False)

    @property
    def served_by(self) -> str | None:
        """The broker that it is subscribed at."""
        return None if self.wire is None else self.wire.subscribed_at

    def _noticed(self, notice: Notice) -> None:
        self.moves += notice.what == "moved"
        self.is_hit |= notice.what == "connection lost"

    def came(self, notification: Notification) -> None:
        """An event; those that are lacking before it are a gap."""
        stream, number = int(notification["stream"]), int(notification["number"])
        self.received += 1
        if number <= self._last.get(stream, 0):
            self.repeated += 1
            return
        if self._since is not None:
            due = self.wanted.next_after(stream, self._behind(stream, self._since))
            if due < number:
                self.gaps.append(Gap(stream, due, number))
        self._last[stream] = number

    def _behind(self, stream: int, since: list[int]) -> int:
        """Up to here it is owed nothing more: what came before it was confirmed may have had gaps."""
        return max(self._last.get(stream, 0), since[stream])

    def lacks(self) -> list[Gap]:
        """What has been published and has not come, behind the last event of each stream."""
        streams = range(len(self._published)) if self.wanted.stream is None else [self.wanted.stream]
        found = []
        for stream in streams:
            if stream == NOBODY or self._since is None:
                continue
            beyond = self._behind(stream, self._since)
            last = self.wanted.last_until(stream, self._published[stream], beyond=beyond)
            if last is not None:
                found.append(Gap(stream, beyond + 1, last + 1))
        return found
