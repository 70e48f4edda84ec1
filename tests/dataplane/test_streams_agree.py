"""Both engines with streams do the same, whatever happens: the same frames, states, news, refusals and counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dataplane.streaming import (
    MS,
    STREAM_MAKERS,
    Host,
    guarantee,
    recover,
    served,
    stream,
)
from tests.dataplane.world import Handled, publish, taken
from tests.matching.building import either, eq, ge, lt, where
from tidewire.dataplane.protocol import WhenFull
from tidewire.dataplane.stream_news import StreamNews
from tidewire.dataplane.streams import StreamEngine
from tidewire.model.errors import TidewireError
from tidewire.model.filters import ALL, NOTHING, encode_filter
from tidewire.model.ids import Conn, PubendId, Tick, TreeId
from tidewire.model.messages import Done
from tidewire.wire.frames import ANSWER, LAST, LOST, PLAIN, guarantee_frame, message_frame, taken_frame

CLIENTS = [Conn(0), Conn(1), Conn(2)]
LINKS = [Conn(3), Conn(4), Conn(5)]
OWN, TREES = TreeId(1), [TreeId(2), TreeId(3)]
HOSTED = [PubendId(70), PubendId(71)]
AFAR = [PubendId(80), PubendId(81)]
OPTIONS = {"window_ticks_max": 60, "cache_bytes_max": 900}
NUMBERS = [1, 2, 3]
POOL = [ALL, ALL, NOTHING, where(n=ge(3)), where(n=lt(4)), either(where(n=eq(2)), where(n=lt(6)))]
BASE = 1000
"""Ticks of streams from afar begin here."""

filters = st.sampled_from(POOL).map(encode_filter)
lives = st.none() | st.sampled_from([0, 10 * MS, 30 * MS, 10_000 * MS])
bounds = st.sampled_from([0, 200, 400, 700, 2000, 1 << 20])
POLICIES: list[WhenFull] = ["wait", "drop", "end"]


class World:
    """A host with each engine; what is done to one is done to all, and must come to the same."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw: Callable[..., Any] = data.draw
        self.hosts = {
            name: Host(lambda make=make: make(**OPTIONS), HOSTED, group_bytes=1 << 11, backlog_bytes_max=1 << 12)
            for name, make in STREAM_MAKERS.items()
            if name != "hurried kernel"  # where it stops, it goes on with another replay: that is another order
        }
        self.open: dict[Conn, None] = {}
        self.next_tick = dict.fromkeys(AFAR, BASE)
        self.sequence = dict.fromkeys(CLIENTS, 1)
        self.replay = 1
        self.relays: list[int] = []
        self.begin()

    # -- all of them ---------------------------------------------------------------------------------------------------

    def all_say(self, call: Callable[..., object], *arguments: object) -> Any:
        """The one answer that they all give; an error by its code."""
        answers = {name: _answer(call, host, *arguments) for name, host in self.hosts.items()}
        assert len({repr(answer) for answer in answers.values()}) == 1, "\n".join(map(repr, answers.values()))
        return answers["reference"]

    def all_do(self, call: Callable[..., object], *arguments: object) -> Any:
        """The same, of engines."""
        return self.all_say(lambda host: call(host.engine, *arguments))

    def begin(self) -> None:
        """A life begins: two clients, two neighbours, and most of them want something."""
        self.open.clear()
        self.all_do(lambda e: e.own_tree(OWN))
        for conn in (*CLIENTS[:2], *LINKS[:2]):
            self._open_it(conn)
            self._want(conn)
        for tree, parent in zip(TREES, LINKS, strict=False):
            self.all_do(lambda e, tree, parent: e.set_parent(tree, parent), tree, parent)

    def compare(self) -> None:
        """How everything stands."""
        self.all_do(lambda e: sorted(e.streams(), key=lambda one: one.pubend))
        self.all_do(lambda e: [e.doubts(pubend, end=Tick(5000)) for pubend in AFAR])
        self.all_do(lambda e: sorted(e.taken()))
        self.all_do(lambda e: e.heads())
        self.all_do(lambda e: e.is_serving)
        for conn in self.open:
            self.all_do(lambda e, conn: e.traffic(conn), conn)

    def finish(self) -> None:
        """And all that waits."""
        self.compare()
        for conn in self.open:
            self.all_do(taken, conn)
        self.all_do(lambda e: e.totals())
        self.all_do(lambda e: e.lossy())
        self.all_do(_comparable_work)

    # -- what happens --------------------------------------------------------------------------------------------------

    def act(self, action: str) -> None:
        getattr(self, f"_{action}")()

    def _one_of(self, conns: list[Conn]) -> Conn | None:
        there = [conn for conn in conns if conn in self.open]
        return self.draw(st.sampled_from(there)) if there else None

    def _open(self) -> None:
        self._open_it(self.draw(st.sampled_from(CLIENTS + LINKS)))

    def _open_it(self, conn: Conn) -> None:
        bound, is_link = self.draw(bounds), conn in LINKS
        when_full: WhenFull = "wait" if is_link else self.draw(st.sampled_from(POLICIES))
        said = self.all_do(lambda e: e.open(conn, is_link=is_link, when_full=when_full, queue_bytes_max=bound))
        if said is None:
            self.open[conn] = None
            if not is_link:
                self.all_do(lambda e: e.may_publish(conn, publisher=conn, next_sequence=1))

    def _close(self) -> None:
        conn = self._one_of(CLIENTS + LINKS)
        if conn is not None:
            self.all_do(lambda e: e.close(conn))
            del self.open[conn]

    def _routes(self) -> None:
        conn = self._one_of(CLIENTS + LINKS)
        if conn is not None:
            self._want(conn)

    def _want(self, conn: Conn) -> None:
        number, wanted = self.draw(st.sampled_from(NUMBERS)), self.draw(filters)
        for tree in [OWN, *TREES] if conn in LINKS else [None]:
            self.all_do(lambda e, tree: e.add_routes(conn, [number], [wanted], tree), tree)

    def _routes_gone(self) -> None:
        conn = self._one_of(CLIENTS + LINKS)
        if conn is not None:
            number = self.draw(st.sampled_from(NUMBERS))
            tree = self.draw(st.sampled_from([OWN, *TREES])) if conn in LINKS else None
            self.all_do(lambda e: e.remove_routes(conn, [number], tree))

    def _trees(self) -> None:
        tree, parent = self.draw(st.sampled_from(TREES)), self._one_of(LINKS)
        what = self.draw(st.sampled_from(["parent", "parent", "parent", "orphan", "forget"]))
        if what == "forget":
            self.all_do(lambda e: e.forget_tree(tree))
        else:
            self.all_do(lambda e: e.set_parent(tree, parent if what == "parent" else None))

    def _permit(self) -> None:
        conn = self._one_of(CLIENTS)
        if conn is not None:
            permitted = self.draw(st.none() | st.lists(filters, max_size=2))
            self.all_do(lambda e: e.permit(conn, permitted))

    def _clock(self) -> None:
        conn = self._one_of(CLIENTS + LINKS)
        if conn is not None:
            self.all_do(lambda e: e.set_clock(conn, offset_ns=7, error_us=2))

    # -- hosting -------------------------------------------------------------------------------------------------------

    def _guarantee(self) -> None:
        conn = self._one_of(CLIENTS)
        if conn is None:
            return
        frames = b""
        for _ in range(self.draw(st.integers(1, 8))):
            what = self.draw(st.sampled_from(["new"] * 6 + ["again", "best effort", "damaged", "message"]))
            n, body = self.draw(st.integers(0, 8)), self.draw(st.sampled_from([None, None, bytes(300)]))
            if what == "best effort":
                frames += publish(n, ttl_ns=self.draw(lives))
                continue
            if what == "message":
                frames += message_frame(Done(1))
                continue
            if what != "again":
                self.sequence[conn] += self.draw(st.sampled_from([1, 1, 1, 3]))
            sequence = self.sequence[conn] - (self.draw(st.integers(0, 5)) if what == "again" else 0)
            if what == "damaged":
                frames += guarantee_frame(b"none", born_ns=1, sequence=max(0, sequence))
            else:
                frames += guarantee(n, sequence=max(0, sequence), body=body, ttl_ns=self.draw(lives))
        self._receive(conn, frames)

    def _receive(self, conn: Conn, data: bytes) -> None:
        self.all_say(lambda host: _comparable(host.receive(conn, data)))

    def _commit(self) -> None:
        self.all_say(lambda host: _news_of(host.commit().news))

    def _half_commit(self) -> None:
        self.all_say(lambda host: (host.log.seal(), host.log.write()))
        self.all_say(lambda host: _news_of(host.engine.committed(now_ns=host.now_ns).news))

    def _restart(self) -> None:
        seed = self.draw(st.integers(0, 1000))
        for host in self.hosts.values():
            host.files.crash(seed)
            host.begin()
        self.begin()

    def _time(self) -> None:
        ms = self.draw(st.sampled_from([1, 20, 6000, -10]))
        for host in self.hosts.values():
            host.passes(ms)

    def _silence(self) -> None:
        pubend = self.draw(st.sampled_from(HOSTED))
        self.all_say(lambda host: _news_of(host.engine.silence(pubend, now_ns=host.now_ns).news))

    def _limit(self) -> None:
        pubend, rate = self.draw(st.sampled_from(HOSTED)), self.draw(st.sampled_from([None, 1.0, 50.0, 1000.0]))
        self.all_say(lambda host: host.engine.limit(pubend, rate, now_ns=host.now_ns))

    # -- streams from afar ---------------------------------------------------------------------------------------------

    def _place(self, pubend: PubendId) -> int:
        if pubend in HOSTED:
            heads = dict(self.hosts["reference"].engine.heads())
            hosted: int = heads[pubend] + self.draw(st.sampled_from([-40, -3, -1, 0]))
            return max(1, hosted)
        afar: int = self.next_tick[pubend] + self.draw(st.integers(-80, 10))
        return max(BASE, afar)

    def _trust(self) -> None:
        tree, pubend, is_all = (
            self.draw(st.sampled_from(TREES)),
            self.draw(st.sampled_from(AFAR)),
            self.draw(st.booleans()),
        )
        places = [(pubend, Tick(self._place(pubend)))]
        self.all_do(lambda e: e.trust(tree, places, is_all=is_all))

    def _widen(self) -> None:
        tree = self.draw(st.sampled_from(TREES))
        self.all_do(lambda e: e.widen(tree))

    def _attend(self) -> None:
        pubend = self.draw(st.sampled_from(AFAR))
        place = self.draw(st.sampled_from([True, True, False])) and Tick(self._place(pubend))
        self.all_do(lambda e: _news_of(e.attend(pubend, place or None).news))

    def _stream(self) -> None:
        conn = self._one_of(LINKS)
        if conn is None:
            return
        frames = b""
        for _ in range(self.draw(st.integers(1, 8))):
            pubend, tree = self.draw(st.sampled_from([*AFAR, AFAR[0]])), self.draw(st.sampled_from(TREES))
            first = self.next_tick[pubend] if self.draw(st.integers(0, 2)) else self._place(pubend)
            tick = first + self.draw(st.integers(0, 12))
            kind = self.draw(st.sampled_from([PLAIN] * 5 + [ANSWER, ANSWER, LOST]))
            n = None if kind == LOST else self.draw(st.none() | st.integers(0, 8))
            body = self.draw(st.sampled_from([None, None, bytes(200)]))
            ttl_ns = self.draw(lives)
            one = stream(first, tick, n, tree=tree, pubend=pubend, kind=kind, body=body, ttl_ns=ttl_ns)
            self.next_tick[pubend] = max(self.next_tick[pubend], tick + self.draw(st.sampled_from([1, 1, 1, 4])))
            if n is not None and self.draw(st.integers(0, 20)) == 7:
                one = (len(one) - 6).to_bytes(4, "little") + one[4:-2]
            frames += one
        self._receive(conn, frames)

    def _recover(self) -> None:
        conn = self._one_of(LINKS)
        if conn is None:
            return
        name = self.draw(st.sampled_from([*self.relays, 99]))
        frames, first = b"", self._place(self.draw(st.sampled_from(AFAR)))
        for _ in range(self.draw(st.integers(1, 5))):
            tick = first + self.draw(st.integers(0, 12))
            kind = self.draw(st.sampled_from([PLAIN] * 5 + [LOST, LAST]))
            n = self.draw(st.none() | st.integers(0, 8)) if kind == PLAIN else None
            frames += recover(name, first, tick, n, pubend=AFAR[0], kind=kind)
            first = tick + 1
        self._receive(conn, frames)

    def _answer(self) -> None:
        conn = self._one_of(LINKS)
        if conn is None:
            return
        pubend, tree = self._a_stream()
        first = self._place(pubend)
        ranges = [(Tick(first), Tick(first + 10)), (Tick(first + 15), Tick(first + 90))]
        self.all_do(lambda e: e.answer(conn, tree, pubend, ranges))

    def _a_stream(self) -> tuple[PubendId, TreeId]:
        pubend = self.draw(st.sampled_from(HOSTED + AFAR))
        return pubend, OWN if pubend in HOSTED else self.draw(st.sampled_from(TREES))

    def _replay(self) -> None:
        conn = self._one_of(LINKS)
        if conn is None:
            return
        pubend, _ = self._a_stream()
        place, wanted = Tick(self._place(pubend)), self.draw(filters)
        bytes_max, replay = self.draw(st.sampled_from([1, 400, 1 << 20])), self._next_replay()
        self.all_do(lambda e: e.replay(replay, conn, 40 + replay, pubend, place, wanted=wanted, bytes_max=bytes_max))

    def _next_replay(self) -> int:
        self.replay += 1
        return self.replay

    def _relay(self) -> None:
        link, to = self._one_of(LINKS), self._one_of(CLIENTS + LINKS)
        if link is None or to is None:
            return
        number, pubend, replay = (
            self.draw(st.sampled_from(NUMBERS)),
            self.draw(st.sampled_from(AFAR)),
            self._next_replay(),
        )
        self.relays.append(replay)
        self.all_do(lambda e: e.relay(link, replay, to, number, pubend))

    def _stop_replay(self) -> None:
        conn = self._one_of(LINKS)
        if conn is not None:
            number = self.draw(st.sampled_from([*NUMBERS, *range(40, 41 + self.replay)]))
            self.all_do(lambda e: e.stop_replay(conn, number))

    def _end_replay(self) -> None:
        replay = self.draw(st.integers(1, self.replay))
        self.all_do(lambda e: e.end_replay(replay))

    def _serve(self) -> None:
        self.all_do(lambda e: _news_of(served(e)))

    # -- followers -----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        conn = self._one_of(CLIENTS)
        if conn is None:
            return
        number, wanted = self.draw(st.sampled_from(NUMBERS)), self.draw(filters)
        self.all_do(lambda e: e.follow(conn, number))
        self.all_do(lambda e: e.add_routes(conn, [number], [wanted], None))
        for _ in range(self.draw(st.integers(1, 2))):
            pubend, _ = self._a_stream()
            place = self._place(pubend)
            sound = Tick(place + self.draw(st.sampled_from([-50, 0, 0, 10])))
            self.all_do(lambda e, p, at, s: e.owe(conn, number, p, Tick(at), sound=s), pubend, place, sound)
            self._catch_up_with(conn, number, pubend)

    def _catch_up(self) -> None:
        conn = self._one_of(CLIENTS)
        if conn is not None:
            self._catch_up_with(conn, self.draw(st.sampled_from(NUMBERS)), self._a_stream()[0])

    def _catch_up_with(self, conn: Conn, number: int, pubend: PubendId) -> None:
        replay = self._next_replay()
        self.all_do(lambda e: e.catch_up(replay, conn, number, pubend))

    def _taken(self) -> None:
        conn = self._one_of(CLIENTS)
        if conn is None:
            return
        number, (pubend, _) = self.draw(st.sampled_from(NUMBERS)), self._a_stream()
        tick = self._place(pubend)
        self._receive(conn, taken_frame(number, pubend, tick))
        self.all_do(lambda e: sorted(e.taken()))

    # -- queues --------------------------------------------------------------------------------------------------------

    def _output(self) -> None:
        conn = self._one_of(CLIENTS + LINKS)
        if conn is not None:
            count = self.draw(st.integers(0, 400) | st.just(1 << 30))
            self.all_do(lambda e: e.output(conn, bytes_max=count))
        self._resume()

    def _resume(self) -> None:
        for conn in self.all_do(lambda e: sorted(e.unblocked())):
            self.all_say(lambda host, conn: _comparable(host.resume(conn)), conn)


