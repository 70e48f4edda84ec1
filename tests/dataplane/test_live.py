"""Sockets: one call reads, handles and writes; what a socket does not take waits; ends and errors are reported."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataplane.world import NOW, event_bytes, frames, publish
from tests.matching.building import eq, ge, lt, where
from tidewire._kernel.codec import decode
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import Engine, WhenFull
from tidewire.model.errors import UsageError
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, TreeId
from tidewire.model.messages import Flush, Ping, Pong
from tidewire.wire.frames import MESSAGE, decode_delivered, decode_message, frame, message_frame, publish_frame

ANN, BOB, EVE = Conn(0), Conn(1), Conn(2)


class Live:
    """An engine with three clients behind socket pairs; Ann publishes, Bob and Eve want everything."""

    def __init__(self, stack: ExitStack, *, when_full: WhenFull = "wait", bound: int = 8 << 20) -> None:
        self.engine = KernelEngine(budget_ns=0)
        self.engine.own_tree(TreeId(1))
        self.ours: list[socket.socket] = []
        self.theirs: list[socket.socket] = []
        for conn in (ANN, BOB, EVE):
            ours, theirs = (stack.enter_context(one) for one in socket.socketpair())
            for one in (ours, theirs):
                one.setblocking(False)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            self.ours.append(ours)
            self.theirs.append(theirs)
            self.engine.open(conn, is_link=False, when_full=when_full, queue_bytes_max=bound)
            self.engine.attach(conn, ours.fileno())
        self.engine.may_publish(ANN, publisher=1, next_sequence=1)
        for conn in (BOB, EVE):
            self.engine.add_routes(conn, [1], [encode_filter(ALL)], None)

    def read(self, conn: Conn) -> bytes:
        """All that the client can read now."""
        return received(self.theirs[conn])


def received(there: socket.socket) -> bytes:
    """All that can be read now."""
    found = bytearray()
    while True:
        try:
            piece = there.recv(1 << 20)
        except BlockingIOError:
            return bytes(found)
        if not piece:
            return bytes(found)
        found += piece


def numbers(data: bytes) -> list[int]:
    """The attribute n of the events in these frames."""
    return [int(str(decode(decode_delivered(payload).event)["n"])) for kind, payload in frames(data) if kind != MESSAGE]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the sockets."""
    with ExitStack() as opened:
        yield opened


def test_a_call_reads_and_writes_and_says_nothing(stack: ExitStack) -> None:
    live = Live(stack)
    live.theirs[ANN].send(publish(1) + publish(2)[:20])
    assert live.engine.pump(ANN, now_ns=NOW) is None
    assert numbers(live.read(BOB)) == numbers(live.read(EVE)) == [1]
    assert live.engine.pump(ANN, now_ns=NOW) is None  # nothing there
    live.theirs[ANN].send(publish(2)[20:])
    assert live.engine.pump(ANN, now_ns=NOW) is None
    assert numbers(live.read(BOB)) == [2]
    assert live.engine.traffic(BOB).queued_bytes == 0


def test_a_message_is_handed_over(stack: ExitStack) -> None:
    live = Live(stack)
    live.theirs[ANN].send(publish(1) + message_frame(Flush(1)) + publish(2))
    said = live.engine.pump(ANN, now_ns=NOW)
    assert said is not None
    assert (said.state, said.message) == ("busy", message_frame(Flush(1))[5:])
    assert numbers(live.read(BOB)) == [1]
    assert live.engine.resume(ANN, now_ns=NOW).state == "idle"
    assert numbers(live.read(BOB)) == [2]


