"""The fluid engine with flows does what the reference does with their events, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataplane.test_engines_agree import POOL, bounds, policies
from tests.dataplane.world import MAKERS, NOW, event_bytes, forward, frames, publish, receive, resume, taken
from tests.matching.building import lt, where
from tidewire.dataplane.flows import Repeat, bulk, events_of, expanded, flow, later, size_of
from tidewire.dataplane.fluid import FluidEngine
from tidewire.dataplane.protocol import Engine, WhenFull
from tidewire.dataplane.reference import ReferenceEngine
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, TreeId
from tidewire.model.messages import Done, Lane, Ping
from tidewire.wire.frames import frame, message_frame, publish_frame

CONNECTIONS = range(5)
LANES: list[Lane] = ["control", "data"]
TREES = (1, 2, 3)
MESSAGES = (message_frame(Ping(1)), message_frame(Done(2)), frame(1, bytes(150)))

repeats = st.builds(Repeat, st.sampled_from([1, 1, 2, 3, 7, 20, 60]), st.sampled_from([0, 1, 1000]))
Told = list[tuple[bytes, Repeat]]


def told_at_once(told: Told) -> bytes:
    """As the fluid engine gets it."""
    return bulk(b"".join(flow(*one) for one in told), sum(len(one) * repeat.count for one, repeat in told))


def told_singly(told: Told) -> bytes:
    """As the reference gets it."""
    return b"".join(single for one in told for single in events_of(*one))


def client_frames() -> st.SearchStrategy[bytes]:
    """Small events; some are refused."""
    good = st.builds(publish, st.integers(0, 8), body=st.none() | st.binary(max_size=40), text=st.sampled_from("ab"))
    damaged = st.just(publish_frame(event_bytes(1)[:-1], born_ns=3))
    return st.integers(0, 9).flatmap(lambda n: damaged if n == 7 else good)


def neighbour_frames(position: int) -> st.SearchStrategy[bytes]:
    """From some position on: also such as have come, of trees that come from elsewhere, and without an end."""
    good = st.builds(forward, st.integers(max(0, position - 4), position + 2), tree=st.sampled_from([2, 2, 2, 3, 9]))
    return st.integers(0, 9).flatmap(lambda n: good.map(lambda one: one[:-1]).map(_shortened) if n == 7 else good)


def _shortened(cut: bytes) -> bytes:
    return frame(cut[4], cut[5:])


class Pair:
    """Both engines, and what they have sent so far."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw
        self.fluid, self.reference = FluidEngine(frame_bytes_max=1024), ReferenceEngine(frame_bytes_max=1024)
        self.is_link: dict[int, bool] = {}
        self.sent: dict[int, tuple[bytearray, bytearray]] = {}
        self.positions = dict.fromkeys(TREES, 1)

    def both(self, call: Callable[[Engine], object]) -> Any:
        """What they both say."""
        found, wanted = call(self.fluid), call(self.reference)
        assert found == wanted
        return found

    def open(self, conn: int, *, is_link: bool) -> None:
        when_full, bound = self.draw(policies), self.draw(bounds)
        self.both(lambda e: e.open(Conn(conn), is_link=is_link, when_full=when_full, queue_bytes_max=bound))
        self.is_link[conn] = is_link
        self.sent[conn] = bytearray(), bytearray()
        if not is_link:
            self.both(lambda e: e.may_publish(Conn(conn), publisher=conn, next_sequence=1))
        self.routes(conn)

    def close(self) -> None:
        conn = self.draw(st.sampled_from(CONNECTIONS))
        if conn not in self.is_link:
            self.open(conn, is_link=self.draw(st.booleans()))
            return
        if len(self.is_link) == 1:
            return
        self.compare(conn)
        self.both(lambda e: e.close(Conn(conn)))
        del self.is_link[conn]
        self.resume()

    def some(self) -> int:
        return self.draw(st.sampled_from(sorted(self.is_link)))

    def routes(self, conn: int | None = None) -> None:
        conn = self.some() if conn is None else conn
        wanted = [encode_filter(one) for one in self.draw(st.lists(st.sampled_from([ALL, *POOL]), max_size=3))]
        for tree in TREES if self.is_link[conn] else [None]:
            self.both(lambda e, t=tree: e.add_routes(Conn(conn), range(len(wanted)), wanted, t))  # type: ignore[misc]

    def install(self) -> None:
        """Clocks, parents and what is allowed."""
        conn = self.some()
        if self.draw(st.booleans()):
            self.both(lambda e: e.set_clock(Conn(conn), offset_ns=1000, error_us=5))
        elif self.is_link[conn]:
            tree = TreeId(self.draw(st.sampled_from([2, 3])))
            self.both(lambda e: e.set_parent(tree, Conn(conn)))
        else:
            permitted = self.draw(st.sampled_from([None, [encode_filter(where(n=lt(7)))]]))
            self.both(lambda e: e.permit(Conn(conn), permitted))
            allowed = self.draw(st.sampled_from([None, [encode_filter(where(n=lt(5)))]]))
            self.both(lambda e: e.allow(Conn(conn), allowed))

    def receive(self) -> None:
        conn, told = self.some(), []
        for _ in range(self.draw(st.integers(1, 4))):
            if self.draw(st.integers(0, 7)) == 5:
                told.append((self.draw(st.sampled_from(MESSAGES)), Repeat(1, 0)))
                continue
            repeat = self.draw(repeats)
            if self.is_link[conn]:
                told.append((self.draw(neighbour_frames(self.positions[2])), repeat))
                self.positions[2] += repeat.count
            else:
                told.append((self.draw(client_frames()), repeat))
        fluid = receive(self.fluid, conn, told_at_once(told))
        assert fluid == receive(self.reference, conn, told_singly(told))

    def send(self) -> None:
        conn, sent, lane = self.some(), self.draw(st.sampled_from(MESSAGES)), self.draw(st.sampled_from(LANES))
        self.both(lambda e: e.send(Conn(conn), sent, lane))

    def output(self, conn: int | None = None, bytes_max: int | None = None) -> None:
        conn = self.some() if conn is None else conn
        count = self.draw(st.integers(0, 900)) if bytes_max is None else bytes_max
        told, singly = (one.output(Conn(conn), bytes_max=count) for one in (self.fluid, self.reference))
        assert size_of(told) == len(singly)
        self.sent[conn][0].extend(told)
        self.sent[conn][1].extend(singly)
        self.resume()

    def resume(self) -> None:
        for conn in self.both(lambda e: sorted(e.unblocked())):
            self.both(lambda e, c=conn: resume(e, c))  # type: ignore[misc]

    def compare(self, conn: int) -> None:
        """All that was sent, and what is said of it."""
        self.both(lambda e: e.traffic(Conn(conn)))
        told, singly = self.sent[conn]
        told.extend(taken(self.fluid, conn))
        singly.extend(taken(self.reference, conn))
        assert expanded(bytes(told)) == bytes(singly)
        self.both(lambda e: e.traffic(Conn(conn)))


