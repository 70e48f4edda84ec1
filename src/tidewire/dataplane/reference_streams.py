"""Streams in the reference engine: how knowledge comes, is kept, and goes on (``streams.py``)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidewire.dataplane.events import decoded, numbers_ahead, on_our_clock
from tidewire.dataplane.protocol import Received
from tidewire.dataplane.reference import Broken, ReferenceEngine
from tidewire.dataplane.reference_queue import Flow
from tidewire.dataplane.state import Routes, Tree
from tidewire.dataplane.stream_news import Fallen, Lack, StreamNews
from tidewire.dataplane.stream_state import NEVER, Child, Follower, Place, Said, Stream, Told
from tidewire.dataplane.streams import CACHE_BYTES_MAX, WINDOW_TICKS_MAX, Range, StreamState
from tidewire.matching.scan import ScanMatcher
from tidewire.model.errors import TidewireError, UsageError
from tidewire.model.filters import decode_filter
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.ticks import TICK_MAX
from tidewire.wire.frames import ANSWER, DELIVER, FRAME_BYTES_MAX, HOP, LOST, PLAIN, SPAN, STREAM, STREAM_HEAD, frame


class ReferenceStreams(ReferenceEngine):
    """The part of an engine with streams that knows and tells."""

    def __init__(
        self,
        *,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        window_ticks_max: int = WINDOW_TICKS_MAX,
        cache_bytes_max: int = CACHE_BYTES_MAX,
        is_fair: bool = True,
    ) -> None:
        """``is_fair``: each stream has a queue of its own in every link; else they share one, as they come."""
        super().__init__(frame_bytes_max=frame_bytes_max)
        self._window_ticks_max = window_ticks_max
        self._cache_bytes_max = cache_bytes_max
        self._is_fair = is_fair
        self._streams: dict[PubendId, Stream] = {}
        self._trusted: dict[tuple[TreeId, PubendId], Tick] = {}
        self._followers: dict[tuple[Conn, int], Follower] = {}
        self._ids: dict[int, Follower] = {}
        """Followers by the destination that they are in their own routes."""
        self._followed = Routes(ScanMatcher())
        self._doubtful: dict[PubendId, None] = {}
        self._fallen: list[Fallen] = []
        self._lacks: list[Lack] = []

    # -- what a machine says -------------------------------------------------------------------------------------------

    def set_parent(self, tree: TreeId, parent: Conn | None) -> None:
        """Events of this tree come from there, and who knows what that neighbour will be silent about."""
        super().set_parent(tree, parent)
        self._trusted = {key: tick for key, tick in self._trusted.items() if key[0] != tree}
        for stream in self._streams.values():
            if stream.tree == tree:
                stream.sound = NEVER

    def forget_tree(self, tree: TreeId) -> None:
        """The tree is gone."""
        super().forget_tree(tree)
        self._trusted = {key: tick for key, tick in self._trusted.items() if key[0] != tree}

    def trust(self, tree: TreeId, places: Sequence[tuple[PubendId, Tick]], *, is_all: bool) -> None:
        """From these ticks on silence in this tree is silence for us."""
        for pubend, tick in places:
            stream = self._stream(pubend)
            if stream.is_hosted:
                continue
            self._trusted.setdefault((tree, pubend), tick)
            if stream.tree != tree:
                stream.sound = NEVER
            if is_all and stream.sound == NEVER:
                stream.sound = tick
            stream.tree = tree
            if stream.heard == 0:
                stream.heard = tick
                stream.begin(tick)
            elif tick > stream.heard:
                stream.heard = tick
                self._doubt(stream)

    def widen(self, tree: TreeId) -> None:
        """Until the next ``trust``, silence is not proven for all routes."""
        for stream in self._streams.values():
            if stream.tree == tree:
                stream.sound = NEVER

    def attend(self, pubend: PubendId, place: Tick | None) -> Received:
        """Local subscribers are owed this stream from this tick on."""
        had_nothing, stream = self._silent_ones(), self._stream(pubend)
        if not stream.is_hosted:
            stream.horizon = place
            stream.ignored = Tick(0)
            if place is not None:
                stream.begin(place)
                self._advance(stream)
                self._doubt(stream)
        return self._told(had_nothing)

    def _silent_ones(self) -> list[Conn]:
        return [one for one, there in self._connections.items() if there.out.is_empty]

    def _told(self, had_nothing: list[Conn]) -> Received:
        ready = [one for one in had_nothing if not self._connections[one].out.is_empty]
        overrun, self._overrun = self._overrun, []
        return Received("idle", ready=ready, overrun=overrun, news=self._news())

    def streams(self) -> list[StreamState]:
        """All that are known here."""
        return [
            StreamState(one.pubend, one.tree, one.heard, one.horizon, one.cached, one.ignored, kept_bytes=one.bytes)
            for one in sorted(self._streams.values(), key=lambda one: not one.is_hosted)
        ]

    def doubts(self, pubend: PubendId, *, end: Tick, count_max: int = 64) -> list[Range]:
        """The unknown ticks from the horizon up to ``end``, or to what was heard of."""
        stream = self._streams.get(pubend)
        if stream is None or stream.horizon is None:
            return []
        return stream.known.gaps(stream.horizon, min(end, max(stream.heard, stream.ignored)))[:count_max]

    def _stream(self, pubend: PubendId) -> Stream:
        if pubend not in self._streams:
            self._streams[pubend] = Stream(pubend, is_hosted=False)
        return self._streams[pubend]

    def _is_hosted(self, pubend: int) -> bool:
        return PubendId(pubend) in self._streams and self._streams[PubendId(pubend)].is_hosted

    def _doubt(self, stream: Stream) -> None:
        if stream.horizon is None or stream.horizon >= max(stream.heard, stream.ignored) or stream.is_doubtful:
            return
        stream.is_doubtful = True  # until the horizon moves
        self._doubtful[stream.pubend] = None

    def close(self, conn: Conn) -> None:
        """It ends, with what it was told and owed."""
        for stream in self._streams.values():
            stream.children.pop(conn, None)
        for key in [key for key in self._followers if key[0] == conn]:
            self._unfollow(key)
        super().close(conn)

    # -- followers -----------------------------------------------------------------------------------------------------

    def follow(self, conn: Conn, number: int) -> None:
        """This subscription is a follower."""
        self._client(conn)
        follower = self._followers.setdefault((conn, number), Follower(conn, number))
        if follower not in self._ids.values():
            self._ids[next(i for i in range(len(self._ids) + 1) if i not in self._ids)] = follower

    def owe(
        self, conn: Conn, number: int, pubend: PubendId, place: Tick, *, sound: Tick, settled: Tick | None = None
    ) -> None:
        """It is owed this stream from here on, and is behind."""
        if (conn, number) not in self._followers:
            raise UsageError("this subscription does not follow")
        self._followers[conn, number].places[pubend] = Place(place, sound, place if settled is None else settled)

    def add_routes(self, conn: Conn, numbers: Sequence[int], filters: Sequence[bytes], tree: TreeId | None) -> None:
        """Send there what matches; followers have routes of their own too."""
        super().add_routes(conn, numbers, filters, tree)
        for number, wanted in zip(numbers, filters, strict=True):
            if tree is None and (conn, number) in self._followers:
                self._followers[conn, number].wanted = decode_filter(wanted)
                self._followed.add(self._id_of(conn, number), [0], [wanted])

    def remove_routes(self, conn: Conn, numbers: Sequence[int], tree: TreeId | None) -> None:
        """No longer."""
        super().remove_routes(conn, numbers, tree)
        for number in numbers if tree is None else ():
            self._unfollow((conn, number))

    def _id_of(self, conn: Conn, number: int) -> Conn:
        follower = self._followers[conn, number]
        return Conn(next(i for i, one in self._ids.items() if one is follower))

    def _unfollow(self, key: tuple[Conn, int]) -> None:
        if key in self._followers:
            destination = self._id_of(*key)
            self._followed.forget(destination)
            del self._ids[destination], self._followers[key]

    def _has_followers(self, conn: Conn) -> bool:
        return any(key[0] == conn for key in self._followers)

    def taken(self) -> list[tuple[Conn, int, PubendId, Tick]]:
        """The followers that have taken more since this was last asked."""
        found = []
        for follower in self._followers.values():
            for pubend, place in follower.places.items():
                settled = place.settled(self._streams[pubend].horizon if pubend in self._streams else None)
                if settled > place.told:
                    place.told = settled
                    found.append((follower.conn, follower.number, pubend, settled))
        return found

    # -- what comes ----------------------------------------------------------------------------------------------------

    def _stream_came(self, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> None:
        source = self._connections[conn]
        if not source.is_link or len(payload) < STREAM_HEAD.size + SPAN.size:
            raise Broken("a frame that this side may not send, or that ends too early")
        tree_id, pubend, kind = STREAM_HEAD.unpack_from(payload)
        first, tick, born_ns, error_us = SPAN.unpack_from(payload, STREAM_HEAD.size)
        encoded = payload[STREAM_HEAD.size + SPAN.size :]
        tree = self._trees.get(TreeId(tree_id))
        is_odd = not first <= tick <= TICK_MAX or kind not in (PLAIN, LOST, ANSWER) or (kind == LOST and encoded)
        if tree is None or tree.parent != conn or self._is_hosted(pubend) or is_odd:
            source.counts.stray += 1
            return
        told = self._heard_of(conn, encoded, born_ns, error_us, now_ns) if encoded else None
        if encoded and told is None:
            return
        self._events += 1
        stream = self._stream(PubendId(pubend))
        trusted = self._trusted.get((TreeId(tree_id), PubendId(pubend)), NEVER)
        first = min(max(first, trusted), tick if told else NEVER) if kind == PLAIN else first
        if first <= tick:
            self._learn(stream, tree, Said(TreeId(tree_id), kind, first, tick, told))

    def _heard_of(self, conn: Conn, encoded: bytes, born_ns: int, error_us: int, now_ns: Nanoseconds) -> Told | None:
        """What a neighbour told, by our clock; None, and counted, if it is damaged."""
        source = self._connections[conn]
        try:
            event = decoded(encoded)
        except TidewireError:
            source.counts.damaged += 1
            return None
        return Told(event, encoded, *on_our_clock(source.clock, born_ns=born_ns, error_us=error_us, now_ns=now_ns))

    def _learn(self, stream: Stream, tree: Tree, said: Said) -> None:
        is_new = said.tick >= stream.heard
        if is_new:
            stream.heard, stream.tree = Tick(said.tick + 1), said.tree
        self._note(stream, said)
        self._tell_children(stream, tree, said, is_new=is_new)
        self._advance(stream)
        self._doubt(stream)

    def _note(self, stream: Stream, said: Said) -> None:
        """Into what we know, as far as the window reaches."""
        first, end, reach = max(said.first, stream.low), said.tick + 1, int(NEVER)
        if stream.horizon is not None and first > stream.horizon:  # what goes on from it need not wait for anything
            is_full = stream.bytes >= self._cache_bytes_max
            reach = first if is_full else stream.horizon + self._window_ticks_max
        if end > reach:
            stream.ignored = Tick(max(stream.ignored, end))
            end = reach
        if first >= end:
            return
        if said.told is not None and said.tick < end and said.tick not in stream.known:
            stream.keep(said.tick, said.told)
        if said.kind == LOST:
            for gap in stream.known.gaps(first, end):
                stream.lost.add(*gap)
        stream.known.add(first, end)
        if stream.horizon is None:
            stream.forget(self._cache_bytes_max)

    # -- what goes on --------------------------------------------------------------------------------------------------

    def _tell_children(self, stream: Stream, tree: Tree, said: Said, *, is_new: bool) -> None:
        first, tick, told = said.first, said.tick, said.told
        wanting = {} if told is None else {Conn(one.destination): None for one in tree.routes.match(told.event)}
        for conn in tree.routes.conns():
            child = stream.children.setdefault(conn, Child())
            is_wanted = conn in wanting
            if not is_new:
                if child.curious.within(first, tick + 1):
                    child.curious.remove(first, tick + 1)
                    again = LOST if said.kind == LOST else ANSWER
                    answer = Said(said.tree, again, first, tick, told if is_wanted else None)
                    self._answered(conn, stream.pubend, answer)
                continue
            if child.end < first:
                child.first = first
            child.end = tick + 1
            child.curious.remove(first, tick + 1)
            if said.kind == LOST:
                self._tell(conn, stream.pubend, Said(said.tree, LOST, first, tick))
            elif is_wanted or told is None:
                self._tell(conn, stream.pubend, Said(said.tree, PLAIN, child.first, tick, told))
            else:
                continue
            child.first = child.end

    def _answered(self, conn: Conn, pubend: PubendId, answer: Said) -> None:
        """What a neighbour has asked for has come."""
        self._tell(conn, pubend, answer, is_again=True)

    def _tell(self, conn: Conn, pubend: PubendId, said: Said, *, is_again: bool = False) -> bool:
        told = said.told
        times = (0, 0) if told is None else (told.born_ns, told.error_us)
        head = STREAM_HEAD.pack(said.tree, pubend, said.kind) + SPAN.pack(said.first, said.tick, *times)
        data = frame(STREAM, head + (b"" if told is None else told.encoded))
        if told is not None and not self._connections[conn].takes(len(data)):
            self._connections[conn].counts.dropped += 1
            before = Said(said.tree, said.kind, said.first, said.tick - 1)
            is_told = said.first == said.tick or self._tell(conn, pubend, before, is_again=is_again)
            lost = Said(said.tree, LOST, said.tick, said.tick)
            return is_told and self._tell(conn, pubend, lost, is_again=is_again)
        return self._put_stream(conn, self._flow(pubend, is_again), data, is_event=told is not None)

    def _flow(self, pubend: PubendId, is_again: bool) -> Flow:
        return (pubend, is_again) if self._is_fair else (PubendId(0), False)

    def _put_stream(self, conn: Conn, flow: Flow, data: bytes, *, is_event: bool) -> bool:
        to = self._connections[conn]
        if not to.takes_events or not to.out.fits_stream(flow, len(data)):
            to.counts.dropped += is_event
            return False
        to.out.put_stream(flow, data)
        to.counts.events_out += is_event
        to.counts.bytes_out += len(data)
        self._forwards += is_event
        return True

    # -- local subscribers ---------------------------------------------------------------------------------------------

    def _advance(self, stream: Stream) -> None:
        """Deliver what is no longer in doubt."""
        if stream.horizon is None or stream.is_hosted:
            return
        before, stream.horizon = stream.horizon, stream.known.end_of(stream.horizon)
        if stream.horizon == before:
            return
        stream.is_doubtful = False
        for first, end in stream.lost.within(before, stream.horizon):
            self._lack(stream.pubend, first, end)
        for tick, told in stream.events(before, stream.horizon):
            self._deliver(stream.pubend, tick, told)
        stream.forget(self._cache_bytes_max)

    def _lack(self, pubend: PubendId, first: Tick, end: Tick) -> None:
        for follower in self._followers.values():
            place = follower.places.get(pubend)
            if place is not None and place.is_joined and place.next < end:
                start = max(first, place.next)
                self._lacks.append(Lack(follower.conn, follower.number, pubend, start, Tick(end - 1)))

    def _deliver(self, pubend: PubendId, tick: Tick, told: Told) -> None:
        self._keep_samples(told.encoded)
        hop = HOP.pack(told.born_ns, told.error_us, tick)
        for one in self._clients.match(told.event):
            conn = Conn(one.destination)
            numbers = tuple(number for number in one.numbers if (conn, number) not in self._followers)
            if one.more or numbers:
                ahead = numbers_ahead(msgspec.structs.replace(one, numbers=numbers))
                self._matches += 1
                self._deliveries += self._put(conn, frame(DELIVER, hop + ahead + told.encoded))
        for row in self._followed.match(told.event):
            follower = self._ids[row.destination]
            place = follower.places.get(pubend)
            if place is None or not place.is_joined or tick < place.next:
                continue
            self._matches += 1
            if not self._deliver_to(follower, place, tick, told):
                place.is_joined, place.next = False, tick
                self._fallen.append(Fallen(follower.conn, follower.number, pubend, tick))

    def _deliver_to(self, follower: Follower, place: Place, tick: Tick, told: Told) -> bool:
        """False if there is no room."""
        hop = HOP.pack(told.born_ns, told.error_us, tick)
        ahead = bytes([1]) + follower.number.to_bytes(4, "little")
        data = frame(DELIVER, hop + ahead + told.encoded)
        to = self._connections[follower.conn]
        if not to.takes_events or not to.out.fits(len(data)):
            return False
        to.out.put(data, "data")
        to.counts.events_out += 1
        to.counts.bytes_out += len(data)
        self._deliveries += 1
        place.sent = Tick(tick + 1)
        return True

    def _make_room(self, conn: Conn, size: int) -> None:
        """What is queued for followers is never thrown away: where there are some, the new event goes instead."""
        if not self._has_followers(conn):
            super()._make_room(conn, size)

    def _news(self) -> StreamNews | None:
        news = StreamNews(list(self._doubtful), [], self._fallen, self._lacks)
        self._doubtful, self._fallen, self._lacks = {}, [], []
        return news if news.doubtful or news.fallen or news.lacks else None
