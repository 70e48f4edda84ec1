"""What clients, brokers, operators and the data cluster say to each other about channels (``messages.py``).

What brokers and the data cluster say to each other is in ``channels/messages.py``. It may be long, so it travels in
pieces, as Talk.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidewire.model.message_fields import BrokerName, Place
from tidewire.model.stream_messages import NAME_MAX, Claim

TALK_BYTES: Final = 512 << 10
"""Of one piece, at most."""
CHANNEL_NAME_MAX: Final = 128
GIVEN_BYTES_MAX: Final = 64 << 10


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """The base of all messages: an array on the wire, its tag first."""


# -- a client and its broker -------------------------------------------------------------------------------------------


class OpenChannel(_Message, frozen=True, tag=110):
    """Tell me what this channel finds for these parameters; ``given``: as ``channels/packing.py`` writes them.

    ``after``: what is behind this tick, as told by another broker, or in another connection. With a name it is owed to
    me also while I am away; whoever says a name last has it, and ``claim`` tells one from another. Answered by
    ChannelOpened, or by Refused.
    """

    request: int
    number: Annotated[int, Meta(ge=0, lt=2**31)]
    channel: Annotated[str, Meta(max_length=CHANNEL_NAME_MAX)]
    given: Annotated[bytes, Meta(max_length=GIVEN_BYTES_MAX)]
    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    claim: Claim = 0
    after: Place | None = None


class ChannelOpened(_Message, frozen=True, tag=111):
    """Everything behind this tick will come, in rows with these columns."""

    request: int
    number: int
    tick: Place
    columns: list[str]


class CloseChannel(_Message, frozen=True, tag=112):
    """No longer tell me; with ``is_final``, nothing is owed to my name either. Answered by Done."""

    request: int
    number: int
    is_final: bool


class News(_Message, frozen=True):
    """For one subscription, at this tick: so many rows, in pieces; with the last one it is complete."""

    number: int
    tick: Place
    rows: Annotated[int, Meta(ge=0)]
    piece: Annotated[bytes, Meta(max_length=TALK_BYTES)]
    is_last: bool


class Notified(_Message, frozen=True, tag=113):
    """Something new: of all subscriptions for which there is something, as far as it fits into one message."""

    news: list[News]


class NotifiedTaken(_Message, frozen=True, tag=114):
    """By subscription: I have dealt with everything up to this tick."""

    taken: list[tuple[int, Place]]


class NotifiedLost(_Message, frozen=True, tag=115):
    """Results behind one tick, up to another, were no longer kept: they will not come."""

    number: int
    after: Place
    upto: Place


class ChannelEnded(_Message, frozen=True, tag=116):
    """Nothing more will come, and why. ``code`` is that of an error."""

    number: int
    code: str
    reason: str


# -- with the data cluster ---------------------------------------------------------------------------------------------


class Attach(_Message, frozen=True, tag=100):
    """A broker's first message to the data cluster: here I am. Not answered; Talk follows, both ways."""

    version: int
    broker: BrokerName


class Talk(_Message, frozen=True, tag=101):
    """A piece of what a broker or the data cluster says, in order; with the last one it is complete."""

    piece: Annotated[bytes, Meta(max_length=TALK_BYTES)]
    is_last: bool


class Command(_Message, frozen=True, tag=102):
    """An operator to the data cluster: a command about channels, as JSON. Answered by Status, or by Refused."""

    request: int
    command: bytes
    identity: str | None = None


ChannelMessage = (
    OpenChannel
    | ChannelOpened
    | CloseChannel
    | Notified
    | NotifiedTaken
    | NotifiedLost
    | ChannelEnded
    | Attach
    | Talk
    | Command
)
