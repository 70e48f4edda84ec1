"""One who is far behind, on a socket that is often full: the kernel goes on by itself, a little at a time."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.dataplane.streaming import Host, follow, guarantee
from tests.dataplane.test_hosting import ANN, BOB, FIRST, OWN, PUBEND, PUBLISHER, SECOND
from tests.dataplane.test_live import numbers, received
from tidewire.dataplane.kernel import KernelEngine
from tidewire.model.ids import Conn

COUNT = 2000


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for one in (ours, theirs):
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        yield ours, theirs


def behind(ours: socket.socket) -> KernelEngine:
    """Bob lacks all that Ann has published."""
    engine = KernelEngine(budget_ns=0)

    def begun() -> KernelEngine:
        engine.own_tree(OWN)
        for conn in (ANN, BOB):
            engine.open(conn, is_link=False, when_full="wait", queue_bytes_max=1 << 20)
        return engine

    host = Host(begun, [PUBEND, SECOND])
    engine.may_publish(ANN, publisher=PUBLISHER, next_sequence=1)
    host.receive(ANN, b"".join(guarantee(n, sequence=n, body=bytes(500)) for n in range(1, COUNT + 1)))
    host.commit()
    engine.attach(BOB, ours.fileno())
    follow(engine, BOB, 4, PUBEND, FIRST, sound=0)
    engine.catch_up(1, BOB, 4, PUBEND)
    return engine


def filled(engine: KernelEngine, epoll: select.epoll) -> list[Conn]:
    """Serve until nobody takes anything any more: who is said to have a full socket?"""
    stalled: list[Conn] = []
    while engine.is_serving:
        others, told = engine.wait(epoll.fileno(), timeout_ms=0)
        assert others == []
        stalled += [] if told is None else told[1].stalled
    return stalled


def test_who_waits_for_a_full_socket_hears_of_it_once_and_again_when_nobody_is_behind(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    engine, got = behind(ours), b""
    with closing(select.epoll()) as epoll:
        epoll.register(ours.fileno(), select.EPOLLIN)
        assert filled(engine, epoll) == [BOB]
        epoll.modify(ours.fileno(), select.EPOLLIN | select.EPOLLOUT)
        others: list[tuple[int, int]] = []
        turns = 0
        while not others:
            got += received(theirs)
            others, told = engine.wait(epoll.fileno(), timeout_ms=0)
            assert told is None or told[1].stalled == []
            turns += 1
            assert turns < COUNT
        assert others == [(ours.fileno(), select.EPOLLOUT)], "all has been told: who waits need not any more"
        assert engine.flush(BOB) is None
    got += received(theirs)
    assert numbers(got) == list(range(1, COUNT + 1))


def test_little_waits_for_a_socket_that_is_full(sockets: tuple[socket.socket, socket.socket]) -> None:
    """So that writing it, when there is room, takes no longer than any other turn."""
    engine = behind(sockets[0])
    with closing(select.epoll()) as epoll:
        epoll.register(sockets[0].fileno(), select.EPOLLIN)
        filled(engine, epoll)
    assert 32 << 10 < engine.totals().queued_bytes < 128 << 10
    assert not engine.is_serving
