"""Guaranteed events from outside: whatever comes, it ends its connection or is counted, and others are served."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataplane.streaming import (
    STREAM_MAKERS,
    Host,
    follow,
    got,
    guarantee,
    recover,
    served,
    stream,
    told,
    trust,
)
from tests.dataplane.world import event_bytes
from tidewire.dataplane.streams import StreamEngine
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, PubendId, Tick, TreeId
from tidewire.wire.frames import (
    ANSWER,
    GUARANTEE,
    LAST,
    LOST,
    RECEIPT,
    RECOVER,
    RECOVER_HEAD,
    SPAN,
    STREAM,
    STREAM_HEAD,
    TAKEN,
    frame,
    guarantee_frame,
    taken_frame,
)

HONEST, BOB, ODD, LINK, SOUTH = Conn(0), Conn(1), Conn(2), Conn(3), Conn(4)
OWN, TREE = TreeId(1), TreeId(2)
HOSTED, AFAR = PubendId(70), PubendId(80)
PLACE = 100

CLIENT_FRAMES = [guarantee(1, sequence=1), guarantee(2, sequence=2, body=b"body"), taken_frame(5, AFAR, PLACE)]
LINK_FRAMES = [
    stream(PLACE, PLACE + 5, 1, tree=TREE, pubend=AFAR),
    stream(PLACE, PLACE + 5, tree=TREE, pubend=AFAR),
    stream(PLACE, PLACE + 5, tree=TREE, pubend=AFAR, kind=LOST),
    stream(PLACE, PLACE + 5, 1, tree=TREE, pubend=AFAR, kind=ANSWER),
    recover(8, PLACE, PLACE + 5, 1, pubend=AFAR),
    recover(9, PLACE, PLACE + 5, 1, pubend=AFAR),
    recover(9, PLACE, PLACE + 5, kind=LOST),
    recover(9, PLACE, PLACE - 1, kind=LAST),
]
TICKS = st.sampled_from([0, 1, PLACE, 2**32, 2**63 - 1, 2**63, 2**64 - 1]) | st.integers(PLACE - 20, PLACE + 40)
SPANS = st.tuples(TICKS, TICKS, st.none() | st.just(1), st.integers(0, 255))


def world(name: str) -> Host:
    """A host with an honest publisher and a subscriber; an odd follower, an odd parent, and a neighbour beyond."""
    host = Host(lambda: _engine(STREAM_MAKERS[name]()), [HOSTED])
    for conn in (HONEST, ODD):
        host.engine.may_publish(conn, publisher=conn, next_sequence=1)
    return host


def _engine(engine: StreamEngine) -> StreamEngine:
    engine.own_tree(OWN)
    for conn in (HONEST, BOB, ODD, LINK, SOUTH):
        engine.open(conn, is_link=conn >= LINK, when_full="wait")
    engine.set_parent(TREE, LINK)
    engine.add_routes(BOB, [1], [encode_filter(ALL)], None)
    for tree in (OWN, TREE):
        engine.add_routes(SOUTH, [1], [encode_filter(ALL)], tree)
    trust(engine, TREE, AFAR, PLACE)
    follow(engine, ODD, 5, AFAR, PLACE, sound=PLACE)
    engine.attend(AFAR, Tick(PLACE))
    engine.relay(LINK, 8, SOUTH, 40, AFAR)
    engine.relay(LINK, 9, ODD, 5, AFAR)
    return engine


def still_serves(host: Host) -> None:
    """The honest publisher gets its receipt, the subscriber its event, and all that is told can be read."""
    served(host.engine)
    host.engine.taken()
    host.engine.streams()
    got(host.engine, BOB)
    told(host.engine, SOUTH)
    assert host.receive(HONEST, guarantee(77, sequence=1)).state == "idle"
    host.commit()
    assert [sequence for sequence, _ in got(host.engine, HONEST).receipts] == [1]
    assert [n for _, _, n in got(host.engine, BOB).events] == [77]
    assert told(host.engine, SOUTH)[-1].n == 77


def cut(whole: bytes, size: int) -> bytes:
    """The frame, with so many bytes of its payload."""
    return frame(whole[4], whole[5 : 5 + size])


engines = pytest.mark.parametrize("name", STREAM_MAKERS)


@engines
def test_every_frame_that_ends_too_early(name: str) -> None:
    for conn, wholes in ((ODD, CLIENT_FRAMES), (LINK, LINK_FRAMES)):
        for whole in wholes:
            for size in range(len(whole) - 5):
                host = world(name)
                before = host.engine.traffic(conn)
                said = host.receive(conn, cut(whole, size))
                after = host.engine.traffic(conn)
                is_counted = after.stray + after.damaged > before.stray + before.damaged
                is_shorter = whole[4] in (STREAM, RECOVER) and size in (
                    STREAM_HEAD.size + SPAN.size,
                    RECOVER_HEAD.size + SPAN.size,
                )
                assert said.state == "broken" or said.refused or is_counted or is_shorter, (whole, size)
                if size % 16 == 0:
                    still_serves(host)


@engines
@pytest.mark.parametrize("kind", [0, GUARANTEE, STREAM, RECOVER, RECEIPT, TAKEN, 10, 255])
@pytest.mark.parametrize("conn", [ODD, LINK])
def test_frames_that_this_side_may_not_send(name: str, kind: int, conn: Conn) -> None:
    host = world(name)
    expected = "idle" if kind in ((GUARANTEE, TAKEN) if conn == ODD else (STREAM, RECOVER)) else "broken"
    payload = taken_frame(5, AFAR, 1)[5:] if kind == TAKEN else bytes(60)
    assert host.receive(conn, frame(kind, payload)).state == expected
    still_serves(host)


@engines
def test_taken_has_its_size(name: str) -> None:
    for payload in (taken_frame(5, AFAR, 1)[5:] + b"x", b""):
        host = world(name)
        assert host.receive(ODD, frame(TAKEN, payload)).state == "broken"
        still_serves(host)


@engines
def test_an_event_that_is_no_event_is_refused(name: str) -> None:
    host = world(name)
    stamped = event_bytes(1, tree=9)
    for sequence, event in enumerate((b"", b"none", stamped, event_bytes(1)[:-1]), start=1):
        said = host.receive(ODD, guarantee_frame(event, born_ns=0, sequence=sequence))
        assert (said.state, said.refused, said.guaranteed) == ("idle", {"event-damaged": ([sequence], 1)}, [sequence])
    still_serves(host)


@engines
def test_an_event_too_large_is_refused(name: str) -> None:
    host = Host(lambda: _engine(STREAM_MAKERS[name](frame_bytes_max=2000)), [HOSTED])
    host.engine.may_publish(ODD, publisher=1, next_sequence=1)
    host.engine.may_publish(HONEST, publisher=2, next_sequence=1)
    overhead = len(guarantee(1, sequence=1, body=b"x"))
    said = host.receive(ODD, guarantee(1, sequence=1, body=bytes(2000 - overhead)))
    assert said.refused == {"event-too-large": ([1], 1)}
    still_serves(host)


@engines
@settings(max_examples=settings().max_examples // 3)
@given(
    spans=st.lists(st.tuples(TICKS, TICKS, st.none() | st.just(1), st.integers(0, 255)), max_size=6), again=st.data()
)
def test_any_ticks_of_any_kind(name: str, spans: list[tuple[int, int, int | None, int]], again: st.DataObject) -> None:
    host = world(name)
    for first, tick, n, kind in spans:
        if again.draw(st.booleans()):
            said = host.receive(LINK, stream(first, tick, n, tree=TREE, pubend=AFAR, kind=kind))
        else:
            said = host.receive(LINK, recover(again.draw(st.sampled_from([8, 9])), first, tick, n, kind=kind))
        assert said.state == "idle"
        host.receive(ODD, taken_frame(5, AFAR, tick))
        host.engine.catch_up(again.draw(st.integers(1, 3)), ODD, 5, AFAR)
        host.engine.answer(SOUTH, TREE, AFAR, [(Tick(min(first, tick)), Tick(max(first, tick)))])
        served(host.engine)
        host.engine.doubts(AFAR, end=Tick(2**63 - 1))
    still_serves(host)


@engines
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_a_flipped_bit_anywhere(name: str, data: st.DataObject) -> None:
    host = world(name)
    conn = data.draw(st.sampled_from([ODD, LINK]))
    wholes = st.lists(st.sampled_from(CLIENT_FRAMES if conn == ODD else LINK_FRAMES), min_size=1, max_size=4)
    flow = bytearray(b"".join(data.draw(wholes)))
    for _ in range(data.draw(st.integers(1, 3))):
        flow[data.draw(st.integers(0, len(flow) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    at = data.draw(st.integers(0, len(flow)))
    host.receive(conn, bytes(flow[:at]))
    host.receive(conn, bytes(flow[at:]))
    host.commit()
    still_serves(host)


@engines
@given(data=st.binary(max_size=200), kind=st.sampled_from([GUARANTEE, STREAM, RECOVER, TAKEN]))
@settings(max_examples=settings().max_examples // 3)
def test_any_payload(name: str, data: bytes, kind: int) -> None:
    for conn in (ODD, LINK):
        host = world(name)
        host.receive(conn, frame(kind, data))
        still_serves(host)


@engines
def test_what_is_whole_comes_to_something(name: str) -> None:
    """So the worlds above are what they are meant to be."""
    host = world(name)
    host.receive(ODD, CLIENT_FRAMES[0])
    assert host.log.waiting_events == 1
    host.receive(LINK, LINK_FRAMES[4] + LINK_FRAMES[5])
    assert [span.n for span in told(host.engine, SOUTH)] == [1]
    assert [n for _, _, n in got(host.engine, ODD).events] == [1]
    host.receive(LINK, LINK_FRAMES[0])
    assert [n for _, _, n in got(host.engine, BOB).events] == [1]
