"""Samples: which subscribers want the next events, of every engine (peer §7.1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.dataplane import edge as edges
from tests.dataplane.streaming import STREAM_MAKERS
from tests.dataplane.world import MAKERS, forward, publish, receive, resume, taken
from tests.matching.building import ge, lt, where
from tidewire._kernel.codec import decode
from tidewire.dataplane.protocol import Engine, Samples, WhenFull
from tidewire.model.filters import Filter, encode_filter
from tidewire.model.ids import Conn, TreeId

ANN, BOB, CAT, NORTH = Conn(0), Conn(1), Conn(2), Conn(3)
OWN, OTHER = TreeId(10), TreeId(20)
Make = Callable[..., Engine]


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    """Each engine: Ann publishes, Bob wants up to 5, Cat from 3 on, twice; North brings another tree."""

    def made(*, when_full: WhenFull = "wait", bound: int = 1 << 20) -> Engine:
        engine = MAKERS[request.param]()
        engine.own_tree(OWN)
        for conn in (ANN, BOB, CAT, NORTH):
            engine.open(conn, is_link=conn == NORTH, when_full=when_full, queue_bytes_max=bound)
        engine.may_publish(ANN, publisher=7, next_sequence=100)
        engine.set_parent(OTHER, NORTH)
        want(engine, BOB, where(n=lt(5)))
        want(engine, CAT, where(n=ge(3)), where(n=ge(4)))
        return engine

    return made


def want(engine: Engine, conn: Conn, *wanted: Filter) -> None:
    engine.add_routes(conn, range(len(wanted)), [encode_filter(one) for one in wanted], None)


def seen(samples: Samples) -> list[object]:
    return [decode(event)["n"] for event in samples.events]


def test_the_next_events_are_kept(make: Make) -> None:
    """peer §7.1: as many as asked for, published here or elsewhere; the first one is the right-most bit."""
    engine = make()
    receive(engine, ANN, publish(1))
    assert engine.samples() == Samples([], {})
    engine.sample(4)
    receive(engine, ANN, publish(1) + publish(4))
    assert seen(engine.samples()) == [1, 4]
    receive(engine, NORTH, forward(9, tree=OTHER) + forward(10, tree=OTHER))
    receive(engine, ANN, publish(2))
    samples = engine.samples()
    numbers = seen(samples)
    assert numbers[:2] == [1, 4]
    assert len(numbers) == 4
    bob = sum(1 << i for i, n in enumerate(numbers) if isinstance(n, int) and n < 5)
    cat = sum(1 << i for i, n in enumerate(numbers) if isinstance(n, int) and n >= 3)
    assert samples.wanted == {conn: bits for conn, bits in ((BOB, bob), (CAT, cat)) if bits}
    assert list(samples.wanted) == sorted(samples.wanted)


def test_who_wants_them_is_asked_in_the_end(make: Make) -> None:
    """One that came later counts as if it had always been there, and one that left does not count."""
    engine = make()
    engine.sample(2)
    receive(engine, ANN, publish(1) + publish(4))
    want(engine, ANN, where(n=ge(0)))
    engine.close(BOB)
    assert engine.samples().wanted == {ANN: 0b11, CAT: 0b10}


def test_samples_are_forgotten(make: Make) -> None:
    engine = make()
    engine.sample(2)
    receive(engine, ANN, publish(1) + publish(4))
    engine.sample(2)
    receive(engine, ANN, publish(7))
    assert seen(engine.samples()) == [7]
    engine.sample(0)
    receive(engine, ANN, publish(7))
    assert engine.samples() == Samples([], {})


def test_many_samples(make: Make) -> None:
    """More than a machine word, and more than are matched at once."""
    engine = make()
    engine.sample(200)
    receive(engine, ANN, b"".join(publish(n % 7) for n in range(250)))
    samples = engine.samples()
    assert seen(samples) == [n % 7 for n in range(200)]
    assert samples.wanted[BOB] == sum(1 << n for n in range(200) if n % 7 < 5)
    assert samples.wanted[CAT] == sum(1 << n for n in range(200) if n % 7 >= 3)


def test_what_waits_for_room_is_one_sample(make: Make) -> None:
    """An event that finds no room is tried again: it is taken once."""
    engine = make(bound=64)
    engine.sample(10)
    assert receive(engine, ANN, publish(1) + publish(2) + publish(3)).state == "blocked"
    for _ in range(10):
        for conn in (BOB, CAT):
            taken(engine, conn)
        if ANN in engine.unblocked():
            resume(engine, ANN)
    assert seen(engine.samples()) == [1, 2, 3]


def test_refused_events_are_no_samples(make: Make) -> None:
    engine = make()
    engine.sample(5)
    engine.permit(ANN, [encode_filter(where(n=lt(2)))])
    receive(engine, ANN, publish(1) + publish(4) + publish(0))
    assert seen(engine.samples()) == [1, 0]


@pytest.mark.parametrize("name", list(STREAM_MAKERS))
def test_events_of_streams_are_samples_too(name: str) -> None:
    """When they are delivered, in their order: not when they come."""
    engine = edges.attended(edges.edge(name))
    engine.sample(3)
    edges.comes(engine, (106, 110, 2))
    assert seen(engine.samples()) == []
    edges.comes(engine, (100, 105, 1))
    assert seen(engine.samples()) == [1, 2]
    assert engine.samples().wanted == {edges.BOB: 0b11}
