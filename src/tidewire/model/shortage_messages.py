"""What is said so that the least valuable traffic gives way when there is not enough of everything (epeer §2.11).

A client says these only if its broker has asked it to. Between brokers they travel in the control lane: about flows
along the tree of the broker that hosts the publisher, up from child to parent, or down; about room from an edge to its
head.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tidewire.model.message_fields import BrokerName, Seconds, Tree

FLOWS_MAX: Final = 4096
"""In one message: of a subscriber's opinions, or of a publisher's classes, no more are told."""
CLASS_MAX: Final = 256

ClassName = Annotated[str, Meta(max_length=CLASS_MAX)]
Publisher = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0, le=1e300)]
Share = Annotated[float, Meta(ge=0, le=1)]
VoiceName = Annotated[str, Meta(max_length=64)]
Voices = Annotated[list[VoiceName], Meta(max_length=FLOWS_MAX)]
Why = Literal["selection", "tier", "share"]
"""Why a flow is limited: others are more important, its utility is low, or the stream that it shares is held back."""


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """The base of all messages: an array on the wire, its tag first."""


# -- a client and its broker -------------------------------------------------------------------------------------------


class AskOpinions(_Message, frozen=True, tag=120):
    """Control. A broker to its client: say so often what events are worth to you, and what you would publish.

    ``attribute`` and ``classes`` say of which class an event is, as in the settings ``[traffic]``: names and filters.
    """

    every_s: Seconds
    attribute: Annotated[str, Meta(max_length=CLASS_MAX)]
    classes: Annotated[list[tuple[ClassName, bytes]], Meta(max_length=FLOWS_MAX)] = []
    utility: Annotated[str, Meta(max_length=1000)] = ""
    """What an event is worth to subscribers that have not said how they judge, as an expression; empty: nothing is."""


class Opinion(msgspec.Struct, frozen=True, array_like=True):
    """What the events of one publisher in one class were worth to a subscriber, on average (Eq 1)."""

    source: Annotated[int, Meta(ge=0)]
    """The tree that they came by; of guaranteed ones, their pubend."""
    publisher: Publisher
    traffic_class: ClassName
    utility: Share
    events: Annotated[int, Meta(ge=1, le=2**53)]


class Opinions(_Message, frozen=True, tag=121):
    """Control. A subscriber, about what has come since it last said so (FEEDBACK)."""

    about: Annotated[list[Opinion], Meta(max_length=FLOWS_MAX)]


class OfferedClass(msgspec.Struct, frozen=True, array_like=True):
    """What a publisher would have published in one class, had it not been for limits."""

    traffic_class: ClassName
    offered_msgs_s: Amount
    guaranteed_msgs_s: Amount
    """Of that what must not be lost."""
    size_bytes: Amount
    """Of an event that was sent, on average; 0: none was."""


class Offering(_Message, frozen=True, tag=122):
    """Control. A publisher, about what it did since it last said so (OFFERED_RATE)."""

    offers: Annotated[list[OfferedClass], Meta(max_length=FLOWS_MAX)]


class FlowLimit(msgspec.Struct, frozen=True, array_like=True):
    """What a publisher may publish in one class."""

    traffic_class: ClassName
    msgs_s: Amount | None
    """None: it is free."""
    why: Why = "selection"
    guaranteed_only: bool = False


class Limits(_Message, frozen=True, tag=123):
    """Control. A broker to a publisher: these limits have changed (RATE_UPDATE)."""

    limits: Annotated[list[FlowLimit], Meta(max_length=FLOWS_MAX)]


class Quench(_Message, frozen=True, tag=124):
    """Control. A broker to a publisher, about its advertisements by their numbers: nobody wants these, somebody those.

    Answered by QuenchHeard, from which on it publishes best effort what somebody wants, and need not what nobody does.
    """

    token: Annotated[int, Meta(ge=0, le=2**53)]
    unwanted: Annotated[list[int], Meta(max_length=FLOWS_MAX)]
    wanted: Annotated[list[int], Meta(max_length=FLOWS_MAX)]


class QuenchHeard(_Message, frozen=True, tag=125):
    """In order with what is published: what comes behind it was published by one who knows."""

    token: Annotated[int, Meta(ge=0, le=2**53)]


# -- between brokers ---------------------------------------------------------------------------------------------------


class FlowJudged(msgspec.Struct, frozen=True, array_like=True):
    """What subscribers behind a broker think of one publisher in one class, summed up (Eq 2)."""

    publisher: Publisher
    traffic_class: ClassName
    weighted: Amount
    count: Amount


class Judged(_Message, frozen=True, tag=130):
    """Up, to the source. What the subscribers of an edge have said."""

    tree: Tree
    flows: Annotated[list[FlowJudged], Meta(max_length=FLOWS_MAX)]


class FlowTold(msgspec.Struct, frozen=True, array_like=True):
    """A publisher in one class, as its own broker knows it."""

    publisher: Publisher
    traffic_class: ClassName
    offered_msgs_s: Amount
    accepted_msgs_s: Amount
    size_bytes: Amount
    utility: Share
    owner: Annotated[str, Meta(max_length=64)] = ""
    """The same for all that belong to one identity, and nothing that tells who it is."""


class FlowsTold(_Message, frozen=True, tag=131):
    """Down, to those who want something of this tree: what is published at its source, all of it."""

    tree: Tree
    number: Annotated[int, Meta(ge=0)]
    """It grows: parts of one report have the same."""
    flows: Annotated[list[FlowTold], Meta(max_length=FLOWS_MAX)]


class LimitFlow(msgspec.Struct, frozen=True, array_like=True):
    """What a publisher of another broker may send into a cluster."""

    publisher: Publisher
    traffic_class: ClassName
    msgs_s: Amount
    why: Why


class LimitFlows(_Message, frozen=True, tag=132):
    """Up, to the source. A head: no more than this of yours, in my cluster.

    Said again in every period; what is no longer said holds no longer.
    """

    tree: Tree
    by: BrokerName
    limits: Annotated[list[LimitFlow], Meta(max_length=FLOWS_MAX)]


class BudgetRoom(msgspec.Struct, frozen=True, array_like=True):
    """Something of a broker that there is only so much of."""

    what: Annotated[str, Meta(max_length=CLASS_MAX)]
    capacity: Amount
    used: Amount


class ClassWanted(msgspec.Struct, frozen=True, array_like=True):
    """How many want a class at an edge."""

    traffic_class: ClassName
    connections: Amount
    voices: Amount
    """The same, with those that belong to one identity counted once."""


class Room(_Message, frozen=True, tag=133):
    """An edge to its head, in every period: what it has, what of it is used, and who wants what there."""

    budgets: Annotated[list[BudgetRoom], Meta(max_length=64)]
    wanted: Annotated[list[ClassWanted], Meta(max_length=FLOWS_MAX)]
    is_short: bool
    """Has it been overloaded for long, and nobody takes any of it over?"""
    voices_came: Voices = []
    voices_gone: Voices = []
    """Identities that listen there now, and no longer do: what tells one from another, and not who it is."""


class SharedVoices(_Message, frozen=True, tag=136):
    """Control. A head to an edge: these identities listen at so many edges of the cluster, and share one voice."""

    edges: Annotated[list[tuple[VoiceName, Annotated[int, Meta(ge=1)]]], Meta(max_length=FLOWS_MAX)]


class Train(_Message, frozen=True, tag=134):
    """Data. One of some that are sent at once, to see how fast they come: the last is answered by Carried."""

    number: Annotated[int, Meta(ge=0, le=2**53)]
    place: Annotated[int, Meta(ge=0, le=1000)]
    """0: the first."""
    is_last: bool
    padding: bytes


class Carried(_Message, frozen=True, tag=135):
    """Control. So many bytes a second have come of that train; None: faster than can be told."""

    number: Annotated[int, Meta(ge=0, le=2**53)]
    bytes_s: Amount | None


ShortageMessage = (
    AskOpinions
    | Opinions
    | Offering
    | Limits
    | Quench
    | QuenchHeard
    | Judged
    | FlowsTold
    | LimitFlows
    | Room
    | SharedVoices
    | Train
    | Carried
)
