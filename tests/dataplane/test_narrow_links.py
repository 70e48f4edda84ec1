"""What happens to events for a neighbour whose queue has no room, or whose frames are too short for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from tests.dataplane.edge import BOB, CAT, NORTH, OWN, PUBEND, SOUTH, TREE, attended, comes, edge, route
from tests.dataplane.streaming import (
    START,
    STREAM_MAKERS,
    Host,
    Span,
    follow,
    guarantee,
    recover,
    served,
    stream,
    told,
    trust,
)
from tests.dataplane.world import frames, publish, receive, taken
from tidewire._kernel.codec import decode
from tidewire.dataplane.protocol import Engine
from tidewire.dataplane.stream_news import Lack, StreamNews, Unknown
from tidewire.dataplane.streams import StreamEngine
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, Tick
from tidewire.wire.frames import ANSWER, FORWARD, FRAME_BYTES_MAX, HOP, LAST, MESSAGE, RECOVER, frame

Make = Callable[..., StreamEngine]
WEST = Conn(5)
BOUND = 400


@pytest.fixture(params=list(STREAM_MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    """Each engine, as an edge."""
    return partial(edge, request.param)


# -- no room -----------------------------------------------------------------------------------------------------------


def asked_by_south(engine: StreamEngine, end: int) -> list[tuple[Tick, Tick]]:
    """South lacks everything from 100 on, and it is not known here."""
    trust(engine, TREE, PUBEND, end)
    route(engine, SOUTH)
    comes(engine, (end, end + 9, 99))
    told(engine, SOUTH)
    return engine.answer(SOUTH, TREE, PUBEND, [(Tick(100), Tick(end))])


def test_an_answer_that_finds_no_room_on_the_way_is_told_from_memory_when_there_is_some(make: Make) -> None:
    engine = make(bound=2000)
    trust(engine, TREE, PUBEND, 100)
    route(engine, SOUTH)
    comes(engine, (700, 709, 99))
    told(engine, SOUTH)
    assert engine.answer(SOUTH, TREE, PUBEND, [(Tick(100), Tick(700))]) == [(100, 700)]
    comes(engine, *[(100 + 10 * n, 109 + 10 * n, n) for n in range(60)], kind=ANSWER)
    have = told(engine, SOUTH)
    assert 0 < len(have) < 60
    while engine.is_serving:
        assert engine.serve(now_ns=START).news is None
        have += told(engine, SOUTH)
    assert [span.n for span in have] == list(range(60))
    assert all(one.tick + 1 == other.first for one, other in pairwise(have))


def test_what_is_not_remembered_of_such_an_answer_is_asked_for_again_when_there_is_room(make: Make) -> None:
    engine = make(bound=2000)
    assert asked_by_south(engine, 700) == [(100, 700)]  # which is before what this broker keeps
    said = [(100 + 10 * n, 109 + 10 * n, n) for n in range(60)]
    comes(engine, *said, kind=ANSWER)
    assert served(engine) == StreamNews()  # there is no room yet
    have, rounds = told(engine, SOUTH), 0
    while engine.is_serving:
        end = have[-1].tick + 1
        assert served(engine) == StreamNews(unknown=[Unknown(TREE, PUBEND, Tick(end), Tick(700))])
        comes(engine, *[span for span in said if span[0] >= end], kind=ANSWER)
        have += told(engine, SOUTH)
        rounds += 1
    assert [span.n for span in have] == list(range(60))
    assert rounds > 1


def test_a_replay_that_finds_no_room_on_the_way_is_broken_off_and_who_asked_hears_so(make: Make) -> None:
    engine = make(bound=1000)
    engine.relay(NORTH, 7, SOUTH, 40, PUBEND)
    receive(engine, NORTH, b"".join(recover(7, 100 + n, 100 + n, n) for n in range(60)))
    receive(engine, NORTH, recover(7, 160, 159, kind=LAST))
    *have, last = told(engine, SOUTH)
    assert 0 < len(have) < 60
    assert [span.n for span in have] == list(range(len(have)))
    place = 100 + len(have)
    assert last == Span(40, place, place - 1, "last")
    assert engine.stop_replay(SOUTH, 40) is None


def test_a_follower_whose_replay_was_broken_off_is_where_it_was(make: Make) -> None:
    engine = make()
    follow(engine, BOB, 1, PUBEND, 100, sound=100)
    engine.relay(NORTH, 7, BOB, 1, PUBEND)
    news = receive(engine, NORTH, recover(7, 100, 104, 1) + recover(7, 110, 109, kind=LAST)).news
    assert [(one.place, one.is_over) for one in news.replayed][-1] == (105, True)


# -- no frame that is long enough --------------------------------------------------------------------------------------


def with_west(engine: StreamEngine, frame_bytes_max: int = BOUND) -> StreamEngine:
    """One more neighbour, that takes frames of up to so many bytes."""
    engine.open(WEST, is_link=False, when_full="drop")
    engine.make_link(WEST, queue_bytes_max=1 << 20, frame_bytes_max=frame_bytes_max)
    return engine


def forwarded(engine: StreamEngine, conn: Conn) -> list[object]:
    """The attribute n of the best-effort events that wait for a neighbour."""
    waiting = frames(taken(engine, conn))
    return [decode(payload[HOP.size :]).get("n") for kind, payload in waiting if kind == FORWARD]


def test_a_guaranteed_event_that_a_neighbour_cannot_take_is_lost_for_it_alone(make: Make) -> None:
    engine = with_west(attended(make()))
    route(engine, WEST)
    route(engine, SOUTH)
    body = b"x" * BOUND
    receive(engine, NORTH, stream(100, 105, 1, tree=TREE, pubend=PUBEND, body=body))
    receive(engine, NORTH, stream(106, 106, 2, tree=TREE, pubend=PUBEND, body=body))
    comes(engine, (107, 110, 3))
    assert told(engine, WEST) == [
        Span(PUBEND, 100, 104, "plain"),
        Span(PUBEND, 105, 105, "lost"),
        Span(PUBEND, 106, 106, "lost"),
        Span(PUBEND, 107, 110, "plain", 3),
    ]
    assert engine.traffic(WEST).dropped == 2
    assert [span.n for span in told(engine, SOUTH)] == [1, 2, 3]
    assert engine.answer(WEST, TREE, PUBEND, [(Tick(100), Tick(111))]) == []
    served(engine)
    assert told(engine, WEST) == [
        Span(PUBEND, 100, 104, "answer"),
        Span(PUBEND, 105, 105, "lost"),
        Span(PUBEND, 106, 106, "lost"),
        Span(PUBEND, 107, 110, "answer", 3),
    ]


def test_so_is_one_in_a_replay_here_or_on_its_way(make: Make) -> None:
    engine = with_west(attended(make()))
    body = b"x" * BOUND
    receive(engine, NORTH, stream(100, 105, 1, tree=TREE, pubend=PUBEND, body=body))
    engine.replay(1, WEST, 40, PUBEND, Tick(100), wanted=encode_filter(ALL), bytes_max=1 << 20)
    served(engine)
    lost = [Span(40, 100, 104, "plain"), Span(40, 105, 105, "lost")]
    assert told(engine, WEST) == [*lost, Span(40, 106, 105, "last")]
    engine.relay(NORTH, 7, WEST, 40, PUBEND)
    far = stream(100, 105, 1, tree=TREE, pubend=PUBEND, body=body)[22:]  # a span and its event are as in a RECOVER
    receive(engine, NORTH, frame(RECOVER, bytes([7, 0, 0, 0, 0]) + far) + recover(7, 106, 110, 2))
    assert told(engine, WEST) == [*lost, Span(40, 106, 110, "plain", 2)]


def test_a_follower_hears_of_the_gap(make: Make) -> None:
    """What a neighbour said is lost, behind it."""
    engine = attended(make())
    follow(engine, BOB, 1, PUBEND, 100, sound=100)
    engine.catch_up(1, BOB, 1, PUBEND)
    served(engine)
    comes(engine, (100, 104))
    assert comes(engine, (105, 105), kind=1).lacks == [Lack(BOB, 1, PUBEND, Tick(105), Tick(105))]


@pytest.mark.parametrize("name", list(STREAM_MAKERS))
def test_a_host_tells_of_it_as_lost_too(name: str) -> None:
    def made() -> StreamEngine:
        engine = STREAM_MAKERS[name]()
        engine.own_tree(OWN)
        engine.open(CAT, is_link=False, when_full="wait")
        engine.may_publish(CAT, publisher=1, next_sequence=1)
        route(with_west(engine), WEST, tree=OWN)
        return engine

    host = Host(made, [PUBEND])
    host.receive(CAT, guarantee(1, sequence=1) + guarantee(2, sequence=2, body=b"x" * BOUND) + guarantee(3, sequence=3))
    host.commit()
    assert [(span.kind, span.n) for span in told(host.engine, WEST)] == [("plain", 1), ("lost", None), ("plain", 3)]


def test_a_best_effort_event_that_a_neighbour_cannot_take_is_dropped_and_holds_nobody_up(make: Make) -> None:
    engine = with_west(make())
    engine.may_publish(CAT, publisher=1, next_sequence=1)
    route(engine, WEST, tree=OWN)
    route(engine, SOUTH, tree=OWN)
    data = publish(1) + publish(2, body=b"x" * BOUND) + publish(3)
    assert receive(engine, CAT, data).state == "idle"
    assert forwarded(engine, WEST) == [1, 3]
    assert forwarded(engine, SOUTH) == [1, 2, 3]
    assert (engine.traffic(WEST).dropped, engine.traffic(SOUTH).dropped) == (1, 0)


def test_the_bound_is_the_length_that_a_frame_tells(make: Make) -> None:
    engine = with_west(make())
    engine.may_publish(CAT, publisher=1, next_sequence=1)
    route(engine, WEST, tree=OWN)
    receive(engine, CAT, publish(1))
    size = len(taken(engine, WEST)) - 4
    for bound, count in (size, 1), (size - 1, 0):
        other = with_west(make(), bound)
        other.may_publish(CAT, publisher=1, next_sequence=1)
        route(other, WEST, tree=OWN)
        receive(other, CAT, publish(1))
        assert other.traffic(WEST).events_out == count


def test_from_a_neighbour_the_usual_frames_are_taken_where_clients_may_send_less(make: Make) -> None:
    engine: Engine = with_west(make(frame_bytes_max=1024))
    long = frame(MESSAGE, b"x" * (FRAME_BYTES_MAX - 1))
    assert receive(engine, WEST, long).messages == [b"x" * (FRAME_BYTES_MAX - 1)]
    assert receive(engine, WEST, (FRAME_BYTES_MAX + 1).to_bytes(4, "little")).state == "broken"
    assert receive(engine, BOB, (1025).to_bytes(4, "little")).state == "broken"