def _answer(call: Callable[..., object], host: Host, *arguments: object) -> object:
    try:
        return call(host, *arguments)
    except TidewireError as problem:
        return problem.code


def _comparable(handled: Handled) -> Any:
    alone = msgspec.structs.replace(handled, guaranteed=sorted(handled.guaranteed), news=StreamNews())
    return alone, _news_of(handled.news)


def _news_of(news: StreamNews | None) -> Any:
    """An engine may stop where it likes: what counts is how far a replay has come in the end."""
    if news is None:
        return [], {}, [], []
    return sorted({*news.doubtful}), {one.replay: one for one in news.replayed}, news.fallen, news.lacks


def _comparable_work(engine: StreamEngine) -> dict[str, Any]:
    work = msgspec.structs.asdict(engine.work())
    return {name: work[name] for name in ("events", "deliveries", "forwards", "refused", "subscriptions")}


SELDOM = ["open", "close", "routes_gone", "trees", "permit", "clock", "half_commit", "restart", "limit", "widen"]
SELDOM += ["relay", "end_replay", "stop_replay", "routes", "catch_up"]
OFTEN = ["guarantee"] * 3 + ["stream"] * 5 + ["commit"] * 3 + ["serve"] * 3 + ["output"] * 3 + ["follow"] * 2
OFTEN += ["trust", "trust", "attend", "attend", "answer", "answer", "replay", "taken", "taken", "silence", "time"]
OFTEN += ["recover", "recover", "resume"]


@settings(max_examples=settings().max_examples // 3, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_kernel_does_with_streams_what_the_reference_does(data: st.DataObject) -> None:
    """Hosting, streams from afar, recovery, followers, restarts and small queues, in any order."""
    world = World(data)
    for action in data.draw(st.lists(st.sampled_from(SELDOM + OFTEN + OFTEN), max_size=40)):
        world.act(action)
        world.compare()
    world.finish()
