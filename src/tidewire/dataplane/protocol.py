"""What an engine is: bytes of connections in, bytes for connections out, by the routes that a machine has installed.

The broker machine decides about routes; the engine moves events and never asks. It sees frames
(``docs/reference/wire.md``): those with events it handles, those with messages it hands over *in their order*:
``receive`` stops at a message, and goes on with ``resume`` when the machine has done its part.

How an event travels:

- PUBLISH from a client that may publish: checked, also against what it is permitted and what it advertised; stamped
  with publisher, sequence and this broker's own tree; given the tree's next position, the first being 1. An event that
  is damaged, that has a stamp already, that is too large for a frame, of a class that is reserved for brokers, or that
  is not permitted or not advertised is *refused*: alone, by its sequence.
- FORWARD from a neighbour: taken only from the parent in its tree, and only beyond what had come when it became the
  parent; else it is *stray*. A damaged one is counted. Neither does anything else.
- Either then goes once to every local subscriber that wants it (DELIVER, with its numbers, ascending), the publisher
  among them if it subscribed, and once to every neighbour with a matching route in that tree, never back to where it
  came from (FORWARD).

The frames of a connection are handled in their order, and what they cause has that order in every queue.

An event may have a *deadline*: its birth and the ``ttl_ns`` of its envelope. In a data queue the earliest deadline is
served first, as far as order allows: nothing overtakes a message, nor an event of the same publisher, or of the same
stream if it is guaranteed. So up to the first message of the queue the next frame is the first one of the line in which
the earliest deadline stands (of equal ones, that which came first); receipts go ahead of them. Where no deadline is,
the first one is next. A best-effort event that is past its deadline is thrown away when it would be queued (for
everyone), and when its deadline is the earliest of a queue and something is to be sent, or has no room; it counts as
*expired*. What has been put in order to be sent stays so.

Every connection has two queues to it, control and data; control goes first, between frames. The data queue has a
bound in bytes. A frame with an event fits if the queue then is within its bound, or if it was empty. What happens
to one that does not fit is the policy of the connection:

- ``wait``: the event is not taken from its source until there is room (the source is *blocked*), and goes nowhere else
  before that either;
- ``drop``: the oldest events in the queue are thrown away until, with the new one, three quarters of the bound are
  used; messages stay, and so does a frame that is sent in part. If these leave no room, the new event is thrown away;
- ``end``: the event is thrown away, and the connection is overrun.

Messages are always queued. A connection is *overrun* too, whatever its policy, when messages fill its control queue
beyond the bound, or its data queue beyond twice the bound. An overrun connection is reported once, to be ended by the
driver, and gets no more events. Whatever is thrown away is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec

from tidewire.dataplane.stream_news import StreamNews
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.model.messages import Lane
from tidewire.wire.frames import FRAME_BYTES_MAX

WhenFull = Literal["wait", "drop", "end"]
State = Literal["idle", "busy", "blocked", "broken"]
"""After a call. idle: all that has come is handled, but for a frame that is not complete; busy: stopped at a message
or at the end of its time, call resume; blocked: waits for room at another connection, and keeps what comes; broken:
what came is not the protocol, end the connection: nothing from it is handled any more."""

QUEUE_BYTES_MAX: Final = 8 << 20
REFUSED_LISTED_MAX: Final = 64
ERROR_UNKNOWN_US: Final = 2**32 - 1
"""Of a time that came through a clock whose offset is not known. Sums of errors do not go beyond it."""


class TrafficClass(msgspec.Struct, frozen=True):
    """What a published event gets if this is the first class whose filter it matches, as far as it carries none."""

    number: int
    filter: bytes
    """Encoded."""

    ttl_ns: int | None = None
    value: float | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Events of a publisher that were not taken; one per code and call."""

    sequences: list[int]
    """The first of them."""

    further: int
    code: str
    """event-damaged, event-too-large, class-reserved, not-permitted, event-not-advertised; guaranteed: no-store,
    store-failed."""

    reason: str
    """Of the first."""

    is_guaranteed: bool = False
    """The sequences are those of GUARANTEE frames."""


class Received(msgspec.Struct, frozen=True):
    """What came of a call, beside the events that are now in the queues."""

    state: State
    message: bytes | None = None
    """The payload of the MESSAGE frame it stopped at."""

    reason: str = ""
    """Why it is broken."""

    refusals: list[Refusal] = []
    ready: list[Conn] = []
    """Connections with something to send that had nothing before the call."""

    overrun: list[Conn] = []
    """Connections that are overrun, since the last call that said so."""

    stalled: list[Conn] = []
    """Only of connections with a socket (``kernel.py``): it is full; flush when it can be written."""

    ended: list[tuple[Conn, int]] = []
    """Only of connections with a socket: it has ended, by the other side (0) or by this error number."""

    news: StreamNews | None = None
    """Of streams (``streams.py``); None: nothing."""


class Traffic(msgspec.Struct, frozen=True):
    """What has passed on a connection since it was opened."""

    events_in: int = 0
    """Handled, in whatever way."""

    bytes_in: int = 0
    events_out: int = 0
    bytes_out: int = 0
    """Into its queues, messages too: load is measured where it arrives (peer PIE1)."""

    dropped: int = 0
    """Events for it that were thrown away."""

    queued_bytes: int = 0
    stray: int = 0
    """Events that came by a way they should not: not from the parent, of an unknown tree, or a second time."""

    damaged: int = 0
    """Events from a neighbour that are none, or that have no tree."""

    expired: int = 0
    """Events for it that were past their deadline, and thrown away."""