def test_a_full_socket_stalls_alone_and_is_flushed_in_order(stack: ExitStack) -> None:
    """The remainder stays queued; control passes ahead between frames; the other reader gets everything."""
    live = Live(stack)
    sent, eve = 0, bytearray()
    stalled: list[Conn] = []
    while not stalled:
        live.theirs[ANN].send(b"".join(publish(sent + i, body=bytes(500)) for i in range(40)))
        sent += 40
        said = live.engine.pump(ANN, now_ns=NOW)
        eve += live.read(EVE)
        stalled = [] if said is None else said.stalled
    assert stalled == [BOB]
    live.theirs[ANN].send(publish(sent))
    assert live.engine.pump(ANN, now_ns=NOW) is None  # known to be stalled: not said again
    eve += live.read(EVE)
    assert numbers(bytes(eve)) == list(range(sent + 1))
    live.engine.send(BOB, message_frame(Ping(1)), "control")
    still = live.engine.flush(BOB)
    assert still is not None
    assert still.stalled == [BOB]
    bob = bytearray()
    while live.engine.traffic(BOB).queued_bytes:
        bob += live.read(BOB)
        live.engine.flush(BOB)
    bob += live.read(BOB)
    assert numbers(bytes(bob)) == list(range(sent + 1))
    kinds = [kind for kind, _ in frames(bytes(bob))]
    assert kinds.count(MESSAGE) == 1
    assert kinds.index(MESSAGE) < len(kinds) - 1


def test_a_stalled_reader_blocks_its_source_until_it_reads(stack: ExitStack) -> None:
    live = Live(stack, bound=20_000)
    sent, eve, bob, state = 0, bytearray(), bytearray(), "idle"
    while state != "blocked":
        live.theirs[ANN].send(b"".join(publish(sent + i, body=bytes(500)) for i in range(40)))
        sent += 40
        said = live.engine.pump(ANN, now_ns=NOW)
        eve += live.read(EVE)
        state = "idle" if said is None else said.state
    again = live.engine.pump(ANN, now_ns=NOW)
    assert again is not None
    assert again.state == "blocked"
    while state == "blocked":
        bob += live.read(BOB)
        live.engine.flush(BOB)
        for conn in live.engine.unblocked():
            state = live.engine.resume(conn, now_ns=NOW).state
        eve += live.read(EVE)
    live.engine.flush(BOB)
    bob += live.read(BOB)
    while live.engine.traffic(BOB).queued_bytes:
        live.engine.flush(BOB)
        bob += live.read(BOB)
    assert numbers(bytes(bob)) == numbers(bytes(eve)) == list(range(sent))


def test_a_bound_is_for_what_the_socket_does_not_take(stack: ExitStack) -> None:
    """A queue that could be written is written before anything is thrown away."""
    live = Live(stack, when_full="drop", bound=1000)
    live.theirs[ANN].send(b"".join(publish(n) for n in range(100)))
    assert live.engine.pump(ANN, now_ns=NOW) is None
    assert numbers(live.read(BOB)) == list(range(100))


def test_the_end_and_the_loss_of_a_connection_are_reported(stack: ExitStack) -> None:
    live = Live(stack)
    live.theirs[EVE].close()
    live.theirs[ANN].send(publish(1))
    said = live.engine.pump(ANN, now_ns=NOW)
    assert said is not None
    assert said.ended == [(EVE, errno.EPIPE)]
    assert numbers(live.read(BOB)) == [1]
    live.theirs[ANN].send(publish(2))
    assert live.engine.pump(ANN, now_ns=NOW) is None
    assert live.engine.traffic(EVE).dropped == 1
    live.engine.close(EVE)
    live.theirs[ANN].send(publish(3)[:10])
    live.theirs[ANN].close()
    assert live.engine.pump(ANN, now_ns=NOW) is None
    said = live.engine.pump(ANN, now_ns=NOW)
    assert said is not None
    assert said.ended == [(ANN, 0)]


def test_a_closed_descriptor_is_an_error_and_no_crash(stack: ExitStack) -> None:
    live = Live(stack)
    os.close(live.ours[BOB].detach())
    said = live.engine.flush(BOB)
    assert said is None  # nothing to write
    live.engine.send(BOB, message_frame(Ping(1)), "control")
    said = live.engine.flush(BOB)
    assert said is not None
    assert said.ended == [(BOB, errno.EBADF)]


