"""What ``dataplane/streams.py`` promises of the host of a stream, promise by promise, of every engine with streams."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from tests.dataplane.streaming import (
    START,
    STREAM_MAKERS,
    Host,
    Span,
    follow,
    got,
    guarantee,
    served,
    span_of,
    told,
)
from tests.dataplane.world import NOW, delivered, frames, publish, receive, taken
from tests.matching.building import ge, where
from tidewire._kernel.codec import decode
from tidewire.dataplane.protocol import REFUSED_LISTED_MAX
from tidewire.dataplane.streams import StreamEngine, has_streams
from tidewire.model.errors import StoreFailed
from tidewire.model.events import Envelope
from tidewire.model.filters import ALL, NOTHING, Filter, encode_filter
from tidewire.model.ids import Conn, PubendId, Tick, TreeId
from tidewire.model.ticks import tick_at
from tidewire.wire.frames import STREAM_HEAD, decode_delivered, guarantee_frame

ANN, BOB, SOUTH, EAST = Conn(0), Conn(1), Conn(2), Conn(3)
OWN = TreeId(10)
PUBEND, SECOND = PubendId(70), PubendId(71)
PUBLISHER = 6
"""Of two pubends it has the first."""
FIRST = Tick(tick_at(1000) + 1)
"""Of the first event, if it comes at once: what the clock says at the start is silent."""

Make = Callable[..., Host]


@pytest.fixture(params=list(STREAM_MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    """Each engine, hosting two pubends, with two clients (Ann publishes) and two neighbours, who want nothing yet."""

    def made(**log_options: int) -> Host:
        host = Host(lambda: _engine(STREAM_MAKERS[request.param]()), [PUBEND, SECOND], **log_options)
        host.engine.may_publish(ANN, publisher=PUBLISHER, next_sequence=100)
        return host

    return made


def _engine(engine: StreamEngine) -> StreamEngine:
    engine.own_tree(OWN)
    for conn, is_link in ((ANN, False), (BOB, False), (SOUTH, True), (EAST, True)):
        engine.open(conn, is_link=is_link, when_full="wait", queue_bytes_max=1 << 20)
    return engine


def route(engine: StreamEngine, conn: Conn, wanted: Filter = ALL, *, number: int = 1) -> None:
    """One route, of our tree if it is a neighbour's."""
    engine.add_routes(conn, [number], [encode_filter(wanted)], OWN if conn in (SOUTH, EAST) else None)


def state_of(host: Host, pubend: PubendId = PUBEND) -> Any:
    """How the stream stands."""
    return next(one for one in host.engine.streams() if one.pubend == pubend)


def test_nothing_is_guaranteed_without_a_log(make: Make) -> None:
    engine = make().make()
    assert has_streams(engine)
    engine.may_publish(ANN, publisher=PUBLISHER, next_sequence=1)
    said = receive(engine, ANN, guarantee(1, sequence=1) + guarantee(2, sequence=2))
    assert (said.state, said.refused, said.guaranteed) == ("idle", {"no-store": ([1, 2], 2)}, [1, 2])


@pytest.mark.parametrize("conn", [BOB, SOUTH])
def test_only_a_client_that_may_publish_is_given_a_guarantee(make: Make, conn: Conn) -> None:
    assert make().receive(conn, guarantee(1, sequence=1)).state == "broken"


def test_an_event_goes_its_way_when_it_is_durable_and_not_before(make: Make) -> None:
    """gryphon §1: logged to stable store, then sent downstream."""
    host = make()
    engine = host.engine
    route(engine, BOB, number=9)
    route(engine, SOUTH, where(n=ge(3)))
    engine.set_clock(ANN, offset_ns=1000, error_us=4)
    assert host.receive(ANN, guarantee(3, sequence=1, body=b"payload")).state == "idle"
    assert host.log.waiting_events == 1
    assert engine.committed(now_ns=host.now_ns).ready == []
    assert [taken(engine, conn) for conn in (ANN, BOB, SOUTH, EAST)] == [b""] * 4
    host.log.seal()
    host.log.write()
    assert engine.committed(now_ns=host.now_ns).ready == []
    host.log.sync()
    assert sorted(engine.committed(now_ns=host.now_ns).ready) == [ANN, BOB, SOUTH]
    assert got(engine, ANN).receipts == [(1, FIRST)]
    ((_, payload),) = frames(taken(engine, BOB))
    one = decode_delivered(payload)
    assert (one.numbers, one.position, one.born_ns, one.error_us) == ((9,), FIRST, 1005, 4)
    event = decode(one.event)
    assert event.envelope == Envelope(publisher=PUBLISHER, sequence=1, pubend=PUBEND, tick=FIRST)
    assert (event["n"], event.body) == (3, b"payload")
    ((kind, payload),) = frames(taken(engine, SOUTH))
    assert STREAM_HEAD.unpack_from(payload)[:2] == (OWN, PUBEND)
    assert span_of(kind, payload) == Span(PUBEND, FIRST, FIRST, "plain", 3)
    assert payload.endswith(one.event)
    assert taken(engine, EAST) == b""
    assert (engine.work().events, engine.work().deliveries, engine.work().forwards) == (1, 1, 1)


