"""What can happen to a broker."""

from __future__ import annotations

import msgspec

from tidewire.balancing.load import Load, Sample
from tidewire.broker.stream_events import StreamEvent
from tidewire.dataplane.protocol import Refusal, Samples
from tidewire.dataplane.streams import StreamState
from tidewire.identity.guard import Trust
from tidewire.model.balance_messages import SessionId
from tidewire.model.ids import Conn
from tidewire.model.messages import Use
from tidewire.wire.connections import Closed, DialFailed, Heard, Opened, TimePassed


class Started(msgspec.Struct, frozen=True):
    """The broker begins."""


class Unreadable(msgspec.Struct, frozen=True):
    """What has come on a connection is not the protocol."""

    conn: Conn
    reason: str


class EventsRefused(msgspec.Struct, frozen=True):
    """The data plane did not take some events of a publisher."""

    conn: Conn
    refusal: Refusal


class Overran(msgspec.Struct, frozen=True):
    """A subscriber has not read for so long that its queue is full, and its policy is to end."""

    conn: Conn


class LostEvents(msgspec.Struct, frozen=True):
    """The data plane has thrown away the oldest events of a slow subscriber."""

    conn: Conn
    events: int


class Stalled(msgspec.Struct, frozen=True):
    """A neighbour has taken nothing of its queue for so long, and somebody waits for room."""

    conn: Conn
    seconds: float


class MoveClient(msgspec.Struct, frozen=True):
    """A policy or an operator wants a client served elsewhere, at this neighbour."""

    conn: Conn
    use: Use
    address: str


class Measured(msgspec.Struct, frozen=True):
    """How loaded this broker is; ``sample``: the last that it was made from."""

    load: Load
    settled: Load
    """Of that what lies behind the last session, if it says something: plans are made from it."""

    sample: Sample


class Weighed(msgspec.Struct, frozen=True):
    """What was measured in a period, for those who decide what gives way under shortage. Counters only grow."""

    sample: Sample
    links: list[tuple[Conn, int, int]]
    """Data lanes of neighbours: bytes sent, and waiting."""
    publishers: list[tuple[Conn, int, int]]
    """Clients that publish: events and bytes that came from them."""


class Sampled(msgspec.Struct, frozen=True):
    """The events that were to be kept for a session, and who wants them."""

    session: SessionId
    samples: Samples


class Counted(msgspec.Struct, frozen=True):
    """What has come from these connections so far, in bytes: the answer to CountInput."""

    bytes_in: dict[Conn, int]


class LogOpened(msgspec.Struct, frozen=True):
    """This broker hosts pubends: so they stand, and this has been kept from earlier lives."""

    states: list[StreamState]
    kept: list[tuple[bytes, bytes]]
    unix_offset_ns: int


class NoRoom(msgspec.Struct, frozen=True):
    """One more has called, and there is no room for another connection."""


class Stopping(msgspec.Struct, frozen=True):
    """The broker is to end: say goodbye."""


BrokerEvent = (
    Started
    | Opened
    | DialFailed
    | Closed
    | Heard
    | Unreadable
    | EventsRefused
    | Overran
    | LostEvents
    | Stalled
    | TimePassed
    | MoveClient
    | Measured
    | Weighed
    | Sampled
    | Counted
    | Trust
    | LogOpened
    | StreamEvent
    | NoRoom
    | Stopping
)
