"""What can happen to a client session, and what it wants done."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidewire.model.errors import TidewireError
from tidewire.model.ids import Conn, PubendId, Tick
from tidewire.model.messages import Use
from tidewire.model.traffic import NO_TERMS, Terms
from tidewire.wire.connections import Close, Closed, Dial, DialFailed, Heard, Opened, Send, SetClock, TimePassed
from tidewire.wire.frames import Delivered


class Wanted(msgspec.Struct, frozen=True):
    """The application will publish, or subscribe: connect for it."""

    use: Use


class Connect(msgspec.Struct, frozen=True):
    """Reach a broker, whatever it is for. Answered by Finished with this token."""

    token: int


class SubscribeTo(msgspec.Struct, frozen=True):
    """The application subscribes; a number in use gets the new filter. Answered by Finished with this token."""

    token: int
    numbers: list[int]
    filters: list[bytes]
    terms: list[Terms] = []
    """None, or one for each filter."""


class UnsubscribeFrom(msgspec.Struct, frozen=True):
    """The application no longer wants these."""

    token: int
    numbers: list[int]


class AdvertiseThat(msgspec.Struct, frozen=True):
    """The application will publish this."""

    token: int
    numbers: list[int]
    filters: list[bytes]
    terms: list[Terms] = []
    """None, or one for each filter."""


class UnadvertiseThat(msgspec.Struct, frozen=True):
    """The application will no longer publish this."""

    token: int
    numbers: list[int]


class FlushAll(msgspec.Struct, frozen=True):
    """The application wants to know when all that it published has been handled."""

    token: int


class PublishSoon(msgspec.Struct, frozen=True):
    """The application has something to publish, and no connection for it. Answered by Finished when there is one."""

    token: int


class Guarantee(msgspec.Struct, frozen=True):
    """The application publishes an encoded event that must not be lost. Answered by Finished when it is durable."""

    token: int
    event: bytes
    born_ns: int


class Leave(msgspec.Struct, frozen=True):
    """The application ends the session: of each guaranteed event without a receipt it is said how it stands."""


class Receipted(msgspec.Struct, frozen=True):
    """A broker says that all guaranteed events up to this one are durable."""

    conn: Conn
    sequence: int


class FollowAs(msgspec.Struct, frozen=True):
    """The application follows by name; ``since``, ``places`` and ``done`` as in ``Follow``. Answered by Finished."""

    token: int
    number: int
    wanted: bytes
    name: str
    since: int = -1
    places: list[tuple[PubendId, Tick]] = []
    done: list[tuple[PubendId, Tick]] = []
    terms: Terms = NO_TERMS


class UnfollowFor(msgspec.Struct, frozen=True):
    """The application will never follow by this name again: nothing is to be held for it."""

    token: int
    number: int
    name: str


class OpenChannelFor(msgspec.Struct, frozen=True):
    """The application subscribes to a channel, as in ``OpenChannel``. Answered by Finished."""

    token: int
    number: int
    channel: str
    given: bytes
    name: str = ""


class CloseChannelFor(msgspec.Struct, frozen=True):
    """The application does not want to hear of it any more; with ``is_final``, its name never again."""

    token: int
    number: int
    is_final: bool


class Took(msgspec.Struct, frozen=True):
    """By subscription: the application is done with what a channel has told, up to this tick."""

    taken: Mapping[int, Tick]


class Published(msgspec.Struct, frozen=True):
    """The driver has sent so many events on the publishing connection."""

    events: int


class Unread(msgspec.Struct, frozen=True):
    """The driver does not read from this connection at present: that nothing comes does not mean anything."""

    conn: Conn


class Came(msgspec.Struct, frozen=True):
    """An event has come."""

    conn: Conn
    delivered: Delivered


ClientEvent = (
    Wanted
    | Connect
    | SubscribeTo
    | UnsubscribeFrom
    | AdvertiseThat
    | UnadvertiseThat
    | FlushAll
    | PublishSoon
    | Guarantee
    | Leave
    | Receipted
    | FollowAs
    | UnfollowFor
    | OpenChannelFor
    | CloseChannelFor
    | Took
    | Published
    | Opened
    | DialFailed
    | Closed
    | Heard
    | Unread
    | Came
    | TimePassed
)


class Finished(msgspec.Struct, frozen=True):
    """A request of the application is done, or failed."""

    token: int
    error: TidewireError | None = None


class HandOver(msgspec.Struct, frozen=True):
    """Events for the application, in order."""

    events: list[Delivered]
    conn: Conn


class PublishOn(msgspec.Struct, frozen=True):
    """Events may be published on this connection from now on; None: not at present."""

    conn: Conn | None


class SendFrames(msgspec.Struct, frozen=True):
    """Send these frames with events, in order, behind what was sent before."""

    conn: Conn
    frames: list[bytes]


class Abort(msgspec.Struct, frozen=True):
    """End a connection at once: its broker is silent, and would never take what waits to be sent."""

    conn: Conn


class Tell(msgspec.Struct, frozen=True):
    """Something that the application may want to know: events lost or refused, a move, a lost connection."""

    what: str
    facts: dict[str, str | int | float]
    sequences: tuple[int, ...] = ()
    """The events of ours that it is about, if they are known one by one."""


class Notify(msgspec.Struct, frozen=True):
    """A channel tells the application something: so many rows with these columns, still packed."""

    number: int
    tick: Tick
    columns: tuple[str, ...]
    rows: int
    data: bytes


class Ended(msgspec.Struct, frozen=True):
    """A subscription has ended, and not because the application wanted it to."""

    number: int
    error: TidewireError


class Over(msgspec.Struct, frozen=True):
    """No broker will have this session, now or later: it has shown a token that is not good, for instance."""

    error: TidewireError


ConnectionEffect = Send | SendFrames | Close | Abort | SetClock
ClientEffect = ConnectionEffect | Dial | Finished | HandOver | PublishOn | Notify | Tell | Ended | Over
