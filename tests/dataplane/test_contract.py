"""What ``dataplane/protocol.py`` promises, promise by promise, of every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.dataplane.world import (
    MAKERS,
    NOW,
    delivered,
    event_bytes,
    forward,
    frames,
    publish,
    receive,
    resume,
    taken,
)
from tests.matching.building import eq, ge, lt, where
from tidewire._kernel.codec import decode, encode
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import ERROR_UNKNOWN_US, Engine, WhenFull
from tidewire.model.balance_messages import RESERVED_CLASSES
from tidewire.model.errors import (
    DamagedFilter,
    DuplicateSubscription,
    UnknownSubscription,
    UsageError,
    ValueOutOfRange,
)
from tidewire.model.events import Envelope, make_event
from tidewire.model.filters import ALL, Filter, encode_filter
from tidewire.model.ids import Conn, TreeId
from tidewire.model.messages import Done, Flush, Ping
from tidewire.model.values import Value
from tidewire.wire.frames import (
    DELIVER,
    FORWARD,
    HOP,
    MESSAGE,
    MORE,
    PUBLISH,
    decode_delivered,
    decode_message,
    frame,
    message_frame,
    publish_frame,
)

ANN, BOB, NORTH, SOUTH = Conn(0), Conn(1), Conn(2), Conn(3)
OWN, OTHER = TreeId(10), TreeId(20)
EVENT_BYTES = len(publish(1)) - 13
DELIVER_BYTES = EVENT_BYTES + 24 + 30


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest) -> Callable[..., Engine]:
    """Each engine, with two clients (Ann publishes) and two neighbours (North is OTHER's parent)."""

    def made(*, when_full: WhenFull = "wait", bound: int = 1 << 20, **options: Any) -> Engine:
        engine = MAKERS[request.param](**options)
        engine.own_tree(OWN)
        for conn, is_link in ((ANN, False), (BOB, False), (NORTH, True), (SOUTH, True)):
            engine.open(conn, is_link=is_link, when_full=when_full, queue_bytes_max=bound)
        engine.may_publish(ANN, publisher=7, next_sequence=100)
        engine.set_parent(OTHER, NORTH)
        return engine

    return made


def route(engine: Engine, conn: Conn, wanted: Filter = ALL, *, number: int = 1, tree: TreeId | None = None) -> None:
    """One route."""
    engine.add_routes(conn, [number], [encode_filter(wanted)], tree)


def numbers_of(engine: Engine, conn: Conn) -> list[int]:
    """The attribute n of the events that wait for it."""
    return [n for _, n in delivered(engine, conn)]


Make = Callable[..., Engine]


def test_an_event_is_stamped_and_delivered_with_its_numbers(make: Make) -> None:
    engine = make()
    engine.set_clock(ANN, offset_ns=1000, error_us=4)
    engine.add_routes(BOB, [9, 2, 5], [encode_filter(one) for one in (ALL, where(n=ge(3)), where(n=lt(3)))], None)
    said = receive(engine, ANN, publish(3, body=b"payload", born_ns=5) + publish(4))
    assert (said.state, said.ready) == ("idle", [BOB])
    (first_kind, first), (_, second) = frames(taken(engine, BOB))
    told = decode_delivered(first)
    assert (first_kind, told.numbers, told.more) == (DELIVER, (2, 9), False)
    assert (told.born_ns, told.error_us, told.position) == (1005, 4, 1)
    event = decode(told.event)
    assert event.envelope == Envelope(publisher=7, sequence=100, tree=OWN)
    assert (dict(event.attributes), event.body) == ({"n": 3}, b"payload")
    assert decode_delivered(second).position == 2
    assert decode(decode_delivered(second).event).envelope.sequence == 101


def test_other_fields_of_the_envelope_stay(make: Make) -> None:
    engine = make()
    route(engine, BOB)
    given = Envelope(published_ns=-4, traffic_class=2, ttl_ns=8, value=0.5, tenant=3, trace=bytes(25))
    event = encode(make_event({"n": 1, "text": "größe"}, body=b"", content_type="a/b", envelope=given))
    receive(engine, ANN, publish_frame(event, born_ns=0))
    found = decode(decode_delivered(frames(taken(engine, BOB))[0][1]).event)
    assert (found["text"], found.body, found.content_type) == ("größe", b"", "a/b")
    assert (found.envelope.trace, found.envelope.value, found.envelope.sequence) == (bytes(25), 0.5, 100)


def test_more_than_sixteen_numbers_are_not_named(make: Make) -> None:
    engine = make()
    engine.add_routes(BOB, range(16), [encode_filter(where(n=ge(i))) for i in range(16)], None)
    receive(engine, ANN, publish(40))
    assert decode_delivered(frames(taken(engine, BOB))[0][1]).numbers == tuple(range(16))
    route(engine, BOB, number=16)
    receive(engine, ANN, publish(40))
    payload = frames(taken(engine, BOB))[0][1]
    assert payload[HOP.size] == MORE
    assert decode_delivered(payload).more
    assert decode(decode_delivered(payload).event)["n"] == 40


def test_forwarded_by_the_routes_of_its_tree_and_never_back(make: Make) -> None:
    engine = make()
    engine.set_clock(NORTH, offset_ns=-5, error_us=2**32 - 2)
    for link in (NORTH, SOUTH):
        route(engine, link, tree=OTHER)
    route(engine, SOUTH, where(n=ge(5)), number=3, tree=OWN)
    route(engine, BOB)
    sent = forward(6, tree=OTHER, born_ns=5, error_us=3)
    receive(engine, NORTH, sent)
    receive(engine, ANN, publish(1) + publish(5))
    assert taken(engine, NORTH) == b""
    (_, first), (_, second) = frames(taken(engine, SOUTH))
    assert first == HOP.pack(0, ERROR_UNKNOWN_US, 6) + sent[5 + HOP.size :]
    assert HOP.unpack_from(second)[2] == 2
    assert decode(second[HOP.size :]).envelope == Envelope(publisher=7, sequence=101, tree=OWN)
    assert numbers_of(engine, BOB) == [6, 1, 5]
    assert (engine.work().deliveries, engine.work().forwards, engine.work().events) == (3, 2, 3)


def test_only_from_the_parent_and_only_beyond_what_had_come_when_it_became_it(make: Make) -> None:
    """A parent may bring them in another order, since urgent ones overtake; to the next one all that is old is lost."""
    engine = make()
    route(engine, BOB)
    receive(engine, SOUTH, forward(1, tree=OTHER))
    receive(engine, NORTH, b"".join(forward(n, tree=OTHER) for n in (3, 4, 2)) + forward(9, tree=99))
    assert numbers_of(engine, BOB) == [3, 4, 2]
    assert (engine.traffic(SOUTH).stray, engine.traffic(NORTH).stray, engine.traffic(NORTH).events_in) == (1, 1, 4)
    engine.set_parent(OTHER, NORTH)
    receive(engine, NORTH, forward(1, tree=OTHER))
    assert numbers_of(engine, BOB) == [1], "the same parent as before"
    engine.set_parent(OTHER, SOUTH)
    receive(engine, SOUTH, forward(3, tree=OTHER) + forward(4, tree=OTHER) + forward(5, tree=OTHER))
    assert numbers_of(engine, BOB) == [5]
    engine.set_parent(OTHER, None)
    engine.set_parent(OTHER, SOUTH)
    receive(engine, SOUTH, forward(5, tree=OTHER) + forward(6, tree=OTHER))
    assert numbers_of(engine, BOB) == [6]
    engine.forget_tree(OTHER)
    engine.set_parent(OTHER, SOUTH)
    receive(engine, SOUTH, forward(1, tree=OTHER))
    assert numbers_of(engine, BOB) == [1]
    engine.set_parent(OTHER, None)
    receive(engine, SOUTH, forward(2, tree=OTHER))
    assert numbers_of(engine, BOB) == []


def test_a_publisher_gets_its_own_event_if_it_subscribed(make: Make) -> None:
    engine = make()
    route(engine, ANN)
    receive(engine, ANN, publish(1))
    assert numbers_of(engine, ANN) == [1]


def test_an_unknown_clock_is_said_to_be_unknown(make: Make) -> None:
    engine = make()
    route(engine, BOB)
    receive(engine, ANN, publish(1, born_ns=5))
    told = decode_delivered(frames(taken(engine, BOB))[0][1])
    assert (told.born_ns, told.error_us) == (NOW, ERROR_UNKNOWN_US)


def test_refusals_by_sequence_and_code(make: Make) -> None:
    """Refused ones count in the sequence; the others pass."""
    engine = make(frame_bytes_max=1024)
    route(engine, BOB)
    engine.allow(ANN, [encode_filter(where(n=lt(5))), encode_filter(where(n=eq(7)))])
    stamped = publish_frame(event_bytes(1, tree=3), born_ns=0)
    damaged = publish_frame(event_bytes(1)[:-1], born_ns=0)
    large = [publish(1, body=bytes(1024 - 110 - EVENT_BYTES - 1 + extra)) for extra in (0, 1)]
    said = receive(engine, ANN, b"".join([publish(1), stamped, publish(5), *large, damaged, publish(7), publish(9)]))
    assert said.refused == {
        "event-damaged": ([101, 105], 2),
        "event-not-advertised": ([102, 107], 2),
        "event-too-large": ([104], 1),
    }
    found = [decode(decode_delivered(payload).event) for _, payload in frames(taken(engine, BOB))]
    assert [(event["n"], event.envelope.sequence) for event in found] == [(1, 100), (1, 103), (7, 106)]
    assert (engine.work().refused, engine.work().events) == (5, 3)
    engine.allow(ANN, [])
    assert receive(engine, ANN, publish(1)).refused == {"event-not-advertised": ([108], 1)}
    engine.allow(ANN, None)
    assert receive(engine, ANN, publish(9)).refused == {}


def test_nobody_publishes_what_is_the_brokers(make: Make) -> None:
    """peer L1: the control classes are reserved, by their whole name, and as a class alone."""
    engine = make()
    engine.permit(ANN, [])
    events: list[dict[str, Value]] = [{"n": 1, "class": name} for name in RESERVED_CLASSES]
    said = receive(engine, ANN, b"".join(publish_frame(encode(make_event(one)), born_ns=0) for one in events))
    assert said.refused == {"class-reserved": ([100, 101, 102], 3)}
    engine.permit(ANN, None)
    free: list[dict[str, Value]] = [
        {"class": "LOCAL_PI"},
        {"class": "LOCAL_PIES"},
        {"class": "local_pie"},
        {"class": 1},
        {"Class": "LOCAL_PIE", "kind": "LB_CONTROL"},
    ]
    assert (
        receive(engine, ANN, b"".join(publish_frame(encode(make_event(one)), born_ns=0) for one in free)).refused == {}
    )


def test_what_an_identity_may_publish_is_checked_first(make: Make) -> None:
    """An event must match; which other attributes it has does not matter."""
    engine = make()
    route(engine, BOB)
    engine.permit(ANN, [encode_filter(where(n=lt(5))), encode_filter(where(n=eq(7)))])
    assert receive(engine, ANN, publish(1) + publish(5) + publish(7)).refused == {"not-permitted": ([101], 1)}
    engine.allow(ANN, [encode_filter(where(n=lt(3)))])
    said = receive(engine, ANN, publish(1) + publish(4) + publish(6) + publish(7))
    assert said.refused == {"event-not-advertised": ([104, 106], 2), "not-permitted": ([105], 1)}
    engine.allow(ANN, None)
    engine.permit(ANN, [encode_filter(Filter(where(n=eq(9)).conjunctions + where(other=lt(5)).conjunctions))])
    wide = publish_frame(encode(make_event({"n": 1, "other": 1})), born_ns=0)
    assert receive(engine, ANN, publish(1) + wide + publish(9)).refused == {"not-permitted": ([107], 1)}
    engine.permit(ANN, [])
    assert receive(engine, ANN, publish(1)).refused == {"not-permitted": ([110], 1)}
    engine.permit(ANN, None)
    assert receive(engine, ANN, publish(9)).refused == {}


def test_equal_permissions_are_one_and_end_with_their_connections() -> None:
    engine = KernelEngine()
    before = engine.work().memory_bytes
    permission = [encode_filter(where(n=lt(limit))) for limit in range(200)]
    sizes = []
    for conn in range(20):
        engine.open(Conn(conn), is_link=False, when_full="drop")
        engine.permit(Conn(conn), permission)
        sizes.append(engine.work().memory_bytes - before)
    assert sizes[-1] - sizes[0] < sizes[0] / 2
    for conn in range(20):
        engine.close(Conn(conn))
    assert engine.work().memory_bytes <= before


def test_the_largest_event_fits_into_every_frame(make: Make) -> None:
    """Also with sixteen numbers, and also where the same bound holds for the receiver."""
    engine = make(frame_bytes_max=1024)
    engine.add_routes(BOB, range(16), [encode_filter(ALL)] * 16, None)
    receive(engine, ANN, publish(1, body=bytes(1024 - 110 - EVENT_BYTES - 1)))
    assert len(taken(engine, BOB)) == 1024 + 4


def test_a_damaged_event_of_a_neighbour_is_counted(make: Make) -> None:
    engine = make()
    route(engine, BOB)
    hop = HOP.pack(0, 0, 9)
    said = receive(engine, NORTH, frame(FORWARD, hop + b"none") + frame(FORWARD, hop + event_bytes(1)))
    assert (said.state, engine.traffic(NORTH).damaged) == ("idle", 2)
    receive(engine, NORTH, forward(1, tree=OTHER))
    assert numbers_of(engine, BOB) == [1]


def test_messages_stop_the_stream_in_their_order(make: Make) -> None:
    """What the machine does at a message holds for the events behind it, and not for those ahead."""
    engine = make()
    data = publish(1) + message_frame(Flush(3)) + publish(2) + message_frame(Ping(4)) + publish(3)
    said = engine.receive(ANN, data, now_ns=NOW)
    while said.message is None:
        said = engine.resume(ANN, now_ns=NOW)
    assert (said.state, decode_message(said.message)) == ("busy", Flush(3))
    route(engine, BOB)
    assert receive(engine, ANN, b"").messages == [message_frame(Ping(4))[5:]]
    assert numbers_of(engine, BOB) == [2, 3]


@pytest.mark.parametrize(
    ("conn", "data"),
    [
        (ANN, frame(DELIVER, bytes(40))),
        (ANN, forward(1, tree=OTHER)),
        (BOB, publish(1)),
        (NORTH, publish(1)),
        (ANN, frame(PUBLISH, bytes(7))),
        (NORTH, frame(FORWARD, bytes(19))),
        (ANN, frame(5, b"")),
        (ANN, bytes(4)),
        (ANN, (2000).to_bytes(4, "little")),
    ],
)
def test_what_is_not_the_protocol_breaks_the_connection_alone(make: Make, conn: Conn, data: bytes) -> None:
    engine = make(frame_bytes_max=1500)
    route(engine, BOB, number=5)
    ahead = publish(1) if conn == ANN else b""
    said = engine.receive(conn, ahead + data + publish(2), now_ns=NOW)
    while said.state == "busy":
        said = engine.resume(conn, now_ns=NOW)
    assert said.state == "broken"
    assert said.reason
    assert numbers_of(engine, BOB) == ([1] if ahead else [])
    assert engine.receive(conn, publish(3), now_ns=NOW).state == "broken"
    if conn != ANN:
        receive(engine, ANN, publish(4))
        assert numbers_of(engine, BOB) == [4]


def test_waiting_blocks_the_source_and_nobody_gets_the_event(make: Make) -> None:
    engine = make(bound=3 * DELIVER_BYTES)
    engine.open(Conn(4), is_link=False, when_full="wait")
    route(engine, BOB)
    route(engine, Conn(4))
    data = b"".join(publish(n) for n in range(6)) + message_frame(Flush(1))
    assert receive(engine, ANN, data).state == "blocked"
    assert numbers_of(engine, Conn(4)) == [0, 1, 2]
    assert receive(engine, ANN, publish(6)).state == "blocked"
    assert engine.traffic(ANN).events_in == 3
    engine.output(BOB, bytes_max=DELIVER_BYTES)
    assert engine.unblocked() == []
    engine.output(BOB, bytes_max=DELIVER_BYTES)
    assert engine.unblocked() == [ANN]
    assert engine.unblocked() == []
    assert resume(engine, ANN).state == "blocked"
    assert numbers_of(engine, BOB) == [2, 3, 4]
    assert engine.unblocked() == [ANN]
    said = resume(engine, ANN)
    assert (said.state, said.messages) == ("idle", [message_frame(Flush(1))[5:]])
    assert numbers_of(engine, BOB) == [5, 6]
    assert numbers_of(engine, Conn(4)) == [3, 4, 5, 6]


def test_a_source_goes_on_when_the_connection_without_room_is_closed(make: Make) -> None:
    engine = make(bound=DELIVER_BYTES)
    route(engine, BOB)
    assert receive(engine, ANN, publish(1) + publish(2)).state == "blocked"
    engine.close(BOB)
    assert engine.unblocked() == [ANN]
    assert resume(engine, ANN).state == "idle"


def test_a_blocked_source_that_is_closed_is_forgotten(make: Make) -> None:
    engine = make(bound=DELIVER_BYTES)
    route(engine, BOB)
    assert receive(engine, ANN, publish(1) + publish(2)).state == "blocked"
    engine.close(ANN)
    taken(engine, BOB)
    assert engine.unblocked() == []


def test_dropping_throws_the_oldest_events_away_and_no_message(make: Make) -> None:
    engine = make(when_full="drop", bound=8 * DELIVER_BYTES)
    route(engine, BOB)
    receive(engine, ANN, publish(0) + publish(1))
    engine.send(BOB, message_frame(Done(1)), "data")
    begun = engine.output(BOB, bytes_max=10)
    receive(engine, ANN, b"".join(publish(n) for n in range(2, 30)))
    kept = frames(begun + taken(engine, BOB))
    kinds = [kind for kind, _ in kept]
    assert kinds[:2] == [DELIVER, MESSAGE]
    told = [int(str(decode(decode_delivered(payload).event)["n"])) for kind, payload in kept if kind == DELIVER]
    assert told[0] == 0
    assert told[1:] == list(range(told[1], 30))
    assert engine.traffic(BOB).dropped == 30 - len(told)
    assert 5 <= len(told) <= 8


def test_who_has_lost_events_is_said_once_for_each_loss(make: Make) -> None:
    engine = make(when_full="drop", bound=8 * DELIVER_BYTES)
    engine.open(Conn(4), is_link=False, when_full="drop")
    route(engine, BOB)
    route(engine, Conn(4))
    receive(engine, ANN, b"".join(publish(n) for n in range(8)))
    assert engine.lossy() == []
    for _ in range(2):
        receive(engine, ANN, b"".join(publish(n) for n in range(8)))
        assert engine.lossy() == [BOB]
        assert engine.lossy() == []
    engine.close(BOB)
    assert engine.lossy() == []


def test_ending_reports_the_connection_once_and_spares_the_others(make: Make) -> None:
    engine = make(when_full="end", bound=2 * DELIVER_BYTES)
    engine.open(Conn(4), is_link=False, when_full="end")
    route(engine, BOB)
    route(engine, Conn(4))
    said = receive(engine, ANN, b"".join(publish(n) for n in range(4)))
    assert (said.state, said.overrun) == ("idle", [BOB])
    assert receive(engine, ANN, publish(4)).overrun == []
    assert numbers_of(engine, BOB) == [0, 1]
    assert engine.traffic(BOB).dropped == 3
    assert numbers_of(engine, Conn(4)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("when_full", ["wait", "drop", "end"])
def test_an_event_larger_than_the_bound_passes_alone(make: Make, when_full: WhenFull) -> None:
    engine = make(when_full=when_full, bound=10)
    route(engine, BOB)
    assert receive(engine, ANN, publish(1)).state == "idle"
    assert numbers_of(engine, BOB) == [1]


@pytest.mark.parametrize("lane", ["control", "data"])
def test_messages_that_nobody_reads_overrun_a_connection(make: Make, lane: Any) -> None:
    engine = make(when_full="wait", bound=100)
    route(engine, BOB)
    for _ in range(9):
        engine.send(BOB, frame(MESSAGE, bytes(20)), lane)
    said = receive(engine, ANN, publish(1))
    assert (said.overrun, said.state) == ([BOB], "idle")
    assert len(taken(engine, BOB)) == 9 * 25


def test_control_goes_first_but_not_into_a_frame(make: Make) -> None:
    engine = make()
    route(engine, BOB)
    receive(engine, ANN, publish(1) + publish(2))
    start = engine.output(BOB, bytes_max=7)
    assert engine.send(BOB, message_frame(Ping(1)), "control") is False
    assert engine.send(BOB, message_frame(Done(1)), "data") is False
    rest = engine.output(BOB, bytes_max=DELIVER_BYTES)
    found = frames(start + rest + taken(engine, BOB))
    assert [kind for kind, _ in found] == [DELIVER, MESSAGE, DELIVER, MESSAGE]
    assert [decode_message(payload) for kind, payload in found if kind == MESSAGE] == [Ping(1), Done(1)]
    assert engine.send(BOB, message_frame(Ping(2)), "control") is True


def test_a_control_frame_that_is_begun_is_finished_first(make: Make) -> None:
    engine = make()
    route(engine, BOB)
    engine.send(BOB, message_frame(Ping(1)), "control")
    start = engine.output(BOB, bytes_max=3)
    receive(engine, ANN, publish(1))
    assert [kind for kind, _ in frames(start + taken(engine, BOB))] == [MESSAGE, DELIVER]


def test_routes_are_replaced_in_place_all_or_none(make: Make) -> None:
    engine = make()
    low, high = encode_filter(where(n=lt(5))), encode_filter(where(n=ge(5)))
    engine.add_routes(BOB, [1, 2**24 - 1], [low, low], None)
    with pytest.raises(DamagedFilter):
        engine.add_routes(BOB, [3, 1, 4], [high, high, b"no"], None)
    with pytest.raises(DuplicateSubscription):
        engine.add_routes(BOB, [3, 3], [high, high], None)
    with pytest.raises(ValueOutOfRange):
        engine.add_routes(BOB, [3, 2**24], [high, high], None)
    with pytest.raises(UsageError):
        engine.add_routes(BOB, [3], [high, high], None)
    with pytest.raises(UnknownSubscription):
        engine.remove_routes(BOB, [1, 3], None)
    receive(engine, ANN, publish(1) + publish(9))
    assert delivered(engine, BOB) == [((1, 2**24 - 1), 1)]
    engine.add_routes(BOB, [2, 1, 2**24 - 2], [high, high, low], None)
    receive(engine, ANN, publish(1) + publish(9))
    assert delivered(engine, BOB) == [((2**24 - 2, 2**24 - 1), 1), ((1, 2), 9)]
    assert engine.work().subscriptions == 4
    engine.remove_routes(BOB, [1, 2, 2**24 - 2, 2**24 - 1], None)
    assert engine.work().subscriptions == 0


def test_closing_forgets_everything_of_a_connection(make: Make) -> None:
    """The number can be used again, and nothing of its past holds."""
    engine = make()
    route(engine, BOB)
    route(engine, NORTH, tree=OWN)
    receive(engine, ANN, publish(1) + publish(2)[:9])
    for conn in (ANN, BOB, NORTH):
        engine.close(conn)
    assert engine.work().subscriptions == 0
    engine.open(ANN, is_link=True, when_full="wait")
    engine.open(BOB, is_link=False, when_full="wait")
    engine.open(NORTH, is_link=True, when_full="wait")
    assert receive(engine, ANN, forward(1, tree=OTHER)).state == "idle"
    receive(engine, NORTH, forward(2, tree=OTHER))
    assert engine.traffic(NORTH).stray == engine.traffic(ANN).stray == 1
    assert taken(engine, BOB) == taken(engine, NORTH) == b""
    assert engine.traffic(BOB).events_out == 0


def test_calls_that_make_no_sense_are_refused(make: Make) -> None:
    engine = make()
    wrong: list[Callable[[], object]] = [
        lambda: engine.open(ANN, is_link=False, when_full="wait"),
        lambda: engine.open(Conn(1 << 20), is_link=False, when_full="wait"),
        lambda: engine.close(Conn(9)),
        lambda: engine.receive(Conn(9), b"", now_ns=NOW),
        lambda: engine.output(Conn(9), bytes_max=1),
        lambda: engine.may_publish(NORTH, publisher=1, next_sequence=1),
        lambda: engine.allow(NORTH, None),
        lambda: engine.permit(NORTH, None),
        lambda: engine.set_parent(OWN, NORTH),
        lambda: engine.set_parent(OTHER, BOB),
        lambda: engine.forget_tree(OWN),
        lambda: route(engine, NORTH),
        lambda: route(engine, BOB, tree=OWN),
        lambda: engine.send(BOB, publish(1), "data"),
        lambda: engine.send(BOB, message_frame(Ping(1))[:-1], "data"),
    ]
    for call in wrong:
        with pytest.raises(UsageError):
            call()
    with pytest.raises(UnknownSubscription):
        engine.remove_routes(NORTH, [1], TreeId(77))
    with pytest.raises(DamagedFilter):
        engine.allow(ANN, [b"no"])
    with pytest.raises(DamagedFilter):
        engine.permit(ANN, [b"no"])
    assert receive(engine, ANN, publish(1)).refused == {}


def test_nobody_publishes_where_there_is_no_tree() -> None:
    for maker in MAKERS.values():
        engine = maker()
        engine.open(ANN, is_link=False, when_full="wait")
        with pytest.raises(UsageError):
            engine.may_publish(ANN, publisher=1, next_sequence=1)


def test_traffic_is_counted_where_it_arrives(make: Make) -> None:
    """peer PIE1: the load of a queue is what came into it, dropped or not."""
    engine = make(when_full="drop", bound=2 * DELIVER_BYTES)
    route(engine, BOB)
    data = publish(1) + publish(2) + publish(3) + message_frame(Ping(1))
    receive(engine, ANN, data)
    engine.send(BOB, message_frame(Done(1)), "control")
    size = len(message_frame(Done(1)))
    there = engine.traffic(BOB)
    assert (there.events_out, there.bytes_out) == (3, 3 * DELIVER_BYTES + size)
    assert there.queued_bytes == (3 - there.dropped) * DELIVER_BYTES + size
    assert there.dropped == 2
    assert (engine.traffic(ANN).events_in, engine.traffic(ANN).bytes_in) == (3, len(data))
