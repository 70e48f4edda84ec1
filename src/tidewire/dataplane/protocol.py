"""What an engine is: bytes of connections in, bytes for connections out, by the routes that a machine has installed.

The broker machine decides about routes; the engine moves events and never asks. It sees frames (``docs/reference/wire.md``):
those with events it handles, those with messages it hands over *in their order*: ``receive`` stops at a message, and
goes on with ``resume`` when the machine has done its part.

How an event travels:

- PUBLISH from a client that may publish: checked against what it advertised, stamped with publisher, sequence and this
  broker's own tree, given the tree's next position.
- FORWARD from a neighbour: taken only from the parent in its tree, and only beyond the last position.
- Either then goes once to every local subscriber that wants it (DELIVER, with its numbers), and once to every
  neighbour with a matching route in that tree, never back to where it came from (FORWARD).

Every connection has two queues to it, control and data; control goes first, between frames. The data queue has a
bound, and what happens at the bound is its policy:

- ``wait``: an event for it is not taken from its source until there is room (the source is *blocked*);
- ``drop``: the oldest events in it are thrown away, and counted; messages stay;
- ``end``: the connection is reported as overrun, to be ended by the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec

from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.model.messages import Lane

WhenFull = Literal["wait", "drop", "end"]
State = Literal["idle", "busy", "blocked", "broken"]
"""After a call. idle: all that has come is handled; busy: stopped at a message or at the end of its time, call resume;
blocked: waits for room at another connection; broken: what came is not the protocol, end the connection."""

QUEUE_BYTES_MAX: Final = 8 << 20


class Refusal(msgspec.Struct, frozen=True):
    """Events of a publisher that were not taken."""

    sequences: list[int]
    further: int
    code: str
    reason: str


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
    """Connections with the policy ``end`` that are beyond their bound."""


class Traffic(msgspec.Struct, frozen=True):
    """What has passed on a connection since it was opened."""

    events_in: int = 0
    bytes_in: int = 0
    events_out: int = 0
    bytes_out: int = 0
    """Into its queue: load is measured where it arrives (peer PIE1)."""

    dropped: int = 0
    queued_bytes: int = 0
    stray: int = 0
    """Events that came by a way they should not: not from the parent, of an unknown tree, or a second time."""


class Work(msgspec.Struct, frozen=True):
    """What the engine has done since it began."""

    events: int = 0
    matches: int = 0
    deliveries: int = 0
    forwards: int = 0
    refused: int = 0
    busy_ns: int = 0
    """Time spent on events: reading, matching, grouping, queueing."""

    subscriptions: int = 0
    memory_bytes: int = 0


class Engine(Protocol):
    """One broker's data plane. For one thread."""

    def open(self, conn: Conn, *, is_link: bool, when_full: WhenFull, queue_bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """A connection begins; the number must not be in use."""

    def close(self, conn: Conn) -> None:
        """It ends: its routes, queues and what it still had to say are forgotten."""

    def may_publish(self, conn: Conn, *, publisher: int, next_sequence: int) -> None:
        """From now on PUBLISH is taken from this client, within what it is allowed."""

    def allow(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher advertised; None: anything."""

    def set_clock(self, conn: Conn, *, offset_ns: int, error_us: int) -> None:
        """To be added to times that come from there: our clock less theirs, and how far off that may be."""

    def own_tree(self, tree: TreeId) -> None:
        """The tree of events that are published here."""

    def set_parent(self, tree: TreeId, parent: Conn | None) -> None:
        """Events of this tree come from there (None: from nowhere at present). Its positions are remembered."""

    def forget_tree(self, tree: TreeId) -> None:
        """The tree is gone with its routes, and its positions."""

    def add_routes(self, conn: Conn, numbers: Sequence[int], filters: Sequence[bytes], tree: TreeId | None) -> None:
        """Send there what matches: of this tree (a neighbour), or of all (None: a local subscriber).

        A number that is in use gets the new filter, with no event in between. All or nothing: if a filter cannot be
        taken, it raises and nothing has changed.
        """

    def remove_routes(self, conn: Conn, numbers: Sequence[int], tree: TreeId | None) -> None:
        """No longer; UnknownSubscription if one is not there."""

    def receive(self, conn: Conn, data: bytes, *, now_ns: Nanoseconds) -> Received:
        """Bytes have come."""

    def resume(self, conn: Conn, *, now_ns: Nanoseconds) -> Received:
        """Go on with what has come before."""

    def send(self, conn: Conn, frame: bytes, lane: Lane) -> bool:
        """Queue a frame of the node itself; true if there was nothing to send before."""

    def output(self, conn: Conn, *, bytes_max: int) -> bytes:
        """Take what is to be sent next: control first; a frame once begun is finished first. Empty: nothing waits."""

    def unblocked(self) -> list[Conn]:
        """The connections that were blocked and need no longer be: call resume for each."""

    def traffic(self, conn: Conn) -> Traffic:
        """What has passed on this connection."""

    def work(self) -> Work:
        """What has been done."""
