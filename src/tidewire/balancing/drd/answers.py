"""What the agents of brokers want done. Whoever runs them says how."""

from __future__ import annotations

import msgspec

from tidewire.balancing.drd.loads import Load
from tidewire.model.balance_fields import SessionId
from tidewire.model.ids import BrokerId
from tidewire.model.notes import Note
from tidewire.model.offload_messages import Amounts, Metric, OffloadPayload, Side


class Say(msgspec.Struct, frozen=True):
    """To one broker, in this cluster."""

    to: BrokerId
    cluster: BrokerId
    payload: OffloadPayload


class Tell(msgspec.Struct, frozen=True):
    """To all: what an edge tells goes to its head and by it to the other edges, a head's to the heads next to it."""

    payload: OffloadPayload


class WantProfile(msgspec.Struct, frozen=True):
    """Who is here, in bundles? Call ``profiled``, now or when it is known."""

    session: SessionId


class MoveClients(msgspec.Struct, frozen=True, kw_only=True):
    """Send these there, and call ``moved`` for each, whether it went or not."""

    session: SessionId
    side: Side
    to: BrokerId
    address: str
    clients: tuple[int, ...]


class NothingFound(msgspec.Struct, frozen=True):
    """Nobody at all can take what is too much for this broker: there is not enough of everything (epeer §2.10)."""

    broker: BrokerId
    metric: Metric
    needed: float


class SessionEnded(msgspec.Struct, frozen=True):
    """A session of ours has come to its end: for those who count."""

    session: SessionId
    moved: int
    stayed: int
    predicted: Amounts
    arrived: dict[BrokerId, int]
    """How many have come to whom."""


class Compared(msgspec.Struct, frozen=True):
    """The first look behind a session: what was predicted of us, and what came."""

    predicted: Load
    measured: Load


Answer = Compared | Say | Tell | WantProfile | MoveClients | NothingFound | SessionEnded | Note