def test_every_publisher_has_one_pubend(make: Make) -> None:
    host = make()
    host.engine.may_publish(BOB, publisher=PUBLISHER + 1, next_sequence=1)
    route(host.engine, SOUTH)
    host.receive(ANN, guarantee(1, sequence=1) + guarantee(2, sequence=2))
    host.receive(BOB, guarantee(3, sequence=1))
    host.commit()
    spans = told(host.engine, SOUTH)
    assert [(span.name, span.n) for span in spans if span.name == PUBEND] == [(PUBEND, 1), (PUBEND, 2)]
    assert [(span.name, span.n) for span in spans if span.name == SECOND] == [(SECOND, 3)]
    assert (state_of(host).events, state_of(host, SECOND).events) == (2, 1)


def test_one_receipt_for_all_that_a_publisher_has_in_the_log(make: Make) -> None:
    host = make()
    host.receive(ANN, b"".join(guarantee(n, sequence=n) for n in range(1, 6)))
    host.commit()
    assert got(host.engine, ANN).receipts == [(5, FIRST + 4)]
    assert host.engine.heads()[0] == (PUBEND, FIRST + 5)


def test_a_repeated_event_gets_the_same_tick_also_after_a_restart(make: Make) -> None:
    """gryphon §1.3: publisher and sequence are stored with the tick."""
    host = make()
    route(host.engine, BOB)
    host.receive(ANN, guarantee(1, sequence=1) + guarantee(2, sequence=2))
    host.passes(5)
    host.receive(ANN, guarantee(1, sequence=1))
    assert got(host.engine, ANN).receipts == []  # it is not durable: the receipt comes with its group
    host.commit()
    assert got(host.engine, ANN).receipts == [(2, FIRST + 1)]
    host.receive(ANN, guarantee(1, sequence=1) + guarantee(2, sequence=2))
    assert got(host.engine, ANN).receipts == [(1, FIRST), (2, FIRST + 1)]
    assert [n for _, n in delivered(host.engine, BOB)] == [1, 2]
    host.files.crash(1)
    host.begin()
    route(host.engine, BOB)
    host.engine.may_publish(ANN, publisher=PUBLISHER, next_sequence=1)
    host.receive(ANN, guarantee(2, sequence=2) + guarantee(3, sequence=3))
    assert got(host.engine, ANN).receipts == [(2, FIRST + 1)]
    host.commit()
    assert got(host.engine, ANN).receipts == [(3, tick_at(1005))]
    assert [n for _, n in delivered(host.engine, BOB)] == [3]


def test_what_was_not_durable_before_a_loss_of_power_is_taken_anew(make: Make) -> None:
    host = make()
    host.receive(ANN, guarantee(1, sequence=1))
    host.commit()
    host.receive(ANN, guarantee(2, sequence=2))
    host.files.crash(1)
    host.begin()
    host.engine.may_publish(ANN, publisher=PUBLISHER, next_sequence=1)
    assert state_of(host).heard == FIRST + 1
    host.receive(ANN, guarantee(2, sequence=2))
    assert got(host.engine, ANN).receipts == []
    host.commit()
    assert got(host.engine, ANN).receipts == [(2, FIRST + 1)]


def test_ticks_never_go_back(make: Make) -> None:
    """gryphon §1.1: max(last + 1, now), also when the clock jumps."""
    host = make()
    host.receive(ANN, guarantee(1, sequence=1))
    host.passes(-30)
    for sequence in (2, 3):
        host.receive(ANN, guarantee(1, sequence=sequence))
    host.passes(40)
    host.receive(ANN, guarantee(1, sequence=4))
    host.commit()
    ticks = [record[1] for record in host.log.read(PUBEND, 0, 1 << 62, 1 << 30)[0]]
    assert ticks == [FIRST, FIRST + 1, FIRST + 2, tick_at(1010)]


