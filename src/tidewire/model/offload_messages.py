"""What heads and edges tell each other where the head decides who moves (epeer §2.11); in bulletins, as all about load.

Loads are in absolute units, so that what one broker gives is what another one gets, however large they are.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tidewire.model.balance_fields import BROKERS_MAX, Amount, Count, SessionId
from tidewire.model.message_fields import BrokerName
from tidewire.model.placement_messages import Degrees

CLASS_NAME_MAX: Final = 200
"""Characters of a class in these messages: a longer one is none that others are told of."""
CLASSES_MAX: Final = 4096
"""In one list: of more than these the others are not told."""

ClassName = Annotated[str, Meta(max_length=CLASS_NAME_MAX)]
ClassNames = Annotated[list[ClassName], Meta(max_length=CLASSES_MAX)]
Address = Annotated[str, Meta(max_length=512)]

Metric = Literal["input", "output", "matching"]
METRICS: Final[tuple[Metric, ...]] = ("input", "output", "matching")

LoadState = Literal["LOW", "HIGH", "OVERLOAD", "BUSY"]
"""A broker's (epeer §2.6): it may take load; it neither takes nor gives; it must give; it is in a session."""

Side = Literal["subscribers", "publishers"]
"""Whom an edge gives away, and whom a head does."""


class Amounts(msgspec.Struct, frozen=True, array_like=True):
    """A load, or a capacity, in the units of each metric; in sums it may be below 0, in messages it is not."""

    input_bytes_s: Amount = 0.0
    output_bytes_s: Amount = 0.0
    matching_events_s: Amount = 0.0

    def of(self, metric: Metric) -> float:
        """One of them."""
        match metric:
            case "input":
                return self.input_bytes_s
            case "output":
                return self.output_bytes_s
            case "matching":
                return self.matching_events_s

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.input_bytes_s + other.input_bytes_s,
            self.output_bytes_s + other.output_bytes_s,
            self.matching_events_s + other.matching_events_s,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        return self + other.times(-1.0)

    def times(self, factor: float) -> Amounts:
        """So many times this."""
        return Amounts(self.input_bytes_s * factor, self.output_bytes_s * factor, self.matching_events_s * factor)


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    """The base of what these bulletins say."""


class LoadUpdate(_Payload, frozen=True, tag=30):
    """An edge to its head, which passes it on to the other edges: every period."""

    state: LoadState
    used: Amounts
    capacity: Amounts
    available: Amount
    """What it can still take on, in events per second."""

    classes: ClassNames | None = None
    """Those of its subscribers; None: as they were when it told them last."""

    place: tuple[Degrees, Degrees] | None = None
    """Latitude and longitude, if it knows where it is."""


class ClusterStatus(_Payload, frozen=True, tag=31):
    """A head to the heads next to it."""

    state: LoadState
    head_available: Amount
    edges_available: Amount


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """A broker that can take load."""

    broker: BrokerName
    cluster: BrokerName
    address: Address
    """Where clients reach it."""

    used: Amounts
    capacity: Amounts
    classes: ClassNames
    """What it has already: of these only the output grows."""


Offers = Annotated[list[Offer], Meta(max_length=BROKERS_MAX)]


class Candidates(_Payload, frozen=True, tag=32):
    """A head to an overloaded edge: choose whom these are to take. Answered by OffloadList or InterClusterRequest."""

    session: SessionId
    is_between_clusters: bool
    offers: Offers


class ClassMove(msgspec.Struct, frozen=True, array_like=True):
    """Clients of one kind that are to go to one broker."""

    classes: ClassNames
    to: BrokerName
    clients: Count
    load: Amounts
    """What that will have to do for them."""


class OffloadList(_Payload, frozen=True, tag=33):
    """What an edge has chosen, to its head; and what comes to a cluster, from head to head."""

    session: SessionId
    moves: Annotated[list[ClassMove], Meta(max_length=CLASSES_MAX)]
    why: Annotated[str, Meta(max_length=200)] = ""


class InterClusterRequest(_Payload, frozen=True, tag=34):
    """An edge to its head: these cannot take enough; look further. ``needed``: what is still too much."""

    session: SessionId
    metric: Metric
    needed: Amount


class CapacityRequest(_Payload, frozen=True, tag=35):
    """A head to another: what can you take? Answered by CapacityReport."""

    session: SessionId
    side: Side


class CapacityReport(_Payload, frozen=True, tag=36):
    """These can take something, and are kept for you for a while; none: nobody can."""

    session: SessionId
    offers: Offers


class Busy(_Payload, frozen=True, tag=37):
    """A head to an edge: you take clients over in this session."""

    session: SessionId


class MoveNow(_Payload, frozen=True, tag=38):
    """A head to an edge: those who take your clients over are ready; send them. Answered by OffloadDone."""

    session: SessionId


class OffloadDone(_Payload, frozen=True, tag=39):
    """The session is over: so many went, and so many stayed. From the donor to its head, and from that to all."""

    session: SessionId
    moved: Count = 0
    stayed: Count = 0
    why: Annotated[str, Meta(max_length=200)] = ""
    arrived: Annotated[list[tuple[BrokerName, Count]], Meta(max_length=BROKERS_MAX)] = []
    """How many have come to whom."""


OffloadPayload = (
    LoadUpdate
    | ClusterStatus
    | Candidates
    | OffloadList
    | InterClusterRequest
    | CapacityRequest
    | CapacityReport
    | Busy
    | MoveNow
    | OffloadDone
)