ACTIONS = ["close", "routes", "install", "send", *["output"] * 3, *["receive"] * 5]


@given(st.data())
def test_a_flow_is_its_events(data: st.DataObject) -> None:
    """Connections, policies, bounds, routes, flows, partial outputs and closes in any order."""
    pair = Pair(data)
    pair.both(lambda e: e.own_tree(TreeId(1)))
    for conn, is_link in enumerate([True, False, False, True]):
        pair.open(conn, is_link=is_link)
    for tree in (2, 3):
        pair.both(lambda e, t=tree: e.set_parent(TreeId(t), Conn(0)))  # type: ignore[misc]
    for action in data.draw(st.lists(st.sampled_from(ACTIONS), min_size=5, max_size=25)):
        getattr(pair, action)()
    for conn in sorted(pair.is_link):
        pair.compare(conn)
    pair.both(lambda e: e.work())


@pytest.mark.parametrize("when_full", ["wait", "drop", "end"])
@pytest.mark.parametrize("bound", [0, 90, 100, 250, 1000, 5000])
def test_far_more_than_fits(when_full: WhenFull, bound: int) -> None:
    """What has gone round and round is where it would be."""
    engines: list[Engine] = [FluidEngine(), ReferenceEngine()]
    told: Told = [(publish(1), Repeat(3, 5)), (publish(2, body=bytes(30)), Repeat(701, 5)), (publish(1), Repeat(1, 0))]
    found: list[Any] = []
    for engine, stream in zip(engines, (told_at_once(told), told_singly(told)), strict=True):
        engine.own_tree(TreeId(1))
        engine.open(Conn(0), is_link=False, when_full="wait")
        engine.open(Conn(1), is_link=False, when_full=when_full, queue_bytes_max=bound)
        engine.may_publish(Conn(0), publisher=4, next_sequence=1)
        engine.set_clock(Conn(0), offset_ns=0, error_us=0)
        engine.add_routes(Conn(1), [1], [encode_filter(ALL)], None)
        said = receive(engine, 0, stream)
        engine.send(Conn(1), message_frame(Ping(1)), "data")
        begun = engine.output(Conn(1), bytes_max=40)
        engine.unblocked()
        further = resume(engine, 0), engine.traffic(Conn(0)), engine.traffic(Conn(1))
        found.append((said, further, engine.work(), expanded(begun + taken(engine, 1))))
    assert found[0] == found[1]


