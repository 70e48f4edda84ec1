"""What clients, brokers, operators and the data cluster say to each other about channels (``messages.py``).

What brokers and the data cluster say to each other is in ``channels/messages.py``. It may be long, so it travels in
pieces, as Talk.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidewire.model.message_fields import BrokerName

TALK_BYTES: Final = 512 << 10
"""Of one piece, at most."""


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """The base of all messages: an array on the wire, its tag first."""


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


ChannelMessage = Attach | Talk | Command