@pytest.mark.parametrize(
    "sent_ns", [0, 127, 128, 255, 256, 65_535, 65_536, 1 << 32, 1 << 62, -1, -32, -33, -129, -(1 << 40)]
)
def test_a_ping_on_a_socket_is_answered_and_not_told(stack: ExitStack, sent_ns: int) -> None:
    live = Live(stack)
    event = publish(1)
    live.theirs[ANN].sendall(message_frame(Ping(sent_ns)) + event + message_frame(Ping(sent_ns)))
    assert live.engine.pump(ANN, now_ns=NOW) is None
    pongs = [decode_message(payload) for _, payload in frames(live.read(ANN))]
    assert pongs == [Pong(sent_ns, NOW, NOW)] * 2
    assert numbers(live.read(BOB)) == [1]


@pytest.mark.parametrize(
    "odd", [b"\x92\x05", b"\x92\x05\xc0", b"\x92\x05\x01\x01", b"\x93\x05\x01\x01", b"\x92\x05\xd3\x01"]
)
def test_what_only_looks_like_a_ping_is_told(stack: ExitStack, odd: bytes) -> None:
    live = Live(stack)
    live.theirs[ANN].sendall(frame(MESSAGE, odd))
    told = live.engine.pump(ANN, now_ns=NOW)
    assert told is not None
    assert told.message == odd
    assert live.read(ANN) == b""


def test_without_a_socket_a_ping_is_told(stack: ExitStack) -> None:
    live = Live(stack)
    live.engine.open(Conn(3), is_link=False, when_full="wait")
    assert live.engine.receive(Conn(3), message_frame(Ping(1)), now_ns=NOW).message is not None


def test_who_pings_and_never_reads_is_overrun(stack: ExitStack) -> None:
    live = Live(stack, bound=4096)
    overrun: list[Conn] = []
    for _ in range(200):
        with suppress(BlockingIOError):
            live.theirs[BOB].sendall(message_frame(Ping(1)) * 500)
        said = live.engine.pump(BOB, now_ns=NOW)
        overrun += said.overrun if said is not None else []
        if overrun:
            break
    assert overrun == [BOB]


def test_connections_without_a_socket_take_part(stack: ExitStack) -> None:
    """As they will under TLS: their bytes come by receive, and leave by output."""
    live = Live(stack)
    tls = Conn(3)
    live.engine.open(tls, is_link=False, when_full="wait")
    live.engine.may_publish(tls, publisher=2, next_sequence=1)
    live.engine.add_routes(tls, [4], [encode_filter(where(n=ge(5)))], None)
    live.theirs[ANN].send(publish(4) + publish(5))
    said = live.engine.pump(ANN, now_ns=NOW)
    assert said is not None
    assert said.ready == [tls]
    assert numbers(live.engine.output(tls, bytes_max=1 << 20)) == [5]
    assert live.engine.receive(tls, publish_frame(event_bytes(1), born_ns=0), now_ns=NOW).state == "idle"
    assert numbers(live.read(BOB)) == [4, 5, 1]
    with pytest.raises(UsageError):
        live.engine.pump(tls, now_ns=NOW)
    with pytest.raises(UsageError):
        live.engine.flush(tls)


def test_one_read_is_bounded(stack: ExitStack) -> None:
    """A busy connection gives way to the others after a bounded read."""
    live = Live(stack)
    live.theirs[ANN].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    live.ours[ANN].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sent = live.theirs[ANN].send(b"".join(publish(n) for n in range(10_000)))
    live.engine.pump(ANN, now_ns=NOW)
    assert 0 < live.engine.traffic(ANN).bytes_in <= min(sent, 256 << 10)


WANTED = [ALL, ALL, ALL, where(n=ge(3)), where(n=lt(4)), where(n=eq(2)), where(text=eq("a"))]
SUBSCRIBERS = range(1, 9)


