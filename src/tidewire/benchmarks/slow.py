"""`tidewire bench slow`: what does one subscriber that does not read cost the others?"""

from __future__ import annotations

import contextlib
import platform
import socket
import statistics
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tidewire.benchmarks.dialects import Tidewire, play
from tidewire.benchmarks.load import Delays, Loaded, Traffic, run_load
from tidewire.benchmarks.measure import PAIRS_MIN, Ratio, median_interval
from tidewire.benchmarks.peers import Broker
from tidewire.benchmarks.processes import free_port
from tidewire.benchmarks.progress import Tell, tell_nobody

QUEUE_BOUND_MB: Final = 8.0
"""What a broker keeps for a subscriber, by default, and as much again for the queue to grow in."""
_SUBJECT: Final = "bench.slow"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """For how long somebody does not read, in how many turns."""

    seconds: float = 60.0
    turns: int = 10
    rate: float = 20_000.0
    subscribers: int = 10

    def shortened(self) -> Plan:
        """The same in five seconds."""
        return msgspec.structs.replace(self, seconds=5.0, turns=PAIRS_MIN)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Those who read: medians over the turns."""

    cpu_us_per_event: float
    delay_us: Delays
    rss_mb: float
    lost: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """With and without somebody who does not read; the ratios say how many times more it is with."""

    benchmark: str
    machine: str
    seconds: float
    turns: int
    rate: float
    subscribers: int
    alone: Figures
    beside_slow: Figures
    cpu: Ratio
    delay_p50: Ratio
    delay_p99: Ratio
    memory_grown_mb: float
    memory_bound_mb: float


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """Two brokers take turns with the same load; one has a subscriber that never reads."""
    with contextlib.ExitStack() as stack:
        alone, beside = (stack.enter_context(_running()) for _ in range(2))
        stack.enter_context(_silent_subscriber(beside[1]))
        turn_s = plan.seconds / plan.turns
        found: dict[bool, list[Loaded]] = {False: [], True: []}
        memory = {False: 0, True: 0}
        for turn in range(-1, plan.turns):
            tell("one does not read", turn + 1, plan.turns)
            for is_slow in (False, True) if turn % 2 else (True, False):
                server, port = beside if is_slow else alone
                loaded = _load(plan, server, port, turn_s if turn >= 0 else 0.5)
                memory[is_slow] = max(memory[is_slow], server.rss_bytes())
                if turn >= 0:
                    found[is_slow].append(loaded)

    def ratio(of: Callable[[Loaded], float]) -> Ratio:
        return median_interval([of(b) / max(of(a), 1e-9) for a, b in zip(found[False], found[True], strict=True)])

    return Report(
        benchmark="slow",
        machine=f"{platform.machine()}, Python {platform.python_version()}",
        seconds=plan.seconds,
        turns=plan.turns,
        rate=plan.rate,
        subscribers=plan.subscribers,
        alone=_figures(found[False], memory[False], plan),
        beside_slow=_figures(found[True], memory[True], plan),
        cpu=ratio(lambda one: one.server_us_per_delivery),
        delay_p50=ratio(lambda one: one.delay_us.p50),
        delay_p99=ratio(lambda one: one.delay_us.p99),
        memory_grown_mb=(memory[True] - memory[False]) / 2**20,
        memory_bound_mb=2 * QUEUE_BOUND_MB,
    )


def _load(plan: Plan, server: Broker, port: int, turn_s: float) -> Loaded:
    events = max(1, round(plan.rate * turn_s))
    traffic = Traffic(events=events, subscribers=plan.subscribers, rate=plan.rate)
    return run_load(server.dialect, traffic, port=port, subject=_SUBJECT, server_cpu_s=server.cpu_s)


def _figures(turns: list[Loaded], memory: int, plan: Plan) -> Figures:
    def median(of: Callable[[Loaded], float]) -> float:
        return statistics.median(of(one) for one in turns)

    return Figures(
        cpu_us_per_event=median(lambda one: one.server_us_per_delivery) * plan.subscribers,
        delay_us=Delays(
            p50=median(lambda one: one.delay_us.p50),
            p99=median(lambda one: one.delay_us.p99),
            p999=median(lambda one: one.delay_us.p999),
            max=max(one.delay_us.max for one in turns),
        ),
        rss_mb=memory / 2**20,
        lost=sum(one.lost for one in turns),
    )


@contextlib.contextmanager
def _running() -> Iterator[tuple[Broker, int]]:
    server, port = Broker(slow_subscriber="drop"), free_port()
    server.start(port)
    try:
        yield server, port
    finally:
        server.stop()


@contextlib.contextmanager
def _silent_subscriber(port: int) -> Iterator[None]:
    """Subscribes to everything that the others get, and never reads again."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(10)
        play(connection, Tidewire().subscriber(_SUBJECT))
        yield
