"""What do brokers and the data cluster say to each other? Who wants what, what is new, what it is.

A broker numbers its requests, and its *lives*: one for each connection to the cluster. What an earlier life said counts
no more. In one life nothing is lost, and everything comes in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import msgspec

from tidewire.channels.results import BEGINNING, Found, SubscriptionId
from tidewire.channels.schemas import Column
from tidewire.model.ids import BrokerId, Tick
from tidewire.model.values import Timestamp, Value

if TYPE_CHECKING:
    Values = tuple[Value, ...]
else:

    class Values(tuple):
        """As msgspec reads it, by ``read_values``: it has no union of all types of values."""

        __slots__ = ()


class Want(msgspec.Struct, frozen=True):
    """A channel with its parameters: two who want the same share one subscription."""

    channel: str
    values: Values = ()


def read_values(_kind: type, read: object) -> Values:
    """The values of a Want, as a decoder has read them: its ``dec_hook``."""
    if not isinstance(read, list):
        raise ValueError("the values of a subscription are a list")
    values = [Timestamp(one["ns"]) if isinstance(one, dict) and list(one) == ["ns"] else one for one in read]
    if not all(isinstance(one, get_args(Value)) for one in values):
        raise ValueError("what stands in a subscription is no value")
    return Values(values)


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all messages."""


# -- from a broker to the cluster --------------------------------------------------------------------------------------


class Hold(_Message, frozen=True, tag="hold"):
    """I want this; with a name, for a durable subscriber, who is owed it also while away.

    Answered by Granted, or by Denied.
    """

    broker: BrokerId
    life: int
    request: int
    want: Want
    name: str = ""
    claim: int = 0
    """Whoever claims a name last has it: what is said of it with another claim counts no more."""


class Release(_Message, frozen=True, tag="release"):
    """I want this no longer."""

    broker: BrokerId
    life: int
    want: Want


class Began(_Message, frozen=True, tag="began"):
    """A life of mine begins: this is what I want, and nothing else. Each is answered as Hold is."""

    broker: BrokerId
    life: int
    holds: tuple[Hold, ...]


class Pull(_Message, frozen=True, tag="pull"):
    """Give me the results of these subscriptions, behind these ticks. Answered by Results."""

    broker: BrokerId
    life: int
    channel: str
    places: tuple[tuple[SubscriptionId, Tick], ...]


class Progress(_Message, frozen=True, tag="progress"):
    """A durable subscriber has dealt with everything up to this tick."""

    name: str
    claim: int
    want: Want
    tick: Tick


class Forget(_Message, frozen=True, tag="forget"):
    """A durable subscriber wants this no longer."""

    name: str
    claim: int
    want: Want


ToCluster = Hold | Release | Began | Pull | Progress | Forget


# -- from the cluster to a broker --------------------------------------------------------------------------------------


class Opened(_Message, frozen=True, tag="opened"):
    """There is a channel, which takes these parameters and tells these columns."""

    channel: str
    parameters: tuple[Column, ...]
    columns: tuple[str, ...]
    since: Tick = BEGINNING
    """When it was created: what is before it was told by another one of this name, and is lost with that."""

    def is_like(self, other: Opened | None) -> bool:
        """Does the other one take and tell the same?"""
        return other is not None and (self.parameters, self.columns) == (other.parameters, other.columns)


class Channels(_Message, frozen=True, tag="channels"):
    """These are all channels."""

    opened: tuple[Opened, ...]


class Closed(_Message, frozen=True, tag="closed"):
    """There is no such channel any more."""

    channel: str


class Granted(_Message, frozen=True, tag="granted"):
    """You hold it, by this id. All runs behind this tick look at it."""

    request: int
    want: Want
    id: SubscriptionId
    tick: Tick
    place: Tick | None = None
    """Of a durable subscriber: everything up to here is dealt with."""


class Denied(_Message, frozen=True, tag="denied"):
    """You do not hold it, for this reason."""

    request: int
    want: Want
    code: str
    reason: str


class Claimed(_Message, frozen=True, tag="claimed"):
    """This claim has this name now: who has it by another one has it no longer."""

    want: Want
    name: str
    claim: int


class Told(_Message, frozen=True, tag="told"):
    """A run of this channel has something for these subscriptions of yours."""

    channel: str
    tick: Tick
    ids: tuple[SubscriptionId, ...]


class Results(_Message, frozen=True, tag="results"):
    """What was asked for."""

    channel: str
    found: tuple[Found, ...]


ToBroker = Opened | Channels | Closed | Granted | Denied | Claimed | Told | Results
