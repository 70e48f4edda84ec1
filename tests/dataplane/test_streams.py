"""What ``dataplane/streams.py`` promises of streams that come, and of asking and answering, promise by promise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.dataplane.edge import (
    BOB,
    CAT,
    EAST,
    NORTH,
    OTHER,
    OWN,
    PUBEND,
    SOUTH,
    TREE,
    attended,
    comes,
    edge,
    events,
    route,
    state,
)
from tests.dataplane.streaming import (
    START,
    STREAM_MAKERS,
    Span,
    got,
    recover,
    served,
    stream,
    told,
    trust,
)
from tests.dataplane.world import publish, receive, taken
from tests.matching.building import ge, lt, where
from tidewire.dataplane.protocol import WhenFull
from tidewire.dataplane.stream_news import Replayed
from tidewire.dataplane.streams import StreamEngine
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, Tick
from tidewire.wire.frames import ANSWER, LAST, LOST

Make = Callable[..., StreamEngine]


@pytest.fixture(params=list(STREAM_MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    """Each engine, as an edge."""
    return partial(edge, request.param)


# -- what comes --------------------------------------------------------------------------------------------------------


def test_a_stream_is_taken_only_from_the_parent_in_its_tree(make: Make) -> None:
    engine = attended(make())
    for conn, tree in ((SOUTH, TREE), (NORTH, OTHER)):
        receive(engine, conn, stream(100, 105, 1, tree=tree, pubend=PUBEND))
        assert engine.traffic(conn).stray == 1
    assert receive(engine, BOB, stream(100, 105, 1, tree=TREE, pubend=PUBEND)).state == "broken"
    assert (state(engine).heard, state(engine).horizon) == (100, 100)
    comes(engine, (100, 105, 1))
    assert (state(engine).heard, state(engine).horizon) == (106, 106)


def test_a_stray_span_leaves_nothing_behind(make: Make) -> None:
    engine = make()
    receive(engine, SOUTH, stream(1, 5, 1, tree=TREE, pubend=99))
    receive(engine, NORTH, stream(1, 5, 1, tree=OTHER, pubend=98))
    assert engine.streams() == []


@pytest.mark.parametrize(("first", "tick"), [(106, 105), (100, 2**64 - 1), (2**64 - 1, 2**64 - 1), (2**63, 2**63)])
def test_ticks_that_no_pubend_gives_are_stray(make: Make, first: int, tick: int) -> None:
    engine = attended(make())
    route(engine, SOUTH)
    for n in (None, 1):
        receive(engine, NORTH, stream(first, tick, n, tree=TREE, pubend=PUBEND))
    assert (engine.traffic(NORTH).stray, state(engine).heard) == (2, 100)
    comes(engine, (100, 105, 1))
    assert (events(engine), told(engine, SOUTH)) == ([1], [Span(PUBEND, 100, 105, "plain", 1)])


@pytest.mark.parametrize(("kind", "n"), [(LAST, None), (LOST, 1), (4, None), (255, 1)])
def test_spans_of_no_known_kind_are_stray(make: Make, kind: int, n: int | None) -> None:
    engine = attended(make())
    engine.relay(NORTH, 9, SOUTH, 40, PUBEND)
    receive(engine, NORTH, stream(100, 105, n, tree=TREE, pubend=PUBEND, kind=kind))
    assert (engine.traffic(NORTH).stray, state(engine).heard) == (1, 100)
    receive(engine, NORTH, recover(9, 100, 105, n, kind=ANSWER if kind == LAST else kind))
    assert (engine.traffic(NORTH).stray, taken(engine, SOUTH)) == (2, b"")


def test_a_damaged_event_is_counted_and_its_ticks_stay_unknown(make: Make) -> None:
    engine = attended(make())
    whole = stream(100, 105, 1, tree=TREE, pubend=PUBEND)
    cut = (len(whole) - 4 - 3).to_bytes(4, "little") + whole[4:-3]
    assert receive(engine, NORTH, cut).state == "idle"
    assert (engine.traffic(NORTH).damaged, state(engine).heard) == (1, 100)


def test_events_are_delivered_in_order_and_none_before_the_horizon(make: Make) -> None:
    """gryphon §1.1: the doubt horizon; everything below is delivered or deliverable."""
    engine = attended(make())
    news = comes(engine, (105, 110, 2), (111, 120, 3))
    assert news.doubtful == [PUBEND]
    assert (events(engine), state(engine).horizon, state(engine).heard) == ([], 100, 121)
    assert engine.doubts(PUBEND, end=Tick(1000)) == [(100, 105)]
    assert engine.doubts(PUBEND, end=Tick(103)) == [(100, 103)]
    comes(engine, (102, 104, 1))
    assert (events(engine), engine.doubts(PUBEND, end=Tick(1000))) == ([], [(100, 102)])
    comes(engine, (100, 101), kind=ANSWER)
    assert (events(engine), state(engine).horizon) == ([1, 2, 3], 121)
    assert engine.doubts(PUBEND, end=Tick(1000)) == []


def test_what_comes_twice_is_delivered_once(make: Make) -> None:
    engine = attended(make())
    comes(engine, (100, 105, 1), (100, 105, 1), (106, 110, 2))
    comes(engine, (100, 105, 1), kind=ANSWER)
    comes(engine, (106, 110, 2))
    assert events(engine) == [1, 2]


def test_a_doubt_is_told_once_until_the_horizon_has_moved(make: Make) -> None:
    engine = attended(make())
    assert comes(engine, (105, 110, 2)).doubtful == [PUBEND]
    assert comes(engine, (115, 120, 3)).doubtful == []
    assert comes(engine, (100, 104), kind=ANSWER).doubtful == [PUBEND]
    assert comes(engine, (111, 114), kind=ANSWER).doubtful == []
    assert state(engine).horizon == 121


def test_silence_is_believed_from_the_trusted_tick_on(make: Make) -> None:
    """gryphon §1.3: silence holds for one version of a filter only. An event is an event before that, too."""
    engine = make()
    route(engine, BOB)
    engine.attend(PUBEND, Tick(100))
    comes(engine, (100, 109), (110, 115, 1))
    assert engine.doubts(PUBEND, end=Tick(1000)) == [(100, 115)]
    trust(engine, TREE, PUBEND, 120)
    comes(engine, (116, 130, 2))
    assert engine.doubts(PUBEND, end=Tick(1000)) == [(100, 115), (116, 120)]
    comes(engine, (100, 114), (116, 119), kind=ANSWER)  # an answer is by all that we want now
    assert events(engine) == [1, 2]


def test_another_parent_is_trusted_anew(make: Make) -> None:
    engine = attended(make())
    engine.set_parent(TREE, SOUTH)
    receive(engine, SOUTH, stream(100, 110, 1, tree=TREE, pubend=PUBEND))
    assert engine.doubts(PUBEND, end=Tick(1000)) == [(100, 110)]
    trust(engine, TREE, PUBEND, 111)
    receive(engine, SOUTH, stream(111, 120, 2, tree=TREE, pubend=PUBEND))
    assert engine.doubts(PUBEND, end=Tick(1000)) == [(100, 110)]


def test_trust_beyond_what_was_heard_is_news(make: Make) -> None:
    engine = attended(make())
    comes(engine, (100, 105, 1))
    trust(engine, TREE, PUBEND, 200)
    assert (state(engine).heard, engine.doubts(PUBEND, end=Tick(1000))) == (200, [(106, 200)])
    assert comes(engine, (300, 300, 2)).doubtful in ([PUBEND], [])


def test_what_comes_beyond_the_receive_window_is_ignored(make: Make) -> None:
    """gryphon §1.2, T15: updates outside are ignored, and will be asked for."""
    engine = attended(make(window_ticks_max=50))
    comes(engine, (110, 140, 1), (141, 160, 2), (161, 170, 3))
    assert (state(engine).ignored, state(engine).heard) == (171, 171)
    assert engine.doubts(PUBEND, end=Tick(1000)) == [(100, 110), (150, 171)]
    comes(engine, (100, 109), kind=ANSWER)
    assert (events(engine), state(engine).horizon) == ([1], 150)
    assert engine.doubts(PUBEND, end=Tick(1000)) == [(150, 171)]
    comes(engine, (150, 160, 2), (161, 170, 3), kind=ANSWER)
    assert (events(engine), state(engine).horizon) == ([2, 3], 171)


def test_what_waits_ahead_of_the_horizon_is_bounded(make: Make) -> None:
    engine = attended(make(cache_bytes_max=2000))
    spans = b"".join(
        stream(100 + 10 * n, 109 + 10 * n, n, tree=TREE, pubend=PUBEND, body=bytes(500)) for n in range(1, 50)
    )
    receive(engine, NORTH, spans)
    assert state(engine).ignored == 600
    kept_to = engine.doubts(PUBEND, end=Tick(1000))[1][0]
    assert kept_to < 200
    comes(engine, (100, 109), kind=ANSWER)
    assert (state(engine).horizon, len(events(engine))) == (kept_to, (kept_to - 110) // 10)
    receive(engine, NORTH, spans)
    rounds = 0
    while state(engine).horizon != 600:
        receive(engine, NORTH, spans)
        rounds += 1
        assert rounds < 50
    assert events(engine)[-1] == 49


def test_what_is_kept_behind_the_horizon_is_bounded(make: Make) -> None:
    for is_attended in (True, False):
        engine = make(cache_bytes_max=5000)
        trust(engine, TREE, PUBEND, 100)
        route(engine, SOUTH)
        if is_attended:
            engine.attend(PUBEND, Tick(100))
        for n in range(100):
            first = 100 + 10 * n
            receive(engine, NORTH, stream(first, first + 9, n, tree=TREE, pubend=PUBEND, body=bytes(500)))
        assert 1000 < state(engine).cached < 1100
        taken(engine, SOUTH)
        assert engine.answer(SOUTH, TREE, PUBEND, [(Tick(100), Tick(1100))]) == [(100, state(engine).cached)]
        served(engine)
        assert 4 < len([span for span in told(engine, SOUTH) if span.n is not None]) < 10


def test_a_stream_that_nobody_attends_is_passed_on_and_not_delivered(make: Make) -> None:
    engine = attended(make())
    engine.attend(PUBEND, None)
    route(engine, SOUTH)
    comes(engine, (100, 105, 1))
    assert (events(engine), [span.n for span in told(engine, SOUTH)]) == ([], [1])
    assert (state(engine).horizon, engine.doubts(PUBEND, end=Tick(1000))) == (None, [])
    engine.attend(PUBEND, Tick(106))
    comes(engine, (106, 110, 2))
    assert events(engine) == [2]


@pytest.mark.parametrize("when_full", ["wait", "drop", "end"])
def test_a_best_effort_subscriber_without_room_is_served_by_its_policy(make: Make, when_full: WhenFull) -> None:
    """Nothing waits for it: where others would, it does without."""
    engine = attended(make(bound=500, when_full=when_full))
    overrun: list[Conn] = []
    for n in range(1, 21):
        said = receive(engine, NORTH, stream(90 + 10 * n, 99 + 10 * n, n, tree=TREE, pubend=PUBEND))
        overrun += said.overrun
    assert (state(engine).horizon, overrun) == (300, [BOB] if when_full == "end" else [])
    found = events(engine)
    assert engine.traffic(BOB).dropped == 20 - len(found)
    assert found == list(range(21 - len(found), 21) if when_full == "drop" else range(1, 1 + len(found)))


def test_best_effort_subscribers_get_guaranteed_events_with_their_numbers(make: Make) -> None:
    engine = make()
    engine.add_routes(BOB, [5, 3, 8], [encode_filter(one) for one in (ALL, where(n=lt(3)), where(n=ge(9)))], None)
    trust(engine, TREE, PUBEND, 100)
    engine.attend(PUBEND, Tick(100))
    comes(engine, (100, 105, 1), (106, 110, 4))
    assert got(engine, BOB).events == [((3, 5), 105, 1), ((5,), 110, 4)]


# -- what goes on ------------------------------------------------------------------------------------------------------


def test_filtering_turns_an_event_into_silence(make: Make) -> None:
    """gryphon §1: a filtered message becomes silence, which is told with the next one that is wanted."""
    engine = attended(make())
    route(engine, SOUTH, where(n=ge(5)))
    route(engine, EAST)
    comes(engine, (100, 105, 1), (106, 110, 7), (111, 120, 2), (121, 130), (131, 140, 6))
    assert told(engine, EAST) == [
        Span(PUBEND, 100, 105, "plain", 1),
        Span(PUBEND, 106, 110, "plain", 7),
        Span(PUBEND, 111, 120, "plain", 2),
        Span(PUBEND, 121, 130, "plain"),
        Span(PUBEND, 131, 140, "plain", 6),
    ]
    assert told(engine, SOUTH) == [
        Span(PUBEND, 100, 110, "plain", 7),
        Span(PUBEND, 111, 130, "plain"),
        Span(PUBEND, 131, 140, "plain", 6),
    ]
    assert taken(engine, NORTH) == b""


def test_a_hole_is_not_told_as_silence(make: Make) -> None:
    engine = attended(make())
    route(engine, SOUTH, where(n=ge(5)))
    comes(engine, (100, 105, 1), (111, 120, 7))
    assert told(engine, SOUTH) == [Span(PUBEND, 111, 120, "plain", 7)]


def test_what_is_old_goes_only_to_those_who_asked(make: Make) -> None:
    engine = attended(make())
    for conn in (SOUTH, EAST):
        route(engine, conn)
    comes(engine, (111, 120, 2))
    told(engine, EAST)
    told(engine, SOUTH)
    assert engine.answer(SOUTH, TREE, PUBEND, [(Tick(100), Tick(111))]) == [(100, 111)]
    comes(engine, (100, 105, 1), (106, 110), kind=ANSWER)
    comes(engine, (100, 105, 1), kind=ANSWER)
    assert told(engine, SOUTH) == [Span(PUBEND, 100, 105, "answer", 1), Span(PUBEND, 106, 110, "answer")]
    assert told(engine, EAST) == []


def test_lost_ticks_are_told_as_lost(make: Make) -> None:
    engine = attended(make())
    route(engine, SOUTH, where(n=ge(5)))
    comes(engine, (100, 109), kind=LOST)
    assert told(engine, SOUTH) == [Span(PUBEND, 100, 109, "lost")]
    assert state(engine).horizon == 110


# -- asking and answering ----------------------------------------------------------------------------------------------


def test_a_neighbour_is_answered_from_what_is_known_here(make: Make) -> None:
    """gryphon §1.1: caches answer NACKs, the rest goes upstream."""
    engine = attended(make())
    route(engine, SOUTH, where(n=ge(2)))
    comes(engine, (100, 105, 1), (106, 110, 2), (121, 130, 3))
    told(engine, SOUTH)
    asked = [(Tick(100), Tick(125)), (Tick(128), Tick(500))]
    assert engine.answer(SOUTH, TREE, PUBEND, asked) == [(111, 121)]
    served(engine)
    assert told(engine, SOUTH) == [
        Span(PUBEND, 100, 110, "answer", 2),
        Span(PUBEND, 121, 124, "answer"),
        Span(PUBEND, 128, 130, "answer", 3),
    ]


def test_before_the_sound_tick_nothing_is_answered_from_here(make: Make) -> None:
    """gryphon §1.3: what was silence for the old filters is unknown for wider ones."""
    engine = attended(make())
    route(engine, SOUTH)
    comes(engine, (100, 105, 1))
    engine.widen(TREE)
    comes(engine, (106, 110, 2))
    told(engine, SOUTH)
    assert engine.answer(SOUTH, TREE, PUBEND, [(Tick(100), Tick(111))]) == [(100, 111)]
    trust(engine, TREE, PUBEND, 108, is_all=False)
    assert state(engine).cached == 111
    trust(engine, TREE, PUBEND, 108)
    assert state(engine).cached == 108
    comes(engine, (111, 120, 3))
    assert engine.answer(SOUTH, TREE, PUBEND, [(Tick(100), Tick(115))]) == [(100, 108)]
    assert events(engine) == [1, 2, 3]  # what is owed already does not depend on it


def test_nothing_is_answered_beyond_what_was_heard(make: Make) -> None:
    engine = attended(make())
    route(engine, SOUTH)
    assert engine.answer(SOUTH, TREE, PUBEND, [(Tick(100), Tick(500))]) == []
    assert not engine.is_serving
    comes(engine, (100, 105, 1))
    assert told(engine, SOUTH) == [Span(PUBEND, 100, 105, "plain", 1)]


def test_a_replay_tells_what_matches_and_where_it_ends(make: Make) -> None:
    """gryphon §1.3: a catch-up stream, by a filter of its own."""
    engine = attended(make())
    comes(engine, *((100 + 10 * n, 109 + 10 * n, n) for n in range(6)))
    engine.replay(1, SOUTH, 40, PUBEND, Tick(115), wanted=encode_filter(where(n=ge(3))), bytes_max=1 << 20)
    news = served(engine)
    assert told(engine, SOUTH) == [
        Span(40, 115, 139, "plain", 3),
        Span(40, 140, 149, "plain", 4),
        Span(40, 150, 159, "plain", 5),
        Span(40, 160, 159, "last"),
    ]
    assert news.replayed[-1] == Replayed(1, Tick(160), is_over=True)
    assert not engine.is_serving


def test_a_replay_ends_with_its_bytes(make: Make) -> None:
    engine = attended(make())
    comes(engine, *((100 + 10 * n, 109 + 10 * n, n) for n in range(6)))
    engine.replay(1, SOUTH, 40, PUBEND, Tick(100), wanted=encode_filter(ALL), bytes_max=1)
    news = served(engine)
    assert told(engine, SOUTH) == [Span(40, 100, 109, "plain", 0), Span(40, 110, 118, "last")]
    assert news.replayed == [Replayed(1, Tick(119), is_over=True)]  # the next event is not in it


def test_a_replay_that_nothing_is_known_of_ends_at_once(make: Make) -> None:
    engine = make()
    engine.replay(1, SOUTH, 40, PUBEND, Tick(100), wanted=encode_filter(ALL), bytes_max=1 << 20)
    assert served(engine).replayed == [Replayed(1, Tick(100), is_over=True)]
    assert told(engine, SOUTH) == [Span(40, 100, 99, "last")]


def test_a_replay_that_is_no_longer_wanted_says_nothing(make: Make) -> None:
    engine = attended(make())
    comes(engine, (100, 105, 1))
    engine.replay(1, SOUTH, 40, PUBEND, Tick(100), wanted=encode_filter(ALL), bytes_max=1 << 20)
    engine.end_replay(1)
    assert not engine.is_serving
    assert taken(engine, SOUTH) == b""


def test_a_neighbour_stops_what_it_asked_for(make: Make) -> None:
    """What is told from here ends; of what comes by us it is said from whom, and by which name."""
    engine = attended(make())
    comes(engine, (100, 105, 1))
    engine.replay(1, SOUTH, 40, PUBEND, Tick(100), wanted=encode_filter(ALL), bytes_max=1 << 20)
    found = [(engine.stop_replay(SOUTH, number), engine.is_serving) for number in (41, 40)]
    assert found == [(None, True), (None, False)]
    engine.relay(NORTH, 9, SOUTH, 50, PUBEND)
    assert engine.stop_replay(EAST, 50) is None
    assert engine.stop_replay(SOUTH, 50) == (NORTH, 9)
    receive(engine, NORTH, recover(9, 100, 105, 1))
    assert (engine.traffic(NORTH).stray, taken(engine, SOUTH)) == (1, b"")


def test_an_answer_does_not_end_with_a_replay(make: Make) -> None:
    engine = attended(make())
    route(engine, SOUTH)
    comes(engine, (100, 105, 1))
    told(engine, SOUTH)
    engine.answer(SOUTH, TREE, PUBEND, [(Tick(100), Tick(106))])
    engine.end_replay(0)
    served(engine)
    assert told(engine, SOUTH) == [Span(PUBEND, 100, 105, "answer", 1)]


def test_a_replay_is_relayed_under_another_number(make: Make) -> None:
    engine = make()
    engine.relay(NORTH, 7, SOUTH, 40, PUBEND)
    engine.set_clock(NORTH, offset_ns=10, error_us=1)
    receive(engine, NORTH, recover(7, 100, 105, 1) + recover(7, 106, 110, kind=LOST) + recover(7, 111, 110, kind=LAST))
    assert told(engine, SOUTH) == [
        Span(40, 100, 105, "plain", 1),
        Span(40, 106, 110, "lost"),
        Span(40, 111, 110, "last"),
    ]
    receive(engine, NORTH, recover(7, 111, 120, 2))
    receive(engine, SOUTH, recover(7, 111, 120, 2))
    assert (engine.traffic(NORTH).stray, engine.traffic(SOUTH).stray) == (1, 1)


# -- what streams do to others -----------------------------------------------------------------------------------------


def test_streams_never_make_anyone_wait(make: Make) -> None:
    """A neighbour's queue is full of streams: best effort goes on, and streams are thrown away and counted."""
    engine = attended(make(bound=2000))
    engine.may_publish(CAT, publisher=1, next_sequence=1)
    route(engine, SOUTH)
    route(engine, SOUTH, tree=OWN)
    for n in range(60):
        comes(engine, (100 + 10 * n, 109 + 10 * n, n))
        events(engine)
    assert engine.traffic(SOUTH).dropped > 0
    assert engine.lossy() == [SOUTH]
    for n in range(5):
        assert receive(engine, CAT, publish(n)).state == "idle"
    assert state(engine).horizon == 700
    found = told(engine, SOUTH)
    assert [span.n for span in found] == list(range(len(found)))


def test_a_neighbour_that_lacked_room_asks_again(make: Make) -> None:
    engine = attended(make(bound=2000))
    route(engine, SOUTH)
    for n in range(60):
        comes(engine, (100 + 10 * n, 109 + 10 * n, n))
        events(engine)
    have = [span.n for span in told(engine, SOUTH)]
    asked = [(Tick(100 + 10 * len(have)), Tick(700))]
    assert engine.answer(SOUTH, TREE, PUBEND, asked) == []
    while engine.is_serving:
        engine.serve(now_ns=START)
        have += [span.n for span in told(engine, SOUTH)]
    assert have == list(range(60))
