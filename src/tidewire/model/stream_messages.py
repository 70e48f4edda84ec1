"""What is said about guaranteed events: followers, what is lacking, what is held for whom, how fast (``messages.py``).

Between brokers these travel in the control lane, along the tree of the broker that hosts the pubend: up from child to
parent, or down.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidewire.model.congestion import Alert, Query
from tidewire.model.message_fields import Place, Pubend, Tree
from tidewire.model.traffic import NO_TERMS, Terms

NAME_MAX = 255
FollowerName = Annotated[str, Meta(min_length=1, max_length=2 * NAME_MAX)]
Claim = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Milliseconds = Annotated[int, Meta(ge=-1, le=2**44 - 1)]
"""Since 1970, as in a tick; -1: now."""

Age = Annotated[int, Meta(ge=-1, le=2**44 - 1)]
"""In milliseconds. Clocks differ: so it is said how long ago something was; -1: that is not known."""

Range = tuple[Place, Place]
Places = list[tuple[Pubend, Place]]
Rate = Annotated[float, Meta(ge=0)]


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """The base of all messages: an array on the wire, its tag first."""


# -- a client and its broker -------------------------------------------------------------------------------------------


class Follow(_Message, frozen=True, tag=70):
    """A subscription by name that is owed every guaranteed event, also those from while the client is away.

    One that is known goes on where it was, or at ``places``, if the client knows better; a new one begins at ``since``.
    ``age_ms``: how long ago a broker first confirmed it to this session, ``origin`` which of this name it was. Whoever
    follows last by a name has it: ``claim`` tells one from another. Answered by Begun, or by Refused;
    by Done if it is taken back, or another takes its number, before it has begun.
    """

    request: int
    number: int
    wanted: bytes
    name: Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
    claim: Claim
    since: Milliseconds = -1
    places: Places = []
    age_ms: Age = -1
    origin: Claim = 0
    done: Places = []
    """Where the application is, in streams of which it has not worked off all that came: it is owed the rest again,
    should it end before it has."""
    terms: Terms = NO_TERMS


class Begun(_Message, frozen=True, tag=71):
    """The follower is owed these streams, from these ticks on. With request 0: one more stream has come."""

    request: int
    number: int
    places: Places
    origin: Claim = 0
    """The claim that its name began with: it tells it from another of the same name, that was ended."""


class Unfollow(_Message, frozen=True, tag=72):
    """It is over for good: nothing is held for this name any more. Answered by Done, or by Refused."""

    request: int
    number: int
    name: Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]


class Gap(_Message, frozen=True, tag=73):
    """These ticks of a stream are lost for this follower: they were no longer kept, or are damaged."""

    number: int
    pubend: Pubend
    first: Place
    last: Place
    is_back: bool = False
    """The stream goes on before where the follower was: its log is another one."""


class Superseded(_Message, frozen=True, tag=74):
    """Somebody else follows by this name now, or has ended it."""

    number: int
    is_ended: bool = False


class Pace(_Message, frozen=True, tag=75):
    """Control. To a publisher: so many guaranteed events a second are taken from all who share its stream.

    None: as many as there are.
    """

    events_s: Rate | None
    reason: str = ""


# -- between brokers ---------------------------------------------------------------------------------------------------


class Nack(_Message, frozen=True, tag=80):
    """Up. I lack these ticks, of what my routes want."""

    tree: Tree
    pubend: Pubend
    ranges: Annotated[list[Range], Meta(max_length=256)]


class Replay(_Message, frozen=True, tag=81):
    """Up. Tell me what matches this filter, from this tick on, as RECOVER by this number, up to so many bytes."""

    tree: Tree
    pubend: Pubend
    number: Annotated[int, Meta(ge=0, lt=2**32)]
    place: Place
    wanted: bytes
    bytes_max: Annotated[int, Meta(ge=1, le=1 << 30)]


class Queried(_Message, frozen=True, tag=82):
    """Down. How does the stream come along?"""

    tree: Tree
    query: Query


class Alerted(_Message, frozen=True, tag=83):
    """Up. It does not come along as it should."""

    tree: Tree
    alert: Alert


class Holding(msgspec.Struct, frozen=True, array_like=True):
    """A name that events are to be held for: because somebody follows by it (claim), because another store holds events
    for it (copy), because somebody has left who did not reach the store then (left), or no longer (end).
    """

    name: FollowerName
    claim: Claim
    since: Milliseconds
    places: Places = []
    wanted: bytes = b""
    age_ms: Age = -1
    """How long ago it began, or ended; -1: it is new, if the store does not know better."""

    wanted_age_ms: Age = -1
    """For how long this has been wanted."""

    kind: Literal["claim", "copy", "left", "end"] = "claim"
    origin: Claim = 0
    """The claim that it began with, which tells it from another of the same name; 0: that is not known."""

    ended: Claim = 0
    """The origin of another of the same name that is over, as another store knows."""

    done: Places = []
    """Where it is not done with all before its place: from here on it is owed all again, should it end."""

    claim_age_ms: Age = -1
    """For how long the session that claims it has followed; -1: it comes now."""

    ended_age_ms: Age = -1
    """How long ago the other one ended, if who follows has begun since and goes on as the next; -1: it begins anew."""

    joined: list[Pubend] = []
    """Of these streams it has had all that there was, by its broker. Other places are what a client says."""


class Hold(_Message, frozen=True, tag=84):
    """Up, to the source. Hold events for these names, from where they are. Answered by Held, when it is durable."""

    tree: Tree
    token: int
    holdings: Annotated[list[Holding], Meta(max_length=4096)]


class HeldFor(msgspec.Struct, frozen=True, array_like=True):
    """What a store holds for a name: from these places on; or that it has ended; or that a session has it which came
    later (taken); or nothing, for there is no store (none), or no room in it (full).
    """

    state: Literal["held", "taken", "ended", "none", "full"]
    age_ms: Age = -1
    """How long ago it began, or the last of this name ended, as this store knows it."""

    is_new: bool = False
    """Has it come to this store just now?"""

    places: Places = []
    origin: Claim = 0

    lost: Places = []
    """From here to its place it lacks what the log does not have any more."""


class Held(_Message, frozen=True, tag=85):
    """Down, to the one who asked. One answer for each name."""

    tree: Tree
    token: int
    answers: Annotated[list[HeldFor], Meta(max_length=4096)]


class Progress(_Message, frozen=True, tag=86):
    """Up, to the source. All before these ticks is settled with these followers."""

    tree: Tree
    pubend: Pubend
    names: Annotated[list[FollowerName], Meta(max_length=4096)]
    claims: list[Claim]
    places: list[Place]


class TakenOver(_Message, frozen=True, tag=88):
    """Down, to whoever has this older claim on a follower: somebody else follows by its name now, or has ended it."""

    tree: Tree
    name: FollowerName
    claim: Claim
    is_ended: bool = False
    origin: Claim = 0
    """Of the one that has ended, if that is known."""

    age_ms: Age = -1
    """How long ago it ended; -1: now."""


class Stop(_Message, frozen=True, tag=89):
    """Up. What I asked for by this number is no longer wanted: I ask for it anew, or not at all."""

    tree: Tree
    number: Annotated[int, Meta(ge=0, lt=2**32)]


StreamMessage = (
    Follow
    | Begun
    | Unfollow
    | Gap
    | Superseded
    | Pace
    | Nack
    | Replay
    | Queried
    | Alerted
    | Hold
    | Held
    | Progress
    | TakenOver
    | Stop
)
