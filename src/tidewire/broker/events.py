"""What can happen to a broker."""

from __future__ import annotations

import msgspec

from tidewire.dataplane.protocol import Refusal
from tidewire.identity.guard import Trust
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
    | Trust
    | NoRoom
    | Stopping
)
