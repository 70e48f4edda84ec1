"""What an engine in Python knows of streams, of who lacks some of them, and of followers."""

from __future__ import annotations

from bisect import bisect_left, insort

import msgspec

from tidewire.delivery.spans import Spans
from tidewire.model.events import Event
from tidewire.model.filters import Filter
from tidewire.model.ids import Conn, PubendId, Tick, TreeId

NEVER = Tick(2**64 - 1)
"""Behind every tick."""


class Told(msgspec.Struct, frozen=True):
    """An event of a stream, stamped, with its time on our clock."""

    event: Event
    encoded: bytes
    born_ns: int
    error_us: int


class Said(msgspec.Struct, frozen=True):
    """What is said of ``first .. tick`` in a stream: as in the frame (``streams.py``)."""

    tree: TreeId
    kind: int
    first: int
    tick: int
    told: Told | None = None


class Child:
    """A neighbour that gets a stream from here."""

    def __init__(self) -> None:
        self.first = self.end = 0
        """Ticks that are silent for it, and of which it has not been told."""
        self.curious = Spans()
        """What it lacks and we do not know."""


class Stream:
    """A stream at a broker. At its host everything up to ``heard`` is known, and events are in the log."""

    def __init__(self, pubend: PubendId, *, is_hosted: bool) -> None:
        self.pubend = pubend
        self.is_hosted = is_hosted
        self.tree: TreeId | None = None
        self.heard = Tick(0)
        self.horizon: Tick | None = None
        self.ignored = Tick(0)
        self.is_doubtful = False
        self.sound = NEVER
        """From here on silence holds for all routes that we have told."""
        self.known = Spans()
        self.lost = Spans()
        self.low = Tick(0)
        """What is below is forgotten."""
        self.bytes = 0
        self.children: dict[Conn, Child] = {}
        self._events: dict[int, Told] = {}
        self._ticks: list[int] = []

    def keep(self, tick: int, told: Told) -> None:
        """Remember an event."""
        if tick not in self._events:
            self._events[tick] = told
            insort(self._ticks, tick)
            self.bytes += len(told.encoded)

    def events(self, first: int, end: int) -> list[tuple[Tick, Told]]:
        """Those that are remembered in this range, by tick."""
        ticks = self._ticks[bisect_left(self._ticks, first) : bisect_left(self._ticks, end)]
        return [(Tick(tick), self._events[tick]) for tick in ticks]

    def forget(self, bytes_max: int) -> None:
        """The oldest go, as far as they are behind the horizon, until so many bytes are left."""
        while self.bytes > bytes_max and self._ticks:
            tick = self._ticks[0]
            if self.horizon is not None and tick >= self.horizon:
                return
            self.bytes -= len(self._events.pop(tick).encoded)
            del self._ticks[0]
            self.low = Tick(tick + 1)
            self.known.remove(0, self.low)
            self.lost.remove(0, self.low)

    def begin(self, place: Tick) -> None:
        """What is before this tick will never be asked for."""
        if place > self.low and not self._ticks:
            self.low = place
            self.known.remove(0, place)

    @property
    def cached(self) -> Tick:
        """From here on it can be replayed without a hole, up to the horizon."""
        if self.is_hosted:
            return Tick(0)
        end = self.heard if self.horizon is None else self.horizon
        runs = self.known.within(self.low, end)
        start = runs[-1][0] if runs and runs[-1][1] == end else end
        return max(start, min(self.sound, end))


class Place:
    """Where a follower is in a stream."""

    def __init__(self, place: Tick, sound: Tick, settled: Tick) -> None:
        self.next = place
        """The next tick that is owed, while it is behind; when it has joined, the first that it was owed then."""
        self.sound = sound
        """From here on the stream has all that it wants."""
        self.is_joined = False
        self.sent = place if settled < place else Tick(0)
        """Beyond the last event that it was sent, here or elsewhere."""
        self.taken = settled if settled < place else Tick(0)
        self.told = Tick(0)
        """What was last said to be settled."""

    def settled(self, horizon: Tick | None) -> Tick:
        """All before this tick need not be told again."""
        if self.taken < self.sent:
            return self.taken
        return horizon if self.is_joined and horizon is not None else self.next


class Follower:
    """A subscription that is owed everything."""

    def __init__(self, conn: Conn, number: int) -> None:
        self.conn = conn
        self.number = number
        self.wanted: Filter | None = None
        self.places: dict[PubendId, Place] = {}


class Job(msgspec.Struct):
    """Something to be told again: to a neighbour that lacks it, or to one who is behind."""

    replay: int
    conn: Conn
    number: int
    pubend: PubendId
    place: Tick
    told: Tick
    """Up to here the other side has been told."""

    end: Tick = NEVER
    wanted: Filter | None = None
    tree: TreeId | None = None
    """Of an answer: as the routes of this tree want it."""

    is_late: bool = False
    """Of an answer: it has come, and found no room."""

    bytes_left: int = 1 << 62
    frame_bytes: int = 0
    """To a follower: of what found no room."""
