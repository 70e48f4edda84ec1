"""The reference engine with streams: hosting them in a log, and telling again what somebody lacks (``streams.py``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from tidewire.dataplane.events import checked, decoded, guaranteed_stamp, on_our_clock
from tidewire.dataplane.log import Log, Record
from tidewire.dataplane.protocol import Received
from tidewire.dataplane.reference import Blocked, Broken
from tidewire.dataplane.reference_streams import ReferenceStreams
from tidewire.dataplane.stream_news import Lack, Replayed, StreamNews
from tidewire.dataplane.stream_state import NEVER, Child, Follower, Job, Said, Stream, Told
from tidewire.dataplane.streams import Range, StreamState
from tidewire.model.errors import NoStore, StoreFailed, TidewireError, UsageError
from tidewire.model.filters import decode_filter
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.ticks import TICK_MAX, TICK_MIN
from tidewire.wire.frames import (
    ANSWER,
    GUARANTEE,
    HEAD,
    HOP,
    LAST,
    LOST,
    PLAIN,
    PROMISE,
    RECEIPT,
    RECEIPT_BODY,
    RECOVER,
    RECOVER_HEAD,
    SPAN,
    STREAM,
    TAKEN,
    TAKEN_BODY,
    frame,
)

TICK_BITS: Final = 20
RESERVE_TICKS: Final = 10_000 << TICK_BITS
"""Silence is told up to a mark in the log: no life after this one begins before it. The mark is set so far ahead."""

PIECE_EVENTS: Final = 256
PIECE_BYTES: Final = 16 << 10
"""What a job reads, or sends, in its turn."""
"""What a job reads, or sends, in its turn."""

BURST_S: Final = 0.1
"""What a pubend may take at once, of its rate."""


class _Limit(msgspec.Struct):
    rate: float
    tokens: float
    at_ns: int


class StreamingReference(ReferenceStreams):
    """A ``StreamEngine`` that is obviously right."""

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
        self._jobs: deque[Job] = deque()
        self._relays: dict[tuple[Conn, int], tuple[Conn, int, PubendId]] = {}
        self._replayed: dict[int, Replayed] = {}

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
        """It ends, and with it what was to be told to it."""
        self._seats = {publisher: at for publisher, at in self._seats.items() if at != conn}
        self._waits.pop(conn, None)
        for job in [job for job in self._jobs if job.conn == conn]:
            self._jobs.remove(job)
        self._relays = {key: to for key, to in self._relays.items() if conn not in (key[0], to[0])}
        super().close(conn)

    def _unfollow(self, key: tuple[Conn, int]) -> None:
        """It is owed nothing more."""
        if key in self._followers:
            self._jobs = deque(job for job in self._jobs if job.tree is not None or (job.conn, job.number) != key)
        super()._unfollow(key)

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
        source = self._connections[conn]
        if kind == GUARANTEE and source.publisher is not None:
            self._guarantee(conn, payload, now_ns)
        elif kind == STREAM:
            self._stream_came(conn, payload, now_ns)
        elif kind == RECOVER:
            self._recovered(conn, payload, now_ns)
        elif kind == TAKEN and not source.is_link and len(payload) == TAKEN_BODY.size:
            self._took(conn, *TAKEN_BODY.unpack(payload))
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
        try:
            if not tick:  # of an old one that is to be refused: it was refused before, and later ones were taken
                checked(payload[PROMISE.size :], source, frame_bytes_max=self._frame_bytes_max, is_guaranteed=True)
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
        encoded = guaranteed_stamp(payload[PROMISE.size :], source.publisher, sequence, pubend, tick)
        born_ns, error_us = on_our_clock(source.clock, born_ns=born_ns, error_us=0, now_ns=now_ns)
        born_ns += self._unix_offset_ns
        is_late = limit is not None and limit.tokens < 1.0
        if is_late or not log.append(pubend, tick, source.publisher, sequence, born_ns, error_us, encoded):
            if log.trouble == "failed":
                why = "the disk failed to keep what the log gave it"
                self._refuse(source, StoreFailed(why), sequence=sequence)
                return
            self._waits[conn] = pubend
            raise Blocked
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

    def committed(self, *, now_ns: Nanoseconds) -> Received:  # noqa: ARG002 - the kernel's clock
        """The log has become durable further."""
        assert self._log is not None
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
            group = log.put(_mark_key(pubend), new.to_bytes(8, "little"))
            if group:
                self._marks[pubend] = new, group
            mark, group = self._marks[pubend]
        if log.durable < group or log.last_tick(pubend) > log.durable_tick(pubend):
            return
        last = min(now, mark) - 1
        if last >= stream.heard:
            first, stream.heard = stream.heard, Tick(last + 1)
            self._pass_on(stream, first, last, None)

    # -- telling again -------------------------------------------------------------------------------------------------

    def answer(self, conn: Conn, tree: TreeId, pubend: PubendId, ranges: Sequence[Range]) -> list[Range]:
        """A neighbour lacks these ticks."""
        self._at(conn)
        stream, unknown = self._stream(pubend), []
        child = stream.children.setdefault(conn, Child())
        for first, asked_end in ranges:
            end = Tick(min(asked_end, stream.heard))
            if first >= end:
                continue
            known = [(first, end)] if stream.is_hosted else stream.known.within(max(first, min(stream.sound, end)), end)
            rest = first
            for one, behind in known:
                unknown += [(Tick(rest), one)] if rest < one else []
                self._jobs.append(Job(0, conn, 0, pubend, one, one, end=behind, tree=tree))
                rest = behind
            unknown += [(Tick(rest), end)] if rest < end else []
        for first, end in unknown:
            child.curious.add(first, end)
        return unknown

    def replay(
        self, replay: int, conn: Conn, number: int, pubend: PubendId, place: Tick, *, wanted: bytes, bytes_max: int
    ) -> None:
        """Tell a neighbour what matches, from this tick on."""
        self._at(conn)
        filter_, place = decode_filter(wanted), max(place, TICK_MIN)
        self._jobs.append(Job(replay, conn, number, pubend, place, place, wanted=filter_, bytes_left=bytes_max))

    def catch_up(self, replay: int, conn: Conn, number: int, pubend: PubendId) -> None:
        """Tell a follower what it is owed, from what is here."""
        follower = self._followers.get((conn, number))
        if follower is None or pubend not in follower.places:
            raise UsageError("nothing is owed there")
        place = max(follower.places[pubend].next, TICK_MIN)
        self._jobs.append(Job(replay, conn, number, pubend, place, place, wanted=follower.wanted))

    def relay(self, link: Conn, replay: int, conn: Conn, number: int, pubend: PubendId) -> None:
        """RECOVER with this name from this neighbour goes on to that connection."""
        self._at(link)
        self._at(conn)
        self._relays[link, replay] = conn, number, pubend

    def stop_replay(self, conn: Conn, number: int) -> tuple[Conn, int] | None:
        """A neighbour no longer wants what it asked for by this number."""
        for job in [job for job in self._jobs if job.tree is None and (job.conn, job.number) == (conn, number)]:
            self._jobs.remove(job)
        found = next((key for key, to in self._relays.items() if to[:2] == (conn, number)), None)
        if found is not None:
            del self._relays[found]
        return found

    def end_replay(self, replay: int) -> None:
        """It is no longer wanted."""
        self._jobs = deque(job for job in self._jobs if job.tree is not None or job.replay != replay)
        self._relays = {key: to for key, to in self._relays.items() if key[1] != replay}

    @property
    def is_serving(self) -> bool:
        """Is there something to serve that has room to go to?"""
        return any(self._has_place(job) for job in self._jobs)

    def _has_place(self, job: Job) -> bool:
        to = self._connections[job.conn]
        if not to.takes_events:
            return False
        if to.is_link:
            return to.out.fits_stream(self._flow(job.pubend, True), PIECE_BYTES)
        return to.out.data_bytes <= to.out.bytes_max // 2 and to.out.fits(job.frame_bytes)

    def serve(self, *, now_ns: Nanoseconds) -> Received:  # noqa: ARG002 - as above
        """The next one that has room, a piece of it."""
        had_nothing = self._silent_ones()
        for _ in range(len(self._jobs)):
            job = self._jobs.popleft()
            is_served = self._has_place(job)
            if not is_served or not self._serve(job):
                self._jobs.append(job)
            if is_served:
                break
        return self._told(had_nothing)

    def _serve(self, job: Job) -> bool:
        """True if the job is done."""
        stream = self._stream(job.pubend)
        known_to, events, lost = self._piece(job, stream)
        follower = self._followers.get((job.conn, job.number)) if not self._connections[job.conn].is_link else None
        for first, end in lost:
            self._say_lost(job, first, end, follower)
        bytes_left = min(job.bytes_left, PIECE_BYTES)
        for tick, told in events:
            if bytes_left <= 0:
                known_to = tick
                break
            if self._wants(job, told):
                if not self._say(job, tick, told, follower):
                    known_to = tick
                    job.frame_bytes = HEAD.size + HOP.size + 5 + len(told.encoded)
                    break
                bytes_left -= len(told.encoded)
                job.bytes_left -= len(told.encoded)
        is_stuck = known_to == job.place and not self._is_here(job, stream)
        job.place = Tick(known_to)
        return self._is_done(job, stream, follower, is_stuck=is_stuck)

    def _is_here(self, job: Job, stream: Stream) -> bool:
        """Is the next tick known here, for whoever wants it?"""
        if stream.is_hosted:
            return job.place < stream.heard
        return job.place in stream.known and job.place >= min(stream.sound, self._sound_for(job))

    def _sound_for(self, job: Job) -> Tick:
        follower = self._followers.get((job.conn, job.number))
        return NEVER if follower is None else follower.places[job.pubend].sound

    def _piece(self, job: Job, stream: Stream) -> tuple[int, list[tuple[Tick, Told]], list[Range]]:
        """Events from its place on, what is lost among them, and up to where that is all."""
        if stream.is_hosted:
            assert self._log is not None
            end = min(job.end, stream.heard)
            records, lost, settled = self._log.read(job.pubend, job.place, end, PIECE_BYTES)
            if settled >= min(end, self._log.durable_tick(job.pubend) + 1):
                settled = end  # behind the last event there is silence, which is not in the log
            events: list[tuple[Tick, Told]] = []
            size = 0
            for record in records:
                if size >= PIECE_BYTES:  # the log gives more at a time
                    settled = record[1]
                    break
                events.append((Tick(record[1]), self._told_of(record)))
                size += len(record[6])
            within = [(Tick(first), Tick(min(behind, settled))) for first, behind in lost if first < settled]
            return settled, events, within
        if not self._is_here(job, stream):
            return job.place, [], []
        end = min(job.end, stream.known.end_of(job.place))
        kept = stream.events(job.place, end)
        if len(kept) > PIECE_EVENTS:
            end = kept[PIECE_EVENTS][0]
        return end, kept[:PIECE_EVENTS], stream.lost.within(job.place, end)

    def _wants(self, job: Job, told: Told) -> bool:
        if job.tree is not None:
            routes = self._trees[job.tree].routes if job.tree in self._trees else None
            return routes is not None and any(Conn(one.destination) == job.conn for one in routes.match(told.event))
        return job.wanted is not None and job.wanted.accepts(told.event.attributes)

    def _say(self, job: Job, tick: Tick, told: Told, follower: Follower | None) -> bool:
        if follower is not None:
            return self._deliver_to(follower, follower.places[job.pubend], tick, told)
        if job.tree is not None:
            is_told = self._tell(job.conn, job.pubend, Said(job.tree, ANSWER, job.told, tick, told), is_again=True)
        else:
            is_told = self._recover(job, tick, PLAIN, told)
        if is_told:
            job.told = Tick(tick + 1)
        return is_told

    def _say_lost(self, job: Job, first: Tick, end: Tick, follower: Follower | None) -> None:
        if follower is not None:
            self._lacks.append(Lack(job.conn, job.number, job.pubend, first, Tick(end - 1)))
        elif job.tree is not None:
            self._tell(job.conn, job.pubend, Said(job.tree, LOST, first, end - 1), is_again=True)
        else:
            job.told, before = first, job.told
            self._recover(job, Tick(end - 1), LOST, None)
            job.told = end if before >= first else before

    def _recover(self, job: Job, tick: int, kind: int, told: Told | None) -> bool:
        span = SPAN.pack(job.told, tick, told.born_ns, told.error_us) if told else SPAN.pack(job.told, tick, 0, 0)
        data = frame(RECOVER, RECOVER_HEAD.pack(job.number, kind) + span + (told.encoded if told else b""))
        return self._put_stream(job.conn, self._flow(job.pubend, True), data, is_event=told is not None)

    def _is_done(self, job: Job, stream: Stream, follower: Follower | None, *, is_stuck: bool) -> bool:
        if follower is not None:
            place = follower.places[job.pubend]
            place.next = job.place
            horizon = stream.horizon
            place.is_joined = horizon is not None and job.place >= horizon and job.place >= place.sound
            is_over = place.is_joined or is_stuck
            self._replayed[job.replay] = Replayed(job.replay, job.place, is_over, place.is_joined)
            return is_over
        if job.tree is not None:
            if job.place < job.end and not is_stuck:
                return False
            silence = Said(job.tree, ANSWER, job.told, job.place - 1)
            return job.told >= job.place or self._tell(job.conn, job.pubend, silence, is_again=True)
        if job.bytes_left > 0 and not is_stuck:
            return False
        if not self._recover(job, job.place - 1, LAST, None):
            return False
        self._replayed[job.replay] = Replayed(job.replay, job.place, is_over=True)
        return True

    def _recovered(self, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> None:
        source = self._connections[conn]
        if not source.is_link or len(payload) < RECOVER_HEAD.size + SPAN.size:
            raise Broken("a frame that this side may not send, or that ends too early")
        number, kind = RECOVER_HEAD.unpack_from(payload)
        first, tick, born_ns, error_us = SPAN.unpack_from(payload, RECOVER_HEAD.size)
        encoded = payload[RECOVER_HEAD.size + SPAN.size :]
        to = self._relays.get((conn, number))
        if to is None or tick > TICK_MAX or kind not in (PLAIN, LOST, LAST) or (kind == LOST and encoded):
            source.counts.stray += 1
            return
        told = None
        if encoded:
            try:
                event = decoded(encoded)
            except TidewireError:
                source.counts.damaged += 1
                return
            born_ns, error_us = on_our_clock(source.clock, born_ns=born_ns, error_us=error_us, now_ns=now_ns)
            told = Told(event, encoded, born_ns, error_us)
        self._events += 1
        if kind == LAST:
            del self._relays[conn, number]
        if self._connections[to[0]].is_link:
            span = SPAN.pack(first, tick, born_ns, error_us)
            data = frame(RECOVER, RECOVER_HEAD.pack(to[1], kind) + span + encoded)
            self._put_stream(to[0], self._flow(to[2], True), data, is_event=told is not None)
        elif to[:2] in self._followers:
            self._caught(number, self._followers[to[:2]], to[2], kind, Tick(first), Tick(tick), told)

    def _caught(
        self, replay: int, follower: Follower, pubend: PubendId, kind: int, first: Tick, tick: Tick, told: Told | None
    ) -> None:
        """A piece of what a follower lacks has come, from far away."""
        place = follower.places.get(pubend)
        if place is None or place.is_joined:
            return
        is_over = kind == LAST
        if first <= place.next <= tick:
            if kind == LOST:
                self._lacks.append(Lack(follower.conn, follower.number, pubend, max(first, place.next), tick))
            elif told is not None and not self._deliver_to(follower, place, tick, told):
                self.end_replay(replay)
                self._replayed[replay] = Replayed(replay, place.next, is_over=True)
                return
            place.next = Tick(tick + 1)
        self._replayed[replay] = Replayed(replay, place.next, is_over)

    def _took(self, conn: Conn, number: int, pubend: int, tick: int) -> None:
        follower = self._followers.get((conn, number))
        place = None if follower is None else follower.places.get(PubendId(pubend))
        if place is not None:
            place.taken = max(place.taken, Tick(min(tick + 1, place.sent)))

    def _news(self) -> StreamNews | None:
        news = super()._news()
        if not self._replayed:
            return news
        replayed, self._replayed = list(self._replayed.values()), {}
        return msgspec.structs.replace(news or StreamNews(), replayed=replayed)


def _mark_key(pubend: PubendId) -> bytes:
    return b"mark/" + pubend.to_bytes(8, "little")
