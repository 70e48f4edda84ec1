"""The kernel's data plane as an engine, and with sockets: read, match and write inside one call.

Without sockets it is what the contract says (``protocol.py``). A connection with a socket (``attach``) is read by
``pump`` and written whenever something comes for it; the driver acts only on what a call reports, mostly nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, cast

from tidewire._kernel._native import Log as NativeLog
from tidewire._kernel._native import Plane, TlsLine
from tidewire.dataplane.log import Log
from tidewire.dataplane.protocol import (
    QUEUE_BYTES_MAX,
    Received,
    Refusal,
    Samples,
    State,
    Traffic,
    TrafficClass,
    WhenFull,
    Work,
)
from tidewire.dataplane.stream_news import Fallen, Lack, Replayed, StreamNews, Unknown
from tidewire.dataplane.streams import CACHE_BYTES_MAX, WINDOW_TICKS_MAX, Range, StreamState
from tidewire.matching.protocol import NUMBER_LIMIT
from tidewire.model.errors import ValueOutOfRange
from tidewire.model.filters import Filter, decode_filter, encode_filter
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.messages import Lane
from tidewire.wire.frames import FRAME_BYTES_MAX

BUDGET_NS: Final = 1_000_000
IDLE: Final = Received("idle")

_Lack = tuple[int, int, int, int, int]
_Refusals = list[tuple[list[int], int, str, str, bool]]
_Four = tuple[int, int, int, int]
_News = tuple[list[int], list[tuple[int, int, bool, bool]], list[_Four], list[_Lack], list[_Four]]
_Numbers = list[int]
_Outcome = tuple[str, bytes | None, str, _Refusals, _Numbers, _Numbers, _Numbers, list[tuple[int, int]], _News | None]


Told = tuple[Conn | None, Received]


class KernelEngine:
    """An engine (``protocol.py``) in C++. ``budget_ns`` bounds the time of a call; with 0 it depends on no clock."""

    def __init__(
        self,
        *,
        seed: int = 0,
        simd: str = "",
        frame_bytes_max: int = FRAME_BYTES_MAX,
        budget_ns: int = BUDGET_NS,
        window_ticks_max: int = WINDOW_TICKS_MAX,
        cache_bytes_max: int = CACHE_BYTES_MAX,
        is_fair: bool = True,
    ) -> None:
        self._plane = Plane(seed, simd, frame_bytes_max, budget_ns, window_ticks_max, cache_bytes_max, is_fair)

    def open(self, conn: Conn, *, is_link: bool, when_full: WhenFull, queue_bytes_max: int = QUEUE_BYTES_MAX) -> None:
        """A connection begins."""
        self._plane.open(conn, is_link, when_full, queue_bytes_max)

    def close(self, conn: Conn) -> None:
        """It ends."""
        self._plane.close(conn)

    def make_link(self, conn: Conn, *, queue_bytes_max: int, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        """It leads to a neighbour."""
        self._plane.make_link(conn, queue_bytes_max, frame_bytes_max)

    def may_publish(self, conn: Conn, *, publisher: int, next_sequence: int) -> None:
        """From now on PUBLISH is taken from this client."""
        self._plane.may_publish(conn, publisher, next_sequence)

    def permit(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher's identity may publish."""
        self._plane.permit(conn, None if filters is None else list(filters))

    def allow(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher advertised."""
        self._plane.allow(conn, None if filters is None else single_conjunctions(filters))

    def set_clock(self, conn: Conn, *, offset_ns: int, error_us: int) -> None:
        """To be added to times that come from there."""
        self._plane.set_clock(conn, offset_ns, error_us)

    def set_classes(self, classes: Sequence[TrafficClass]) -> None:
        """What events that are published from now on get."""
        self._plane.set_classes([(one.number, one.filter, one.ttl_ns, one.value) for one in classes])

    def own_tree(self, tree: TreeId) -> None:
        """The tree of events that are published here."""
        self._plane.own_tree(tree)

    def set_parent(self, tree: TreeId, parent: Conn | None) -> None:
        """Events of this tree come from there."""
        self._plane.set_parent(tree, parent)

    def forget_tree(self, tree: TreeId) -> None:
        """The tree is gone."""
        self._plane.forget_tree(tree)

    def add_routes(self, conn: Conn, numbers: Sequence[int], filters: Sequence[bytes], tree: TreeId | None) -> None:
        """Send there what matches."""
        self._plane.add_routes(conn, _numbers(numbers), list(filters), tree)

    def remove_routes(self, conn: Conn, numbers: Sequence[int], tree: TreeId | None) -> None:
        """No longer."""
        self._plane.remove_routes(conn, _numbers(numbers), tree)

    def receive(self, conn: Conn, data: bytes, *, now_ns: Nanoseconds) -> Received:
        """Bytes have come."""
        return _received(self._plane.receive(conn, data, now_ns))

    def resume(self, conn: Conn, *, now_ns: Nanoseconds) -> Received:
        """Go on with what has come before."""
        return _received(self._plane.resume(conn, now_ns))

    def send(self, conn: Conn, frame: bytes, lane: Lane) -> bool:
        """Queue a frame of the node itself. With a socket: it is written by the next ``flush``, at the latest."""
        return self._plane.send(conn, frame, lane == "control")

    def output(self, conn: Conn, *, bytes_max: int, now_ns: Nanoseconds | None = None) -> bytes:
        """Take what is to be sent next."""
        return self._plane.output(conn, bytes_max, now_ns)

    def unblocked(self) -> list[Conn]:
        """The connections that were blocked and need no longer be."""
        return cast(list[Conn], self._plane.unblocked())

    def traffic(self, conn: Conn) -> Traffic:
        """What has passed on this connection."""
        return Traffic(*self._plane.traffic(conn))

    def totals(self) -> Traffic:
        """Of all connections together."""
        return Traffic(*self._plane.totals())

    def lossy(self) -> list[Conn]:
        """The connections that have lost events since this was last asked."""
        return cast(list[Conn], self._plane.lossy())

    def work(self) -> Work:
        """What has been done."""
        return Work(*self._plane.work())

    def sample(self, count: int) -> None:
        """Keep the next so many events that are taken."""
        self._plane.sample(count)

    def samples(self) -> Samples:
        """Those that were kept, and who wants them."""
        events, conns, vectors = self._plane.samples()
        bits = (int.from_bytes(vector, "little") for vector in vectors)
        return Samples(events, dict(sorted(zip(cast(list[Conn], conns), bits, strict=True))))

    # -- streams -------------------------------------------------------------------------------------------------------

    def host(self, log: Log, pubends: Sequence[PubendId], *, unix_offset_ns: int, now_ns: Nanoseconds) -> None:
        """Guaranteed events that are published here go into this log, which must be the kernel's."""
        assert isinstance(log, NativeLog)
        self._plane.host(log, list(pubends), unix_offset_ns, now_ns)

    def committed(self, *, now_ns: Nanoseconds) -> Received:
        """The log has become durable further."""
        return _received(self._plane.committed(now_ns))

    def start_log(self) -> int:
        """The log commits by itself from now on. The file is readable when something has become durable."""
        return self._plane.start_log()

    @property
    def has_appended(self) -> bool:
        """Has something been appended that the log has not been told to commit?"""
        return self._plane.has_appended()

    def submit(self, *, now_ns: Nanoseconds) -> Received:
        """What was appended is to become durable; if it is at once, it goes its way."""
        return _received(self._plane.submit(now_ns))

    def silence(self, pubend: PubendId, *, now_ns: Nanoseconds) -> Received:
        """Tell all who want something of our tree that the pubend is silent up to now."""
        return _received(self._plane.silence(pubend, now_ns))

    def limit(self, pubend: PubendId, events_s: float | None, *, now_ns: Nanoseconds) -> None:
        """So many a second are taken into this pubend."""
        self._plane.limit(pubend, events_s, now_ns)

    def heads(self) -> list[tuple[PubendId, Tick]]:
        """Of each pubend here: the first tick that is not yet told."""
        return cast(list[tuple[PubendId, Tick]], self._plane.heads())

    def trust(self, tree: TreeId, places: Sequence[tuple[PubendId, Tick]], *, is_all: bool) -> None:
        """From these ticks on silence in this tree is silence for us."""
        self._plane.trust(tree, list(places), is_all)

    def widen(self, tree: TreeId) -> None:
        """Until the next ``trust``, silence is not proven for all routes."""
        self._plane.widen(tree)

    def attend(self, pubend: PubendId, place: Tick | None) -> Received:
        """Local subscribers are owed this stream from this tick on."""
        return _received(self._plane.attend(pubend, place))

    def streams(self) -> list[StreamState]:
        """All that are known here."""
        return [StreamState(*state) for state in self._plane.streams()]

    def doubts(self, pubend: PubendId, *, end: Tick, count_max: int = 64) -> list[Range]:
        """The unknown ticks from the horizon up to ``end``, or to what was heard of."""
        return cast(list[Range], self._plane.doubts(pubend, end, count_max))

    def answer(self, conn: Conn, tree: TreeId, pubend: PubendId, ranges: Sequence[Range]) -> list[Range]:
        """A neighbour lacks these ticks."""
        return cast(list[Range], self._plane.answer(conn, tree, pubend, list(ranges)))

    def replay(
        self, replay: int, conn: Conn, number: int, pubend: PubendId, place: Tick, *, wanted: bytes, bytes_max: int
    ) -> None:
        """Tell a neighbour what matches, from this tick on."""
        self._plane.replay(replay, conn, number, pubend, place, wanted, bytes_max)

    def catch_up(self, replay: int, conn: Conn, number: int, pubend: PubendId) -> None:
        """Tell a follower what it is owed, from what is here."""
        self._plane.catch_up(replay, conn, number, pubend)

    def relay(self, link: Conn, replay: int, conn: Conn, number: int, pubend: PubendId) -> None:
        """RECOVER with this name from this neighbour goes on to that connection."""
        self._plane.relay(link, replay, conn, number, pubend)

    def stop_replay(self, conn: Conn, number: int) -> tuple[Conn, int] | None:
        """A neighbour no longer wants what it asked for by this number."""
        found = self._plane.stop_replay(conn, number)
        return None if found is None else (Conn(found[0]), found[1])

    def end_replay(self, replay: int) -> None:
        """It is no longer wanted."""
        self._plane.end_replay(replay)

    def serve(self, *, now_ns: Nanoseconds) -> Received:
        """Each one in turn, a piece at a time."""
        return _received(self._plane.serve(now_ns))

    @property
    def is_serving(self) -> bool:
        """Is there something to serve that has room to go to?"""
        return self._plane.is_serving()

    def follow(self, conn: Conn, number: int) -> None:
        """This subscription is a follower."""
        self._plane.follow(conn, number)

    def owe(
        self, conn: Conn, number: int, pubend: PubendId, place: Tick, *, sound: Tick, settled: Tick | None = None
    ) -> None:
        """It is owed this stream from here on, and is behind."""
        self._plane.owe(conn, number, pubend, place, sound, place if settled is None else settled)

    def taken(self) -> list[tuple[Conn, int, PubendId, Tick]]:
        """The followers that have taken more since this was last asked."""
        return cast(list[tuple[Conn, int, PubendId, Tick]], self._plane.taken())

    # -- sockets -------------------------------------------------------------------------------------------------------

    def attach(self, conn: Conn, fd: int, tls: TlsLine | None = None) -> None:
        """This connection is that socket, which stays the caller's to close, behind ``close``. It never blocks.

        With ``tls``, whose handshake is done, what comes is opened and what leaves is sealed inside the same calls.
        """
        self._plane.attach(conn, fd, tls)

    def pump(self, conn: Conn, *, now_ns: Nanoseconds) -> Received | None:
        """The socket can be read: read once, handle it, write to every socket that something came for.

        A Ping is answered, and not told: the machine would do no more, and those who say nothing else may be many.

        None if there is nothing to know: it is idle, nothing was refused, no queue needs help. From a connection that
        is busy or blocked nothing is read; a driver stops asking until it has resumed.
        """
        outcome = self._plane.pump(conn, now_ns)
        return None if outcome is None else _received(outcome)

    def wait(self, epoll: int, *, timeout_ms: int) -> tuple[list[tuple[int, int]], Told | None]:
        """Wait on this epoll, and pump whatever socket of ours can be read, until there is something to know.

        Whoever is busy goes on by itself. As long as more is coming, a little is not sent alone, but waits some
        milliseconds for what else comes.

        Sockets that are not ours or want more than to be read, with what epoll says of them; and what is to be told of
        a connection, or of sockets that were written (None). Both are empty when the time is over (-1: never).
        """
        others, conn, outcome = self._plane.wait(epoll, timeout_ms)
        return others, None if outcome is None else (None if conn is None else Conn(conn), _received(outcome))

    def limit_to(self, *, cpu_share: float = 0.0, output_bytes_s: float = 0.0) -> None:
        """So much of a core is used for events, and so many bytes a second go out; 0: no limit.

        Whoever brings events when as much has been used is *blocked*, and may go on when the broker has rested. What
        was begun is finished. Messages never wait, but count as bytes. Time is then that of this thread alone.
        """
        self._plane.limit_to(cpu_share, output_bytes_s)

    def rest_ns(self) -> int | None:
        """How long until those that wait for the broker to rest may go on, by ``unblocked``; None: nobody waits."""
        return self._plane.rest_ns()

    def ignore(self, conn: Conn) -> None:
        """Nothing that comes from there is handled any more."""
        self._plane.ignore(conn)

    def flush(self, conn: Conn) -> Received | None:
        """Write what waits for this socket; None if all is written, else it is still stalled, or has ended."""
        outcome = self._plane.flush(conn)
        return None if outcome is None else _received(outcome)


def single_conjunctions(filters: Sequence[bytes]) -> list[bytes]:
    """Each conjunction as a filter of its own: what it allows depends on the attributes that it alone names."""
    return [encode_filter(Filter((one,))) for given in filters for one in decode_filter(given).conjunctions]


def _numbers(numbers: Sequence[int]) -> array[int]:
    try:
        return array("I", numbers)
    except OverflowError:
        raise ValueOutOfRange(f"a subscription's number is not from 0 to {NUMBER_LIMIT - 1}") from None


def _received(outcome: _Outcome | None) -> Received:
    if outcome is None:
        return IDLE
    state, message, reason, refusals, ready, overrun, stalled, ended, news = outcome
    return Received(
        cast(State, state),
        message,
        reason,
        [Refusal(*refusal) for refusal in refusals],
        cast(list[Conn], ready),
        cast(list[Conn], overrun),
        cast(list[Conn], stalled),
        cast(list[tuple[Conn, int]], ended),
        None if news is None else _news(news),
    )


def _news(news: _News) -> StreamNews:
    doubtful, replayed, fallen, lacks, unknown = news
    return StreamNews(
        cast(list[PubendId], doubtful),
        [Replayed(replay, Tick(place), is_over, is_joined) for replay, place, is_over, is_joined in replayed],
        [Fallen(Conn(conn), number, PubendId(pubend), Tick(place)) for conn, number, pubend, place in fallen],
        [Lack(Conn(c), number, PubendId(p), Tick(first), Tick(last)) for c, number, p, first, last in lacks],
        [Unknown(TreeId(tree), PubendId(p), Tick(first), Tick(end)) for tree, p, first, end in unknown],
    )
