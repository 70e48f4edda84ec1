"""Deadlines on sockets: what has to wait is put in order, what leaves at once is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic_ns

import pytest

from tests.dataplane.test_live import ANN, BOB, EVE, Live, numbers
from tests.dataplane.world import frames, publish
from tidewire._kernel.codec import decode
from tidewire.model.ids import Nanoseconds
from tidewire.wire.frames import decode_delivered

S = 10**9
LONG = 10**6


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the sockets."""
    with ExitStack() as opened:
        yield opened


class Hurried(Live):
    """Ann and Eve publish; Bob does not read until he is asked to."""

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(stack)
        self.engine.may_publish(EVE, publisher=2, next_sequence=1)
        self.engine.remove_routes(EVE, [1], None)
        for conn in (ANN, EVE):
            self.engine.set_clock(conn, offset_ns=0, error_us=0)

    def publish(self, conn: int, n: int, *, ttl_ns: int | None, born_ns: int | None = None) -> bool:
        """Is Bob's socket full by now?"""
        born = monotonic_ns() if born_ns is None else born_ns
        self.theirs[conn].send(publish(n, body=bytes(1000), born_ns=born, ttl_ns=ttl_ns))
        now_ns = Nanoseconds(monotonic_ns())
        said = self.engine.pump((ANN, BOB, EVE)[conn], now_ns=now_ns)
        return said is not None and BOB in said.stalled

    def all_for_bob(self) -> bytes:
        """Until nothing waits."""
        found = self.read(BOB)
        while self.engine.traffic(BOB).queued_bytes:
            self.engine.flush(BOB)
            found += self.read(BOB)
        return found


def test_a_full_socket_is_served_by_deadlines_when_it_can_be_written(stack: ExitStack) -> None:
    live = Hurried(stack)
    n = 0
    while not live.publish(ANN, n, ttl_ns=LONG * S):
        n += 1
    for _ in range(50):
        n += 1
        live.publish(ANN, n, ttl_ns=LONG * S)
    live.publish(EVE, LONG, ttl_ns=S * 100)
    came = numbers(live.all_for_bob())
    assert [one for one in came if one != LONG] == list(range(n + 1))
    assert 50 <= len(came) - came.index(LONG) <= 53, "it has overtaken all but what was begun"


def test_what_leaves_at_once_goes_as_it_came(stack: ExitStack) -> None:
    live = Hurried(stack)
    live.theirs[ANN].send(publish(1, ttl_ns=LONG * S, born_ns=monotonic_ns()) + publish(2))
    live.engine.pump(ANN, now_ns=Nanoseconds(monotonic_ns()))
    live.publish(EVE, 3, ttl_ns=S)
    assert numbers(live.read(BOB)) == [1, 2, 3]


def test_what_is_late_is_not_sent_when_the_socket_can_be_written(stack: ExitStack) -> None:
    live = Hurried(stack)
    n = 0
    while not live.publish(ANN, n, ttl_ns=None):
        n += 1
    live.publish(EVE, LONG, ttl_ns=S * 100)
    live.publish(EVE, LONG + 1, ttl_ns=20_000_000)
    until = monotonic_ns() + 21_000_000
    while monotonic_ns() < until:
        pass
    came = numbers(live.all_for_bob())
    assert LONG in came
    assert LONG + 1 not in came
    assert live.engine.traffic(BOB).expired == 1


def test_a_queue_that_has_run_empty_is_a_plain_one_again(stack: ExitStack) -> None:
    live = Hurried(stack)
    n = 0
    while not live.publish(ANN, n, ttl_ns=LONG * S):
        n += 1
    live.all_for_bob()
    live.publish(ANN, n + 1, ttl_ns=None)
    ((_, payload),) = frames(live.read(BOB))
    assert decode(decode_delivered(payload).event)["n"] == n + 1
    assert live.engine.traffic(BOB).queued_bytes == 0
