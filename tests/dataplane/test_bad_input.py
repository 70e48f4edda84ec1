"""Bytes from outside: whatever comes, the engine stands, and no other connection notices."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataplane.world import MAKERS, NOW, delivered, forward, frames, publish, receive, taken
from tests.matching.building import ge, where
from tests.matching.strategies import attribute_maps
from tidewire._kernel.codec import decode, encode
from tidewire.dataplane.kernel import KernelEngine
from tidewire.model.errors import UsageError
from tidewire.model.events import make_event
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, TreeId
from tidewire.wire.frames import DELIVER, FRAME_BYTES_MAX, PUBLISH, decode_delivered, frame, publish_frame

HONEST, BOB, ODD, LINK = Conn(0), Conn(1), Conn(2), Conn(3)


def engine_with_clients(*, frame_bytes_max: int = FRAME_BYTES_MAX) -> KernelEngine:
    """An honest publisher, a subscriber, an odd client and an odd neighbour."""
    engine = KernelEngine(budget_ns=0, frame_bytes_max=frame_bytes_max)
    engine.own_tree(TreeId(1))
    for conn in (HONEST, BOB, ODD):
        engine.open(conn, is_link=False, when_full="wait")
    engine.open(LINK, is_link=True, when_full="wait")
    for conn in (HONEST, ODD):
        engine.may_publish(conn, publisher=conn, next_sequence=1)
    engine.set_parent(TreeId(2), LINK)
    engine.add_routes(BOB, [1, 2], [encode_filter(ALL), encode_filter(where(n=ge(0)))], None)
    return engine


def still_serves(engine: KernelEngine) -> None:
    """The honest publisher gets through, and what the subscriber gets are events."""
    assert receive(engine, HONEST, publish(77)).state == "idle"
    found = frames(taken(engine, BOB))
    assert all(kind == DELIVER for kind, _ in found)
    assert [decode(decode_delivered(payload).event) for _, payload in found][-1]["n"] == 77


@given(st.binary(max_size=300), st.sampled_from([ODD, LINK]))
def test_any_bytes(data: bytes, conn: Conn) -> None:
    engine = engine_with_clients()
    receive(engine, conn, data)
    still_serves(engine)


@given(attribute_maps(), st.data(), st.sampled_from([ODD, LINK]))
def test_a_flipped_bit_anywhere(attributes: dict[str, object], data: st.DataObject, conn: Conn) -> None:
    """In a frame's length, kind, hop or event. What is delivered is always an event that can be read."""
    one = publish_frame(encode(make_event(attributes)), born_ns=1) if conn == ODD else forward(1, tree=2)
    stream = bytearray(one * 3)
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    engine = engine_with_clients()
    cut = data.draw(st.integers(0, len(stream)))
    receive(engine, conn, bytes(stream[:cut]))
    receive(engine, conn, bytes(stream[cut:]))
    still_serves(engine)


def test_a_million_random_bytes() -> None:
    """As streams, and as events in good frames."""
    chance = random.Random(21)
    engine, left = engine_with_clients(), 1_000_000
    while left > 0:
        piece = chance.randbytes(chance.randrange(1, 400))
        left -= len(piece)
        engine.close(ODD)
        engine.open(ODD, is_link=False, when_full="wait")
        engine.may_publish(ODD, publisher=1, next_sequence=1)
        said = receive(engine, ODD, frame(PUBLISH, bytes(8) + piece))
        assert said.refused == {"event-damaged": ([1], 1)}
        receive(engine, ODD, piece)
    still_serves(engine)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=list(MAKERS))
def test_every_prefix_of_a_stream(maker: object) -> None:
    """However it is cut, one byte at a time too, the same events come out."""
    assert callable(maker)
    engine = maker()
    engine.own_tree(TreeId(1))
    for conn in (HONEST, BOB):
        engine.open(conn, is_link=False, when_full="wait")
    engine.may_publish(HONEST, publisher=1, next_sequence=1)
    engine.add_routes(BOB, [1], [encode_filter(ALL)], None)
    for byte in publish(1) + publish(2, body=b"x") + publish(3):
        assert receive(engine, HONEST, bytes([byte])).state == "idle"
    assert delivered(engine, BOB) == [((1,), 1), ((1,), 2), ((1,), 3)]


def test_a_frame_beyond_the_bound_is_refused_by_its_length_alone() -> None:
    engine = engine_with_clients(frame_bytes_max=4096)
    assert receive(engine, ODD, (4096).to_bytes(4, "little")).state == "idle"
    assert (
        receive(engine, LINK, FRAME_BYTES_MAX.to_bytes(4, "little")).state == "idle"
    )  # between brokers that is the least
    engine.close(LINK)
    engine.close(ODD)
    engine.open(LINK, is_link=True, when_full="wait")
    engine.open(ODD, is_link=False, when_full="wait")
    assert receive(engine, LINK, (FRAME_BYTES_MAX + 1).to_bytes(4, "little")).state == "broken"
    assert receive(engine, ODD, (4097).to_bytes(4, "little")).state == "broken"
    still_serves(engine)


def test_many_shapes_do_not_fill_the_memory() -> None:
    """Names are the publisher's to choose; what the engine remembers of them is bounded."""
    engine = engine_with_clients()
    for i in range(3000):
        long_names = {f"{i}-{j}-{'x' * 200}": 1 for j in range(30)}
        receive(engine, ODD, publish_frame(encode(make_event(long_names)), born_ns=0))
        taken(engine, BOB)
    still_serves(engine)


def test_a_second_thread_is_told_so() -> None:
    """The GIL is released while the kernel works: another thread gets an error, not a broken engine."""
    engine = engine_with_clients()
    data = b"".join(publish(n) for n in range(20_000))
    told: list[UsageError] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            try:
                engine.traffic(BOB)
            except UsageError as problem:
                told.append(problem)

    other = threading.Thread(target=look)
    other.start()
    try:
        for _ in range(200):
            try:
                engine.receive(HONEST, data, now_ns=NOW)
                engine.output(BOB, bytes_max=1 << 30)
            except UsageError as problem:
                told.append(problem)
            if told:
                break
    finally:
        stop.set()
        other.join()
    assert told
