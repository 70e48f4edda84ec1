"""What ``dataplane/streams.py`` promises of streams that come, of asking and answering, and of followers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.dataplane.streaming import (
    START,
    STREAM_MAKERS,
    Span,
    follow,
    got,
    recover,
    served,
    stream,
    told,
    trust,
)
from tests.dataplane.world import publish, receive, taken
from tests.matching.building import eq, ge, lt, where
from tidewire.dataplane.protocol import WhenFull
from tidewire.dataplane.stream_news import Fallen, Lack, Replayed, StreamNews
from tidewire.dataplane.streams import StreamEngine, StreamState
from tidewire.model.filters import ALL, Filter, encode_filter
from tidewire.model.ids import Conn, PubendId, Tick, TreeId
from tidewire.wire.frames import ANSWER, LAST, LOST, taken_frame

BOB, CAT, NORTH, SOUTH, EAST = Conn(0), Conn(1), Conn(2), Conn(3), Conn(4)
OWN, TREE, OTHER = TreeId(1), TreeId(20), TreeId(30)
PUBEND = PubendId(70)

Make = Callable[..., StreamEngine]


@pytest.fixture(params=list(STREAM_MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    """Each engine with two clients and three neighbours; North is the parent of a tree and tells of one pubend."""

    def made(*, bound: int = 1 << 20, when_full: WhenFull = "wait", **options: Any) -> StreamEngine:
        engine = STREAM_MAKERS[request.param](**options)
        engine.own_tree(OWN)
        for conn in (BOB, CAT, NORTH, SOUTH, EAST):
            is_link = conn >= NORTH
            engine.open(conn, is_link=is_link, when_full="wait" if is_link else when_full, queue_bytes_max=bound)
        engine.set_parent(TREE, NORTH)
        return engine

    return made


def comes(engine: StreamEngine, *spans: tuple[int, int] | tuple[int, int, int], kind: int = 0) -> StreamNews:
    """North tells of these ticks, with the attribute n of the event at the last one, if there is one."""
    data = b"".join(
        stream(span[0], span[1], span[2] if len(span) == 3 else None, tree=TREE, pubend=PUBEND, kind=kind)
        for span in spans
    )
    said = receive(engine, NORTH, data)
    assert said.state == "idle"
    return said.news


def route(engine: StreamEngine, conn: Conn, wanted: Filter = ALL, *, number: int = 1, tree: TreeId = TREE) -> None:
    """One route."""
    engine.add_routes(conn, [number], [encode_filter(wanted)], tree if conn >= NORTH else None)


def state(engine: StreamEngine) -> StreamState:
    """How the stream stands."""
    (found,) = engine.streams()
    return found


def events(engine: StreamEngine, conn: Conn = BOB) -> list[int]:
    """The attribute n of the events that wait for a client."""
    return [n for _, _, n in got(engine, conn).events]


def attended(engine: StreamEngine, place: int = 100) -> StreamEngine:
    """Bob wants everything, silence is trusted, and the stream is owed from here on."""
    trust(engine, TREE, PUBEND, place)
    route(engine, BOB)
    engine.attend(PUBEND, Tick(place))
    return engine


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
    assert engine.stop_replay(SOUTH, 41) is None
    assert engine.is_serving
    assert engine.stop_replay(SOUTH, 40) is None
    assert not engine.is_serving
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


# -- followers ---------------------------------------------------------------------------------------------------------


def behind(engine: StreamEngine, *, number: int = 5, place: int = 100, sound: int = 100, wanted: Filter = ALL) -> None:
    """Bob follows, from this tick on."""
    trust(engine, TREE, PUBEND, 100)
    follow(engine, BOB, number, PUBEND, place, sound=sound, wanted=wanted)
    engine.attend(PUBEND, Tick(100))


def joined(engine: StreamEngine, **more: Any) -> StreamEngine:
    """Bob follows and has joined."""
    behind(engine, **more)
    engine.catch_up(1, BOB, more.get("number", 5), PUBEND)
    assert served(engine).replayed[-1].is_joined
    return engine


def test_a_follower_gets_nothing_while_it_is_behind(make: Make) -> None:
    engine = make()
    behind(engine)
    comes(engine, (100, 105, 1))
    assert events(engine) == []
    engine.catch_up(1, BOB, 5, PUBEND)
    assert served(engine).replayed[-1] == Replayed(1, Tick(106), is_over=True, is_joined=True)
    comes(engine, (106, 110, 2))
    assert got(engine, BOB).events == [((5,), 105, 1), ((5,), 110, 2)]


def test_a_follower_and_best_effort_subscriptions_of_one_client(make: Make) -> None:
    """Each gets the event by itself, and the follower's number stands with nothing else."""
    engine = make()
    route(engine, BOB, number=2)
    route(engine, BOB, where(n=ge(2)), number=3)
    joined(engine, wanted=where(n=ge(2)))
    comes(engine, (100, 105, 1), (106, 110, 2))
    assert sorted(got(engine, BOB).events) == [((2,), 105, 1), ((2, 3), 110, 2), ((5,), 110, 2)]


