"""Ticks and windows as gryphon §5 gives them: T15 and T20."""

from __future__ import annotations

import pytest

from tidewire.delivery.horizon import EdgeStream
from tidewire.delivery.knowledge import DATA, FINAL, SILENCE, UNKNOWN, Knowledge, State
from tidewire.delivery.ticks import TickClock
from tidewire.model.errors import ContradictoryTick
from tidewire.model.ids import Nanoseconds, Tick
from tidewire.model.ticks import ms_of, tick_at, ticks_of

NOW = Nanoseconds(0)
LETTERS = {"D": DATA, "S": SILENCE, "F": FINAL}


def stream(letters: str, *, receive_window: int = 10_000) -> EdgeStream:
    """Ticks from 1 on, one letter each; Q: nothing is known."""
    made = EdgeStream(start=Tick(1), receive_window=receive_window, nack_size=1, now_ns=NOW)
    for at, letter in enumerate(letters.replace(" ", ""), start=1):
        if letter in LETTERS:
            tell(made, at, LETTERS[letter])
    return made


def tell(edge: EdgeStream, tick: int, state: State = DATA) -> None:
    edge.update(Tick(tick), Tick(tick + 1), state, now_ns=NOW)


def asked(edge: EdgeStream, window: int, *, now_ns: int = 0, retry_ns: int = 1) -> list[int]:
    """The ticks that it asks for, one by one."""
    wanted = edge.nacks(window=window, retry_ns=retry_ns, now_ns=Nanoseconds(now_ns))
    return [tick for start, end in wanted for tick in range(start, end)]


def recovers(edge: EdgeStream) -> bool:
    return edge.is_recovering


def test_both_windows_move_with_the_horizon() -> None:
    """gryphon T15, §1.2: the stream of Fig. 6."""
    edge = stream("F F D S Q D Q S Q D Q Q", receive_window=7)
    assert edge.horizon == 5
    assert asked(edge, 5, now_ns=0) == [5, 7, 9]
    assert not recovers(edge)
    tell(edge, 12)
    assert recovers(edge)
    assert edge.knowledge.state_of(Tick(12)) is UNKNOWN
    tell(edge, 5)
    assert edge.horizon == 7
    assert asked(edge, 5, now_ns=1) == [7, 9, 11]
    for tick in (7, 9, 11):
        tell(edge, tick)
    assert edge.horizon == 12
    assert recovers(edge)
    tell(edge, 12)
    assert edge.horizon == 13
    assert not recovers(edge)


def test_silence_comes_with_the_next_data() -> None:
    """gryphon T20, §1.1: data at 10, then data at 25 with the silence before it."""
    known = Knowledge(start=Tick(10))
    assert known.tell(Tick(10), Tick(11), DATA) == [(10, 11)]
    assert known.horizon == 11
    assert known.tell(Tick(11), Tick(25), SILENCE) == [(11, 25)]
    assert known.tell(Tick(25), Tick(26), DATA) == [(25, 26)]
    assert known.horizon == 26
    assert list(known.runs(Tick(10), Tick(26))) == [(10, 11, DATA), (11, 25, SILENCE), (25, 26, DATA)]


@pytest.mark.parametrize("told", [DATA, SILENCE, FINAL])
@pytest.mark.parametrize("known", [UNKNOWN, DATA, SILENCE, FINAL])
def test_the_only_transitions(known: State, told: State) -> None:
    """gryphon §1.1: Q→D, Q→S, Q→F, D→F, S→F; D against S is refused, and everything else ignored."""
    one = Knowledge(start=Tick(1))
    one.tell(Tick(9), Tick(10), DATA)
    if known is not UNKNOWN:
        one.tell(Tick(5), Tick(6), known)
    if {known, told} == {DATA, SILENCE}:
        before = list(one.runs(Tick(1), Tick(20)))
        with pytest.raises(ContradictoryTick, match="ticks 5 to 5"):
            one.tell(Tick(4), Tick(7), told)
        assert list(one.runs(Tick(1), Tick(20))) == before
        return
    news = one.tell(Tick(5), Tick(6), told)
    assert news == ([(5, 6)] if known is UNKNOWN else [])
    assert one.state_of(Tick(5)) is (FINAL if FINAL in (known, told) else told)


def test_what_may_be_missing_was_heard_of() -> None:
    """gryphon §1.2: beyond the highest position heard of, nothing may have been published yet."""
    edge = stream("D D")
    assert edge.horizon == 3
    assert asked(edge, 100) == []
    edge.heard_of(Tick(6))
    assert asked(edge, 100) == [3, 4, 5, 6]


