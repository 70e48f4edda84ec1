"""What a feed was sent: each tick is read once, wherever it is cut, and nothing is lost on the way."""

from hypothesis import given
from hypothesis import strategies as st

from tidewire.delivery.intake import Intake, Span
from tidewire.model.ids import PubendId, Tick

A, B = PubendId(1), PubendId(2)


def span(first: int, last: int, *, count: int = 1) -> Span:
    return Span(Tick(first), Tick(last), count, f"{first}-{last}".encode())


def test_as_far_as_the_limit_and_a_span_of_each_stream_in_turn() -> None:
    """One busy stream does not keep the others waiting."""
    intake = Intake({})
    for at in range(0, 50, 10):
        intake.came(A, span(at, at + 9, count=10))
    intake.came(B, span(5, 5))
    assert intake.latest({}, events_max=20) == {A: 20, B: 6}
    assert intake.latest({A: Tick(20), B: Tick(6)}, events_max=100) == {A: 50, B: 6}


def test_what_is_stored_is_let_go_and_no_longer_read() -> None:
    """Brokers hear of streams that have moved, and of no others."""
    intake = Intake({B: Tick(7)})
    intake.came(A, span(0, 9))
    intake.came(A, span(10, 19))
    assert intake.settle({A: Tick(10), B: Tick(7)}) == {A: 10}
    assert intake.read(A, Tick(0), Tick(20)).batches == [b"10-19"]
    assert intake.held_bytes == len(b"10-19")
    assert intake.settle({A: Tick(10)}) == {}
    assert intake.reached() == {A: 20, B: 7}


def test_what_an_earlier_life_has_read_must_come_again_first() -> None:
    """A read beyond what has come would leave events out."""
    intake = Intake({A: Tick(10)})
    assert intake.has(A, Tick(10))
    assert not intake.has(A, Tick(11))
    assert intake.read(A, Tick(3), Tick(10)).batches == []
    intake.came(A, span(10, 30))
    assert intake.has(A, Tick(25))
    assert intake.read(A, Tick(10), Tick(25)).batches == [b"10-30"]


def test_a_gap_is_read_as_events_are() -> None:
    """It is told once, in its place, and what came before it counts not as lost."""
    intake = Intake({})
    intake.came(A, span(0, 9))
    intake.lost(A, Tick(5), Tick(19))
    intake.lost(A, Tick(3), Tick(8))
    taken = intake.read(A, Tick(0), Tick(20))
    assert (taken.batches, taken.gaps) == ([b"0-9"], [(10, 19)])
    assert intake.latest({}, events_max=100) == {A: 20}
    assert intake.read(A, Tick(12), Tick(15)).gaps == [(12, 14)]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.integers(1, 8), st.integers(1, 8))
def test_pieces_of_batches_are_all_of_it_once(counts: list[int], batch_max: int, piece_max: int) -> None:
    """Whatever the limits: the pieces of all batches are the whole stream, without a hole or an overlap."""
    intake, tick = Intake({}), 0
    for count in counts:
        intake.came(A, span(tick, tick + count - 1, count=count))
        tick += count + 1
    start: dict[PubendId, Tick] = {}
    edges = [0]
    while (end := intake.latest(start, events_max=batch_max)) != start:
        for piece in intake.pieces(start, end, events_max=piece_max):
            assert piece.first == edges[-1]
            edges.append(piece.end)
        intake.settle(end)
        start = end
    assert edges[-1] == tick - 1
    assert edges == sorted(set(edges))
    assert intake.held_bytes == 0