def test_a_follower_is_owed_only_what_it_was_told(make: Make) -> None:
    engine = make()
    engine.follow(BOB, 5)
    route(engine, BOB, number=5)
    trust(engine, TREE, PUBEND, 100)
    engine.attend(PUBEND, Tick(100))
    comes(engine, (100, 105, 1))
    assert events(engine) == []


def test_a_follower_joins_only_where_the_stream_has_all_that_it_wants(make: Make) -> None:
    """gryphon §1.3: at the consolidated stream's horizon it joins that one; silence before was for other filters."""
    engine = make()
    trust(engine, TREE, PUBEND, 100, is_all=False)
    engine.attend(PUBEND, Tick(100))
    comes(engine, (100, 110, 1))
    follow(engine, BOB, 5, PUBEND, 100, sound=115)
    engine.catch_up(1, BOB, 5, PUBEND)
    assert served(engine).replayed == [Replayed(1, Tick(100), is_over=True)]
    engine.relay(NORTH, 2, BOB, 5, PUBEND)
    comes(engine, (111, 120, 3))
    receive(engine, NORTH, recover(2, 100, 104, 1) + recover(2, 105, 115, 2) + recover(2, 116, 115, kind=LAST))
    engine.catch_up(3, BOB, 5, PUBEND)
    assert served(engine).replayed[-1] == Replayed(3, Tick(121), is_over=True, is_joined=True)
    assert events(engine) == [1, 2, 3]


def test_a_follower_without_room_falls_behind_and_joins_again(make: Make) -> None:
    """gryphon §1.3: it never holds back the consolidated stream; it misses nothing, and gets nothing twice."""
    engine = joined(make(bound=400))
    route(engine, CAT)
    news = StreamNews()
    for n in range(1, 11):
        news = comes(engine, (90 + 10 * n, 99 + 10 * n, n))
        assert events(engine, CAT) == [n]
        if news.fallen:
            break
    assert news.fallen == [Fallen(BOB, 5, PUBEND, Tick(99 + 10 * n))]
    comes(engine, (100 + 10 * n, 109 + 10 * n, n + 1))
    found = events(engine)
    assert found == list(range(1, n))
    engine.catch_up(2, BOB, 5, PUBEND)
    assert served(engine).replayed[-1].is_joined
    comes(engine, (110 + 10 * n, 119 + 10 * n, n + 2))
    assert events(engine) == [n, n + 1, n + 2]


def test_a_replay_waits_for_room(make: Make) -> None:
    engine = make(bound=500)
    behind(engine)
    comes(engine, *((100 + 10 * n, 109 + 10 * n, n) for n in range(20)))
    engine.catch_up(1, BOB, 5, PUBEND)
    found: list[int] = []
    for _ in range(30):
        served(engine)
        assert engine.traffic(BOB).queued_bytes <= 500
        found += events(engine)
    assert found == list(range(20))


def test_a_follower_is_told_what_is_lost(make: Make) -> None:
    engine = joined(make())
    assert comes(engine, (100, 109), kind=LOST).lacks == [Lack(BOB, 5, PUBEND, Tick(100), Tick(109))]
    comes(engine, (110, 115, 1))
    follow(engine, BOB, 6, PUBEND, 105, sound=100)
    engine.catch_up(2, BOB, 6, PUBEND)
    assert served(engine).lacks == [Lack(BOB, 6, PUBEND, Tick(105), Tick(109))]
    assert [(numbers, n) for numbers, _, n in got(engine, BOB).events] == [((5,), 1), ((6,), 1)]


def test_a_follower_far_away_is_fed_by_a_relay(make: Make) -> None:
    engine = make()
    behind(engine)
    engine.relay(NORTH, 9, BOB, 5, PUBEND)
    said = receive(engine, NORTH, recover(9, 100, 105, 1) + recover(9, 106, 109, kind=LOST))
    assert said.news.lacks == [Lack(BOB, 5, PUBEND, Tick(106), Tick(109))]
    assert said.news.replayed[-1] == Replayed(9, Tick(110))
    said = receive(engine, NORTH, recover(9, 100, 105, 1) + recover(9, 110, 120, 2) + recover(9, 121, 130, kind=LAST))
    assert said.news.replayed[-1] == Replayed(9, Tick(131), is_over=True)
    assert got(engine, BOB).events == [((5,), 105, 1), ((5,), 120, 2)]


def test_a_relay_skips_nothing(make: Make) -> None:
    """A piece was thrown away on its way: what comes behind it is not taken."""
    engine = make()
    behind(engine)
    engine.relay(NORTH, 9, BOB, 5, PUBEND)
    said = receive(engine, NORTH, recover(9, 106, 110, 2) + recover(9, 111, 120, kind=LAST))
    assert said.news.replayed[-1] == Replayed(9, Tick(100), is_over=True)
    assert events(engine) == []