@settings(deadline=None)
@given(st.data())
def test_what_many_get_from_one_place_is_what_each_would_get_alone(data: st.DataObject) -> None:
    """Equal shares of a batch are written once: every socket gets the bytes that a queue would."""
    clients = data.draw(st.lists(st.booleans(), min_size=len(SUBSCRIBERS), max_size=len(SUBSCRIBERS)))
    routes = st.lists(st.tuples(st.sampled_from([1, 1, 2, 7]), st.sampled_from(WANTED)), unique_by=lambda r: r[0])
    wanted = [data.draw(routes) for _ in SUBSCRIBERS]
    alone, kernel = KernelEngine(budget_ns=0), KernelEngine(budget_ns=data.draw(st.sampled_from([0, 1])))
    engines: list[Engine] = [alone, kernel]
    for engine in engines:
        engine.own_tree(TreeId(1))
        engine.open(ANN, is_link=False, when_full="wait")
        engine.may_publish(ANN, publisher=1, next_sequence=1)
        for conn, is_client, wants in zip(SUBSCRIBERS, clients, wanted, strict=True):
            engine.open(Conn(conn), is_link=not is_client, when_full="wait")
            tree = None if is_client else TreeId(1)
            engine.add_routes(Conn(conn), [n for n, _ in wants], [encode_filter(one) for _, one in wants], tree)
    with ExitStack() as stack:
        theirs: dict[int, socket.socket] = {}
        for conn in SUBSCRIBERS:
            ours, theirs[conn] = (stack.enter_context(one) for one in socket.socketpair())
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, data.draw(st.sampled_from([4096, 1 << 16])))
            ours.setblocking(False)
            theirs[conn].setblocking(False)
            kernel.attach(Conn(conn), ours.fileno())
        got, due = dict.fromkeys(SUBSCRIBERS, b""), dict.fromkeys(SUBSCRIBERS, b"")
        event = st.builds(
            event_bytes, st.integers(0, 8), body=st.sampled_from([None, bytes(900)]), text=st.sampled_from("ab")
        )
        for batch in data.draw(st.lists(st.lists(event, max_size=12), max_size=4)):
            times = data.draw(st.sampled_from([1, 1, 60]))  # more than are worked on together
            published = b"".join(publish_frame(one, born_ns=0) for one in batch) * times
            assert alone.receive(ANN, published, now_ns=NOW).state == "idle"
            for conn in SUBSCRIBERS:
                due[conn] += alone.output(Conn(conn), bytes_max=1 << 40)
            said = kernel.receive(ANN, published, now_ns=NOW)
            while said.state == "busy":
                said = kernel.resume(ANN, now_ns=NOW)
            for conn in data.draw(st.lists(st.sampled_from(SUBSCRIBERS))):
                got[conn] += received(theirs[conn])
                kernel.flush(Conn(conn))
        for conn in SUBSCRIBERS:
            while kernel.traffic(Conn(conn)).queued_bytes:
                got[conn] += received(theirs[conn])
                kernel.flush(Conn(conn))
            got[conn] += received(theirs[conn])
            assert got[conn] == due[conn]
            sent, queued = kernel.traffic(Conn(conn)), alone.traffic(Conn(conn))
            assert (sent.events_out, sent.bytes_out) == (queued.events_out, queued.bytes_out)


def test_a_queue_of_megabytes_keeps_its_order_and_gives_its_memory_back() -> None:
    """It grows, moves to its front and shrinks, while a part of it is sent now and then."""
    engine = KernelEngine(budget_ns=0)
    engine.own_tree(TreeId(1))
    for conn in (ANN, BOB):
        engine.open(conn, is_link=False, when_full="drop", queue_bytes_max=6 << 20)
    engine.may_publish(ANN, publisher=1, next_sequence=1)
    engine.add_routes(BOB, [1], [encode_filter(ALL)], None)
    empty, out, sent = engine.work().memory_bytes, bytearray(), 0
    for step in range(60):
        engine.receive(ANN, b"".join(publish(sent + i, body=bytes(900)) for i in range(200)), now_ns=NOW)
        sent += 200
        out += engine.output(BOB, bytes_max=(step % 7) * 20_021)
        assert engine.work().memory_bytes - empty < 10 << 20
    assert engine.traffic(BOB).queued_bytes > 3 << 20
    out += engine.output(BOB, bytes_max=1 << 30)
    got, dropped = numbers(bytes(out)), engine.traffic(BOB).dropped
    assert dropped == sent - len(got)
    assert got == sorted(got)
    assert got[-1] == sent - 1
    assert engine.work().memory_bytes - empty < 1 << 20
