"""The kernel's engine does what the reference does: the same frames, states, refusals and counters."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataplane.world import NOW, Side, event_bytes, forward, publish, receive, resume, taken
from tests.matching.building import either, eq, ge, lt, where
from tests.matching.strategies import attribute_maps, normal_filters
from tidewire._kernel.codec import decode, encode
from tidewire.dataplane.protocol import Engine, TrafficClass, WhenFull
from tidewire.model.events import Envelope, make_event
from tidewire.model.filters import ALL, NOTHING, encode_filter
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.model.messages import Done, Lane, Ping
from tidewire.wire.frames import DELIVER, FORWARD, HOP, PUBLISH, frame, message_frame, publish_frame

FRAME_BYTES_MAX = 1024
CONNECTIONS = range(6)
TREES = range(1, 4)
POOL = [ALL, ALL, NOTHING, where(n=ge(3)), where(n=lt(4)), either(where(n=eq(2)), where(n=lt(6))), where(text=eq("a"))]

filters = (st.sampled_from(POOL) | normal_filters()).map(encode_filter)
route_numbers = st.integers(0, 40)
connections = st.sampled_from(CONNECTIONS)
trees = st.sampled_from(TREES)
POLICIES: list[WhenFull] = ["wait", "drop", "end"]
LANES: list[Lane] = ["control", "data"]
policies = st.sampled_from(POLICIES)
bounds = st.sampled_from([0, 100, 300, 500, 700, 2000, 1 << 20])
lives = st.none() | st.sampled_from([-5, 0, 10, 20, 30, 40, 500, 2**63 - 1])
"""Times to live. Time goes on by tens."""

messages = st.sampled_from([message_frame(Ping(1)), message_frame(Done(2))]) | st.integers(0, 200).map(
    lambda n: frame(1, bytes(n))
)


def damaged(event: bytes) -> st.SearchStrategy[bytes]:
    """One bit is wrong, or the end is missing."""
    flipped = st.integers(0, 8 * len(event) - 1).map(
        lambda bit: event[: bit // 8] + bytes([event[bit // 8] ^ 1 << bit % 8]) + event[bit // 8 + 1 :]
    )
    return flipped | st.integers(0, len(event)).map(lambda size: event[:size])


def client_events() -> st.SearchStrategy[bytes]:
    small = st.builds(
        event_bytes,
        st.integers(0, 8),
        body=st.none() | st.binary(max_size=60),
        text=st.sampled_from("ab"),
        ttl_ns=lives,
    )
    any_event = attribute_maps().map(lambda attributes: encode(make_event(attributes)))
    stamps = [Envelope(publisher=1), Envelope(sequence=1), Envelope(pubend=1), Envelope(tick=1), Envelope(tree=1)]
    stamped = st.sampled_from(stamps).map(lambda stamp: encode(make_event({"n": 1}, envelope=stamp)))
    other = st.just(
        encode(make_event({"n": 5}, envelope=Envelope(published_ns=9, value=0.5, tenant=3, trace=bytes(25))))
    )
    classed = st.builds(Envelope, traffic_class=st.none() | st.just(9), ttl_ns=lives, value=st.none() | st.just(2.0))
    other |= classed.map(lambda envelope: encode(make_event({"n": 2}, envelope=envelope)))
    huge = st.integers(850, 1000).map(lambda size: event_bytes(3, body=bytes(size)))
    odd = any_event | stamped | other | huge | small.flatmap(damaged)
    return st.integers(0, 9).flatmap(lambda n: odd if n == 7 else small)


def client_frames() -> st.SearchStrategy[bytes]:
    published = st.builds(publish_frame, client_events(), born_ns=st.integers(-(2**63), 2**63 - 1) | st.just(0))
    return st.integers(0, 5).flatmap(lambda n: messages if n == 4 else published)


def link_frames(position: int) -> st.SearchStrategy[list[bytes]]:
    """Mostly with positions that grow."""
    events = st.builds(event_bytes, tree=trees).flatmap(damaged) | st.just(event_bytes(1))
    damaged_frames = events.map(lambda event: frame(FORWARD, HOP.pack(1, 2, position + 20) + event))
    any_position = st.builds(forward, st.integers(0, 60), tree=trees, error_us=st.sampled_from([0, 2**32 - 1]))

    def one(i: int) -> st.SearchStrategy[bytes]:
        good = st.builds(
            forward,
            st.just(position + i),
            tree=st.sampled_from([2, 2, 3]),
            text=st.sampled_from("ab"),
            publisher=st.sampled_from([7, 7, 8, 9]),
            born_ns=st.sampled_from([0, 0, NOW - 10, NOW, NOW + 20]),
            ttl_ns=lives,
        )
        odd = damaged_frames | any_position | messages
        return st.integers(0, 4).flatmap(lambda n: odd if n == 3 else good)

    return st.integers(1, 10).flatmap(lambda count: st.tuples(*map(one, range(count)))).map(list)


BAD_FRAMES = (
    frame(PUBLISH, b"short"),
    frame(FORWARD, b"short"),
    frame(DELIVER, bytes(40)),
    frame(9, b""),
    frame(0, b""),
    bytes(5),
    b"\xff" * 6,
)


class World:
    """The engines, and what a test must know to ask them something sensible."""

    def __init__(self, data: st.DataObject) -> None:
        self.side = Side(frame_bytes_max=FRAME_BYTES_MAX)
        self.draw = data.draw
        self.is_link: dict[int, bool] = {}
        self.unsent: dict[int, bytes] = {}
        self.position = 1
        self.now_ns = int(NOW)
        self.all_say = self.side.all_say

    def begin(self) -> None:
        """Two neighbours and two clients, and somebody who wants everything."""
        for conn, is_link in enumerate([True, False, False, True]):
            self._open_as(conn, is_link=is_link)
            wanted = [encode_filter(self.draw(st.sampled_from([ALL, ALL, *POOL])))]
            for tree in TREES if is_link else [None]:
                self.all_say(lambda e, c, t, w: e.add_routes(Conn(c), [1], w, t), conn, tree, wanted)
        for conn in (0, 3):
            self.all_say(lambda e, conn: e.set_clock(Conn(conn), offset_ns=0, error_us=1), conn)
        for tree in (2, 3):
            self.all_say(lambda e, tree: e.set_parent(TreeId(tree), Conn(0)), tree)

    def act(self, action: str) -> None:
        getattr(self, f"_{action}")()

    def _some(self) -> int:
        return self.draw(st.sampled_from(sorted(self.is_link))) if self.is_link else self.draw(connections)

    def _sample(self) -> None:
        self.all_say(lambda e: [sorted(decode(event).attributes.items()) for event in e.samples().events])
        self.all_say(lambda e: e.samples().wanted)
        self.all_say(lambda e, count: e.sample(count), self.draw(st.sampled_from([0, 1, 5, 50])))

    def _open(self) -> None:
        self._open_as(self.draw(connections), is_link=self.draw(st.booleans()))

    def _open_as(self, conn: int, *, is_link: bool) -> None:
        when_full, bound = self.draw(policies), self.draw(bounds)
        said = self.all_say(lambda e: e.open(Conn(conn), is_link=is_link, when_full=when_full, queue_bytes_max=bound))
        if said is None:
            self.is_link[conn] = is_link
            self.unsent[conn] = b""
            if not is_link:
                self.all_say(lambda e: e.may_publish(Conn(conn), publisher=conn, next_sequence=1))

    def _close(self) -> None:
        conn = self.draw(connections)
        self.all_say(lambda e: e.close(Conn(conn)))
        self.is_link.pop(conn, None)

    def _publisher(self) -> None:
        conn, sequence = self._some(), self.draw(st.integers(0, 2**64 - 100))
        self.all_say(lambda e: e.may_publish(Conn(conn), publisher=conn, next_sequence=sequence))
        permitted = self.draw(st.none() | st.lists(filters, max_size=2))
        self.all_say(lambda e: e.permit(Conn(conn), permitted))
        allowed = self.draw(st.none() | st.lists(filters, max_size=2))
        self.all_say(lambda e: e.allow(Conn(conn), allowed))

    def _clock(self) -> None:
        conn, offset = self._some(), self.draw(st.integers(-(2**63), 2**63 - 1) | st.just(1000))
        error = self.draw(st.sampled_from([0, 5, 2**32 - 1]))
        self.all_say(lambda e: e.set_clock(Conn(conn), offset_ns=offset, error_us=error))

    def _passed(self) -> None:
        self.now_ns += 10

    def _classes(self) -> None:
        numbers, values = st.integers(0, 2**32 - 1), st.none() | st.floats(0, 1)
        classes = self.draw(st.lists(st.builds(TrafficClass, numbers, filters, lives, values), max_size=3))
        self.all_say(lambda e: e.set_classes(classes))

    def _trees(self) -> None:
        tree, parent = TreeId(self.draw(trees)), self.draw(st.none() | connections.map(Conn))
        what = self.draw(st.sampled_from(["parent", "parent", "parent", "own", "forget"]))
        if what == "own":
            self.all_say(lambda e: e.own_tree(tree))
        elif what == "forget":
            self.all_say(lambda e: e.forget_tree(tree))
        else:
            self.all_say(lambda e: e.set_parent(tree, parent))

    def _routes(self) -> None:
        conn, rows = self._some(), self.draw(st.lists(st.tuples(route_numbers, filters), max_size=25))
        tree = TreeId(self.draw(trees)) if self.is_link.get(conn) else None
        numbers, wanted = [row[0] for row in rows], [row[1] for row in rows]
        if self.draw(st.booleans()):
            numbers = list(dict.fromkeys(numbers))
            wanted = wanted[: len(numbers)]
        if wanted and self.draw(st.integers(0, 9)) == 7:
            wanted[-1] = b"no filter"
        self.all_say(lambda e: e.add_routes(Conn(conn), numbers, wanted, tree))

    def _routes_gone(self) -> None:
        conn, numbers = self._some(), self.draw(st.lists(route_numbers, max_size=3))
        tree = TreeId(self.draw(trees)) if self.is_link.get(conn) else None
        self.all_say(lambda e: e.remove_routes(Conn(conn), numbers, tree))

    def _receive(self) -> None:
        conn = self._some()
        if conn not in self.is_link:
            return
        if self.is_link[conn]:
            data = self.unsent[conn] + b"".join(self.draw(link_frames(self.position)))
            self.position += 10
        else:
            data = self.unsent[conn] + b"".join(self.draw(st.lists(client_frames(), min_size=2, max_size=10)))
        if self.draw(st.integers(0, 60)) == 37:
            data += self.draw(st.sampled_from(BAD_FRAMES))
        cut = self.draw(st.integers(0, len(data)) | st.just(len(data)))
        self.unsent[conn] = data[cut:]
        self.all_say(lambda e: receive(e, conn, data[:cut], now_ns=Nanoseconds(self.now_ns)))

    def _send(self) -> None:
        conn, sent, lane = self._some(), self.draw(messages), self.draw(st.sampled_from(LANES))
        self.all_say(lambda e: e.send(Conn(conn), sent, lane))

    def _output(self) -> None:
        conn, count = self._some(), self.draw(st.integers(0, 400) | st.just(1 << 30))
        now_ns = self.draw(st.none() | st.just(Nanoseconds(self.now_ns)))
        self.all_say(lambda e: e.output(Conn(conn), bytes_max=count, now_ns=now_ns))
        self._resume()

    def _resume(self) -> None:
        for conn in self.all_say(lambda e: sorted(e.unblocked())):
            self.all_say(lambda e, conn: resume(e, conn, now_ns=Nanoseconds(self.now_ns)), conn)

    def compare(self) -> None:
        for conn in self.is_link:
            self.all_say(lambda e, conn: e.traffic(Conn(conn)), conn)
            self.all_say(taken, conn)
            self.all_say(lambda e, conn: e.traffic(Conn(conn)), conn)
        self.all_say(lambda e: e.totals())
        self.all_say(lambda e: e.lossy())
        self.all_say(_comparable_work)


def _comparable_work(engine: Engine) -> dict[str, Any]:
    work = msgspec.structs.asdict(engine.work())
    return {name: work[name] for name in ("events", "deliveries", "forwards", "refused", "subscriptions")}


ACTIONS = [
    "open",
    "close",
    "publisher",
    "clock",
    "trees",
    "routes",
    "routes_gone",
    "send",
    "output",
    "resume",
    "sample",
    "passed",
    "passed",
    "classes",
]
OFTEN = ["receive"] * 8 + ["routes"] * 2 + ["output"] * 2


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_the_kernel_does_what_the_reference_does(data: st.DataObject) -> None:
    """Opens, closes, routes, trees, events and messages in any order, cut anywhere, all policies, small bounds."""
    world = World(data)
    world.all_say(lambda e: e.own_tree(TreeId(1)))
    world.begin()
    for action in data.draw(st.lists(st.sampled_from(ACTIONS + OFTEN), max_size=25)):
        world.act(action)
    world.compare()


@given(st.data())
def test_where_the_bytes_are_cut_makes_no_difference(data: st.DataObject) -> None:
    """A stream gives the same frames in one piece and in many."""
    stream = b"".join(data.draw(st.lists(client_frames(), min_size=1, max_size=12)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    found = []
    for parts in ([stream], pieces):
        side = Side(frame_bytes_max=FRAME_BYTES_MAX)
        side.all_say(lambda e: e.own_tree(TreeId(1)))
        for conn in (0, 1):
            side.all_say(lambda e, conn: e.open(Conn(conn), is_link=False, when_full="wait"), conn)
        side.all_say(lambda e: e.may_publish(Conn(0), publisher=4, next_sequence=1))
        side.all_say(lambda e: e.add_routes(Conn(1), [1, 2], [encode_filter(ALL)] * 2, None))
        messages_told = []
        for part in parts:
            messages_told += side.all_say(lambda e, part: receive(e, 0, part), part).messages
        found.append((side.all_say(lambda e: taken(e, 1)), messages_told))
    assert found[0] == found[1]


def test_many_events_at_once() -> None:
    """Several chunks, several trees at once, more refusals than are listed: still the same."""
    side = Side(frame_bytes_max=FRAME_BYTES_MAX)
    side.all_say(lambda e: e.own_tree(TreeId(1)))
    for conn, is_link in enumerate([False, False, True, True]):
        side.all_say(lambda e, c, k: e.open(Conn(c), is_link=k, when_full="wait"), conn, is_link)
    side.all_say(lambda e: e.may_publish(Conn(0), publisher=4, next_sequence=1))
    side.all_say(
        lambda e: e.add_routes(Conn(1), range(20), [encode_filter(where(n=ge(50 * i))) for i in range(20)], None)
    )
    for tree in (2, 3):
        side.all_say(lambda e, t: e.set_parent(TreeId(t), Conn(2)), tree)
    side.all_say(lambda e: e.add_routes(Conn(3), [1], [encode_filter(where(n=ge(300)))], TreeId(1)))
    side.all_say(lambda e: e.add_routes(Conn(3), [1], [encode_filter(where(n=lt(200)))], TreeId(3)))
    events = b"".join(publish(n) for n in range(1000))
    events += b"".join(publish_frame(b"none", born_ns=1) for _ in range(100)) + publish(1001)
    assert side.all_say(lambda e: receive(e, 0, events)).refused["event-damaged"] == (list(range(1001, 1065)), 100)
    side.all_say(lambda e: receive(e, 2, b"".join(forward(n, tree=2 + n % 2) for n in range(1, 900))))
    for conn in range(4):
        side.all_say(taken, conn)
        side.all_say(lambda e, conn: e.traffic(Conn(conn)), conn)
    side.all_say(_comparable_work)