def test_an_event_that_is_refused_is_named_and_not_in_the_log(make: Make) -> None:
    host = make()
    host.engine.permit(ANN, [encode_filter(where(n=ge(3)))])
    damaged = guarantee_frame(b"none", born_ns=1, sequence=2)
    said = host.receive(ANN, guarantee(1, sequence=1) + damaged + guarantee(4, sequence=3))
    assert said.refused == {"not-permitted": ([1], 1), "event-damaged": ([2], 1)}
    assert said.guaranteed == [1, 2]
    host.commit()
    assert got(host.engine, ANN).receipts == [(3, FIRST)]
    assert host.engine.work().refused == 2


def test_an_event_that_was_refused_is_refused_again_and_never_receipted(make: Make) -> None:
    """Its publisher may have been cut off before it heard so, and repeats it behind events that are in the log."""
    host = make()
    host.engine.permit(ANN, [encode_filter(where(n=ge(3)))])
    host.receive(ANN, guarantee(1, sequence=1) + guarantee(4, sequence=2))
    host.commit()
    taken(host.engine, ANN)
    assert host.receive(ANN, guarantee(1, sequence=1)).refused == {"not-permitted": ([1], 1)}
    assert got(host.engine, ANN).receipts == []


def test_all_refused_sequences_are_named(make: Make) -> None:
    """Receipts are cumulative: what is not named would count as taken."""
    host = make()
    host.engine.permit(ANN, [encode_filter(NOTHING)])
    count = 2 * REFUSED_LISTED_MAX
    said = host.receive(ANN, b"".join(guarantee(1, sequence=1 + n) for n in range(count)))
    assert said.guaranteed == list(range(1, count + 1))


def test_best_effort_events_have_sequences_of_their_own(make: Make) -> None:
    host = make()
    route(host.engine, BOB)
    host.receive(ANN, publish(1) + guarantee(2, sequence=1) + publish(3))
    host.commit()
    events = [decode(decode_delivered(payload).event) for _, payload in frames(taken(host.engine, BOB))]
    assert [(event["n"], event.envelope.sequence) for event in events] == [(1, 100), (3, 101), (2, 1)]


def test_receipts_follow_the_publisher(make: Make) -> None:
    """To the connection where it may publish now; to none while it is away."""
    host = make()
    host.receive(ANN, guarantee(1, sequence=1))
    host.engine.may_publish(BOB, publisher=PUBLISHER, next_sequence=1)
    host.commit()
    assert (got(host.engine, ANN).receipts, got(host.engine, BOB).receipts) == ([], [(1, FIRST)])
    host.receive(BOB, guarantee(2, sequence=2))
    host.engine.close(BOB)
    host.commit()
    assert got(host.engine, ANN).receipts == []


def test_a_log_without_room_blocks_its_publishers_and_nobody_else(make: Make) -> None:
    host = make(backlog_bytes_max=1 << 12, group_bytes=1 << 11)
    engine = host.engine
    route(engine, BOB)
    engine.open(Conn(9), is_link=False, when_full="wait")
    engine.may_publish(Conn(9), publisher=8, next_sequence=1)
    events = b"".join(guarantee(n, sequence=n, body=bytes(500)) for n in range(1, 40))
    assert host.receive(ANN, events).state == "blocked"
    assert state_of(host).is_awaited
    assert host.receive(Conn(9), publish(50)).state == "idle"
    assert [n for _, n in delivered(engine, BOB)] == [50]
    found: list[int] = []
    for _ in range(40):
        host.commit()
        found += [n for _, n in delivered(engine, BOB)]
        for conn in engine.unblocked():
            host.resume(conn)
    assert found == list(range(1, 40))
    assert not state_of(host).is_awaited
    assert host.receive(ANN, publish(7)).state == "idle"


