"""What a machine has installed, and what an engine in Python says of itself: the part that such engines share.

How events move, and what a queue is, is each engine's own: ``reference.py``, ``fluid.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

import msgspec

from tidewire._kernel.codec import decode
from tidewire.dataplane.deadlines import KnownClass
from tidewire.dataplane.protocol import QUEUE_BYTES_MAX, Samples, Traffic, TrafficClass, WhenFull, Work
from tidewire.dataplane.state import Connection, Q, Routes, Tree
from tidewire.matching.protocol import DESTINATION_LIMIT
from tidewire.model.errors import UsageError, ValueOutOfRange
from tidewire.model.filters import decode_filter
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.model.messages import Lane
from tidewire.wire.frames import FRAME_BYTES_MAX, HEAD, MESSAGE


class Installed(Generic[Q]):
    """Connections with their queues, routes, trees, and counters."""

    def __init__(
        self, *, frame_bytes_max: int, make_queue: Callable[[int], Q], make_routes: Callable[[], Routes]
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._make_queue = make_queue
        self._make_routes = make_routes
        self._connections: dict[Conn, Connection[Q]] = {}
        self._clients = make_routes()
        self._samples: list[bytes] = []
        self._samples_left = 0
        self._trees: dict[TreeId, Tree] = {}
        self._own: TreeId | None = None
        self._now_ns = Nanoseconds(0)
        self._classes: list[KnownClass] = []
        self._overrun: list[Conn] = []
        self._closed = [Traffic()]
        self._events = self._matches = self._deliveries = self._forwards = self._refused = 0

    # -- what a machine installs ---------------------------------------------------------------------------------------

    def open(self, conn: Conn, *, is_link: bool, when_full: WhenFull, queue_bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """A connection begins."""
        if not 0 <= conn < DESTINATION_LIMIT:
            raise ValueOutOfRange(f"connection {conn} is not from 0 to {DESTINATION_LIMIT - 1}")
        if conn in self._connections:
            raise UsageError(f"connection {conn} is open already")
        self._connections[conn] = Connection(
            is_link=is_link, when_full=when_full, out=self._make_queue(queue_bytes_max)
        )

    def close(self, conn: Conn) -> None:
        """It ends."""
        self._closed.append(msgspec.structs.replace(self.traffic(conn), queued_bytes=0))
        self._clients.forget(conn)
        for tree in self._trees.values():
            tree.routes.forget(conn)
            if tree.parent == conn:
                tree.set_parent(None)
        del self._connections[conn]
        self._overrun = [one for one in self._overrun if one != conn]

    def _at(self, conn: Conn) -> Connection[Q]:
        if conn not in self._connections:
            raise UsageError(f"there is no connection {conn}")
        return self._connections[conn]

    def _client(self, conn: Conn) -> Connection[Q]:
        if self._at(conn).is_link:
            raise UsageError(f"connection {conn} is a neighbour's, not a client's")
        return self._connections[conn]

    def make_link(self, conn: Conn, *, queue_bytes_max: int, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        """It leads to a neighbour."""
        connection = self._at(conn)
        connection.is_link = True
        connection.when_full = "wait"
        connection.out.bytes_max = queue_bytes_max
        connection.frame_bytes_max = frame_bytes_max

    def may_publish(self, conn: Conn, *, publisher: int, next_sequence: int) -> None:
        """From now on PUBLISH is taken from this client."""
        client = self._client(conn)
        if self._own is None:
            raise UsageError("nobody can publish at a broker that has no tree of its own")
        client.publisher = publisher
        client.next_sequence = next_sequence

    def permit(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher's identity may publish."""
        self._client(conn).permitted = None if filters is None else [decode_filter(one) for one in filters]

    def allow(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher advertised."""
        self._client(conn).advertised = None if filters is None else [decode_filter(one) for one in filters]

    def set_clock(self, conn: Conn, *, offset_ns: int, error_us: int) -> None:
        """To be added to times that come from there."""
        self._at(conn).clock = offset_ns, error_us

    def set_classes(self, classes: Sequence[TrafficClass]) -> None:
        """What events that are published from now on get."""
        self._classes = [KnownClass(one, decode_filter(one.filter)) for one in classes]

    def own_tree(self, tree: TreeId) -> None:
        """The tree of events that are published here."""
        self._own = tree
        self._tree(tree).set_parent(None)

    def set_parent(self, tree: TreeId, parent: Conn | None) -> None:
        """Events of this tree come from there."""
        if tree == self._own:
            raise UsageError("a broker's own tree has no parent")
        if parent is not None and not self._at(parent).is_link:
            raise UsageError("a parent is a neighbour, not a client")
        self._tree(tree).set_parent(parent)

    def forget_tree(self, tree: TreeId) -> None:
        """The tree is gone."""
        if tree == self._own:
            raise UsageError("a broker's own tree cannot be forgotten")
        self._trees.pop(tree, None)

    def add_routes(self, conn: Conn, numbers: Sequence[int], filters: Sequence[bytes], tree: TreeId | None) -> None:
        """Send there what matches."""
        self._routes(conn, tree).add(conn, numbers, filters)

    def remove_routes(self, conn: Conn, numbers: Sequence[int], tree: TreeId | None) -> None:
        """No longer."""
        self._routes(conn, tree).remove(conn, numbers)

    def _routes(self, conn: Conn, tree: TreeId | None) -> Routes:
        if self._at(conn).is_link != (tree is not None):
            raise UsageError("a neighbour's routes are those of a tree, and a client's have none")
        return self._clients if tree is None else self._tree(tree).routes

    def _tree(self, tree: TreeId) -> Tree:
        if tree not in self._trees:
            self._trees[tree] = Tree(self._make_routes())
        return self._trees[tree]

    # -- queues and counters -------------------------------------------------------------------------------------------

    def _end(self, conn: Conn) -> None:
        if self._connections[conn].takes_events:
            self._connections[conn].takes_events = False
            self._overrun.append(conn)

    def send(self, conn: Conn, frame: bytes, lane: Lane) -> bool:
        """Queue a frame of the node itself."""
        to = self._at(conn)
        if len(frame) < HEAD.size or HEAD.unpack_from(frame) != (len(frame) - 4, MESSAGE):
            raise UsageError("a node sends whole frames, with messages in them")
        had_nothing = to.out.is_empty
        to.out.put(frame, lane)
        to.counts.bytes_out += len(frame)
        if to.out.control_bytes > to.out.bytes_max or to.out.data_bytes // 2 > to.out.bytes_max:
            self._end(conn)
        return had_nothing

    def output(self, conn: Conn, *, bytes_max: int, now_ns: Nanoseconds | None = None) -> bytes:
        """Take what is to be sent next."""
        self._now_ns = self._now_ns if now_ns is None else now_ns
        return self._at(conn).out.take(bytes_max, now_ns=self._now_ns)

    def unblocked(self) -> list[Conn]:
        """The connections that were blocked and need no longer be."""
        found = [
            conn for conn, source in self._connections.items() if source.state == "blocked" and self._has_room(source)
        ]
        for conn in found:
            self._connections[conn].state = "busy"
        return found

    def _has_room(self, source: Connection[Q]) -> bool:
        assert source.blocked_by is not None
        conn, size = source.blocked_by
        there = self._connections.get(conn)
        if there is None or not there.takes_events:
            return True
        return there.out.data_bytes <= there.out.bytes_max // 2 and there.out.fits(size)

    def traffic(self, conn: Conn) -> Traffic:
        """What has passed on this connection."""
        source = self._at(conn)
        queued = source.out.control_bytes + source.out.data_bytes + source.out.stream_bytes
        return Traffic(queued_bytes=queued, expired=source.out.expired, **msgspec.structs.asdict(source.counts))

    def totals(self) -> Traffic:
        """Of all connections together."""
        self._closed = [_sum(self._closed)]
        return _sum([*self._closed, *map(self.traffic, self._connections)])

    def lossy(self) -> list[Conn]:
        """The connections that have lost events since this was last asked."""
        found = [conn for conn, one in self._connections.items() if one.counts.dropped != one.dropped_before]
        for conn in found:
            self._connections[conn].dropped_before = self._connections[conn].counts.dropped
        return sorted(found)

    def sample(self, count: int) -> None:
        """Keep the next so many events that are taken."""
        self._samples, self._samples_left = [], count

    def _keep_samples(self, event: bytes, *, count: int = 1) -> None:
        """So many equal ones have been taken."""
        kept = min(count, self._samples_left)
        self._samples += [event] * kept
        self._samples_left -= kept

    def samples(self) -> Samples:
        """Those that were kept, and who wants them."""
        wanted: dict[Conn, int] = {}
        for number, event in enumerate(self._samples):
            for one in self._clients.match(decode(event)):
                conn = Conn(one.destination)
                wanted[conn] = wanted.get(conn, 0) | 1 << number
        return Samples(list(self._samples), dict(sorted(wanted.items())))

    def work(self) -> Work:
        """What has been done. It measures neither time nor memory."""
        routes = [self._clients, *(tree.routes for tree in self._trees.values())]
        return Work(
            events=self._events,
            matches=self._matches,
            deliveries=self._deliveries,
            forwards=self._forwards,
            refused=self._refused,
            subscriptions=sum(len(one.matcher) for one in routes),
        )


def _sum(parts: Sequence[Traffic]) -> Traffic:
    return Traffic(*(sum(values) for values in zip(*map(msgspec.structs.astuple, parts), strict=True)))
