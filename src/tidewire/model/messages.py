"""What clients, brokers and the coordinator say to each other. One definition for the machines and for the wire.

Lanes: a message is sent in the data lane, in order with the events, unless its docstring says *control*.

What a field's type allows is checked when a message is read: one with other values is no message (``frame-damaged``).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tidewire.model.balance_messages import BalanceMessage
from tidewire.model.channel_messages import ChannelMessage
from tidewire.model.ids import BrokerId
from tidewire.model.message_fields import (
    SECONDS_MAX,
    SECONDS_MIN,
    BrokerName,
    Sequence,
    Time,
)
from tidewire.model.placement_messages import Degrees, PlacementMessage
from tidewire.model.routing_messages import RoutingMessage
from tidewire.model.shortage_messages import ShortageMessage
from tidewire.model.stream_messages import StreamMessage
from tidewire.model.traffic import Terms

VERSION: Final = 1
"""Of the protocol. Both sides must speak the same one."""

ANYTHING: Final = b""
"""In place of an advertisement's filter: by one who just publishes. It overlaps every subscription."""

WANTED_MAX: Final = 8
WANTED_BYTES_MAX: Final = 1024
"""Of the filters in a greeting: how many, and how long each may be."""

Use = Literal["publish", "subscribe"]
Lane = Literal["control", "data"]
Role = Literal["head", "edge", "both"]
DeclaredRole = Literal["auto", "head", "edge", "both"]


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """The base of all messages: an array on the wire, its tag first."""


# -- beginning and end of a connection ---------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag=1, kw_only=True):
    """A client's first message. ``publisher`` and ``next_sequence`` let it go on where another connection ended."""

    version: int
    name: str
    uses: list[Use]
    publisher: Annotated[int, Meta(ge=0)] = 0
    next_sequence: Sequence = 1
    identity: str | None = None
    """A token; None: it is known by its certificate, if at all."""

    location: tuple[Degrees, Degrees] | None = None
    """Latitude and longitude, for a coordinator, which answers by BrokerFound."""

    wanted: Annotated[list[bytes], Meta(max_length=WANTED_MAX)] = []
    """Some of the filters that it will subscribe to: who is sent on may be sent to where others want the same."""


class Link(_Message, frozen=True, tag=2, kw_only=True):
    """A broker's first message to a neighbour, once per lane. ``incarnation`` tells one life of it from another."""

    version: int
    broker: BrokerName
    incarnation: int
    address: str
    lane: Lane
    frame_bytes_max: int = 0
    """As in Welcome, for the neighbour; 0: the default."""


class Welcome(_Message, frozen=True, tag=3, kw_only=True):
    """The answer to both. ``publish_at`` and ``subscribe_at``: empty if here, else the brokers to go to for that."""

    version: int
    broker: BrokerName
    incarnation: int
    address: str
    heartbeat_s: Annotated[float, Meta(ge=SECONDS_MIN, le=SECONDS_MAX)]
    frame_bytes_max: int
    subscriptions_max: int
    publish_at: list[str] = []
    subscribe_at: list[str] = []


class Bye(_Message, frozen=True, tag=4):
    """Control. The connection ends, and why. ``code`` is that of an error; ``retry_after_s`` < 0: do not come back."""

    code: str
    reason: str
    retry_after_s: float = 0.0


class Ping(_Message, frozen=True, tag=5):
    """Control. Are you there, and what is your time?"""

    sent_ns: Time


class Pong(_Message, frozen=True, tag=6):
    """Control. The answer: the ping's own time, and this side's when it came and when the answer left."""

    ping_ns: Time
    received_ns: Time
    sent_ns: Time


# -- a client and its broker -------------------------------------------------------------------------------------------


class Subscribe(_Message, frozen=True, tag=10):
    """Tell me what matches. Numbers are the client's own; a number in use gets the new filter in place of the old one.

    Answered by Done when every event published from then on, anywhere, is told; by Refused, and then nothing changed.
    """

    request: int
    numbers: list[int]
    filters: list[bytes]
    terms: list[Terms] = []
    """What is needed of this traffic: none, or one for each filter."""


class Unsubscribe(_Message, frozen=True, tag=11):
    """No longer tell me. Answered by Done, behind the last event."""

    request: int
    numbers: list[int]


class Advertise(_Message, frozen=True, tag=12):
    """What I shall publish. Answered by Done when every broker knows and every subscription has found its way here.

    The first one on a connection says the sequence of the next event, if it is not the one of the greeting.
    """

    request: int
    numbers: list[int]
    filters: list[bytes]
    next_sequence: Sequence = 0
    terms: list[Terms] = []
    """What this traffic needs and is worth: none, or one for each filter."""


