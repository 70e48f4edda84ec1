"""Telling again what somebody lacks, in the reference engine: to neighbours, and to followers that are behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from tidewire.dataplane.protocol import Received
from tidewire.dataplane.reference import Broken
from tidewire.dataplane.reference_host import ReferenceHost
from tidewire.dataplane.stream_news import Lack, Replayed, StreamNews, Unknown
from tidewire.dataplane.stream_state import NEVER, Child, Follower, Job, Said, Stream, Told
from tidewire.dataplane.streams import Range
from tidewire.model.errors import UsageError
from tidewire.model.filters import decode_filter
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.ticks import TICK_MAX, TICK_MIN
from tidewire.wire.frames import (
    ANSWER,
    HEAD,
    HOP,
    LAST,
    LOST,
    PLAIN,
    RECOVER,
    RECOVER_HEAD,
    SPAN,
    STREAM,
    TAKEN,
    TAKEN_BODY,
    frame,
)

PIECE_EVENTS: Final = 256
PIECE_BYTES: Final = 16 << 10
"""What a job reads, or sends, in its turn."""


_Receiver = tuple[Conn, int, PubendId]
"""Of what a RECOVER tells: the connection, its number for it, and the stream."""


class StreamingReference(ReferenceHost):
    """A ``StreamEngine`` that is obviously right."""

    def __init__(self, **options: int | bool) -> None:
        super().__init__(**options)
        self._jobs: deque[Job] = deque()
        self._relays: dict[tuple[Conn, int], _Receiver] = {}
        self._replayed: dict[int, Replayed] = {}
        self._unknown: list[Unknown] = []

    def close(self, conn: Conn) -> None:
        """It ends, and with it what was to be told to it."""
        for job in [job for job in self._jobs if job.conn == conn]:
            self._jobs.remove(job)
        self._relays = {key: to for key, to in self._relays.items() if conn not in (key[0], to[0])}
        super().close(conn)

    def _unfollow(self, key: tuple[Conn, int]) -> None:
        """It is owed nothing more."""
        if key in self._followers:
            self._jobs = deque(job for job in self._jobs if job.tree is not None or (job.conn, job.number) != key)
        super()._unfollow(key)

    def _handle(self, conn: Conn, kind: int, payload: bytes, now_ns: Nanoseconds) -> None:
        source = self._connections[conn]
        if kind == STREAM:
            self._stream_came(conn, payload, now_ns)
        elif kind == RECOVER:
            self._recovered(conn, payload, now_ns)
        elif kind == TAKEN and not source.is_link and len(payload) == TAKEN_BODY.size:
            self._took(conn, *TAKEN_BODY.unpack(payload))
        else:
            super()._handle(conn, kind, payload, now_ns)

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
                if not self._goes_on(conn, tree, pubend, (one, behind)):
                    self._jobs.append(Job(0, conn, 0, pubend, one, one, end=behind, tree=tree))
                rest = behind
            unknown += [(Tick(rest), end)] if rest < end else []
        for first, end in unknown:
            child.curious.add(first, end)
        return unknown

    def _goes_on(self, conn: Conn, tree: TreeId, pubend: PubendId, asked: Range) -> bool:
        """Is it part of an answer that is still to be told, or behind one? Then it is told in its order, and once."""
        for job in self._jobs:
            is_same = (job.conn, job.tree, job.pubend, job.is_late) == (conn, tree, pubend, False)
            if is_same and job.place <= asked[0] <= job.end:
                job.end = max(job.end, asked[1])
                return True
        return False

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

    def serve(self, *, now_ns: Nanoseconds) -> Received:
        """The next one that has room, a piece of it."""
        self._now_ns = now_ns
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
        bytes_left = min(job.bytes_left, PIECE_BYTES)
        for tick, told in events:
            unsaid = self._say_lost(job, lost, tick, follower)
            if unsaid is not None or bytes_left <= 0:
                known_to = tick if unsaid is None else unsaid
                break
            if self._wants(job, told):
                if not self._say(job, tick, told, follower):
                    known_to = tick
                    job.frame_bytes = HEAD.size + HOP.size + 5 + len(told.encoded)
                    break
                bytes_left -= len(told.encoded)
                job.bytes_left -= len(told.encoded)
        else:
            unsaid = self._say_lost(job, lost, Tick(known_to), follower)
            known_to = known_to if unsaid is None else unsaid
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

    def _say_lost(self, job: Job, lost: list[Range], before: Tick, follower: Follower | None) -> Tick | None:
        """What is lost before this tick is said where it belongs: what follows would else make it silence. One that
        there is no room for?"""
        silence = PLAIN if job.tree is None else ANSWER
        while lost and lost[0][0] < before:
            first, end = lost[0]
            if follower is not None:
                self._lacks.append(Lack(job.conn, job.number, job.pubend, first, Tick(end - 1)))
            elif not (self._say_none(job, silence, first) and self._say_none(job, LOST, end)):
                return first
            del lost[0]
        return None

    def _say_none(self, job: Job, kind: int, end: Tick) -> bool:
        """There is nothing to tell up to this tick: it is silence, or lost."""
        if job.told >= end:
            return True
        if job.tree is not None:
            is_told = self._tell(job.conn, job.pubend, Said(job.tree, kind, job.told, end - 1), is_again=True)
        else:
            is_told = self._recover(job, Tick(end - 1), kind, None)
        job.told = end if is_told else job.told
        return is_told

    def _recover(self, job: Job, tick: int, kind: int, told: Told | None) -> bool:
        return self._recover_to((job.conn, job.number, job.pubend), kind, job.told, tick, told)

    def _recover_to(self, to: _Receiver, kind: int, first: int, tick: int, told: Told | None, *times: int) -> bool:
        conn, number, pubend = to
        span = SPAN.pack(first, tick, *((told.born_ns, told.error_us) if told else times or (0, 0)))
        data = frame(RECOVER, RECOVER_HEAD.pack(number, kind) + span + (told.encoded if told else b""))
        if told is not None and not self._connections[conn].takes(len(data)):
            self._connections[conn].counts.dropped += 1
            is_told = first >= tick or self._recover_to(to, PLAIN, first, tick - 1, None)
            return is_told and self._recover_to(to, LOST, tick, tick, None)
        return self._put_stream(conn, self._flow(pubend, True), data, is_event=told is not None)

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
            if not self._say_none(job, ANSWER, job.place):
                return False
            self._ask_again(job, stream)
            return True
        if job.bytes_left > 0 and not is_stuck:
            return False
        if not self._recover(job, job.place - 1, LAST, None):
            return False
        self._replayed[job.replay] = Replayed(job.replay, job.place, is_over=True)
        return True

    def _answered(self, conn: Conn, pubend: PubendId, answer: Said) -> None:
        """What a neighbour has asked for has come. Without room for it it is told later, and what follows behind it."""
        first, end = Tick(answer.first), Tick(answer.tick + 1)
        for job in self._jobs:
            if job.is_late and (job.conn, job.pubend, job.tree, job.end) == (conn, pubend, answer.tree, first):
                job.end = end
                return
        if not self._tell(conn, pubend, answer, is_again=True):
            self._jobs.append(Job(0, conn, 0, pubend, first, first, end=end, tree=answer.tree, is_late=True))

    def _ask_again(self, job: Job, stream: Stream) -> None:
        """The rest of an answer is not known here any more: now that there is room for it, it may come once more."""
        if job.place < job.end and not stream.is_hosted:
            assert job.tree is not None
            stream.children.setdefault(job.conn, Child()).curious.add(job.place, job.end)
            self._unknown.append(Unknown(job.tree, job.pubend, job.place, job.end))

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
        told = self._heard_of(conn, encoded, born_ns, error_us, now_ns) if encoded else None
        if encoded and told is None:
            return
        self._events += 1
        if kind == LAST:
            del self._relays[conn, number]
        if self._connections[to[0]].is_link:
            if not self._recover_to(to, kind, first, tick, told, born_ns, error_us):
                self._break_off((conn, number), to, Tick(max(first, TICK_MIN)))
        elif to[:2] in self._followers:
            self._caught(number, self._followers[to[:2]], to[2], kind, Tick(first), Tick(tick), told)

    def _break_off(self, relay: tuple[Conn, int], to: _Receiver, place: Tick) -> None:
        """There is no room for what comes next: who waits for it hears so at once, and asks again from here on."""
        self._relays.pop(relay, None)
        there = self._connections[to[0]]
        if there.takes_events:
            data = frame(RECOVER, RECOVER_HEAD.pack(to[1], LAST) + SPAN.pack(place, place - 1, 0, 0))
            there.out.put_stream(self._flow(to[2], True), data)
            there.counts.bytes_out += len(data)

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
        if not self._replayed and not self._unknown:
            return news
        replayed, self._replayed = list(self._replayed.values()), {}
        unknown, self._unknown = self._unknown, []
        return msgspec.structs.replace(news or StreamNews(), replayed=replayed, unknown=unknown)
