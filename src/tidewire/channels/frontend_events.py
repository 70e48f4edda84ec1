"""What happens to a broker's subscriptions to channels, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidewire.channels.messages import ToBroker, ToCluster, Want
from tidewire.channels.results import Packed, Rows
from tidewire.model.ids import Conn, Tick

Subscriber = tuple[Conn, int]
"""A client's connection, and its number for the subscription."""


# -- what happens ------------------------------------------------------------------------------------------------------


class Subscribe(msgspec.Struct, frozen=True, kw_only=True):
    """A client wants to hear of a channel; one who was elsewhere goes on behind a tick."""

    subscriber: Subscriber
    channel: str
    given: Mapping[str, object]
    name: str = ""
    """Of a durable subscriber, who is owed what comes while it is away."""

    claim: int = 0
    """Tells this session of a durable subscriber from every other."""

    after: Tick | None = None


class Unsubscribe(msgspec.Struct, frozen=True):
    """A client does not want to hear of it now; with ``is_final``, its name wants it no longer either."""

    subscriber: Subscriber
    is_final: bool = True


class Settled(msgspec.Struct, frozen=True):
    """A subscriber has dealt with everything up to this tick: there is room for more."""

    subscriber: Subscriber
    tick: Tick


class ClientGone(msgspec.Struct, frozen=True):
    """A client's connection has ended."""

    conn: Conn


class LetGo(msgspec.Struct, frozen=True):
    """Nobody has come back for what everybody has left a while ago, it seems."""

    want: Want


class Connected(msgspec.Struct, frozen=True):
    """There is a connection to the data cluster: a life begins."""

    life: int


class Disconnected(msgspec.Struct, frozen=True):
    """There is none any more."""


FrontendEvent = Subscribe | Unsubscribe | Settled | ClientGone | LetGo | Connected | Disconnected | ToBroker


# -- what is to be done ------------------------------------------------------------------------------------------------


class Say(msgspec.Struct, frozen=True):
    """Say this to the data cluster."""

    message: ToCluster


class Confirm(msgspec.Struct, frozen=True):
    """The subscription stands: everything behind this tick will come, with these columns."""

    subscriber: Subscriber
    tick: Tick
    columns: tuple[str, ...]


class Refuse(msgspec.Struct, frozen=True):
    """The subscription does not stand, or no longer."""

    subscriber: Subscriber
    code: str
    reason: str


class Notify(msgspec.Struct, frozen=True):
    """Tell a client what is new."""

    subscriber: Subscriber
    tick: Tick
    packed: Packed

    @property
    def rows(self) -> Rows:
        """What there is."""
        return self.packed.rows()


class Missed(msgspec.Struct, frozen=True):
    """Tell a client that results behind one tick, up to another, were no longer kept."""

    subscriber: Subscriber
    after: Tick
    upto: Tick


class Linger(msgspec.Struct, frozen=True):
    """The last client that wanted this is gone, and may come back: say LetGo when it has had the time."""

    want: Want


FrontendEffect = Say | Confirm | Refuse | Notify | Missed | Linger
