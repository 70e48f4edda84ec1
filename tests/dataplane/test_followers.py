"""What ``dataplane/streams.py`` promises of followers, promise by promise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.dataplane.edge import (
    BOB,
    CAT,
    NORTH,
    PUBEND,
    SOUTH,
    TREE,
    comes,
    edge,
    events,
    route,
)
from tests.dataplane.streaming import (
    STREAM_MAKERS,
    Span,
    follow,
    got,
    recover,
    served,
    told,
    trust,
)
from tests.dataplane.world import receive, taken
from tests.matching.building import eq, ge, where
from tidewire.dataplane.stream_news import Fallen, Lack, Replayed, StreamNews
from tidewire.dataplane.streams import StreamEngine
from tidewire.model.filters import ALL, Filter, encode_filter
from tidewire.model.ids import Tick
from tidewire.wire.frames import LAST, LOST, taken_frame

Make = Callable[..., StreamEngine]


@pytest.fixture(params=list(STREAM_MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    """Each engine, as an edge."""
    return partial(edge, request.param)


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


def test_a_follower_does_not_join_before_the_stream_has_what_it_wants(make: Make) -> None:
    """It has come as far as the stream, which was silent about what others did not want."""
    engine = make()
    behind(engine, sound=200)
    comes(engine, (100, 110, 1))
    engine.catch_up(1, BOB, 5, PUBEND)
    assert served(engine).replayed[-1] == Replayed(1, Tick(111), is_over=True)
    comes(engine, (111, 220, 2))
    assert events(engine) == [1]
    engine.catch_up(2, BOB, 5, PUBEND)
    assert served(engine).replayed[-1] == Replayed(2, Tick(221), is_over=True, is_joined=True)
    assert events(engine) == [2]


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


def test_what_came_from_elsewhere_and_is_not_done_is_not_settled(make: Make) -> None:
    """Who goes on at 100 has got what is before that from another broker, and is at 80."""
    engine = make()
    engine.follow(BOB, 5)
    engine.owe(BOB, 5, PUBEND, Tick(100), sound=Tick(100), settled=Tick(80))
    assert engine.taken() == [(BOB, 5, PUBEND, 80)]
    receive(engine, BOB, taken_frame(5, PUBEND, 90))
    assert engine.taken() == [(BOB, 5, PUBEND, 91)]
    receive(engine, BOB, taken_frame(5, PUBEND, 5000))
    assert engine.taken() == [(BOB, 5, PUBEND, 100)]


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
