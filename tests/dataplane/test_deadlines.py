"""Deadlines in the queues of every engine: who overtakes whom, and what is thrown away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.dataplane.world import MAKERS, event_bytes, forward, frames, publish, receive, resume
from tidewire._kernel.codec import decode
from tidewire.dataplane.protocol import Engine, TrafficClass, WhenFull
from tidewire.language import compile_filter
from tidewire.model.errors import TidewireError
from tidewire.model.events import Event
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.model.messages import Done
from tidewire.wire.frames import DELIVER, FORWARD, HOP, MESSAGE, decode_delivered, message_frame, publish_frame

OWN, OTHER = TreeId(1), TreeId(2)
NORTH, SOUTH, BOB, ANN, EVE = map(Conn, range(5))
Make = Callable[..., Engine]


@pytest.fixture(params=sorted(MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    """An engine between a parent in the north, a neighbour in the south that wants all, and clients."""

    def made(*, bytes_max: int = 1 << 20, when_full: WhenFull = "drop") -> Engine:
        engine = MAKERS[request.param]()
        engine.own_tree(OWN)
        for link in (NORTH, SOUTH):
            engine.open(link, is_link=True, when_full="wait")
            engine.set_clock(link, offset_ns=0, error_us=0)
        for client in (BOB, ANN, EVE):
            engine.open(client, is_link=False, when_full=when_full, queue_bytes_max=bytes_max)
            engine.set_clock(client, offset_ns=0, error_us=0)
        engine.may_publish(ANN, publisher=1, next_sequence=1)
        engine.may_publish(EVE, publisher=2, next_sequence=1)
        engine.set_parent(OTHER, NORTH)
        engine.add_routes(BOB, [1], [encode_filter(ALL)], None)
        for tree in (OWN, OTHER):
            engine.add_routes(SOUTH, [1], [encode_filter(ALL)], tree)
        return engine

    return made


def came(engine: Engine, n: int, *, publisher: int, ttl_ns: int | None = None, now_ns: int = 0) -> None:
    """The parent brings an event that was born at 0."""
    data = forward(n, tree=OTHER, born_ns=0, publisher=publisher, ttl_ns=ttl_ns)
    receive(engine, NORTH, data, now_ns=Nanoseconds(now_ns))


def sent(engine: Engine, conn: Conn, *, now_ns: int = 0, bytes_max: int = 1 << 30) -> list[int | str]:
    """What goes there: events by their number."""
    found: list[int | str] = []
    for kind, payload in frames(engine.output(conn, bytes_max=bytes_max, now_ns=Nanoseconds(now_ns))):
        if kind == MESSAGE:
            found.append("message")
            continue
        event = decode_delivered(payload).event if kind == DELIVER else payload[HOP.size :]
        number = decode(event)["n"]
        assert isinstance(number, int)
        found.append(number)
    return found


@pytest.mark.parametrize("to", [BOB, SOUTH])
def test_the_earliest_deadline_goes_first(make: Make, to: Conn) -> None:
    """To a subscriber and on a link, though all are events of one source tree."""
    engine = make()
    for n, ttl_ns in enumerate([None, 300, 100, 200, None], start=1):
        came(engine, n, publisher=n, ttl_ns=ttl_ns)
    assert sent(engine, to) == [3, 4, 2, 1, 5]


def test_equal_deadlines_go_as_they_came(make: Make) -> None:
    engine = make()
    for n in (1, 2, 3):
        came(engine, n, publisher=n, ttl_ns=100)
    assert sent(engine, BOB) == [1, 2, 3]


def test_without_deadlines_nothing_overtakes(make: Make) -> None:
    engine = make()
    for n in (1, 2, 3):
        came(engine, n, publisher=9 - n)
    assert sent(engine, BOB) == [1, 2, 3]


@pytest.mark.parametrize("to", [BOB, SOUTH])
def test_a_publisher_keeps_its_order_and_what_is_ahead_of_an_urgent_event_is_as_urgent(make: Make, to: Conn) -> None:
    engine = make()
    came(engine, 1, publisher=1)
    came(engine, 2, publisher=2, ttl_ns=200)
    came(engine, 3, publisher=3, ttl_ns=900)
    came(engine, 4, publisher=3, ttl_ns=100)
    assert sent(engine, to) == [3, 4, 2, 1]


def test_nothing_overtakes_a_message(make: Make) -> None:
    """Markers and answers say what has been sent before them."""
    engine = make()
    came(engine, 1, publisher=1)
    came(engine, 2, publisher=2, ttl_ns=500)
    engine.send(BOB, message_frame(Done(1)), "data")
    came(engine, 3, publisher=3)
    came(engine, 4, publisher=4, ttl_ns=100)
    assert sent(engine, BOB) == [2, 1, "message", 4, 3]


def test_a_frame_that_is_begun_is_finished_first(make: Make) -> None:
    engine = make()
    came(engine, 1, publisher=1)
    came(engine, 2, publisher=2)
    first = engine.output(BOB, bytes_max=10, now_ns=Nanoseconds(0))
    came(engine, 3, publisher=3, ttl_ns=100)
    rest = engine.output(BOB, bytes_max=1 << 30, now_ns=Nanoseconds(0))
    numbers = [decode(decode_delivered(payload).event)["n"] for _, payload in frames(first + rest)]
    assert numbers == [1, 3, 2]


@pytest.mark.parametrize("to", [BOB, SOUTH])
def test_what_is_late_when_it_comes_goes_to_nobody(make: Make, to: Conn) -> None:
    """It has its place in the tree all the same, and counts for everyone who wanted it."""
    engine = make()
    came(engine, 1, publisher=1, ttl_ns=100, now_ns=101)
    came(engine, 2, publisher=1, ttl_ns=100, now_ns=100)
    assert sent(engine, to) == [2]
    assert (engine.traffic(to).expired, engine.traffic(to).dropped, engine.totals().expired) == (1, 0, 2)
    assert (engine.work().events, engine.work().deliveries, engine.lossy()) == (2, 1, [])
    engine.set_parent(OTHER, SOUTH)
    receive(engine, SOUTH, forward(2, tree=OTHER))
    assert engine.traffic(SOUTH).stray == 1


@pytest.mark.parametrize("to", [BOB, SOUTH])
def test_what_becomes_late_in_a_queue_is_thrown_away_when_it_would_be_sent(make: Make, to: Conn) -> None:
    engine = make()
    for n, ttl_ns in ((1, None), (2, 100), (3, 300), (4, 200)):
        came(engine, n, publisher=n, ttl_ns=ttl_ns)
    assert sent(engine, to, now_ns=201) == [3, 1]
    assert (engine.traffic(to).expired, engine.traffic(to).queued_bytes) == (2, 0)


def test_a_queue_in_which_all_is_late_is_empty(make: Make) -> None:
    engine = make()
    came(engine, 1, publisher=1, ttl_ns=100)
    assert engine.output(BOB, bytes_max=7, now_ns=Nanoseconds(200)) == b""
    assert engine.output(BOB, bytes_max=1 << 20) == b""
    came(engine, 2, publisher=1, now_ns=200)
    assert sent(engine, BOB, now_ns=200) == [2]


def test_an_event_that_is_late_makes_nobody_hurry(make: Make) -> None:
    """What stands ahead of it in its line is not urgent any more."""
    engine = make()
    came(engine, 1, publisher=1)
    came(engine, 2, publisher=1, ttl_ns=100)
    came(engine, 3, publisher=2, ttl_ns=400)
    assert sent(engine, BOB, now_ns=200) == [3, 1]


def test_what_is_late_gives_way_when_there_is_no_room(make: Make) -> None:
    """Before the oldest event is thrown away that may still be in time."""
    size = len(forward(1, tree=OTHER, publisher=1, ttl_ns=1)) + 5
    engine = make(bytes_max=3 * size)
    for n, ttl_ns in ((1, 900), (2, 100), (3, 900)):
        came(engine, n, publisher=n, ttl_ns=ttl_ns)
    came(engine, 4, publisher=4, ttl_ns=800, now_ns=200)
    assert (engine.traffic(BOB).expired, engine.traffic(BOB).dropped) == (1, 0)
    assert sent(engine, BOB, now_ns=200) == [4, 1, 3]


def test_the_oldest_events_are_thrown_away_whatever_their_deadline(make: Make) -> None:
    size = len(forward(1, tree=OTHER, publisher=1, ttl_ns=1)) + 5
    engine = make(bytes_max=4 * size)
    for n, ttl_ns in ((1, 100), (2, 900), (3, 800), (4, 700), (5, 600)):
        came(engine, n, publisher=n, ttl_ns=ttl_ns)
    assert engine.traffic(BOB).dropped == 2
    assert sent(engine, BOB) == [5, 4, 3]


def test_a_source_that_waits_goes_on_when_what_was_in_its_way_is_late(make: Make) -> None:
    size = len(forward(1, tree=OTHER, publisher=1, ttl_ns=1)) + 5
    engine = make(bytes_max=2 * size, when_full="wait")
    for n in (1, 2):
        came(engine, n, publisher=n, ttl_ns=100)
    data = forward(3, tree=OTHER, born_ns=0, publisher=3, ttl_ns=900)
    assert receive(engine, NORTH, data, now_ns=Nanoseconds(50)).state == "blocked"
    assert resume(engine, NORTH, now_ns=Nanoseconds(60)).state == "blocked"
    assert resume(engine, NORTH, now_ns=Nanoseconds(101)).state == "idle"
    assert sent(engine, BOB, now_ns=101) == [3]


def test_a_deadline_is_on_the_clock_of_the_broker(make: Make) -> None:
    """A time to live counts from the birth, which is translated from clock to clock."""
    engine = make()
    engine.set_clock(NORTH, offset_ns=1000, error_us=0)
    came(engine, 1, publisher=1, ttl_ns=100, now_ns=1100)
    came(engine, 2, publisher=2, ttl_ns=50, now_ns=1051)
    assert sent(engine, BOB, now_ns=1100) == [1]
    assert engine.traffic(BOB).expired == 1


def published(engine: Engine, data: bytes) -> Event:
    """As it leaves."""
    receive(engine, ANN, publish_frame(data, born_ns=0), now_ns=Nanoseconds(0))
    ((kind, payload),) = frames(engine.output(SOUTH, bytes_max=1 << 20))
    assert kind == FORWARD
    return decode(payload[HOP.size :])


def test_a_published_event_gets_what_the_first_class_that_matches_gives_it(make: Make) -> None:
    engine = make()
    quick, slow = encode_filter(compile_filter("n >= 5")), encode_filter(ALL)
    engine.set_classes([TrafficClass(1, quick, 100, 0.9), TrafficClass(2, slow, None, 0.1)])
    one = published(engine, event_bytes(7, body=b"body")).envelope
    assert (one.traffic_class, one.ttl_ns, one.value, one.publisher, one.sequence) == (1, 100, 0.9, 1, 1)
    two = published(engine, event_bytes(2, ttl_ns=30))
    assert (two.envelope.traffic_class, two.envelope.ttl_ns, two.envelope.value) == (2, 30, 0.1)
    engine.set_classes([])
    three = published(engine, event_bytes(3)).envelope
    assert (three.traffic_class, three.ttl_ns, three.value) == (None, None, None)


def test_what_is_no_filter_leaves_the_classes_as_they_were(make: Make) -> None:
    engine = make()
    engine.set_classes([TrafficClass(4, encode_filter(ALL))])
    with pytest.raises(TidewireError):
        engine.set_classes([TrafficClass(5, encode_filter(ALL)), TrafficClass(6, b"nonsense")])
    assert published(engine, event_bytes(1)).envelope.traffic_class == 4


def test_an_event_that_is_too_large_with_its_class_is_refused(make: Make) -> None:
    engine = make()
    engine.set_classes([TrafficClass(4, encode_filter(ALL), 1, 0.5)])
    room = (2 << 20) - len(event_bytes(1, body=b"")) - (24 + 1 + HOP.size + 1 + 16 * 4)
    fits, too_large = event_bytes(1, body=bytes(room - 20)), event_bytes(1, body=bytes(room - 19))
    assert receive(engine, ANN, publish_frame(too_large, born_ns=0)).refused == {"event-too-large": ([1], 1)}
    assert receive(engine, ANN, publish_frame(fits, born_ns=0)).refused == {}


def test_the_two_publishers_of_a_broker_overtake_each_other(make: Make) -> None:
    engine = make()
    receive(engine, ANN, publish(1, born_ns=0) + publish(2, born_ns=0), now_ns=Nanoseconds(0))
    receive(engine, EVE, publish(3, born_ns=0, ttl_ns=10), now_ns=Nanoseconds(0))
    assert sent(engine, BOB) == [3, 1, 2]