def test_a_relay_whose_follower_has_no_room_is_over(make: Make) -> None:
    engine = make(bound=200)
    behind(engine)
    engine.relay(NORTH, 9, BOB, 5, PUBEND)
    said = receive(engine, NORTH, b"".join(recover(9, 100 + 10 * n, 109 + 10 * n, n) for n in range(9)))
    found = events(engine)
    assert 0 < len(found) < 9
    assert said.news.replayed[-1] == Replayed(9, Tick(100 + 10 * len(found)), is_over=True)


def test_what_a_follower_has_taken_is_told_once(make: Make) -> None:
    engine = joined(make())
    assert engine.taken() == [(BOB, 5, PUBEND, 100)]
    comes(engine, (100, 105, 1), (106, 110, 2))
    assert engine.taken() == []
    receive(engine, BOB, taken_frame(5, PUBEND, 105))
    assert engine.taken() == [(BOB, 5, PUBEND, 106)]
    receive(engine, BOB, taken_frame(5, PUBEND, 103))
    assert engine.taken() == []
    receive(engine, BOB, taken_frame(5, PUBEND, 110))
    comes(engine, (111, 120))
    assert engine.taken() == [(BOB, 5, PUBEND, 121)]  # it has all, so silence is settled too


@pytest.mark.parametrize("tick", [5000, 2**63, 2**64 - 1])
def test_nobody_has_taken_what_was_not_sent(make: Make, tick: int) -> None:
    engine = joined(make())
    comes(engine, (100, 105, 1))
    engine.taken()
    receive(engine, BOB, taken_frame(5, PUBEND, tick) + taken_frame(6, PUBEND, 9) + taken_frame(5, 99, 9))
    assert engine.taken() == [(BOB, 5, PUBEND, 106)]
    comes(engine, (106, 110, 2))
    assert engine.taken() == []


def test_a_subscription_that_ends_is_owed_nothing_more(make: Make) -> None:
    engine = joined(make())
    engine.catch_up(2, BOB, 5, PUBEND)
    engine.remove_routes(BOB, [5], None)
    assert not engine.is_serving
    comes(engine, (100, 105, 1))
    assert (taken(engine, BOB), engine.taken()) == (b"", [])


def test_a_connection_that_ends_takes_its_followers_and_replays_with_it(make: Make) -> None:
    engine = joined(make())
    comes(engine, (100, 105, 1))
    engine.catch_up(2, BOB, 5, PUBEND)
    engine.replay(3, SOUTH, 40, PUBEND, Tick(100), wanted=encode_filter(ALL), bytes_max=1 << 20)
    engine.relay(NORTH, 9, BOB, 5, PUBEND)
    engine.close(BOB)
    engine.close(SOUTH)
    assert not engine.is_serving
    receive(engine, NORTH, recover(9, 100, 105, 1))
    assert engine.traffic(NORTH).stray == 1
    comes(engine, (106, 110, 2))
    assert engine.taken() == []


def test_a_client_that_comes_back_begins_anew(make: Make) -> None:
    engine = joined(make())
    comes(engine, (100, 105, 1))
    engine.close(BOB)
    engine.open(BOB, is_link=False, when_full="wait")
    route(engine, BOB, where(n=eq(3)), number=5)
    comes(engine, (106, 110, 2), (111, 120, 3))
    assert got(engine, BOB).events == [((5,), 120, 3)]


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


def test_a_replay_from_the_very_beginning(make: Make) -> None:
    """Place 0 is before every tick, and so is what is told of it."""
    engine = make()
    engine.replay(1, SOUTH, 40, PUBEND, Tick(0), wanted=encode_filter(ALL), bytes_max=1 << 20)
    served(engine)
    assert told(engine, SOUTH) == [Span(40, 1, 0, "last")]
    follow(engine, BOB, 5, PUBEND, 0, sound=0)
    engine.catch_up(2, BOB, 5, PUBEND)
    assert served(engine).replayed == [Replayed(2, Tick(1), is_over=True)]


@pytest.mark.parametrize("tick", [2**63, 2**64 - 1])
def test_ticks_that_no_pubend_gives_are_not_relayed(make: Make, tick: int) -> None:
    engine = make()
    behind(engine)
    engine.relay(NORTH, 9, BOB, 5, PUBEND)
    engine.relay(NORTH, 8, SOUTH, 40, PUBEND)
    for name in (8, 9):
        receive(engine, NORTH, recover(name, 100, tick, 1) + recover(name, 100, tick, kind=LAST))
    assert (engine.traffic(NORTH).stray, taken(engine, SOUTH), events(engine)) == (4, b"", [])
