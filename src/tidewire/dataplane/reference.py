"""The reference engine: plain Python, one event after the other, every filter asked. Slow, short, and the oracle.

It says what the contract (``protocol.py``) means; the kernel's engine must do the same.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from tidewire._kernel.codec import decode
from tidewire.dataplane.protocol import (
    ERROR_UNKNOWN_US,
    QUEUE_BYTES_MAX,
    REFUSED_LISTED_MAX,
    Received,
    Refusal,
    Traffic,
    WhenFull,
    Work,
)
from tidewire.dataplane.reference_state import Connection, Routes, Tree
from tidewire.matching.covering import allows
from tidewire.matching.protocol import DESTINATION_LIMIT, Delivery
from tidewire.model.errors import (
    DamagedEvent,
    EventTooLarge,
    NotAdvertised,
    TidewireError,
    UsageError,
    ValueOutOfRange,
)
from tidewire.model.events import Event
from tidewire.model.filters import decode_filter
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.model.messages import Lane
from tidewire.wire.frames import BORN, DELIVER, FORWARD, FRAME_BYTES_MAX, HEAD, HOP, MESSAGE, MORE, PUBLISH, frame

_DELIVER_AHEAD_MAX: Final = 1 + HOP.size + 1 + 16 * 4
_EVENT_HEAD: Final = struct.Struct("<2sHIII")
_STAMP: Final = struct.Struct("<QQQ")
_INT64: Final = 2**63


class _Arrived(msgspec.Struct, frozen=True):
    """An event with what a frame has ahead of it, on our clock."""

    event: Event
    encoded: bytes
    tree: TreeId
    born_ns: int
    error_us: int
    position: int


class _Broken(Exception):
    """What came is not the protocol."""


class _Stray(Exception):
    """An event came by a way it should not."""


class _Blocked(Exception):
    """An event finds no room."""


class ReferenceEngine:
    """An engine (``protocol.py``) that is obviously right. Its calls take as long as they take."""

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._connections: dict[Conn, Connection] = {}
        self._clients = Routes()
        self._trees: dict[TreeId, Tree] = {}
        self._own: TreeId | None = None
        self._overrun: list[Conn] = []
        self._refusals: dict[str, Refusal] = {}
        self._events = self._matches = self._deliveries = self._forwards = self._refused = 0

    # -- what a machine installs ---------------------------------------------------------------------------------------

    def open(self, conn: Conn, *, is_link: bool, when_full: WhenFull, queue_bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """A connection begins."""
        if not 0 <= conn < DESTINATION_LIMIT:
            raise ValueOutOfRange(f"connection {conn} is not from 0 to {DESTINATION_LIMIT - 1}")
        if conn in self._connections:
            raise UsageError(f"connection {conn} is open already")
        self._connections[conn] = Connection(is_link=is_link, when_full=when_full, queue_bytes_max=queue_bytes_max)

    def close(self, conn: Conn) -> None:
        """It ends."""
        self._at(conn)
        self._clients.forget(conn)
        for tree in self._trees.values():
            tree.routes.forget(conn)
            if tree.parent == conn:
                tree.parent = None
        del self._connections[conn]
        self._overrun = [one for one in self._overrun if one != conn]

    def _at(self, conn: Conn) -> Connection:
        if conn not in self._connections:
            raise UsageError(f"there is no connection {conn}")
        return self._connections[conn]

    def _client(self, conn: Conn) -> Connection:
        if self._at(conn).is_link:
            raise UsageError(f"connection {conn} is a neighbour's, not a client's")
        return self._connections[conn]

    def make_link(self, conn: Conn, *, queue_bytes_max: int) -> None:
        """It leads to a neighbour."""
        connection = self._at(conn)
        connection.is_link = True
        connection.when_full = "wait"
        connection.out.bytes_max = queue_bytes_max

    def may_publish(self, conn: Conn, *, publisher: int, next_sequence: int) -> None:
        """From now on PUBLISH is taken from this client."""
        client = self._client(conn)
        if self._own is None:
            raise UsageError("nobody can publish at a broker that has no tree of its own")
        client.publisher = publisher
        client.next_sequence = next_sequence

    def allow(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher advertised."""
        self._client(conn).allowed = None if filters is None else [decode_filter(one) for one in filters]

    def set_clock(self, conn: Conn, *, offset_ns: int, error_us: int) -> None:
        """To be added to times that come from there."""
        self._at(conn).clock = offset_ns, error_us

    def own_tree(self, tree: TreeId) -> None:
        """The tree of events that are published here."""
        self._own = tree
        self._trees.setdefault(tree, Tree()).parent = None

    def set_parent(self, tree: TreeId, parent: Conn | None) -> None:
        """Events of this tree come from there."""
        if tree == self._own:
            raise UsageError("a broker's own tree has no parent")
        if parent is not None and not self._at(parent).is_link:
            raise UsageError("a parent is a neighbour, not a client")
        self._trees.setdefault(tree, Tree()).parent = parent

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
        return self._clients if tree is None else self._trees.setdefault(tree, Tree()).routes

    # -- frames --------------------------------------------------------------------------------------------------------

    def receive(self, conn: Conn, data: bytes, *, now_ns: Nanoseconds) -> Received:
        """Bytes have come."""
        source = self._at(conn)
        source.counts.bytes_in += len(data)
        source.input += data
        return self._go_on(conn, now_ns)

    def resume(self, conn: Conn, *, now_ns: Nanoseconds) -> Received:
        """Go on with what has come before."""
        source = self._at(conn)
        if source.state == "blocked":
            source.state = "busy"
        return self._go_on(conn, now_ns)

    def _go_on(self, conn: Conn, now_ns: Nanoseconds) -> Received:
        source = self._at(conn)
        had_nothing = [one for one, there in self._connections.items() if there.out.is_empty]
        self._refusals = {}
        message = None
        try:
            while source.state not in {"broken", "blocked"} and message is None:
                found = self._first_frame(source)
                source.state = "idle" if found is None else "busy"
                if found is None:
                    break
                kind, payload = found
                if kind == MESSAGE:
                    message = payload
                else:
                    self._handle(conn, kind, payload, now_ns)
                    source.counts.events_in += 1
                del source.input[: 5 + len(payload)]
        except _Blocked:
            source.state = "blocked"
        except _Broken as problem:
            source.state, source.reason = "broken", str(problem)
        overrun, self._overrun = self._overrun, []
        return Received(
            source.state,
            message,
            source.reason,
            list(self._refusals.values()),
            [one for one in had_nothing if not self._connections[one].out.is_empty],
            overrun,
        )

    def _first_frame(self, source: Connection) -> tuple[int, bytes] | None:
        if len(source.input) < 4:
            return None
        length = int.from_bytes(source.input[:4], "little")
        if not 0 < length <= self._frame_bytes_max:
            raise _Broken(f"a frame's length is 0 or beyond {self._frame_bytes_max}")
        if len(source.input) < 4 + length:
            return None
        return source.input[4], bytes(source.input[5 : 4 + length])

    def _handle(self, conn: Conn, kind: int, payload: bytes, now_ns: Nanoseconds) -> None:
        source = self._connections[conn]
        if kind == PUBLISH and not source.is_link and source.publisher is not None and len(payload) >= BORN.size:
            self._publish(conn, payload, now_ns)
        elif kind == FORWARD and source.is_link and len(payload) >= HOP.size:
            self._forward(conn, payload, now_ns)
        else:
            raise _Broken("a frame that this side may not send, or that ends too early")

    # -- events --------------------------------------------------------------------------------------------------------

    def _publish(self, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> None:
        source = self._connections[conn]
        assert self._own is not None
        assert source.publisher is not None
        try:
            event = self._checked(payload[BORN.size :], source)
        except TidewireError as problem:
            self._refuse(source, problem)
            return
        stamped = _stamped(payload[BORN.size :], source.publisher, source.next_sequence, self._own)
        born_ns, error_us = _on_our_clock(source, BORN.unpack_from(payload)[0], 0, now_ns)
        tree = self._trees[self._own]
        self._distribute(conn, _Arrived(event, stamped, self._own, born_ns, error_us, tree.last + 1))
        source.next_sequence += 1

    def _checked(self, data: bytes, source: Connection) -> Event:
        event = _decoded(data)
        given = event.envelope
        if any(one is not None for one in (given.publisher, given.sequence, given.pubend, given.tick, given.tree)):
            raise DamagedEvent("its envelope has fields that only a broker writes")
        if len(data) + _STAMP.size + _DELIVER_AHEAD_MAX > self._frame_bytes_max:
            raise EventTooLarge("it does not fit into a frame")
        if source.allowed is not None and not any(allows(one, event.attributes) for one in source.allowed):
            raise NotAdvertised("it is outside of what was advertised")
        return event

    def _refuse(self, source: Connection, problem: TidewireError) -> None:
        self._refused += 1
        found = self._refusals.get(problem.code, Refusal([], 0, problem.code, problem.message))
        if len(found.sequences) < REFUSED_LISTED_MAX:
            found.sequences.append(source.next_sequence)
        else:
            found = msgspec.structs.replace(found, further=found.further + 1)
        self._refusals[problem.code] = found
        source.next_sequence += 1

    def _forward(self, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> None:
        source = self._connections[conn]
        born_ns, error_us, position = HOP.unpack_from(payload)
        try:
            event = _decoded(payload[HOP.size :])
            if event.envelope.tree is None:
                raise DamagedEvent("it has no tree")
            tree_id = TreeId(event.envelope.tree)
            tree = self._trees.get(tree_id)
            if tree is None or tree.parent != conn or position <= tree.last:
                raise _Stray
        except TidewireError:
            source.counts.damaged += 1
        except _Stray:
            source.counts.stray += 1
        else:
            born_ns, error_us = _on_our_clock(source, born_ns, error_us, now_ns)
            self._distribute(conn, _Arrived(event, payload[HOP.size :], tree_id, born_ns, error_us, position))

    def _distribute(self, conn: Conn, arrived: _Arrived) -> None:
        """Into every queue at once, or, if it has to wait for one, into none."""
        hop = HOP.pack(arrived.born_ns, arrived.error_us, arrived.position)
        tree = self._trees[arrived.tree]
        local = self._clients.match(arrived.event)
        routed = [one for one in tree.routes.match(arrived.event) if Conn(one.destination) != conn]
        frames = [(Conn(one.destination), frame(DELIVER, hop + _numbers(one) + arrived.encoded)) for one in local]
        frames += [(Conn(one.destination), frame(FORWARD, hop + arrived.encoded)) for one in routed]
        for to, data in frames:
            there = self._connections[to]
            if there.when_full == "wait" and there.takes_events and not there.out.fits(len(data)):
                self._connections[conn].blocked_by = to, len(data)
                raise _Blocked
        tree.last = arrived.position
        self._events += 1
        self._matches += len(frames)
        for i, (to, data) in enumerate(frames):
            is_queued = self._put(to, data)
            self._deliveries += is_queued and i < len(local)
            self._forwards += is_queued and i >= len(local)

    # -- queues --------------------------------------------------------------------------------------------------------

    def _put(self, conn: Conn, data: bytes) -> bool:
        to = self._connections[conn]
        if to.takes_events and not to.out.fits(len(data)):
            if to.when_full == "drop":
                bound = to.out.bytes_max
                to.counts.dropped += to.out.drop_events(max(0, bound - bound // 4 - len(data)))
            else:
                self._end(conn)
        if not to.takes_events or not to.out.fits(len(data)):
            to.counts.dropped += 1
            return False
        to.out.put(data, "data")
        to.counts.events_out += 1
        to.counts.bytes_out += len(data)
        return True

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

    def output(self, conn: Conn, *, bytes_max: int) -> bytes:
        """Take what is to be sent next."""
        return self._at(conn).out.take(bytes_max)

    def unblocked(self) -> list[Conn]:
        """The connections that were blocked and need no longer be."""
        found = [
            conn for conn, source in self._connections.items() if source.state == "blocked" and self._has_room(source)
        ]
        for conn in found:
            self._connections[conn].state = "busy"
        return found

    def _has_room(self, source: Connection) -> bool:
        assert source.blocked_by is not None
        conn, size = source.blocked_by
        there = self._connections.get(conn)
        if there is None or not there.takes_events:
            return True
        return there.out.data_bytes <= there.out.bytes_max // 2 and there.out.fits(size)

    def traffic(self, conn: Conn) -> Traffic:
        """What has passed on this connection."""
        source = self._at(conn)
        queued = source.out.control_bytes + source.out.data_bytes
        return Traffic(queued_bytes=queued, **msgspec.structs.asdict(source.counts))

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


def _decoded(data: bytes) -> Event:
    try:
        return decode(data)
    except TidewireError as problem:
        raise DamagedEvent(problem.message) from None


def _stamped(event: bytes, publisher: int, sequence: int, tree: TreeId) -> bytes:
    """With fields 0, 1 and 4 of the envelope, of whose first five it has none (``event.hpp``)."""
    magic, bits, counts, size, body = _EVENT_HEAD.unpack_from(event)
    head = _EVENT_HEAD.pack(magic, bits | 0b10011, counts, size + _STAMP.size, body + _STAMP.size if body else 0)
    return head + _STAMP.pack(publisher, sequence, tree) + event[_EVENT_HEAD.size :]


def _on_our_clock(source: Connection, born_ns: int, error_us: int, now_ns: Nanoseconds) -> tuple[int, int]:
    if source.clock is None:
        return now_ns, ERROR_UNKNOWN_US
    offset_ns, own_error_us = source.clock
    wrapped = (born_ns + offset_ns + _INT64) % (2 * _INT64) - _INT64
    return wrapped, min(ERROR_UNKNOWN_US, error_us + own_error_us)


def _numbers(delivery: Delivery) -> bytes:
    if delivery.more:
        return bytes([MORE])
    return bytes([len(delivery.numbers)]) + b"".join(number.to_bytes(4, "little") for number in delivery.numbers)
