"""Heartbeats: who is dead, and what is their time?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidewire.model.ids import Nanoseconds
from tidewire.model.messages import Ping, Pong
from tidewire.wire.liveness import Clock, Liveness, Readings, answer

TIMES = st.integers(0, 10**8)


def ns(seconds: float) -> Nanoseconds:
    return Nanoseconds(int(seconds * 1e9))


def test_silence_is_death_after_three_paces() -> None:
    liveness = Liveness(2.0, now_ns=ns(0))
    assert not liveness.is_dead(ns(5.9))
    assert liveness.is_dead(ns(6))
    liveness.heard(ns(5))
    assert not liveness.is_dead(ns(10.9))
    assert liveness.is_dead(ns(11))


def test_pings_hurry_at_first_and_then_keep_their_pace() -> None:
    liveness = Liveness(2.0, now_ns=ns(0))
    times = [step / 100 for step in range(2000) if liveness.ping(ns(step / 100)) is not None]
    assert times[:6] == [0.0, 0.1, 0.2, 0.3, 0.4, 2.4]


def test_who_is_calm_pings_less_and_waits_as_long_for_an_answer() -> None:
    liveness = Liveness(2.0, now_ns=ns(0))
    liveness.calm(is_calm=True)
    times = [step / 100 for step in range(3000) if liveness.ping(ns(step / 100)) is not None]
    assert times[:7] == [0.0, 0.1, 0.2, 0.3, 0.4, 6.4, 12.4]
    liveness.heard(ns(24.4))
    assert not liveness.is_dead(ns(34.3))
    assert liveness.is_dead(ns(34.4))
    liveness.calm(is_calm=False)
    assert liveness.deadline_ns() == ns(26.4)
    assert liveness.ping(ns(26.4)) is not None
    assert liveness.is_dead(ns(30.4))


@given(
    offset=st.integers(-(10**15), 10**15),
    ways=st.lists(st.tuples(TIMES, TIMES, TIMES), min_size=1, max_size=30),
)
def test_the_true_offset_is_within_the_error(offset: int, ways: list[tuple[int, int, int]]) -> None:
    """Whatever the ways there and back take: ours less theirs is known as well as is said."""
    liveness = Liveness(1.0, now_ns=ns(0))
    now = 10**16
    for there, wait, back in ways:
        sent = now
        received_theirs = sent + there - offset
        pong = Pong(sent, received_theirs, received_theirs + wait)
        now = sent + there + wait + back
        clock = liveness.clock_of(pong, now_ns=Nanoseconds(now))
        assert clock is not None
        assert abs(clock.offset_ns - offset) <= clock.error_us * 1000


def test_a_clock_that_is_forgotten_is_learnt_anew() -> None:
    """The quickest answer counts, but not one from long ago: clocks drift."""
    readings = Readings()
    quick, slow = Pong(ns(1), ns(1), ns(1)), Pong(ns(9), ns(4), ns(4))
    assert readings.add(quick, now_ns=ns(1)) == Clock(0, 1)
    assert readings.add(slow, now_ns=ns(11)) == Clock(0, 1)
    readings.forget()
    assert readings.add(slow, now_ns=ns(11)) == Clock(ns(6), ns(1) // 1000 + 1)


def test_an_answer_that_cannot_be_true_is_ignored() -> None:
    liveness = Liveness(1.0, now_ns=ns(0))
    assert liveness.clock_of(Pong(ns(5), ns(5), ns(5)), now_ns=ns(4)) is None
    assert liveness.clock_of(Pong(ns(1), ns(1), ns(9)), now_ns=ns(2)) is None
    assert answer(Ping(3), now_ns=ns(1)) == Pong(3, ns(1), ns(1))