def test_a_full_disk_stops_receipts_and_goes_on_when_there_is_room(make: Make) -> None:
    host = make(backlog_bytes_max=1 << 12, group_bytes=1 << 11, segment_bytes=64 << 10)
    host.files.set_capacity(100 << 10)
    count = 300
    host.receive(ANN, b"".join(guarantee(n, sequence=n, body=bytes(500)) for n in range(1, count + 1)))
    receipts: list[tuple[int, int]] = []

    def goes_on() -> None:
        for _ in range(count):
            host.commit()
            receipts.extend(got(host.engine, ANN).receipts)
            for conn in host.engine.unblocked():
                host.resume(conn)

    goes_on()
    assert host.log.trouble != "none"
    assert 0 < receipts[-1][0] < count
    assert host.engine.unblocked() == []
    host.files.set_capacity(1 << 30)
    goes_on()
    assert receipts[-1][0] == count


def test_a_disk_that_has_failed_refuses(make: Make) -> None:
    """It never says again that something is durable; who is told so can publish elsewhere."""
    host = make()
    host.receive(ANN, guarantee(1, sequence=1))
    host.files.fail("sync", errno.EIO)
    with pytest.raises(StoreFailed):
        host.log.commit()
    assert host.log.trouble == "failed"
    host.engine.committed(now_ns=host.now_ns)
    assert got(host.engine, ANN).receipts == []
    said = host.receive(ANN, guarantee(2, sequence=2))
    assert (said.state, said.guaranteed) == ("idle", [2])


def test_a_pubend_takes_as_many_a_second_as_it_is_told(make: Make) -> None:
    host = make()
    engine = host.engine
    engine.limit(PUBEND, 10.0, now_ns=host.now_ns)
    engine.may_publish(BOB, publisher=PUBLISHER + 1, next_sequence=1)
    events = b"".join(guarantee(n, sequence=n) for n in range(1, 100))
    assert host.receive(ANN, events).state == "blocked"
    assert (state_of(host).events, engine.unblocked()) == (1, [])
    assert host.receive(BOB, guarantee(1, sequence=1)).state == "idle"  # the other pubend has no limit
    for step in range(1, 21):
        host.passes(100)
        engine.limit(PUBEND, 10.0, now_ns=host.now_ns)
        assert engine.unblocked() == [ANN]
        assert (host.resume(ANN).state, state_of(host).events) == ("blocked", 1 + step)
    engine.limit(PUBEND, None, now_ns=host.now_ns)
    assert engine.unblocked() == [ANN]
    assert host.resume(ANN).state == "idle"
    assert state_of(host).events == 99


def test_a_repeated_event_costs_nothing_of_the_limit(make: Make) -> None:
    host = make()
    host.receive(ANN, guarantee(1, sequence=1))
    host.commit()
    taken(host.engine, ANN)
    host.engine.limit(PUBEND, 1.0, now_ns=host.now_ns)
    assert host.receive(ANN, guarantee(1, sequence=1) * 5).state == "idle"
    assert got(host.engine, ANN).receipts == [(1, FIRST)] * 5


def test_who_waits_for_a_pubend_can_end(make: Make) -> None:
    host = make()
    host.engine.limit(PUBEND, 1.0, now_ns=host.now_ns)
    host.receive(ANN, guarantee(1, sequence=1) + guarantee(2, sequence=2))
    assert state_of(host).is_awaited
    host.engine.close(ANN)
    assert not state_of(host).is_awaited
    host.engine.limit(PUBEND, None, now_ns=host.now_ns)
    assert host.engine.unblocked() == []


def test_silence_is_told_up_to_now_once_its_mark_is_durable(make: Make) -> None:
    """gryphon §1.1: with no publication, an explicit silence message."""
    host = make()
    route(host.engine, SOUTH, NOTHING)
    host.passes(20)
    host.engine.silence(PUBEND, now_ns=host.now_ns)
    assert told(host.engine, SOUTH) == []
    host.commit()
    host.engine.silence(PUBEND, now_ns=host.now_ns)
    assert told(host.engine, SOUTH) == [Span(PUBEND, FIRST, tick_at(1020) - 1, "plain")]
    assert taken(host.engine, EAST) == b""
    host.engine.silence(PUBEND, now_ns=host.now_ns)
    assert told(host.engine, SOUTH) == []
    assert host.engine.heads()[0] == (PUBEND, tick_at(1020))
    host.receive(ANN, guarantee(1, sequence=1))
    host.commit()
    assert got(host.engine, ANN).receipts == [(1, tick_at(1020))]
    assert told(host.engine, SOUTH) == []  # it wants nothing, and hears of the silence later


