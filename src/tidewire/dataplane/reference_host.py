"""Hosted streams in the reference engine: into the log, and when it is durable, on their way (``streams.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tidewire.dataplane.events import checked, decoded, guaranteed_stamp, on_our_clock
from tidewire.dataplane.log import Log, Record
from tidewire.dataplane.protocol import Received
from tidewire.dataplane.reference import Blocked, Broken
from tidewire.dataplane.reference_streams import ReferenceStreams
from tidewire.dataplane.stream_state import Said, Stream, Told
from tidewire.dataplane.streams import StreamState
from tidewire.model.errors import NoStore, StoreFailed, TidewireError
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick
from tidewire.wire.frames import (
    GUARANTEE,
    PLAIN,
    PROMISE,
    RECEIPT,
    RECEIPT_BODY,
    frame,
)

TICK_BITS: Final = 20
RESERVE_TICKS: Final = 10_000 << TICK_BITS
"""Silence is told up to a mark in the log: no life after this one begins before it. The mark is set so far ahead."""

BURST_S: Final = 0.1
"""What a pubend may take at once, of its rate."""


class _Limit(msgspec.Struct):
    rate: float
    tokens: float
    at_ns: int


class ReferenceHost(ReferenceStreams):
    """The part of an engine with streams that takes guaranteed events into its log."""

    def __init__(self, **options: int | bool) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._log: Log | None = None
        self._pubends: list[PubendId] = []
        self._unix_offset_ns = 0
        self._floor: dict[PubendId, int] = {}
        """No tick is given up to here: an earlier life may have said that they are silent."""
        self._marks: dict[PubendId, tuple[int, int]] = {}
        """The mark that is in the log, and the group that it is durable with."""
        self._seats: dict[int, Conn] = {}
        """Where the publishers are."""
        self._limits: dict[PubendId, _Limit] = {}
        self._taken_in: dict[PubendId, int] = {}
        self._waits: dict[Conn, PubendId] = {}
        """Connections that wait for a pubend to take more."""

    # -- hosting -------------------------------------------------------------------------------------------------------

    def host(self, log: Log, pubends: Sequence[PubendId], *, unix_offset_ns: int, now_ns: Nanoseconds) -> None:
        """Guaranteed events that are published here go into this log."""
        self._log, self._pubends, self._unix_offset_ns = log, list(pubends), unix_offset_ns
        for pubend in pubends:
            stream = self._streams[pubend] = Stream(pubend, is_hosted=True)
            mark = int.from_bytes(log.get(_mark_key(pubend)) or b"", "little")
            self._marks[pubend] = mark, 0
            self._floor[pubend] = mark
            self._taken_in[pubend] = int(log.last_tick(pubend) > 0)
            now = (now_ns + unix_offset_ns) // 1_000_000 << TICK_BITS
            stream.heard = stream.horizon = Tick((max(mark, log.durable_tick(pubend)) or now) + 1)

    def may_publish(self, conn: Conn, *, publisher: int, next_sequence: int) -> None:
        """From now on its events are taken, and its receipts go there."""
        super().may_publish(conn, publisher=publisher, next_sequence=next_sequence)
        self._seats[publisher] = conn

    def close(self, conn: Conn) -> None:
        """It ends, and nobody publishes on it any more."""
        self._seats = {publisher: at for publisher, at in self._seats.items() if at != conn}
        self._waits.pop(conn, None)
        super().close(conn)

    def heads(self) -> list[tuple[PubendId, Tick]]:
        """Of each pubend here: the first tick that is not yet told."""
        return [(pubend, self._streams[pubend].heard) for pubend in self._pubends]

    def streams(self) -> list[StreamState]:
        """All that are known here."""
        return [self._hosted(state) if state.pubend in self._pubends else state for state in super().streams()]

    def _hosted(self, state: StreamState) -> StreamState:
        assert self._log is not None
        return msgspec.structs.replace(
            state,
            events=self._taken_in[state.pubend],
            is_awaited=state.pubend in self._waits.values(),
            released=Tick(self._log.released_tick(state.pubend)),
        )

    def limit(self, pubend: PubendId, events_s: float | None, *, now_ns: Nanoseconds) -> None:
        """So many a second are taken into this pubend."""
        if events_s is None:
            self._limits.pop(pubend, None)
            return
        known = self._limits.get(pubend)
        if known is None:
            self._limits[pubend] = _Limit(events_s, 1.0, now_ns)
            return
        self._refill(known, now_ns)
        known.rate = events_s

    def _refill(self, limit: _Limit, now_ns: int) -> None:
        passed_s = max(0, now_ns - limit.at_ns) / 1e9
        limit.at_ns = now_ns
        limit.tokens = min(max(1.0, limit.rate * BURST_S), limit.tokens + limit.rate * passed_s)

    def _handle(self, conn: Conn, kind: int, payload: bytes, now_ns: Nanoseconds) -> None:
        if kind == GUARANTEE and self._connections[conn].publisher is not None:
            self._guarantee(conn, payload, now_ns)
        else:
            super()._handle(conn, kind, payload, now_ns)

    def _guarantee(self, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> None:
        source, log = self._connections[conn], self._log
        assert source.publisher is not None
        if len(payload) < PROMISE.size:
            raise Broken("a frame that this side may not send, or that ends too early")
        born_ns, sequence = PROMISE.unpack_from(payload)
        if log is None:
            why = "this broker has no store, so nothing can be guaranteed here"
            self._refuse(source, NoStore(why), sequence=sequence)
            return
        pubend = self._pubends[source.publisher % len(self._pubends)]
        is_old = sequence <= log.last_sequence(pubend, source.publisher)
        tick = log.tick_of(pubend, source.publisher, sequence) if is_old else 0
        event = payload[PROMISE.size :]
        try:
            if not tick:  # of an old one that is to be refused: it was refused before, and later ones were taken
                bytes_max, classes = self._frame_bytes_max, self._classes
                _, event = checked(event, source, frame_bytes_max=bytes_max, classes=classes, is_guaranteed=True)
        except TidewireError as problem:
            self._refuse(source, problem, sequence=sequence)
            return
        if is_old:
            if tick <= log.durable_tick(pubend):  # else its receipt comes with its group
                self._receipt(conn, sequence, tick)
            return
        limit = self._limits.get(pubend)
        if limit is not None:
            self._refill(limit, now_ns)
        tick = max(log.last_tick(pubend), self._floor[pubend], self._streams[pubend].heard - 1) + 1
        tick = max(tick, (now_ns + self._unix_offset_ns) // 1_000_000 << TICK_BITS)
        encoded = guaranteed_stamp(event, source.publisher, sequence, pubend, tick)
        born_ns, error_us = on_our_clock(source.clock, born_ns=born_ns, error_us=0, now_ns=now_ns)
        born_ns += self._unix_offset_ns
        is_late = limit is not None and limit.tokens < 1.0
        try:
            if is_late or not log.append(pubend, tick, source.publisher, sequence, born_ns, error_us, encoded):
                self._waits[conn] = pubend
                raise Blocked
        except StoreFailed:
            why = "the disk failed to keep what the log gave it"
            self._refuse(source, StoreFailed(why), sequence=sequence)
            return
        self._taken_in[pubend] += 1
        if limit is not None:
            limit.tokens -= 1.0

    def _receipt(self, conn: Conn, sequence: int, tick: int) -> None:
        to = self._connections[conn]
        data = frame(RECEIPT, RECEIPT_BODY.pack(sequence, tick))
        to.out.put(data, "data")
        to.counts.bytes_out += len(data)

    def _has_room_for(self, pubend: PubendId) -> bool:
        assert self._log is not None
        limit = self._limits.get(pubend)
        return (limit is None or limit.tokens >= 1.0) and self._log.trouble == "none"

    def unblocked(self) -> list[Conn]:
        """The connections that were blocked and need no longer be."""
        found = [conn for conn, pubend in self._waits.items() if self._has_room_for(pubend)]
        for conn in found:
            del self._waits[conn]
            self._connections[conn].state = "busy"
        waiting = {conn: self._connections[conn].state for conn in self._waits}
        for conn in waiting:
            self._connections[conn].state = "idle"
        found += super().unblocked()
        for conn, state in waiting.items():
            self._connections[conn].state = state
        return found

    def committed(self, *, now_ns: Nanoseconds) -> Received:
        """The log has become durable further."""
        assert self._log is not None
        self._now_ns = now_ns
        had_nothing = self._silent_ones()
        receipts: dict[int, tuple[int, int]] = {}
        for _, records in self._log.take():
            for record in records:
                pubend, tick, publisher, sequence = record[:4]
                receipts[publisher] = sequence, tick
                stream = self._streams[PubendId(pubend)]
                first, stream.heard = stream.heard, Tick(tick + 1)
                self._events += 1
                self._pass_on(stream, first, tick, self._told_of(record))
        for publisher, (sequence, tick) in receipts.items():
            if publisher in self._seats:
                self._receipt(self._seats[publisher], sequence, tick)
        return self._told(had_nothing)

    def _told_of(self, record: Record) -> Told:
        born_ns, error_us, event = record[4:]
        return Told(decoded(event), event, born_ns - self._unix_offset_ns, error_us)

    def _pass_on(self, stream: Stream, first: int, tick: int, told: Told | None) -> None:
        assert self._own is not None
        stream.horizon = stream.heard
        tree = self._trees[self._own]
        self._tell_children(stream, tree, Said(self._own, PLAIN, first, tick, told), is_new=True)
        if told is not None:
            self._deliver(stream.pubend, Tick(tick), told)

    def silence(self, pubend: PubendId, *, now_ns: Nanoseconds) -> Received:
        """Tell all who want something of our tree that the pubend is silent up to now."""
        self._now_ns = now_ns
        had_nothing = self._silent_ones()
        self._be_silent(pubend, now_ns)
        return self._told(had_nothing)

    def _be_silent(self, pubend: PubendId, now_ns: Nanoseconds) -> None:
        log, stream = self._log, self._streams[pubend]
        assert log is not None
        now = (now_ns + self._unix_offset_ns) // 1_000_000 << TICK_BITS
        mark, group = self._marks[pubend]
        if now > mark - RESERVE_TICKS // 2 and log.durable >= group:
            new = now + RESERVE_TICKS
            group = 0 if log.trouble == "failed" else log.put(_mark_key(pubend), new.to_bytes(8, "little"))
            if group:
                self._marks[pubend] = new, group
            mark, group = self._marks[pubend]
        if log.durable < group or log.last_tick(pubend) >= stream.heard:  # in the log and not told, durable or not
            return
        last = min(now, mark) - 1
        if last >= stream.heard:
            first, stream.heard = stream.heard, Tick(last + 1)
            self._pass_on(stream, first, last, None)


def _mark_key(pubend: PubendId) -> bytes:
    return b"mark/" + pubend.to_bytes(8, "little")
