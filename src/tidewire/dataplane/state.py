"""What an engine in Python knows of connections, routes and trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from tidewire.dataplane.protocol import State, WhenFull
from tidewire.matching.protocol import Delivery, Destination, Matcher, SubscriptionNumber, check_name
from tidewire.model.errors import DuplicateSubscription, UsageError
from tidewire.model.events import Event
from tidewire.model.filters import Filter, decode_filter
from tidewire.model.ids import Conn
from tidewire.model.messages import Lane
from tidewire.wire.frames import LENGTH_BYTES


class Queue(Protocol):
    """What waits for a connection: control ahead of data."""

    bytes_max: int

    @property
    def control_bytes(self) -> int:
        """What waits in the control queue."""

    @property
    def data_bytes(self) -> int:
        """What waits in the data queue."""

    @property
    def stream_bytes(self) -> int:
        """What waits of streams."""

    @property
    def is_empty(self) -> bool:
        """Does nothing wait?"""

    def fits(self, size: int) -> bool:
        """Is there room for an event in a frame of this size?"""

    def put(self, frame: bytes, lane: Lane) -> None:
        """Behind the others of its lane."""

    @property
    def expired(self) -> int:
        """How many events for it were past their deadline?"""

    def take(self, bytes_max: int, *, now_ns: int) -> bytes:
        """What is to be sent next."""


Q = TypeVar("Q", bound=Queue)


class Routes:
    """Subscriptions by connection and number, over a matcher."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self._numbers: dict[Conn, dict[int, None]] = {}

    def add(self, conn: Conn, numbers: Sequence[int], filters: Sequence[bytes]) -> None:
        """Take these, in place of those with the same numbers, or none of them."""
        if len(numbers) != len(filters):
            raise UsageError("numbers and filters must be equally many")
        if len(dict.fromkeys(numbers)) < len(numbers):
            raise DuplicateSubscription("a subscription is named twice in one call")
        for number in numbers:
            check_name(conn, number)
        decoded = [decode_filter(one) for one in filters]
        known = self._numbers.setdefault(conn, {})
        self.matcher.remove([_name(conn, number) for number in numbers if number in known])
        self.matcher.insert([(*_name(conn, number), one) for number, one in zip(numbers, decoded, strict=True)])
        known |= dict.fromkeys(numbers)

    def remove(self, conn: Conn, numbers: Sequence[int]) -> None:
        """Forget these, or none of them."""
        self.matcher.remove([_name(conn, number) for number in numbers])
        for number in numbers:
            del self._numbers[conn][number]

    def forget(self, conn: Conn) -> None:
        """Forget all of this connection."""
        self.matcher.remove([_name(conn, number) for number in self._numbers.pop(conn, {})])

    def conns(self) -> list[Conn]:
        """Those that have any."""
        return sorted(conn for conn, numbers in self._numbers.items() if numbers)

    def match(self, event: Event) -> list[Delivery]:
        """Who wants this event?"""
        return self.matcher.match([event])[0]


def _name(conn: Conn, number: int) -> tuple[Destination, SubscriptionNumber]:
    return Destination(conn), SubscriptionNumber(number)


class Tree:
    """A source tree: its routes, where its events come from, and the highest position."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.parent: Conn | None = None
        self.last = 0
        self.floor = 0
        """What it was when the parent changed: nothing up to there is taken from the new one."""

    def set_parent(self, parent: Conn | None) -> None:
        """Events come from there. A parent brings each one once, in some order; the one before it brought some too."""
        if parent != self.parent:
            self.floor = self.last
        self.parent = parent


class _Counts(msgspec.Struct):
    """The counters of a connection, as ``Traffic`` names them."""

    events_in: int = 0
    bytes_in: int = 0
    events_out: int = 0
    bytes_out: int = 0
    dropped: int = 0
    stray: int = 0
    damaged: int = 0


class Connection(Generic[Q]):
    """What is known of a connection."""

    def __init__(self, *, is_link: bool, when_full: WhenFull, out: Q) -> None:
        self.is_link = is_link
        self.when_full = when_full
        self.out = out
        self.frame_bytes_max: int | None = None
        """A neighbour takes no longer frame; None: a client, or one that has not said so."""
        self.counts = _Counts()
        self.dropped_before = 0
        """When somebody last asked who has lost events."""
        self.takes_events = True
        self.state: State = "idle"
        self.reason = ""
        self.input = bytearray()
        self.blocked_by: tuple[Conn, int] | None = None
        self.publisher: int | None = None
        self.next_sequence = 0
        self.permitted: list[Filter] | None = None
        self.advertised: list[Filter] | None = None
        self.clock: tuple[int, int] | None = None

    def takes(self, size: int) -> bool:
        """May a frame be so long, with its head?"""
        return self.frame_bytes_max is None or size - LENGTH_BYTES <= self.frame_bytes_max
