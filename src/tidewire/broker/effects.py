"""What a broker wants done. Those of the data plane are applied by the node, the others by the driver."""

from __future__ import annotations

import msgspec

from tidewire.broker.stream_events import StreamEffect
from tidewire.model.balance_messages import SessionId
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.notes import Note as Note  # noqa: PLC0414 - one of the effects of a broker
from tidewire.routing.answers import Answer, Confirmed, ForgetTree, Install, SetParent, Uninstall, Widened
from tidewire.wire.connections import Close, Dial, Send, SetClock


class MakeLink(msgspec.Struct, frozen=True):
    """This connection leads to a neighbour: events are forwarded on it, and none that it can take is thrown away."""

    conn: Conn
    frame_bytes_max: int
    """It takes no longer frame."""


class LetPublish(msgspec.Struct, frozen=True):
    """This client may publish, as this publisher, from this sequence on."""

    conn: Conn
    publisher: int
    next_sequence: int


class Permit(msgspec.Struct, frozen=True):
    """What this client's identity may publish; None: anything."""

    conn: Conn
    filters: list[bytes] | None


class Allow(msgspec.Struct, frozen=True):
    """What this publisher has advertised; None: anything."""

    conn: Conn
    filters: list[bytes] | None


class KeepSamples(msgspec.Struct, frozen=True):
    """Keep the next events that are taken, as many as this or until then; answered by Sampled (peer §7.1)."""

    session: SessionId
    count: int
    until_ns: Nanoseconds


class DropSamples(msgspec.Struct, frozen=True):
    """They are no longer wanted."""


class CountInput(msgspec.Struct, frozen=True):
    """How much has come from these connections? Answered at once by Counted."""

    conns: list[Conn]


RouteEffect = Install | Uninstall | SetParent | ForgetTree | Widened | Confirmed
PlaneEffect = (
    RouteEffect
    | MakeLink
    | LetPublish
    | Permit
    | Allow
    | SetClock
    | KeepSamples
    | DropSamples
    | CountInput
    | StreamEffect
)
Effect = Send | Close | Dial | Note | PlaneEffect

Step = Effect | Answer
"""What is to be done, or what the router says: the core makes effects of it."""
