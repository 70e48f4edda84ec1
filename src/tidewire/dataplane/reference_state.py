"""What the reference engine knows of connections, routes and trees: lists and dicts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewire.dataplane.protocol import State, WhenFull
from tidewire.matching.protocol import Delivery, Destination, SubscriptionNumber, check_name
from tidewire.matching.scan import ScanMatcher
from tidewire.model.errors import DuplicateSubscription, UsageError
from tidewire.model.events import Event
from tidewire.model.filters import Filter, decode_filter
from tidewire.model.ids import Conn
from tidewire.model.messages import Lane
from tidewire.wire.frames import MESSAGE


class Outbox:
    """Frames that wait to be sent: control ahead of data, but never into a frame that is begun."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._control: list[bytes] = []
        self._data: list[bytes] = []
        self._begun: Lane | None = None
        """The lane whose first frame is sent in part; what is left of it stands in the frame's place."""

    @property
    def control_bytes(self) -> int:
        """What waits in the control queue."""
        return sum(map(len, self._control))

    @property
    def data_bytes(self) -> int:
        """What waits in the data queue."""
        return sum(map(len, self._data))

    @property
    def is_empty(self) -> bool:
        """Does nothing wait?"""
        return not self._control and not self._data

    def fits(self, size: int) -> bool:
        """Is there room for an event in a frame of this size?"""
        return not self._data or self.data_bytes + size <= self.bytes_max

    def put(self, frame: bytes, lane: Lane) -> None:
        """Behind the others of its lane."""
        (self._control if lane == "control" else self._data).append(frame)

    def drop_events(self, bytes_left: int) -> int:
        """Throw the oldest events away until at most so many bytes are left; how many were there to throw away?"""
        dropped = 0
        at = 1 if self._begun == "data" else 0
        while at < len(self._data) and self.data_bytes > bytes_left:
            if self._data[at][4] == MESSAGE:
                at += 1
            else:
                del self._data[at]
                dropped += 1
        return dropped

    def take(self, bytes_max: int) -> bytes:
        """What is to be sent next."""
        taken = bytearray()
        while not self.is_empty and len(taken) < bytes_max:
            lane: Lane = self._begun or ("control" if self._control else "data")
            queue = self._control if lane == "control" else self._data
            room = bytes_max - len(taken)
            taken += queue[0][:room]
            if len(queue[0]) > room:
                queue[0] = queue[0][room:]
                self._begun = lane
            else:
                del queue[0]
                self._begun = None
        return bytes(taken)


class Routes:
    """Subscriptions by connection and number, over the scan."""

    def __init__(self) -> None:
        self.matcher = ScanMatcher()
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

    def match(self, event: Event) -> list[Delivery]:
        """Who wants this event?"""
        return self.matcher.match([event])[0]


def _name(conn: Conn, number: int) -> tuple[Destination, SubscriptionNumber]:
    return Destination(conn), SubscriptionNumber(number)


class Tree:
    """A source tree: its routes, where its events come from, and the last position."""

    def __init__(self) -> None:
        self.routes = Routes()
        self.parent: Conn | None = None
        self.last = 0


class _Counts(msgspec.Struct):
    """The counters of a connection, as ``Traffic`` names them."""

    events_in: int = 0
    bytes_in: int = 0
    events_out: int = 0
    bytes_out: int = 0
    dropped: int = 0
    stray: int = 0
    damaged: int = 0


class Connection:
    """What is known of a connection."""

    def __init__(self, *, is_link: bool, when_full: WhenFull, queue_bytes_max: int) -> None:
        self.is_link = is_link
        self.when_full = when_full
        self.out = Outbox(queue_bytes_max)
        self.counts = _Counts()
        self.takes_events = True
        self.state: State = "idle"
        self.reason = ""
        self.input = bytearray()
        self.blocked_by: tuple[Conn, int] | None = None
        self.publisher: int | None = None
        self.next_sequence = 0
        self.allowed: list[Filter] | None = None
        self.clock: tuple[int, int] | None = None
