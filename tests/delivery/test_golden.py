"""Ticks and windows as gryphon §5 gives them, of the engines that run: T15 and T20, and what §1.1 and §1.2 say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.dataplane.streaming import STREAM_MAKERS, Host, guarantee, stream, trust
from tests.dataplane.world import receive
from tidewire.dataplane.streams import StreamEngine, StreamState
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, PubendId, Tick, TreeId
from tidewire.model.ticks import ms_of, tick_at, ticks_of
from tidewire.wire.frames import ANSWER

BOB, NORTH = Conn(0), Conn(1)
TREE, PUBEND = TreeId(20), PubendId(70)

Make = Callable[..., StreamEngine]


@pytest.fixture(params=["reference", "kernel"])
def make(request: pytest.FixtureRequest) -> Make:
    """An edge whose subscriber is owed everything from tick 1 on."""

    def made(**options: Any) -> StreamEngine:
        engine = STREAM_MAKERS[request.param](**options)
        engine.open(BOB, is_link=False, when_full="wait")
        engine.open(NORTH, is_link=True, when_full="wait")
        engine.set_parent(TREE, NORTH)
        engine.add_routes(BOB, [1], [encode_filter(ALL)], None)
        trust(engine, TREE, PUBEND, 1)
        engine.attend(PUBEND, Tick(1))
        return engine

    return made


def tell(engine: StreamEngine, tick: int, letter: str = "D", *, first: int | None = None) -> None:
    """D: there is an event; S: there is none."""
    n = tick if letter == "D" else None
    receive(engine, NORTH, stream(first or tick, tick, n, tree=TREE, pubend=PUBEND, kind=ANSWER))


def state(engine: StreamEngine) -> StreamState:
    """How the stream stands."""
    (found,) = engine.streams()
    return found


def unknown(engine: StreamEngine, window: int) -> list[int]:
    """The ticks that may be asked for."""
    horizon = state(engine).horizon
    assert horizon is not None
    return [tick for a, b in engine.doubts(PUBEND, end=Tick(horizon + window)) for tick in range(a, b)]


def is_recovering(engine: StreamEngine) -> bool:
    """Has it been ignoring what was beyond its window?"""
    horizon = state(engine).horizon
    return horizon is not None and state(engine).ignored > horizon


def test_both_windows_move_with_the_horizon(make: Make) -> None:
    """gryphon T15, §1.2: the stream of Fig. 6. What the figure calls F is done with, as events are when delivered."""
    edge = make(window_ticks_max=7)
    for tick, letter in enumerate("DDDSQDQSQD", start=1):
        if letter != "Q":
            tell(edge, tick, letter)
    assert state(edge).horizon == 5
    assert unknown(edge, 5) == [5, 7, 9]
    assert not is_recovering(edge)
    tell(edge, 12)
    assert is_recovering(edge)
    assert unknown(edge, 100) == [5, 7, 9, 11, 12]
    tell(edge, 5)
    assert state(edge).horizon == 7
    assert unknown(edge, 5) == [7, 9, 11]
    for tick in (7, 9, 11):
        tell(edge, tick)
    assert state(edge).horizon == 12
    assert is_recovering(edge)
    tell(edge, 12)
    assert state(edge).horizon == 13
    assert not is_recovering(edge)


def test_silence_comes_with_the_next_data(make: Make) -> None:
    """gryphon T20, §1.1: data at 10, then data at 25 with the silence before it."""
    edge = make()
    tell(edge, 9, "S", first=1)
    tell(edge, 10)
    assert state(edge).horizon == 11
    tell(edge, 25, first=11)
    assert state(edge).horizon == 26


@pytest.mark.parametrize("is_ahead", [True, False])
@pytest.mark.parametrize("known", "DS")
@pytest.mark.parametrize("said", "DS")
def test_what_is_known_stays_as_it_is(make: Make, known: str, said: str, is_ahead: bool) -> None:
    """gryphon §1.1: the only transitions are from unknown, and to what is done with."""
    edge = make()
    if not is_ahead:
        tell(edge, 4, "S", first=1)
    for letter in (known, said):
        tell(edge, 5, letter)
    tell(edge, 9, "S", first=6)
    tell(edge, 4, "S", first=1)
    assert state(edge).horizon == 10
    assert edge.traffic(BOB).events_out == (known == "D")


def test_what_may_be_missing_was_heard_of(make: Make) -> None:
    """gryphon §1.2: beyond the highest position heard of, nothing may have been published yet."""
    edge = make()
    tell(edge, 2, first=1)
    assert unknown(edge, 100) == []
    trust(edge, TREE, PUBEND, 7)
    assert unknown(edge, 100) == [3, 4, 5, 6]


def test_what_goes_on_from_the_horizon_is_never_ignored(make: Make) -> None:
    """An hour of silence at once is no reason to recover: the windows move as it is taken in."""
    edge = make(window_ticks_max=10, cache_bytes_max=1)
    tell(edge, 1)
    tell(edge, 4999, "S", first=2)
    tell(edge, 9999, "D", first=5000)
    assert state(edge).horizon == 10_000
    assert not is_recovering(edge)


def test_a_tick_is_a_time_and_a_counter() -> None:
    """gryphon §1.1: 44 bits of milliseconds, 20 bits of counter."""
    assert ms_of(Tick(tick_at(7) + (1 << 20) - 1)) == 7
    assert tick_at(7) + (1 << 20) == tick_at(8)
    assert tick_at((1 << 44) - 1) + ticks_of(1) == 1 << 64
    with pytest.raises(AssertionError):
        tick_at(1 << 44)


@pytest.mark.parametrize("name", ["reference", "kernel"])
def test_ticks_follow_the_clock_and_never_go_back(name: str) -> None:
    """gryphon §1.1: tick = max(last + 1, now), on a clock jump and a restart, too."""
    host = Host(lambda: _publishing(name), [PUBEND])
    ticks: list[int] = []
    for sequence, ms in enumerate((0, 0, -600, 601), start=1):
        host.passes(ms)
        host.receive(BOB, guarantee(1, sequence=sequence))
        host.commit()
        if sequence == 3:
            host.log.close()
            host.begin()
        ticks.append(host.log.last_tick(PUBEND))
    start = tick_at(1000)
    assert ticks == [start + 1, start + 2, start + 3, tick_at(1001)]


def _publishing(name: str) -> StreamEngine:
    engine = STREAM_MAKERS[name]()
    engine.own_tree(TreeId(1))
    engine.open(BOB, is_link=False, when_full="wait")
    engine.may_publish(BOB, publisher=1, next_sequence=1)
    return engine