def test_a_query_overtakes_data_so_there_is_patience() -> None:
    """gryphon §2.1: a query proves nothing about the ticks below. Only when updates stop for long are they missing."""
    edge = EdgeStream(start=Tick(1), receive_window=100, nack_size=10, patience_ns=50, now_ns=NOW)
    edge.heard_of(Tick(20))
    assert asked(edge, 100, now_ns=49) == []
    edge.update(Tick(1), Tick(2), DATA, now_ns=Nanoseconds(49))
    assert asked(edge, 100, now_ns=98) == []
    assert asked(edge, 100, now_ns=99) == list(range(2, 21))
    edge.update(Tick(30), Tick(31), DATA, now_ns=Nanoseconds(99))
    assert asked(edge, 100, now_ns=100, retry_ns=10) == list(range(21, 30)), "a gap in the data lane is one at once"


def test_nothing_is_asked_for_twice_at_a_time() -> None:
    """gryphon §1.2: what is outstanding is asked for again after a timeout, and the first time counts."""
    edge = EdgeStream(start=Tick(1), receive_window=1000, nack_size=4, now_ns=NOW)
    edge.update(Tick(11), Tick(12), DATA, now_ns=NOW)
    assert edge.nacks(window=6, retry_ns=100, now_ns=Nanoseconds(5)) == [(1, 5), (5, 7)]
    assert edge.nacks(window=6, retry_ns=100, now_ns=Nanoseconds(104)) == []
    assert edge.nacks(window=20, retry_ns=100, now_ns=Nanoseconds(104)) == [(7, 11)]
    edge.update(Tick(2), Tick(4), SILENCE, now_ns=Nanoseconds(104))
    assert edge.nacks(window=20, retry_ns=100, now_ns=Nanoseconds(105)) == [(1, 2), (4, 7)]
    edge.update(Tick(1), Tick(5), SILENCE, now_ns=Nanoseconds(110))
    assert edge.answered() == [5], "the first time counts"
    edge.update(Tick(5), Tick(11), SILENCE, now_ns=Nanoseconds(111))
    assert edge.answered() == [5, 104]
    assert edge.answered() == []
    assert edge.horizon == 12


def test_what_goes_on_from_the_horizon_is_never_ignored() -> None:
    """An hour of silence in one message is no reason to recover: the windows move as it is taken in."""
    edge = stream("D", receive_window=10)
    assert edge.update(Tick(2), Tick(5000), SILENCE, now_ns=NOW)
    assert edge.horizon == 5000
    assert not edge.is_recovering


def test_what_is_delivered_takes_no_memory() -> None:
    edge = stream("D S D S D Q D")
    edge.finish(below=edge.horizon)
    assert edge.knowledge.start == edge.horizon == 6
    assert edge.knowledge.runs_kept == 3
    assert edge.knowledge.state_of(Tick(3)) is FINAL
    assert edge.update(Tick(3), Tick(4), DATA, now_ns=NOW) == []


def test_ticks_follow_the_clock_and_never_go_back() -> None:
    """gryphon §1.1: tick = max(last + 1, now), on a clock jump and a restart, too."""
    clock = TickClock(last=Tick(0))
    assert clock.take(unix_ms=1000) == tick_at(1000)
    assert clock.take(3, unix_ms=1000) == tick_at(1000) + 1
    assert clock.take(unix_ms=400) == tick_at(1000) + 4
    again = TickClock(last=clock.last)
    assert again.take(unix_ms=400) == tick_at(1000) + 5
    assert ms_of(again.take(unix_ms=1001)) == 1001


def test_a_full_millisecond_runs_over() -> None:
    """gryphon §1.1: 20 bits of counter."""
    clock = TickClock(last=Tick(0))
    clock.take((1 << 20) - 1, unix_ms=7)
    assert ms_of(clock.take(unix_ms=7)) == 7
    assert clock.take(unix_ms=7) == tick_at(8)
    assert clock.take(unix_ms=8) == tick_at(8) + 1
    with pytest.raises(AssertionError):
        tick_at(1 << 44)
    assert tick_at((1 << 44) - 1) + ticks_of(1) == 1 << 64


def test_promised_silence_stays_silent() -> None:
    clock = TickClock(last=Tick(0))
    assert clock.promise_silence(unix_ms=50) == tick_at(50) - 1
    assert clock.take(unix_ms=49) == tick_at(50)
    assert clock.promise_silence(unix_ms=3) == tick_at(50)
