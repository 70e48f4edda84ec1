"""What happens to the streams of a broker, and what it wants done with them (``events.py``, ``effects.py``)."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidewire.dataplane.stream_news import StreamNews
from tidewire.dataplane.streams import Range, StreamState
from tidewire.model.ids import Conn, PubendId, Tick, TreeId

# -- what happens ------------------------------------------------------------------------------------------------------


class StreamsSeen(msgspec.Struct, frozen=True):
    """How the streams stand. It is looked at now and then, and when one of them has become doubtful."""

    states: list[StreamState]


class StreamsTold(msgspec.Struct, frozen=True):
    """What the data plane has to tell of streams."""

    news: StreamNews


class Doubted(msgspec.Struct, frozen=True):
    """What is unknown of a stream that is attended, as far as may be asked for now."""

    pubend: PubendId
    ranges: list[Range]


class Lacking(msgspec.Struct, frozen=True):
    """Neighbours lack these ticks, and they are not known here."""

    tree: TreeId
    pubend: PubendId
    ranges: list[Range]


class FollowersTook(msgspec.Struct, frozen=True):
    """All before these ticks is settled with these followers."""

    taken: list[tuple[Conn, int, PubendId, Tick]]


class Kept(msgspec.Struct, frozen=True):
    """All that was to be kept up to this number is durable."""

    number: int


class Unwanted(msgspec.Struct, frozen=True):
    """What we asked for by this name, for a neighbour, is no longer wanted."""

    tree: TreeId
    number: int


class LogLoss(msgspec.Struct, frozen=True):
    """Ticks of a pubend that were told once and are not in its log, both included."""

    pubend: PubendId
    first: Tick
    last: Tick
    found_ns: int
    """When that was found, since 1970; 0: a reader met it while the log was open."""

    why: Literal["damaged", "younger", "said"] = "damaged"
    """Younger: the log is a new one, or an older copy: a broker has told a follower more. Said: followers say so."""

    names: int = 0
    """Said: how many of them."""


class LogSeen(msgspec.Struct, frozen=True):
    """How the log stands. It is looked at now and then."""

    trouble: str
    """full, failed, or none of it: then it takes events, or soon will."""

    why: str
    disk_bytes: int
    firsts: list[tuple[PubendId, Tick]]
    """The first event of each pubend that is still there."""

    losses: list[LogLoss] = []
    """What should be there, and cannot be read."""


StreamEvent = StreamsSeen | StreamsTold | Doubted | Lacking | FollowersTook | Kept | Unwanted | LogSeen

# -- what is to be done ------------------------------------------------------------------------------------------------


class Attend(msgspec.Struct, frozen=True):
    """Subscribers here are owed this stream from this tick on; None: nobody is."""

    pubend: PubendId
    place: Tick | None


class AnswerNack(msgspec.Struct, frozen=True):
    """A neighbour lacks these ticks. What is not known here comes back as ``Lacking``."""

    conn: Conn
    tree: TreeId
    pubend: PubendId
    ranges: list[Range]


class StartReplay(msgspec.Struct, frozen=True):
    """Tell a neighbour what matches, from this tick on."""

    replay: int
    conn: Conn
    number: int
    pubend: PubendId
    place: Tick
    wanted: bytes
    bytes_max: int


class CatchUp(msgspec.Struct, frozen=True):
    """Tell a follower what it is owed, from what is here."""

    replay: int
    conn: Conn
    number: int
    pubend: PubendId


class RelayReplay(msgspec.Struct, frozen=True):
    """What comes by this name from there goes on to that connection."""

    link: Conn
    replay: int
    conn: Conn
    number: int
    pubend: PubendId


class EndReplay(msgspec.Struct, frozen=True):
    """It is no longer wanted."""

    replay: int


class StopReplay(msgspec.Struct, frozen=True):
    """A neighbour no longer wants what it asked for by this number. If it comes by us, ``Unwanted`` follows."""

    conn: Conn
    number: int
    tree: TreeId


class MakeFollower(msgspec.Struct, frozen=True):
    """This subscription, which comes next, is a follower."""

    conn: Conn
    number: int


class Owe(msgspec.Struct, frozen=True):
    """A follower is owed a stream from this tick on; from ``sound`` on the stream has all that it wants.

    It is done with what is before ``settled``, and has got what is between.
    """

    conn: Conn
    number: int
    pubend: PubendId
    place: Tick
    sound: Tick
    settled: Tick


class TellSilence(msgspec.Struct, frozen=True):
    """Nothing has been published here for a while: say so."""

    pubend: PubendId


class LimitPubend(msgspec.Struct, frozen=True):
    """So many events a second are taken into this pubend; None: as many as come."""

    pubend: PubendId
    events_s: float | None


class Paced(msgspec.Struct, frozen=True):
    """Those who publish into this pubend hear how fast they may, and why; the core knows who they are."""

    pubend: PubendId
    events_s: float | None
    reason: str


class Keep(msgspec.Struct, frozen=True):
    """These are to be durable, under these keys (None: no longer); ``Kept`` says when they are."""

    number: int
    items: list[tuple[bytes, bytes | None]]


class ReleaseTicks(msgspec.Struct, frozen=True):
    """What is below this tick need no longer be kept."""

    pubend: PubendId
    tick: Tick


StreamEffect = (
    Attend
    | AnswerNack
    | StartReplay
    | CatchUp
    | RelayReplay
    | EndReplay
    | StopReplay
    | MakeFollower
    | Owe
    | TellSilence
    | LimitPubend
    | Paced
    | Keep
    | ReleaseTicks
)
