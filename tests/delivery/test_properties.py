"""Whatever is told, lost, doubled or late: gryphon §5, the properties of streams, of the code that runs."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataplane.streaming import STREAM_MAKERS, got, stream, trust
from tests.dataplane.world import receive
from tidewire.delivery.nacks import PATIENCE_MAX, Nacks
from tidewire.delivery.spans import Spans
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.wire.frames import ANSWER, PLAIN

LAST = 120
BOB, NORTH = Conn(0), Conn(1)
TREE, PUBEND = TreeId(20), PubendId(70)
MOST = 40
ranges = st.tuples(st.integers(0, MOST), st.integers(0, MOST))


@given(st.lists(st.tuples(st.booleans(), ranges), max_size=30), ranges)
def test_runs_are_a_set_of_ticks(steps: list[tuple[bool, tuple[int, int]]], asked: tuple[int, int]) -> None:
    """Every answer is that of a plain set; the runs are sorted, and no two touch."""
    runs, plain = Spans(), dict.fromkeys(range(0))
    for is_added, (first, end) in steps:
        part = dict.fromkeys(range(first, end))
        if is_added:
            runs.add(first, end)
            plain |= part
        else:
            runs.remove(first, end)
            plain = {tick: None for tick in plain if tick not in part}
        assert [tick for a, b in runs for tick in range(a, b)] == sorted(plain)
        kept = list(runs)
        assert all(a < b for a, b in kept)
        assert all(kept[i][1] < kept[i + 1][0] for i in range(len(kept) - 1))
        assert (len(runs), bool(runs)) == (len(kept), bool(plain))
    first, end = asked
    within = [tick for tick in range(first, end) if tick in plain]
    assert [tick for a, b in runs.within(first, end) for tick in range(a, b)] == within
    without = [tick for tick in range(first, end) if tick not in plain]
    assert [tick for a, b in runs.gaps(first, end) for tick in range(a, b)] == without
    assert all((tick in runs) == (tick in plain) for tick in range(MOST + 2))
    assert runs.end_of(first) == next(tick for tick in range(first, MOST + 2) if tick not in plain)


@given(st.lists(st.tuples(st.lists(ranges, max_size=3), st.integers(0, 12), st.integers(0, MOST)), max_size=20))
def test_nothing_is_asked_for_while_it_is_outstanding(steps: list[tuple[list[tuple[int, int]], int, int]]) -> None:
    """gryphon §1.2: no tick twice within the timeout, and all that is unknown once it is over."""
    nacks, now, horizon, asked_at = Nacks(), 0, 0, dict.fromkeys(range(0), 0)
    for wanted, passed, reached in steps:
        now += passed
        lacking = Spans()
        for part in wanted:
            lacking.add(*part)
        lacking.remove(0, horizon)
        asked = nacks.ask(list(lacking), retry_ns=10, now_ns=Nanoseconds(now))
        for tick in (tick for first, end in asked for tick in range(first, end)):
            assert now - asked_at.get(tick, -10) >= 10
            asked_at[tick] = now
        for tick in (tick for first, end in lacking for tick in range(first, end)):
            assert now - asked_at[tick] < 10 * PATIENCE_MAX
        horizon = max(horizon, reached)
        assert all(time_ns <= now for time_ns in nacks.known(Tick(horizon)))


def test_the_wait_doubles_while_nothing_comes_and_begins_anew_when_something_does() -> None:
    nacks, lacking = Nacks(), [(Tick(1), Tick(5))]
    asked = [now for now in range(400) if nacks.ask(lacking, retry_ns=10, now_ns=Nanoseconds(now))]
    assert asked == [0, 10, 30, 70, 150, 310]
    assert nacks.known(Tick(5)) == [310]
    other = [(Tick(7), Tick(9))]
    asked = [now for now in range(400, 440) if nacks.ask(other, retry_ns=10, now_ns=Nanoseconds(now))]
    assert asked == [400, 410, 430]


def test_while_an_answer_comes_in_pieces_the_wait_stays_short() -> None:
    nacks, asked = Nacks(), []
    for now in range(100):
        horizon = Tick(1 + now // 8)
        nacks.known(horizon)
        if nacks.ask([(horizon, Tick(20))], retry_ns=10, now_ns=Nanoseconds(now)):
            asked.append(now)
    assert max(later - now for now, later in pairwise(asked)) <= 20


@pytest.mark.parametrize("name", ["reference", "kernel"])
@settings(max_examples=settings().max_examples // 3)
@given(
    seed=st.integers(0, 2**32),
    receive_window=st.integers(1, 60),
    nack_window=st.integers(1, 40),
    loss=st.sampled_from([0.0, 0.2, 0.6]),
)
def test_each_event_once_and_in_order(name: str, seed: int, receive_window: int, nack_window: int, loss: float) -> None:
    """gryphon §5: what is delivered is the log, under any loss, doubling and disorder, with bounded memory."""
    random = Random(seed)
    log = {tick: None for tick in range(1, LAST) if random.random() < 0.3}
    engine = STREAM_MAKERS[name](window_ticks_max=receive_window)
    engine.open(BOB, is_link=False, when_full="wait")
    engine.open(NORTH, is_link=True, when_full="wait")
    engine.set_parent(TREE, NORTH)
    engine.add_routes(BOB, [1], [encode_filter(ALL)], None)
    trust(engine, TREE, PUBEND, 1)
    engine.attend(PUBEND, Tick(1))
    on_the_way: list[bytes] = []

    def send(first: int, end: int, *, kind: int) -> None:
        for tick in range(first, end):
            if random.random() >= loss:
                span = stream(tick, tick, tick if tick in log else None, tree=TREE, pubend=PUBEND, kind=kind)
                on_the_way.extend([span] * random.choice([1, 1, 2]))

    delivered: list[int] = []
    published, horizon = 1, 1
    for _ in range(5000):
        upto = min(LAST, published + random.randint(1, 20))
        send(published, upto, kind=PLAIN)
        published = upto
        trust(engine, TREE, PUBEND, published)
        if random.random() < 0.1:
            on_the_way.clear()
        random.shuffle(on_the_way)
        for _ in range(min(len(on_the_way), random.randint(0, 30))):
            receive(engine, NORTH, on_the_way.pop())
            (state,) = engine.streams()
            assert state.horizon is not None
            assert state.horizon >= horizon
            horizon = state.horizon
        delivered += [tick for _, tick, _ in got(engine, BOB).events]
        if horizon >= LAST:
            break
        for first, end in engine.doubts(PUBEND, end=Tick(horizon + nack_window)):
            assert horizon <= first < end <= min(published, horizon + nack_window)
            send(first, end, kind=ANSWER)
    assert delivered == list(log)
