"""What brokers, clients and the coordinator say to each other about who is served where (bad §1.2, §4.5).

All of it travels on connections to the coordinator.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidewire.model.message_fields import CLIENT_NAME_MAX, SECONDS_MAX, SECONDS_MIN, BrokerName

USER_NAME_MAX: Final = CLIENT_NAME_MAX
HIDDEN: Final = r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb\uffff]"
"""Characters that nobody sees, or that turn around what stands beside them: in no user's name. Also as JSON Schema
reads it."""
ADDRESS_MAX: Final = 1000
KEY_BYTES: Final = 16
"""Of what stands for a filter in a report."""

Amount = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0, le=2**31)]
Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Seconds = Annotated[float, Meta(ge=SECONDS_MIN, le=SECONDS_MAX)]
UserName = Annotated[str, Meta(min_length=1, max_length=USER_NAME_MAX)]
Degrees = Annotated[float, Meta(ge=-180, le=180)]


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """An array on the wire, its tag first."""


class WantReports(_Message, frozen=True, tag=54):
    """The coordinator to a broker: tell me so often how loaded you are, from so many events."""

    every_s: Seconds
    samples: Annotated[int, Meta(ge=1, le=4096)]


class ReportedClient(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A subscriber: its connection there, its name, and the places of what it wants in the report."""

    conn: Count
    name: str
    wants: list[Count]


class ReportLoad(_Message, frozen=True, tag=55, kw_only=True):
    """A broker to the coordinator: who is here, what they want, and how much comes of it.

    Identical filters are one. ``is_open``: does it take subscribers? A head that has edges does not.
    """

    seconds: Seconds
    """How long was measured."""
    is_open: bool
    keys: list[Key]
    """One for each filter that somebody has."""
    sizes: list[Amount]
    """The bytes of events that matched it meanwhile."""
    clients: list[ReportedClient]


class ClientMove(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One subscriber, as it was reported, and where it is to go."""

    conn: Count
    name: str
    broker: BrokerName
    address: str


class Migrate(_Message, frozen=True, tag=56):
    """The coordinator to a broker: send these elsewhere."""

    plan: Count
    moves: list[ClientMove]


class Migrated(_Message, frozen=True, tag=57):
    """The broker's answer, when all have gone or stay after all."""

    plan: Count
    moved: Count
    stayed: Count


class RegisterUser(_Message, frozen=True, tag=58):
    """Anybody to the coordinator: know me by this name. Answered by Done, or Refused."""

    request: int
    user: UserName
    identity: str | None = None


class RequestBroker(_Message, frozen=True, tag=59):
    """A registered user to the coordinator: who serves me? Answered by BrokerFound, or Refused."""

    request: int
    user: UserName
    location: tuple[Degrees, Degrees] | None = None
    """Latitude and longitude."""
    identity: str | None = None


class BrokerFound(_Message, frozen=True, tag=64):
    """The coordinator's answer."""

    request: int
    broker: BrokerName
    address: str


class AskBalance(_Message, frozen=True, tag=65):
    """Anybody to the coordinator: how is the load spread, and what was decided? Answered by Status, or Refused."""

    request: int
    identity: str | None = None


class RegisterBroker(_Message, frozen=True, tag=66):
    """For a broker that does not speak the wire: know it for a while. Answered by Status, or Refused."""

    request: int
    broker: BrokerName
    address: Annotated[str, Meta(min_length=1, max_length=ADDRESS_MAX)]
    location: tuple[Degrees, Degrees] | None = None
    identity: str | None = None


class ReportFor(_Message, frozen=True, tag=67):
    """For such a broker: how loaded it is. Answered by Status, with who is to go, or Refused."""

    request: int
    broker: BrokerName
    report: ReportLoad
    identity: str | None = None


PlacementMessage = (
    WantReports
    | ReportLoad
    | Migrate
    | Migrated
    | RegisterUser
    | RequestBroker
    | BrokerFound
    | AskBalance
    | RegisterBroker
    | ReportFor
)
