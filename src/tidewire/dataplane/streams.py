"""What an engine does for guaranteed events: into the log, along the streams in doubt-free order, and again for whoever
lacks some.

A *pubend* is an ordered, durable stream of events at the broker that hosts its publishers. Every event in it has a
*tick*; the ticks between two events are silent. Elsewhere a tick is unknown until it is heard of (``delivery/``).

How a guaranteed event travels:

- GUARANTEE from a client that may publish is checked as PUBLISH is. An event that the pubend of this publisher has
  already, by its sequence, is only receipted again. Any other one gets a tick and goes into the log.
- When the log has become durable (``committed``), the publisher gets a RECEIPT, and the event goes its way: once to
  every local subscriber that wants it (DELIVER), and as STREAM to every neighbour with a matching route in our tree.
- STREAM says what is true of ``first .. tick`` in a stream: silent up to the tick, and an event at the tick, or none
  (silence), or they are all lost. It is taken only from the parent in its tree. Silence is believed from
  the tick on that ``trust`` says: what was silent under fewer routes may not be silent under ours.
- What is new goes on to every neighbour with routes in that tree: the event to those who want it; to the others these
  ticks are silent, which they hear with the next event, or with the next silence that is told. What is old goes only
  to neighbours that have asked for it (``answer``).
- Local subscribers get the events of a stream that is *attended* in the order of their ticks, none before the horizon,
  which is the first tick that is unknown. What comes beyond the receive window ahead of the horizon is ignored.
- STREAM frames never make anyone wait. Each stream has its own queue in every link, and they are served in turn; one
  that finds no room is thrown away, and asked for again by whoever lacks it.

*Followers* are subscriptions that are owed every event, one place per pubend: the next tick that is owed. A follower
is *joined* while it is fed with the stream; one whose connection has no room falls *behind*, and is fed by a *replay*
from its place on, until it has reached the horizon, and joins. A replay for a neighbour travels as RECOVER.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeGuard

import msgspec

from tidewire.dataplane.log import Log
from tidewire.dataplane.protocol import Engine, Received
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId

WINDOW_TICKS_MAX: Final = 10_000 << 20
"""The receive window: 10 s of a stream (gryphon §1.2)."""

CACHE_BYTES_MAX: Final = 8 << 20
"""Of a stream, at a broker that does not host it: what waits ahead of the horizon, and what is kept behind it."""

Range = tuple[Tick, Tick]
"""From the first tick to the one behind the last."""


class StreamState(msgspec.Struct, frozen=True):
    """How a stream stands at this broker."""

    pubend: PubendId
    tree: TreeId | None
    """The tree that it came by last; None: it is hosted here."""

    heard: Tick
    """Beyond the last tick that was heard of."""

    horizon: Tick | None
    """The first tick that is unknown; None: it is not attended."""

    cached: Tick
    """From here on it can be replayed from here, without a hole up to the horizon."""

    ignored: Tick
    """Beyond the last tick that was ignored because the window did not reach it; 0: none was."""

    events: int = 0
    """Hosted here: taken into it, in this life and before."""

    is_awaited: bool = False
    """Hosted here: somebody waits for it to take more."""

    released: Tick = Tick(0)
    """Hosted here: what is below is no longer kept."""

    kept_bytes: int = 0
    """Of events, ahead of the horizon and behind it. What is hosted here is in the log, and not kept beside it."""


class StreamEngine(Engine, Protocol):
    """An engine with streams."""

    # -- the host of a stream ------------------------------------------------------------------------------------------

    def host(self, log: Log, pubends: Sequence[PubendId], *, unix_offset_ns: int, now_ns: Nanoseconds) -> None:
        """Guaranteed events that are published here go into this log, each publisher's to one of these pubends.

        Until then a GUARANTEE is refused. ``unix_offset_ns``: the calendar less our clock.
        """

    def committed(self, *, now_ns: Nanoseconds) -> Received:
        """The log has become durable further: receipts, and the events go their way."""

    def silence(self, pubend: PubendId, *, now_ns: Nanoseconds) -> Received:
        """Tell all who want something of our tree that the pubend is silent up to now."""

    def limit(self, pubend: PubendId, events_s: float | None, *, now_ns: Nanoseconds) -> None:
        """So many a second are taken into this pubend; whoever brings more is *blocked*. None, and at first: all."""

    def heads(self) -> list[tuple[PubendId, Tick]]:
        """Of each pubend here: the first tick that is not yet told."""

    # -- streams that come ---------------------------------------------------------------------------------------------

    def trust(self, tree: TreeId, places: Sequence[tuple[PubendId, Tick]], *, is_all: bool) -> None:
        """Our routes stand on the whole way: from these ticks on silence in this tree is silence for us.

        ``is_all``: for all routes that the parent has been told of, and not only for those of a while ago.
        """

    def widen(self, tree: TreeId) -> None:
        """The parent is being told of more routes: until the next ``trust``, silence is not proven for all of them.

        For what is owed already it is. Who asks for older ticks from now on is sent on to where more is known.
        """

    def attend(self, pubend: PubendId, place: Tick | None) -> Received:
        """Local subscribers are owed this stream from this tick on; None: nobody is."""

    def streams(self) -> list[StreamState]:
        """All that are known here, those of ``host`` first."""

    def doubts(self, pubend: PubendId, *, end: Tick, count_max: int = 64) -> list[Range]:
        """The unknown ticks from the horizon up to ``end``, or to what was heard of."""

    # -- asking and answering ------------------------------------------------------------------------------------------

    def answer(self, conn: Conn, tree: TreeId, pubend: PubendId, ranges: Sequence[Range]) -> list[Range]:
        """A neighbour lacks these ticks: what is known here is told (by ``serve``), the rest when it comes.

        The rest is the answer: it has to be asked for.
        """

    def replay(
        self, replay: int, conn: Conn, number: int, pubend: PubendId, place: Tick, *, wanted: bytes, bytes_max: int
    ) -> None:
        """Tell a neighbour what matches, from this tick on, as RECOVER with its number for it, up to so many bytes.

        ``replay`` is our name for it, one of all replays here.
        """

    def catch_up(self, replay: int, conn: Conn, number: int, pubend: PubendId) -> None:
        """Tell a follower what it is owed, from what is here. It joins at the horizon."""

    def relay(self, link: Conn, replay: int, conn: Conn, number: int, pubend: PubendId) -> None:
        """RECOVER with this name from this neighbour goes on to that connection: a neighbour, or a follower."""

    def end_replay(self, replay: int) -> None:
        """It is no longer wanted, and neither is what comes by that name. One that is over ends by itself."""

    def stop_replay(self, conn: Conn, number: int) -> tuple[Conn, int] | None:
        """A neighbour no longer wants what it asked for by this number; if it comes by us: from whom, by which name."""

    def serve(self, *, now_ns: Nanoseconds) -> Received:
        """Go on with answers and replays, each one in turn, a piece at a time; not all at once if there are many."""

    @property
    def is_serving(self) -> bool:
        """Is there something to serve that has room to go to?"""

    # -- followers -----------------------------------------------------------------------------------------------------

    def follow(self, conn: Conn, number: int) -> None:
        """This subscription is a follower: of guaranteed events it gets only what ``owe`` says."""

    def owe(
        self, conn: Conn, number: int, pubend: PubendId, place: Tick, *, sound: Tick, settled: Tick | None = None
    ) -> None:
        """It is owed this stream from here on, and is behind. From ``sound`` on the stream has all that it wants.

        What is between ``settled`` and this place it has got already, and is not done with; None: there is nothing.
        """

    def taken(self) -> list[tuple[Conn, int, PubendId, Tick]]:
        """The followers that have taken more since this was last asked: all before this tick is settled with them."""


def has_streams(engine: Engine) -> TypeGuard[StreamEngine]:
    """Can this engine have streams? The one for flows of equal events has none."""
    return hasattr(engine, "host")
