"""`tidewire bench slow`: what does one subscriber that does not read cost the others?"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import msgspec

from tidewire.benchmarks.beside import SUBJECT, Flow, flow_of, more, running
from tidewire.benchmarks.dialects import Tidewire, play
from tidewire.benchmarks.load import Loaded
from tidewire.benchmarks.measure import PAIRS_MIN, Ratio, machine
from tidewire.benchmarks.peers import Broker
from tidewire.benchmarks.progress import Tell, tell_nobody

QUEUE_BOUND_MB: Final = 8.0
"""What a broker keeps for a subscriber, by default, and as much again for the queue to grow in."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """For how long somebody does not read, in how many turns."""

    seconds: float = 60.0
    turns: int = 10
    rate: float = 20_000.0
    subscribers: int = 10

    def shortened(self) -> Plan:
        """The same in five seconds."""
        return msgspec.structs.replace(self, seconds=5.0, turns=PAIRS_MIN)


class Figures(Flow, frozen=True, kw_only=True):
    """Those who read."""

    rss_mb: float


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
        alone, beside = (stack.enter_context(running(Broker(slow_subscriber="drop"))) for _ in range(2))
        stack.enter_context(_silent_subscriber(beside.port))
        turn_s = plan.seconds / plan.turns
        found: dict[bool, list[Loaded]] = {False: [], True: []}
        memory = {False: 0, True: 0}
        for turn in range(-1, plan.turns):
            tell("one does not read", turn + 1, plan.turns)
            for is_slow in (False, True) if turn % 2 else (True, False):
                node, seconds = beside if is_slow else alone, turn_s if turn >= 0 else 0.5
                loaded = node.flow(rate=plan.rate, seconds=seconds, subscribers=plan.subscribers)
                memory[is_slow] = max(memory[is_slow], node.server.rss_bytes())
                if turn >= 0:
                    found[is_slow].append(loaded)

    ratios = more(found[False], found[True])
    return Report(
        benchmark="slow",
        machine=machine(),
        seconds=plan.seconds,
        turns=plan.turns,
        rate=plan.rate,
        subscribers=plan.subscribers,
        alone=_figures(found[False], memory[False], plan),
        beside_slow=_figures(found[True], memory[True], plan),
        cpu=ratios.cpu,
        delay_p50=ratios.delay_p50,
        delay_p99=ratios.delay_p99,
        memory_grown_mb=(memory[True] - memory[False]) / 2**20,
        memory_bound_mb=2 * QUEUE_BOUND_MB,
    )


def _figures(turns: list[Loaded], memory: int, plan: Plan) -> Figures:
    flow = flow_of(turns, subscribers=plan.subscribers)
    return Figures(
        cpu_us_per_event=flow.cpu_us_per_event, delay_us=flow.delay_us, rss_mb=memory / 2**20, lost=flow.lost
    )


@contextlib.contextmanager
def _silent_subscriber(port: int) -> Iterator[None]:
    """Subscribes to everything that the others get, and never reads again."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(10)
        play(connection, Tidewire().subscriber(SUBJECT))
        yield