class Work(msgspec.Struct, frozen=True):
    """What the engine has done since it began."""

    events: int = 0
    """Taken."""

    matches: int = 0
    """Filters that were found to match, by the engine's own count: it may know an answer before it has found all."""

    deliveries: int = 0
    forwards: int = 0
    """Into queues."""

    refused: int = 0
    busy_ns: int = 0
    """Time spent on events: reading, matching, grouping, queueing."""

    subscriptions: int = 0
    memory_bytes: int = 0


class Samples(msgspec.Struct, frozen=True):
    """Events that were kept, and which local subscribers want them (peer §7.1)."""

    events: list[bytes]
    """Encoded, the first one first; whether with their stamp is the engine's business."""

    wanted: dict[Conn, int]
    """By connection, of those that want some, ascending: one bit for each event, the lowest for the first."""


class Engine(Protocol):
    """One broker's data plane. For one thread."""

    def open(self, conn: Conn, *, is_link: bool, when_full: WhenFull, queue_bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """A connection begins; UsageError if the number is in use."""

    def close(self, conn: Conn) -> None:
        """It ends: its routes, queues and what it still had to say are forgotten; it is no tree's parent any more."""

    def make_link(self, conn: Conn, *, queue_bytes_max: int, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        """It leads to a neighbour: FORWARD is taken from it, and it has the policy ``wait`` with this bound.

        The neighbour takes frames up to ``frame_bytes_max``. An event that does not fit is not sent there: it counts as
        dropped, and its tick, if it is guaranteed, is told as lost. From there frames are taken up to the usual bound
        also where clients have a smaller one: what brokers say to each other is made for that.
        """

    def may_publish(self, conn: Conn, *, publisher: int, next_sequence: int) -> None:
        """From now on PUBLISH is taken from this client, within what it is allowed. Needs a tree of our own.

        Until then a PUBLISH breaks its connection.
        """

    def permit(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher's identity may publish: an event must match one of them; None, and at first: anything.

        If it raises, nothing has changed.
        """

    def allow(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher advertised; None, and at first: anything. If it raises, nothing has changed.

        An event must match one of them, and have no attribute that its conjunction does not name (peer L4).
        """

    def set_clock(self, conn: Conn, *, offset_ns: int, error_us: int) -> None:
        """To be added to times that come from there: our clock less theirs, and how far off that may be.

        Until then an event from there counts as born when it came, with the error ``ERROR_UNKNOWN_US``.
        """

    def set_classes(self, classes: Sequence[TrafficClass]) -> None:
        """What events that are published from now on get, in the order in which their filters are asked.

        If it raises, nothing has changed. An event that does not fit into a frame with it is refused.
        """

    def own_tree(self, tree: TreeId) -> None:
        """The tree of events that are published here."""

    def set_parent(self, tree: TreeId, parent: Conn | None) -> None:
        """Events of this tree come from this neighbour (None: from nowhere at present). Its positions are remembered.

        UsageError if the tree is our own.
        """

    def forget_tree(self, tree: TreeId) -> None:
        """The tree is gone with its routes, and its positions. UsageError if it is our own."""

    def add_routes(self, conn: Conn, numbers: Sequence[int], filters: Sequence[bytes], tree: TreeId | None) -> None:
        """Send there what matches: of this tree (a neighbour), or of all (None: a local subscriber).

        A number that is in use gets the new filter, with no event in between. All or nothing: if a filter cannot be
        taken, or a number stands twice, it raises and no route has changed.
        """

    def remove_routes(self, conn: Conn, numbers: Sequence[int], tree: TreeId | None) -> None:
        """No longer; UnknownSubscription if one is not there, and then all stay."""

    def receive(self, conn: Conn, data: bytes, *, now_ns: Nanoseconds) -> Received:
        """Bytes have come."""

    def resume(self, conn: Conn, *, now_ns: Nanoseconds) -> Received:
        """Go on with what has come before."""

    def send(self, conn: Conn, frame: bytes, lane: Lane) -> bool:
        """Queue a frame of the node itself, with a message; true if there was nothing to send before."""

    def output(self, conn: Conn, *, bytes_max: int, now_ns: Nanoseconds | None = None) -> bytes:
        """Take what is to be sent next: control first; a frame once begun is finished first. Empty: nothing waits.

        ``now_ns``: None, if it is what the engine was last told.
        """

    def unblocked(self) -> list[Conn]:
        """The connections that were blocked and need no longer be: call resume for each.

        Ask after output, flush and close. A source may go on when the queue that blocked it has drained below half of
        its bound, and has room for the event that waits.
        """

    def traffic(self, conn: Conn) -> Traffic:
        """What has passed on this connection."""

    def totals(self) -> Traffic:
        """Of all connections together, those that are closed too.

        Ask now and then: an engine may take the time to give back what connections no longer need.
        """

    def lossy(self) -> list[Conn]:
        """The connections for which events were thrown away since this was last asked; by their numbers, ascending."""

    def work(self) -> Work:
        """What has been done."""

    def sample(self, count: int) -> None:
        """Keep the next so many events that are taken; of a stream, those that are delivered, in their order.

        What was kept before is forgotten; 0: nothing is kept any more.
        """

    def samples(self) -> Samples:
        """Those that have been kept so far. Who wants them is asked now, by the routes as they are now."""
