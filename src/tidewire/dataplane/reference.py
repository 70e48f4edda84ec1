"""The reference engine: plain Python, one event after the other, every filter asked. Slow, short, and the oracle.

It says what the contract (``protocol.py``) means; the kernel's engine must do the same.
"""

from __future__ import annotations

import msgspec

from tidewire.dataplane.deadlines import is_expired
from tidewire.dataplane.events import checked, decoded, numbers_ahead, on_our_clock, stamped
from tidewire.dataplane.installed import Installed
from tidewire.dataplane.protocol import REFUSED_LISTED_MAX, Received, Refusal
from tidewire.dataplane.reference_queue import Outbox
from tidewire.dataplane.state import Connection, Routes
from tidewire.dataplane.stream_news import StreamNews
from tidewire.matching.scan import ScanMatcher
from tidewire.model.errors import DamagedEvent, TidewireError
from tidewire.model.events import Event
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.wire.frames import BORN, DELIVER, FORWARD, FRAME_BYTES_MAX, HOP, MESSAGE, PUBLISH, TAKEN, frame


class _Arrived(msgspec.Struct, frozen=True):
    """An event with what a frame has ahead of it, on our clock."""

    event: Event
    encoded: bytes
    tree: TreeId
    born_ns: int
    error_us: int
    position: int


class Broken(Exception):
    """What came is not the protocol."""


class _Stray(Exception):
    """An event came by a way it should not."""


class Blocked(Exception):
    """An event finds no room."""


class ReferenceEngine(Installed[Outbox]):
    """An engine (``protocol.py``) that is obviously right. Its calls take as long as they take."""

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max=frame_bytes_max, make_queue=Outbox, make_routes=lambda: Routes(ScanMatcher()))
        self._refusals: dict[tuple[str, bool], Refusal] = {}

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
        self._now_ns = now_ns
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
                    source.counts.events_in += kind != TAKEN
                del source.input[: 5 + len(payload)]
        except Blocked:
            source.state = "blocked"
        except Broken as problem:
            source.state, source.reason = "broken", str(problem)
        overrun, self._overrun = self._overrun, []
        return Received(
            source.state,
            message,
            source.reason,
            list(self._refusals.values()),
            [one for one in had_nothing if not self._connections[one].out.is_empty],
            overrun,
            news=self._news(),
        )

    def _news(self) -> StreamNews | None:
        """What there is to tell of streams."""
        return None

    def _first_frame(self, source: Connection[Outbox]) -> tuple[int, bytes] | None:
        if len(source.input) < 4:
            return None
        length = int.from_bytes(source.input[:4], "little")
        bytes_max = max(self._frame_bytes_max, FRAME_BYTES_MAX if source.is_link else 0)
        if not 0 < length <= bytes_max:
            raise Broken(f"a frame's length is 0 or beyond {bytes_max}")
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
            raise Broken("a frame that this side may not send, or that ends too early")

    # -- events --------------------------------------------------------------------------------------------------------

    def _publish(self, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> None:
        source = self._connections[conn]
        assert self._own is not None
        assert source.publisher is not None
        try:
            event, given = checked(
                payload[BORN.size :], source, frame_bytes_max=self._frame_bytes_max, classes=self._classes
            )
        except TidewireError as problem:
            self._refuse(source, problem)
            return
        encoded = stamped(given, source.publisher, source.next_sequence, self._own)
        born_ns = BORN.unpack_from(payload)[0]
        born_ns, error_us = on_our_clock(source.clock, born_ns=born_ns, error_us=0, now_ns=now_ns)
        tree = self._trees[self._own]
        self._distribute(conn, _Arrived(event, encoded, self._own, born_ns, error_us, tree.last + 1))
        source.next_sequence += 1

    def _refuse(self, source: Connection[Outbox], problem: TidewireError, *, sequence: int | None = None) -> None:
        """``sequence``: of a guaranteed event, which has its own."""
        self._refused += 1
        key = problem.code, sequence is not None
        found = self._refusals.get(key, Refusal([], 0, problem.code, problem.message, sequence is not None))
        if len(found.sequences) < REFUSED_LISTED_MAX or sequence is not None:
            found.sequences.append(source.next_sequence if sequence is None else sequence)
        else:
            found = msgspec.structs.replace(found, further=found.further + 1)
        self._refusals[key] = found
        source.next_sequence += sequence is None

    def _forward(self, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> None:
        source = self._connections[conn]
        born_ns, error_us, position = HOP.unpack_from(payload)
        try:
            event = decoded(payload[HOP.size :])
            if event.envelope.tree is None:
                raise DamagedEvent("it has no tree")
            tree_id = TreeId(event.envelope.tree)
            tree = self._trees.get(tree_id)
            if tree is None or tree.parent != conn or position <= tree.floor:
                raise _Stray
        except TidewireError:
            source.counts.damaged += 1
        except _Stray:
            source.counts.stray += 1
        else:
            born_ns, error_us = on_our_clock(source.clock, born_ns=born_ns, error_us=error_us, now_ns=now_ns)
            self._distribute(conn, _Arrived(event, payload[HOP.size :], tree_id, born_ns, error_us, position))

    def _distribute(self, conn: Conn, arrived: _Arrived) -> None:
        """Into every queue at once, or, if it has to wait for one, into none."""
        hop = HOP.pack(arrived.born_ns, arrived.error_us, arrived.position)
        tree = self._trees[arrived.tree]
        local = self._clients.match(arrived.event)
        routed = [one for one in tree.routes.match(arrived.event) if Conn(one.destination) != conn]
        frames = [(Conn(one.destination), frame(DELIVER, hop + numbers_ahead(one) + arrived.encoded)) for one in local]
        frames += [(Conn(one.destination), frame(FORWARD, hop + arrived.encoded)) for one in routed]
        is_late = is_expired(arrived.event, born_ns=arrived.born_ns, now_ns=self._now_ns)
        for to, data in frames:
            there = self._connections[to]
            takes_it = there.takes_events and there.takes(len(data))
            if not is_late and there.when_full == "wait" and takes_it and not self._fits(there, len(data)):
                self._connections[conn].blocked_by = to, len(data)
                raise Blocked
        tree.last = max(tree.last, arrived.position)
        self._events += 1
        self._keep_samples(arrived.encoded)
        self._matches += len(frames)
        for i, (to, data) in enumerate(frames):
            if is_late:
                self._connections[to].out.expired += 1
                continue
            is_queued = self._put(to, data)
            self._deliveries += is_queued and i < len(local)
            self._forwards += is_queued and i >= len(local)

    # -- queues --------------------------------------------------------------------------------------------------------

    def _put(self, conn: Conn, data: bytes) -> bool:
        to = self._connections[conn]
        if to.takes_events and to.takes(len(data)) and not self._fits(to, len(data)):
            self._make_room(conn, len(data))
        if not to.takes_events or not to.takes(len(data)) or not to.out.fits(len(data)):
            to.counts.dropped += 1
            return False
        to.out.put(data, "data")
        to.counts.events_out += 1
        to.counts.bytes_out += len(data)
        return True

    def _fits(self, there: Connection[Outbox], size: int) -> bool:
        """Once what is past its deadline has gone?"""
        if not there.out.fits(size):
            there.out.expire(self._now_ns)
        return there.out.fits(size)

    def _make_room(self, conn: Conn, size: int) -> None:
        """The oldest events go, or the connection ends."""
        to = self._connections[conn]
        if to.when_full == "drop":
            bound = to.out.bytes_max
            to.counts.dropped += to.out.drop_events(max(0, bound - bound // 4 - size))
        elif to.when_full == "end":
            self._end(conn)
