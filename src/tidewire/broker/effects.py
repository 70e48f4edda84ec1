"""What a broker wants done. Those of the data plane are applied by the node, the others by the driver."""

from __future__ import annotations

import msgspec

from tidewire.model.ids import Conn
from tidewire.model.messages import Lane, Message
from tidewire.routing.answers import ForgetTree, Install, SetParent, Uninstall


class Send(msgspec.Struct, frozen=True):
    """Queue this message. Control goes ahead of waiting data."""

    conn: Conn
    message: Message
    lane: Lane = "data"


class Close(msgspec.Struct, frozen=True):
    """End a connection, after what has been queued for it."""

    conn: Conn


class Dial(msgspec.Struct, frozen=True):
    """Open a connection; answered by Opened or DialFailed with this order."""

    order: int
    address: str


class MakeLink(msgspec.Struct, frozen=True):
    """This connection leads to a neighbour: events are forwarded on it, and none is thrown away."""

    conn: Conn


class LetPublish(msgspec.Struct, frozen=True):
    """This client may publish, as this publisher, from this sequence on."""

    conn: Conn
    publisher: int
    next_sequence: int


class Allow(msgspec.Struct, frozen=True):
    """What this publisher may publish; None: anything."""

    conn: Conn
    filters: list[bytes] | None


class SetClock(msgspec.Struct, frozen=True):
    """How the clock at the other end differs from ours."""

    conn: Conn
    offset_ns: int
    error_us: int


class Note(msgspec.Struct, frozen=True):
    """Something that people want to know of: for the log, the console and the decisions."""

    what: str
    facts: dict[str, str | int | float]


PlaneEffect = Install | Uninstall | SetParent | ForgetTree | MakeLink | LetPublish | Allow | SetClock
Effect = Send | Close | Dial | Note | PlaneEffect