def test_silence_waits_for_what_is_not_durable(make: Make) -> None:
    host = make()
    host.silent(PUBEND)
    route(host.engine, SOUTH)
    host.passes(20)
    host.receive(ANN, guarantee(1, sequence=1))
    host.engine.silence(PUBEND, now_ns=host.now_ns)
    assert told(host.engine, SOUTH) == []
    host.commit()
    host.passes(10)
    host.engine.silence(PUBEND, now_ns=host.now_ns)
    first, silence = told(host.engine, SOUTH)
    assert (first.n, silence) == (1, Span(PUBEND, first.tick + 1, tick_at(1030) - 1, "plain"))


def test_silence_waits_for_what_is_durable_and_not_told(make: Make) -> None:
    """gryphon §1.1: a tick is data or silence, never both. The log's thread is ahead of who tells."""
    host = make()
    host.silent(PUBEND)
    route(host.engine, SOUTH)
    route(host.engine, BOB)
    host.passes(20)
    host.receive(ANN, guarantee(1, sequence=1))
    host.passes(10)
    host.log.commit()
    heads = host.engine.heads()
    host.engine.silence(PUBEND, now_ns=host.now_ns)
    assert (told(host.engine, SOUTH), host.engine.heads()) == ([], heads)
    host.engine.committed(now_ns=host.now_ns)
    host.engine.silence(PUBEND, now_ns=host.now_ns)
    first, silence = told(host.engine, SOUTH)
    assert (first.first, first.n) == (heads[0][1], 1)
    assert silence == Span(PUBEND, first.tick + 1, tick_at(1030) - 1, "plain")
    assert [n for _, _, n in got(host.engine, BOB).events] == [1]


def test_what_is_durable_and_not_told_is_not_told_again_either(make: Make) -> None:
    """Answers and replays end where the stream does: what lies behind comes once, when it is its turn."""
    host = make()
    host.receive(ANN, guarantee(1, sequence=1))
    host.commit()
    host.receive(ANN, guarantee(2, sequence=2))
    host.log.commit()
    end = host.engine.heads()[0][1]
    assert host.engine.answer(SOUTH, OWN, PUBEND, [(FIRST, Tick(end + 10))]) == []
    follow(host.engine, BOB, 4, PUBEND, FIRST, sound=0)
    host.engine.catch_up(1, BOB, 4, PUBEND)
    (replayed,) = served(host.engine).replayed[-1:]
    assert (replayed.place, replayed.is_joined) == (end, True)
    assert max(span.tick for span in told(host.engine, SOUTH)) == end - 1
    host.engine.committed(now_ns=host.now_ns)
    assert [n for _, _, n in got(host.engine, BOB).events] == [1, 2]


def test_no_life_gives_ticks_that_an_earlier_one_said_were_silent(make: Make) -> None:
    """Also when the clock has gone back, and nothing but the mark is in the log."""
    host = make()
    host.passes(500)
    host.silent(PUBEND)
    silent_to = host.engine.heads()[0][1]
    assert silent_to == tick_at(1500)
    host.files.crash(1)
    host.passes(-400)
    host.begin()
    host.engine.may_publish(ANN, publisher=PUBLISHER, next_sequence=1)
    host.receive(ANN, guarantee(1, sequence=1))
    host.commit()
    ((_, tick),) = got(host.engine, ANN).receipts
    assert tick >= silent_to


def test_silence_reaches_as_far_as_the_mark(make: Make) -> None:
    """The disk stands still, and no new mark becomes durable."""
    host = make()
    host.silent(PUBEND)
    host.passes(3_600_000)
    host.engine.silence(PUBEND, now_ns=host.now_ns)
    assert host.engine.heads()[0][1] <= tick_at(1000 + 10_000)
    host.log.commit()
    host.engine.silence(PUBEND, now_ns=host.now_ns)
    assert host.engine.heads()[0][1] == tick_at(1000 + 3_600_000)


def test_a_stream_that_is_hosted_says_how_it_stands(make: Make) -> None:
    host = make()
    host.receive(ANN, guarantee(1, sequence=1) + guarantee(2, sequence=2))
    assert [one.pubend for one in host.engine.streams()] == [PUBEND, SECOND]
    state = state_of(host)
    assert (state.tree, state.heard, state.horizon, state.events) == (None, FIRST, FIRST, 2)
    host.commit()
    assert (state_of(host).heard, state_of(host).horizon, state_of(host).cached) == (FIRST + 2, FIRST + 2, 0)
    host.log.release(PUBEND, FIRST + 1)
    assert state_of(host).released == FIRST + 1


