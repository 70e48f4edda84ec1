"""How streams share a link: each has its queue, they are served in turn, and nobody waits for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.dataplane.streaming import STREAM_MAKERS, span_of, stream, told, trust
from tests.dataplane.world import forward, frames, receive, taken
from tidewire.dataplane.reference_queue import QUANTUM_BYTES
from tidewire.dataplane.streams import StreamEngine
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, TreeId
from tidewire.model.messages import Ping
from tidewire.wire.frames import FORWARD, MESSAGE, STREAM, message_frame

NORTH, SOUTH = Conn(0), Conn(1)
TREE = TreeId(20)
BODY = bytes(1000)

Make = Callable[..., StreamEngine]


@pytest.fixture(params=list(STREAM_MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    """Each engine, between two neighbours: South wants all that North tells."""

    def made(*, bound: int = 1 << 20, **options: Any) -> StreamEngine:
        engine = STREAM_MAKERS[request.param](**options)
        engine.own_tree(TreeId(1))
        for conn in (NORTH, SOUTH):
            engine.open(conn, is_link=True, when_full="wait", queue_bytes_max=bound)
        engine.set_parent(TREE, NORTH)
        engine.add_routes(SOUTH, [1], [encode_filter(ALL)], TREE)
        for pubend in (1, 2, 3):
            trust(engine, TREE, pubend, 100)
        return engine

    return made


def come(engine: StreamEngine, pubend: int, count: int, *, body: bytes = BODY) -> None:
    """So many events of a stream."""
    data = b"".join(stream(100 + n, 100 + n, n, tree=TREE, pubend=pubend, body=body) for n in range(count))
    assert receive(engine, NORTH, data).state == "idle"


def sent(engine: StreamEngine) -> list[tuple[int, int]]:
    """In their order: the kind of each frame, and of a stream its pubend."""
    found = frames(taken(engine, SOUTH))
    return [(kind, span_of(kind, payload).name if kind == STREAM else 0) for kind, payload in found]


def test_a_long_stream_does_not_hold_up_a_short_one(make: Make) -> None:
    """gryphon §7: fair queueing per pubend, where the paper serves first come, first served."""
    engine = make()
    come(engine, 1, 400)
    come(engine, 2, 10)
    come(engine, 3, 10)
    assert Counter(pubend for _, pubend in sent(engine)[:60]) == {1: 40, 2: 10, 3: 10}


def test_first_come_first_served_without_fairness(make: Make) -> None:
    """The paper's way, for comparison."""
    engine = make(is_fair=False)
    come(engine, 1, 400)
    come(engine, 2, 10)
    assert {pubend for _, pubend in sent(engine)[:400]} == {1}


def test_streams_of_large_and_of_small_events_share_by_bytes(make: Make) -> None:
    """Deficit round robin: while both wait, each sends as many bytes as the other, to within a turn."""
    engine = make()
    come(engine, 1, 300, body=bytes(3000))
    come(engine, 2, 3000, body=bytes(100))
    shares: Counter[int] = Counter()
    for kind, payload in frames(taken(engine, SOUTH)):
        shares[span_of(kind, payload).name] += len(payload) + 5
        if shares.total() > 700_000:
            break
    assert abs(shares[1] - shares[2]) <= QUANTUM_BYTES + 4000


def test_best_effort_has_its_turn_beside_streams(make: Make) -> None:
    engine = make()
    come(engine, 1, 400)
    come(engine, 2, 400)
    for n in range(1, 11):
        assert receive(engine, NORTH, forward(n, tree=TREE)).state == "idle"
    found = [kind for kind, _ in sent(engine)]
    assert max(i for i, kind in enumerate(found) if kind == FORWARD) < 150


def test_streams_have_their_turn_beside_best_effort(make: Make) -> None:
    engine = make()
    for n in range(1, 401):
        assert receive(engine, NORTH, forward(n, tree=TREE, body=BODY)).state == "idle"
    come(engine, 1, 10)
    found = [kind for kind, _ in sent(engine)]
    assert max(i for i, kind in enumerate(found) if kind == STREAM) < 50


def test_control_goes_ahead_of_streams_but_not_into_a_frame(make: Make) -> None:
    engine = make()
    come(engine, 1, 100)
    begun = engine.output(SOUTH, bytes_max=500)
    engine.send(SOUTH, message_frame(Ping(1)), "control")
    found = [kind for kind, _ in frames(begun + taken(engine, SOUTH))]
    assert found[:2] == [STREAM, MESSAGE]
    assert len(found) == 101


def test_every_stream_keeps_its_share_of_a_full_queue(make: Make) -> None:
    """One that fills the queue takes nothing from others; in each, what is there is without a hole."""
    engine = make(bound=60_000)
    for pubend in (1, 2, 3):
        come(engine, pubend, 200)
    assert engine.traffic(SOUTH).queued_bytes <= 60_000 * (1 + 1 / 2 + 1 / 3)
    found = told(engine, SOUTH)
    for pubend in (1, 2, 3):
        ours = [span.n for span in found if span.name == pubend]
        assert ours == list(range(len(ours)))
        assert ours
    assert engine.traffic(SOUTH).dropped == 600 - len(found)
    assert engine.lossy() == [SOUTH]


def test_a_queue_full_of_streams_blocks_no_best_effort_event(make: Make) -> None:
    engine = make(bound=20_000)
    come(engine, 1, 100)
    for n in range(1, 101):
        assert receive(engine, NORTH, forward(n, tree=TREE)).state == "idle"
    found = sent(engine)
    assert len([kind for kind, _ in found if kind == FORWARD]) == 100


def test_the_bytes_are_the_same_however_they_are_taken(make: Make) -> None:
    """One byte at a time, or all at once."""
    pieces: list[bytes] = []
    for step in (1 << 30, 1, 777):
        engine = make()
        come(engine, 1, 20)
        come(engine, 2, 20, body=bytes(40))
        receive(engine, NORTH, forward(1, tree=TREE) + forward(2, tree=TREE))
        found = b""
        while piece := engine.output(SOUTH, bytes_max=step):
            found += piece
        assert engine.traffic(SOUTH).queued_bytes == 0
        pieces.append(found)
    assert len(frames(pieces[0])) == 42
    assert pieces[0] == pieces[1] == pieces[2]
