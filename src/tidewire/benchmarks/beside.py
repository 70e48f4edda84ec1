"""Two brokers take turns with the same paced flow; one has something besides. What do those who use it notice?"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from tidewire.benchmarks.load import Delays, Loaded, Traffic, median_delays, run_load
from tidewire.benchmarks.measure import Ratio, median_interval
from tidewire.benchmarks.peers import Broker
from tidewire.benchmarks.processes import free_port

SUBJECT: Final = "bench.flow"


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A paced flow at one of them: medians over the turns."""

    cpu_us_per_event: float
    """Of the broker, with what the rest costs at the same time."""

    delay_us: Delays
    lost: int


class More(msgspec.Struct, frozen=True, kw_only=True):
    """How many times more it is beside the rest, turn by turn."""

    cpu: Ratio
    delay_p50: Ratio
    delay_p99: Ratio


class Node:
    """A broker that runs."""

    def __init__(self, server: Broker, port: int) -> None:
        self.server, self.port = server, port

    def flow(self, *, rate: float, seconds: float, subscribers: int) -> Loaded:
        """So many events a second, for so long, to so many."""
        traffic = Traffic(events=max(1, round(rate * seconds)), subscribers=subscribers, rate=rate)
        cpu_s = self.server.cpu_s
        return run_load(self.server.dialect, traffic, port=self.port, subject=SUBJECT, server_cpu_s=cpu_s)


@contextlib.contextmanager
def running(server: Broker) -> Iterator[Node]:
    """The broker, at a port of its own."""
    port = free_port()
    server.start(port)
    try:
        yield Node(server, port)
    finally:
        server.stop()


def flow_of(turns: Sequence[Loaded], *, subscribers: int) -> Flow:
    """What one of the two did in its turns."""
    return Flow(
        cpu_us_per_event=statistics.median(one.server_us_per_delivery for one in turns) * subscribers,
        delay_us=median_delays(turns),
        lost=sum(one.lost for one in turns),
    )


def more(alone: Sequence[Loaded], beside: Sequence[Loaded]) -> More:
    """The second over the first."""

    def ratio(of: Callable[[Loaded], float]) -> Ratio:
        return median_interval([of(b) / max(of(a), 1e-9) for a, b in zip(alone, beside, strict=True)])

    return More(
        cpu=ratio(lambda one: one.server_us_per_delivery),
        delay_p50=ratio(lambda one: one.delay_us.p50),
        delay_p99=ratio(lambda one: one.delay_us.p99),
    )
