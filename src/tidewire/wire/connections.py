"""What happens to the connections of any machine, and what it wants done with them: the same for broker and client."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidewire.model.ids import Conn
from tidewire.model.messages import Lane, Message

CertificateOf = Literal["broker", "coordinator", "datacluster", "client"]


class Peer(msgspec.Struct, frozen=True):
    """The certificate at the other end of a connection; the driver has verified it."""

    of: CertificateOf
    name: str
    fingerprint: str
    signers: tuple[str, ...] = ()
    """The keys, of those that were trusted when it was shown, that may have signed it."""


class Opened(msgspec.Struct, frozen=True):
    """A connection stands. ``order``: the one that it was opened by; None if the other side has called."""

    conn: Conn
    order: int | None = None
    peer: Peer | None = None
    """None: it has shown no certificate."""

    place: str = ""
    """Where the other side has called from: an address, or the net of one. To tell crowds apart, and for the log."""


class DialFailed(msgspec.Struct, frozen=True):
    """A connection could not be opened."""

    order: int
    reason: str


class Closed(msgspec.Struct, frozen=True):
    """A connection has ended, whoever ended it."""

    conn: Conn
    reason: str = ""


class Heard(msgspec.Struct, frozen=True):
    """A message has come."""

    conn: Conn
    message: Message


class TimePassed(msgspec.Struct, frozen=True):
    """The deadline that the machine named has come."""


class Dial(msgspec.Struct, frozen=True):
    """Open a connection; answered by Opened or DialFailed with this order."""

    order: int
    address: str


class Send(msgspec.Struct, frozen=True):
    """Send a message, behind what was sent before in its lane. Control goes ahead of waiting data."""

    conn: Conn
    message: Message
    lane: Lane = "data"


class Close(msgspec.Struct, frozen=True):
    """End a connection, after what has been sent."""

    conn: Conn


class SetClock(msgspec.Struct, frozen=True):
    """How the clock at the other end differs from ours."""

    conn: Conn
    offset_ns: int
    error_us: int