def test_the_cost_does_not_grow_with_the_count() -> None:
    """A flow of ten thousand million events is as quick as one; a tiny queue that drops makes no difference."""
    engine = FluidEngine()
    engine.own_tree(TreeId(1))
    engine.open(Conn(0), is_link=False, when_full="wait")
    for conn, bound in ((1, 1 << 60), (2, 0), (3, 200), (4, 1000)):
        engine.open(Conn(conn), is_link=False, when_full="drop", queue_bytes_max=bound)
        engine.add_routes(Conn(conn), [1], [encode_filter(ALL)], None)
    engine.may_publish(Conn(0), publisher=4, next_sequence=1)
    count = 10**10
    told: Told = [(publish(1), Repeat(count, 1))]
    assert receive(engine, 0, told_at_once(told)).state == "idle"
    traffic = [engine.traffic(Conn(conn)) for conn in range(5)]
    assert (traffic[0].events_in, traffic[0].bytes_in) == (count, count * len(publish(1)))
    assert [one.events_out for one in traffic[1:]] == [count] * 4
    size = traffic[1].queued_bytes // count
    assert [one.dropped for one in traffic] == [0, *(count - one.queued_bytes // size for one in traffic[1:])]
    assert engine.work().deliveries == 4 * count
    assert size_of(taken(engine, 1)) == traffic[1].queued_bytes


def test_what_is_known_of_an_event_holds_until_something_is_installed() -> None:
    """The same content again and again, with other routes, and other publishers."""
    engine = FluidEngine()
    engine.own_tree(TreeId(1))
    for conn in (0, 1, 2):
        engine.open(Conn(conn), is_link=False, when_full="wait")
    engine.open(Conn(3), is_link=True, when_full="wait")
    engine.set_parent(TreeId(2), Conn(3))
    engine.may_publish(Conn(0), publisher=4, next_sequence=1)
    changes: list[tuple[Callable[[], object], list[int]]] = [
        (lambda: None, [0, 0]),
        (lambda: engine.add_routes(Conn(1), [1], [encode_filter(ALL)], None), [3, 0]),
        (lambda: engine.add_routes(Conn(2), [1], [encode_filter(ALL)], None), [3, 3]),
        (lambda: engine.remove_routes(Conn(1), [1], None), [0, 3]),
        (lambda: engine.permit(Conn(0), []), [0, 1]),
        (lambda: engine.permit(Conn(0), None), [0, 3]),
        (lambda: engine.allow(Conn(0), []), [0, 1]),
        (lambda: engine.forget_tree(TreeId(2)), [0, 0]),
        (lambda: engine.close(Conn(2)), [0, 0]),
    ]
    for i, (change, wanted) in enumerate(changes):
        change()
        receive(engine, 0, told_at_once([(publish(1), Repeat(2, 1))]))
        receive(engine, 3, later(forward(1, tree=2), i, 0))
        there = [conn for conn in (1, 2) if conn == 1 or i < len(changes) - 1]
        assert [len(frames(expanded(taken(engine, conn)))) for conn in there] == wanted[: len(there)]


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "fluid"])
def test_no_other_engine_takes_a_flow(name: str) -> None:
    """It is not of the wire."""
    engine = MAKERS[name]()
    engine.own_tree(TreeId(1))
    engine.open(Conn(0), is_link=False, when_full="wait")
    engine.may_publish(Conn(0), publisher=4, next_sequence=1)
    assert receive(engine, 0, flow(publish(1), Repeat(2, 0))).state == "broken"


@pytest.mark.parametrize(
    "data",
    [
        frame(64, b"short"),
        frame(64, bytes(16)) + publish(1),
        flow(publish(1), Repeat(2, 0))[:21] * 2 + publish(1),
        flow(message_frame(Ping(1)), Repeat(2, 0)),
        flow(forward(1, tree=1), Repeat(2, 0)),
    ],
    ids=["too short", "of none", "of a flow", "of a message", "not from here"],
)
def test_a_flow_that_is_none(data: bytes) -> None:
    """It ends the connection."""
    engine = FluidEngine()
    engine.own_tree(TreeId(1))
    engine.open(Conn(0), is_link=False, when_full="wait")
    engine.may_publish(Conn(0), publisher=4, next_sequence=1)
    assert receive(engine, 0, data).state == "broken"


def test_a_part_has_the_births_of_the_whole() -> None:
    """Positions and sequences ascend by one, births by the step, and nothing else changes."""
    one, repeat = forward(5, tree=2, born_ns=100), Repeat(4, 7)
    whole = list(events_of(one, repeat))
    assert whole[2:] == list(events_of(later(one, 2, 7), Repeat(2, 7)))
    assert whole[3] == forward(8, tree=2, born_ns=121).replace(event_bytes(8, tree=2), whole[3][25:])
    assert expanded(flow(one, repeat)) == b"".join(whole)
    assert flow(one, Repeat(1, 7)) == one
    assert later(publish(1, born_ns=4), 2, 3) == publish(1, born_ns=10)


def test_equal_events_that_come_one_by_one_stay_what_they_are() -> None:
    """Also where the oldest are thrown away: only flows are told at once."""
    answers = []
    for engine in (ReferenceEngine(), FluidEngine()):
        engine.own_tree(TreeId(1))
        for conn in (Conn(0), Conn(1)):
            engine.open(conn, is_link=False, when_full="drop", queue_bytes_max=300)
        engine.may_publish(Conn(0), publisher=1, next_sequence=1)
        engine.add_routes(Conn(1), [1], [encode_filter(ALL)], None)
        for number in (5, 0, 2, 2):
            engine.receive(Conn(0), publish(number), now_ns=NOW)
        answers.append(engine.output(Conn(1), bytes_max=1 << 20))
    assert answers[0] == answers[1]