class Unadvertise(_Message, frozen=True, tag=13):
    """I shall no longer publish that."""

    request: int
    numbers: list[int]


class Flush(_Message, frozen=True, tag=14):
    """Answered by Done when all that I sent before has been handled by the broker."""

    request: int


class Done(_Message, frozen=True, tag=15):
    """The request has been carried out."""

    request: int


class Refused(_Message, frozen=True, tag=16):
    """The request has changed nothing. ``code`` is that of an error."""

    request: int
    code: str
    reason: str


class EventRefused(_Message, frozen=True, tag=17):
    """These events of yours were not taken, by their sequence; ``further`` more are not listed."""

    sequences: list[int]
    code: str
    reason: str
    further: int = 0
    is_guaranteed: bool = False
    """The sequences are those of guaranteed events, and all are listed."""


class Lost(_Message, frozen=True, tag=18):
    """You were too slow: so many events that you had subscribed to were thrown away, the oldest first."""

    events: int


# -- moving a client ---------------------------------------------------------------------------------------------------


class Move(_Message, frozen=True, tag=20):
    """Control. Go to this broker with what you do here. Nothing may be lost, so stay here until Left has come."""

    session: int
    use: Use
    broker: BrokerId
    address: str


class Leave(_Message, frozen=True, tag=21):
    """I am served there. Tell me Left behind the last event that there may lack (to a publisher: when all arrived)."""

    session: int


class Left(_Message, frozen=True, tag=22):
    """All that is yours here has been sent (or, a publisher's, delivered). This connection is no longer needed."""

    session: int


class Stay(_Message, frozen=True, tag=23):
    """Control. I could not go there; I stay."""

    session: int
    reason: str


# -- between brokers -------------------------------------------------------------------------------------------------


class Neighbourhood(_Message, frozen=True, tag=42):
    """Control. What a broker tells its neighbours about itself: by this the roles are found (peer A1–A3)."""

    neighbours: Annotated[int, Meta(ge=0)]
    declared: DeclaredRole
    role: Role
    is_full: bool = False
    """Is it overloaded? It gets clients only if there is nobody else."""

    is_leaving: bool = False
    """Is it being drained? It gets none."""


# -- the coordinator ---------------------------------------------------------------------------------------------------


class Register(_Message, frozen=True, tag=50):
    """A broker to the coordinator: here I am."""

    broker: BrokerName
    incarnation: int
    address: str
    declared: DeclaredRole
    location: tuple[Degrees, Degrees] | None = None
    """Latitude and longitude."""


class Assigned(_Message, frozen=True, tag=51):
    """The coordinator to a broker: connect to these."""

    addresses: list[str]


class AskMembers(_Message, frozen=True, tag=52):
    """Anybody to the coordinator: who is there?"""

    request: int
    identity: str | None = None


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A broker as the coordinator knows it."""

    broker: BrokerId
    address: str
    declared: DeclaredRole
    is_alive: bool


class Members(_Message, frozen=True, tag=53):
    """The coordinator's answer."""

    request: int
    members: list[Member]


# -- running it --------------------------------------------------------------------------------------------------------


class Drain(_Message, frozen=True, tag=60):
    """An operator to a broker: move every client away. Answered by Done when none is left, or Refused."""

    request: int
    identity: str | None = None


class Rebalance(_Message, frozen=True, tag=63):
    """An operator to a broker: look now whether clients should move, and do what follows; or only say what would.

    Answered by Status, with what it found, or Refused.
    """

    request: int
    is_dry_run: bool
    identity: str | None = None


class AskStatus(_Message, frozen=True, tag=61):
    """Anybody to a broker: how are you?"""

    request: int
    identity: str | None = None


class Status(_Message, frozen=True, tag=62):
    """The answer, as JSON: it is for people and scripts, and grows."""

    request: int
    document: bytes


Message = (
    Hello
    | Link
    | Welcome
    | Bye
    | Ping
    | Pong
    | Subscribe
    | Unsubscribe
    | Advertise
    | Unadvertise
    | Flush
    | Done
    | Refused
    | EventRefused
    | Lost
    | Move
    | Leave
    | Left
    | Stay
    | Neighbourhood
    | Register
    | Assigned
    | AskMembers
    | Members
    | Drain
    | Rebalance
    | AskStatus
    | Status
    | RoutingMessage
    | StreamMessage
    | BalanceMessage
    | PlacementMessage
    | ChannelMessage
    | ShortageMessage
)
