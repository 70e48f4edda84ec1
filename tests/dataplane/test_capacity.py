"""Capacity: an engine uses no more than it may, and nothing is lost. A machine that is slow only makes it less."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.dataplane.world import NOW, frames, publish
from tidewire.dataplane.kernel import KernelEngine
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, TreeId
from tidewire.model.messages import Flush
from tidewire.wire.frames import MESSAGE, message_frame

ANN, BOB = Conn(0), Conn(1)
EVENTS = 4096
SAVED_S = 0.05
"""Of its rate an engine may have saved so much."""


def engine() -> KernelEngine:
    """Ann publishes, Bob wants everything."""
    made = KernelEngine(budget_ns=0)
    made.own_tree(TreeId(1))
    for conn in (ANN, BOB):
        made.open(conn, is_link=False, when_full="wait", queue_bytes_max=64 << 20)
    made.may_publish(ANN, publisher=1, next_sequence=1)
    made.add_routes(BOB, [1], [encode_filter(ALL)], None)
    return made


def bring(made: KernelEngine, *, until: Callable[[], bool] = lambda: False) -> tuple[float, int]:
    """Ann brings many events, and goes on as soon as she may; how long it took, and how often she had to wait."""
    begin, rests = time.monotonic(), 0
    state = made.receive(ANN, b"".join(publish(n) for n in range(EVENTS)), now_ns=NOW).state
    while state != "idle" and not until():
        assert state == "blocked"
        rest_ns = made.rest_ns()
        assert rest_ns is not None
        time.sleep(rest_ns / 1e9)
        rests += 1
        while ANN not in made.unblocked():
            rest_ns = made.rest_ns()
            assert rest_ns
            time.sleep(rest_ns / 1e9)
        state = made.resume(ANN, now_ns=NOW).state
    return time.monotonic() - begin, rests


def delivered(made: KernelEngine) -> int:
    data = b"".join(iter(lambda: made.output(BOB, bytes_max=1 << 20), b""))
    return sum(kind != MESSAGE for kind, _ in frames(data))


def test_no_more_bytes_go_out_than_may() -> None:
    """peer §3.1: O_r is relative to what the broker has, so it has no more. Whoever brings too much waits."""
    made = engine()
    rate = 1e6
    made.limit_to(output_bytes_s=rate)
    took_s, rests = bring(made)
    last_batch = 256 * made.totals().bytes_out / EVENTS
    assert rests > 1
    assert made.totals().bytes_out <= rate * (took_s + SAVED_S) + last_batch
    assert made.rest_ns() is None
    assert delivered(made) == EVENTS


def test_no_more_cpu_is_used_than_may() -> None:
    """peer §3.1: I_r and d_m are relative to a share of a core."""
    made = engine()
    share = 0.01
    made.limit_to(cpu_share=share)
    took_s, rests = bring(made)
    busy_s = made.work().busy_ns / 1e9
    assert rests >= 1
    assert took_s >= (busy_s / 2) / share - SAVED_S  # of two batches the last is not paid for
    assert delivered(made) == EVENTS


@pytest.mark.parametrize("limits", [{"cpu_share": 1e-6}, {"output_bytes_s": 1.0}])
def test_messages_never_wait(limits: dict[str, float]) -> None:
    """peer PIE6: control goes on while events wait."""
    made = engine()
    made.limit_to(**limits)
    assert made.receive(ANN, b"".join(publish(n) for n in range(EVENTS)), now_ns=NOW).state == "blocked"
    said = made.receive(BOB, message_frame(Flush(7)), now_ns=NOW)
    assert said.state == "busy"
    assert said.message is not None
    assert ANN not in made.unblocked()


def test_messages_use_up_nothing_of_what_there_is_for_events() -> None:
    """peer §3.1: load is made of events. Clients that come by the thousand must not stop those of others."""
    made = engine()
    made.limit_to(cpu_share=1e-6)
    for number in range(1000):
        received = made.receive(BOB, message_frame(Flush(number + 1)), now_ns=NOW)
        assert received.message is not None
        assert made.resume(BOB, now_ns=NOW).state == "idle"
    assert made.work().busy_ns == 0
    assert made.receive(ANN, publish(0), now_ns=NOW).state == "idle"
    assert made.work().busy_ns > 0


def test_one_that_goes_no_longer_waits() -> None:
    made = engine()
    made.limit_to(output_bytes_s=1.0)
    assert made.receive(ANN, b"".join(publish(n) for n in range(EVENTS)), now_ns=NOW).state == "blocked"
    made.close(ANN)
    assert made.rest_ns() is None
    assert made.unblocked() == []


def test_without_a_limit_nobody_waits() -> None:
    made = engine()
    assert made.receive(ANN, b"".join(publish(n) for n in range(EVENTS)), now_ns=NOW).state == "idle"
    assert made.rest_ns() is None