def test_a_follower_at_the_host_catches_up_from_the_log_and_joins(make: Make) -> None:
    host = make()
    host.receive(ANN, b"".join(guarantee(n, sequence=n) for n in range(1, 6)))
    host.commit()
    follow(host.engine, BOB, 4, PUBEND, FIRST + 1, sound=0, wanted=where(n=ge(2)))
    host.engine.catch_up(1, BOB, 4, PUBEND)
    (replayed,) = served(host.engine).replayed[-1:]
    assert (replayed.replay, replayed.place, replayed.is_over, replayed.is_joined) == (1, FIRST + 5, True, True)
    host.receive(ANN, guarantee(1, sequence=6) + guarantee(7, sequence=7))
    host.commit()
    assert [(numbers, n) for numbers, _, n in got(host.engine, BOB).events] == [((4,), n) for n in (2, 3, 4, 5, 7)]


def test_a_long_log_is_told_again_in_pieces_of_which_each_follower_has_its_turn(make: Make) -> None:
    host = make()
    count = 1200
    host.receive(ANN, b"".join(guarantee(n, sequence=n, body=bytes(300)) for n in range(1, count + 1)))
    host.commit()
    host.engine.open(Conn(9), is_link=False, when_full="wait", queue_bytes_max=1 << 24)
    host.engine.close(BOB)
    host.engine.open(BOB, is_link=False, when_full="wait", queue_bytes_max=1 << 24)
    for replay, conn in ((1, BOB), (2, Conn(9))):
        follow(host.engine, conn, 1, PUBEND, FIRST, sound=0)
        host.engine.catch_up(replay, conn, 1, PUBEND)
    for _ in range(3):
        host.engine.serve(now_ns=START)
    so_far = [len(got(host.engine, conn).events) for conn in (BOB, Conn(9))]
    assert all(0 < one < count for one in so_far)
    served(host.engine)
    rest = [len(got(host.engine, conn).events) for conn in (BOB, Conn(9))]
    assert [a + b for a, b in zip(so_far, rest, strict=True)] == [count, count]


def test_ticks_that_are_lost_in_the_log_are_told_as_lost(make: Make) -> None:
    """A damaged segment: neighbours hear of it, followers too, and what is readable comes."""
    host = make(segment_bytes=64 << 10, group_bytes=8 << 10)
    for n in range(1, 300):
        host.receive(ANN, guarantee(n, sequence=n, body=bytes(700)))
        if n % 10 == 0:
            host.commit()
    host.commit()
    segments = sorted(name for name, size in host.files.list() if size >= 64 << 10)
    host.log.close()
    host.files.damage(segments[1], 20_000, b"\xff" * 64)
    host.begin()
    host.engine.may_publish(ANN, publisher=PUBLISHER, next_sequence=1)
    host.engine.close(BOB)
    host.engine.open(BOB, is_link=False, when_full="wait", queue_bytes_max=1 << 24)
    follow(host.engine, BOB, 1, PUBEND, FIRST, sound=0)
    host.engine.catch_up(1, BOB, 1, PUBEND)
    news = served(host.engine)
    lost = [(one.first, one.last) for one in news.lacks]
    ticks = [tick for _, tick, _ in got(host.engine, BOB).events]
    assert lost
    assert 200 < len(ticks) < 299
    assert not any(first <= tick <= last for tick in ticks for first, last in lost)
    route(host.engine, SOUTH)
    host.engine.replay(2, SOUTH, 5, PUBEND, Tick(FIRST), wanted=encode_filter(ALL), bytes_max=1 << 30)
    host.engine.answer(SOUTH, OWN, PUBEND, [(Tick(FIRST), Tick(FIRST + 400))])
    spans: list[Span] = []
    while host.engine.is_serving:
        host.engine.serve(now_ns=NOW)
        spans += told(host.engine, SOUTH)
    for name in (5, PUBEND):
        ours = [span for span in spans if span.name == name]
        assert [span.tick for span in ours if span.n is not None] == ticks
        assert [(span.first, span.tick) for span in ours if span.kind == "lost"] == lost
        assert [span.first for span in ours[1:]] == [span.tick + 1 for span in ours[:-1]]  # each where it belongs
