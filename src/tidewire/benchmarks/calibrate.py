"""What does a live broker's CPU take, in the terms of the simulator's model (``simulator/costs.py``)?

A real machine with the kernel's engine serves real sockets, without a loop around it: what is read and written is most
of what a broker takes, so bytes that go through no socket would say too little. Runs that differ in the events per
read, in how many subscribers get them and in the size of the index are fitted by a linear model, each run with the
same relative weight. Waiting (epoll) and scheduling are not in it, nor is what the clients take.
"""

from __future__ import annotations

import socket
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import log2
from random import Random
from time import thread_time
from typing import Final

import msgspec

from tidewire._kernel.codec import encode
from tidewire.benchmarks.measure import machine
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import BrokerCore
from tidewire.broker.node import BrokerNode
from tidewire.dataplane.kernel import KernelEngine
from tidewire.language import compile_filter
from tidewire.model.events import make_event
from tidewire.model.filters import encode_filter
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import ANYTHING, VERSION, Advertise, Hello, Message, Ping, Subscribe, Unsubscribe
from tidewire.simulator.costs import Measured
from tidewire.wire.connections import Opened
from tidewire.wire.frames import message_frame, publish_frame

EVENT_BYTES: Final = 200
SYMBOLS: Final = 10_000
_NOW: Final = Nanoseconds(1_700_000_000_000_000_000)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are made."""

    events_per_read: Sequence[int] = (1, 4, 16, 64)
    subscribers: Sequence[int] = (0, 1, 4, 16)
    filters: Sequence[int] = (0, 1_000, 10_000, 100_000)
    publishers: int = 32
    """Reads that are measured together."""
    rounds: int = 40

    def shortened(self) -> Plan:
        """To look at, not to cite."""
        return msgspec.structs.replace(self, events_per_read=(1, 16), subscribers=(0, 2), filters=(0, 1_000), rounds=5)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One read, as the median of many like it."""

    events: int
    subscribers: int
    filters: int
    us: float
    fitted_us: float = 0.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The constants, in ns, beside those that the simulator has."""

    benchmark: str
    machine: str
    measured: dict[str, float]
    in_simulator: dict[str, float]
    messages_us: dict[str, float]
    """What the machine takes for one, by its kind."""
    runs: list[Run]
    error: float
    """By how much, in the middle, the model is wrong about a run: 0.1 is a tenth."""


class Rig:
    """A broker's machine and engine, and the clients' ends of its sockets."""

    def __init__(self, stack: ExitStack, *, publishers: int, subscribers: int, filters: int) -> None:
        self._stack = stack
        config = BrokerConfig(broker=BrokerId("A"), role="both", slow_subscriber="drop")
        self.engine = KernelEngine()
        self.node = BrokerNode(BrokerCore(config, incarnation=1, chance=Random(1)), self.engine)
        self._theirs: list[socket.socket] = []
        self._publishers = [self._client() for _ in range(publishers)]
        for conn in self._publishers:
            self.say(conn, Advertise(1, [1], [ANYTHING], 1))
        for _ in range(subscribers):
            wanted = encode_filter(compile_filter("class = 'STOCK' and price > 0"))
            self.say(self._client(), Subscribe(1, [1], [wanted]))
        if filters:
            self.engine.add_routes(self._client(), list(range(filters)), selective(filters), None)

    def _client(self) -> Conn:
        ours, theirs = socket.socketpair()
        conn = Conn(len(self._theirs))
        for one in (ours, theirs):
            self._stack.enter_context(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        self._theirs.append(theirs)
        self.node.handle(Opened(conn), now_ns=_NOW)
        self.engine.attach(conn, ours.fileno())
        hello = Hello(version=VERSION, name="client", uses=["publish", "subscribe"], publisher=conn + 1)
        self.say(conn, hello)
        return conn

    def say(self, conn: Conn, message: Message) -> None:
        """A client says something, and what it is told is thrown away."""
        self._theirs[conn].sendall(message_frame(message))
        self.serve(conn)
        self._throw_away()

    def serve(self, conn: Conn) -> None:
        """As ``live/broker.py`` does when a socket can be read."""
        received = self.engine.pump(conn, now_ns=_NOW)
        if received is not None:
            self.node.took(conn, received, now_ns=_NOW)
        ready, self.node.ready = self.node.ready, {}
        for one in ready:
            self.engine.flush(one)

    def cpu_s(self, data: bytes) -> float:
        """CPU time per read, if every publisher has sent this."""
        for conn in self._publishers:
            self._theirs[conn].sendall(data)
        start_s = thread_time()
        for conn in self._publishers:
            self.serve(conn)
        spent_s = thread_time() - start_s
        self._throw_away()
        return spent_s / len(self._publishers)

    def _throw_away(self) -> None:
        scratch = bytearray(1 << 20)
        for theirs in self._theirs:
            try:
                while theirs.recv_into(scratch):
                    pass
            except BlockingIOError:
                pass


def selective(count: int) -> list[bytes]:
    """Filters that no event matches, each under one of many symbols, as events are."""
    like = encode_filter(compile_filter("symbol = 'S00000' and price > 1000000"))
    return [like.replace(b"S00000", b"S%05d" % (i % SYMBOLS)) for i in range(count)]


def events(count: int, chance: Random) -> bytes:
    """So many events of about 200 bytes, in their frames."""
    frames = []
    for _ in range(count):
        attributes = {"class": "STOCK", "symbol": f"S{chance.randrange(SYMBOLS):05d}", "price": chance.uniform(1, 99)}
        bare = len(encode(make_event(attributes, body=b"")))
        frames.append(publish_frame(encode(make_event(attributes, body=bytes(EVENT_BYTES - bare))), born_ns=0))
    return b"".join(frames)


@contextmanager
def _rig(plan: Plan, *, subscribers: int, filters: int) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(stack, publishers=plan.publishers, subscribers=subscribers, filters=filters)


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """Measure, and fit."""
    shapes = [(subscribers, 0) for subscribers in plan.subscribers]
    shapes += [(plan.subscribers[1], filters) for filters in plan.filters if filters]
    runs: list[Run] = []
    for step, (subscribers, filters) in enumerate(shapes):
        tell("reads with events", step, len(shapes))
        with _rig(plan, subscribers=subscribers, filters=filters) as rig:
            runs += [_measured(rig, plan, count, subscribers, filters) for count in plan.events_per_read]
    tell("messages")
    messages_us = _messages_us(plan)
    found = fit(runs)
    found["message_ns"] = statistics.fmean(messages_us.values()) * 1e3 - found["call_ns"]
    fitted = [msgspec.structs.replace(one, fitted_us=_predicted_us(one, found)) for one in runs]
    return Report(
        benchmark="calibrate",
        machine=machine(),
        measured={name: round(value, 1) for name, value in found.items()},
        in_simulator=msgspec.structs.asdict(Measured()),
        messages_us=messages_us,
        runs=fitted,
        error=statistics.median(abs(one.fitted_us - one.us) / one.us for one in fitted),
    )


def _measured(rig: Rig, plan: Plan, count: int, subscribers: int, filters: int) -> Run:
    chance = Random(f"calibrate/{count}/{subscribers}/{filters}")
    data = [events(count, chance) for _ in range(8)]
    before = rig.engine.work()
    spent = [rig.cpu_s(data[at % len(data)]) for at in range(plan.rounds + 2)][2:]
    after, reads = rig.engine.work(), (plan.rounds + 2) * plan.publishers
    assert after.events - before.events == count * reads
    assert after.deliveries - before.deliveries == count * reads * subscribers
    return Run(events=count, subscribers=subscribers, filters=filters, us=statistics.median(spent) * 1e6)


def _messages_us(plan: Plan) -> dict[str, float]:
    """CPU time of a read with one message, by kind."""
    wanted = encode_filter(compile_filter("class = 'STOCK' and price > 10"))
    kinds: dict[str, Message] = {
        "ping": Ping(1),
        "subscribe": Subscribe(1, [7], [wanted]),
        "unsubscribe": Unsubscribe(2, [7]),
    }
    spent: dict[str, list[float]] = {kind: [] for kind in kinds}
    with _rig(plan, subscribers=1, filters=0) as rig:
        for _ in range(plan.rounds):
            for kind, message in kinds.items():
                spent[kind].append(rig.cpu_s(message_frame(message)) * 1e6)
    return {kind: statistics.median(times) for kind, times in spent.items()}


def _terms(one: Run) -> dict[str, float]:
    """How often each constant counts in a run."""
    return {
        "call_ns": 1.0,
        "event_ns": one.events,
        "copy_ns": one.events * one.subscribers,
        "write_ns": one.subscribers,
        "doubling_ns": one.events * log2(1 + one.subscribers + one.filters),
    }


def fit(runs: Sequence[Run]) -> dict[str, float]:
    """The constants that fit these best; none is negative, and a run counts by its relative error."""
    import numpy as np

    names = list(_terms(runs[0]))
    rows = np.array([[times / one.us for times in _terms(one).values()] for one in runs])
    kept = list(range(len(names)))
    while True:
        found, *_ = np.linalg.lstsq(rows[:, kept], np.full(len(runs), 1000.0), rcond=None)
        if found.min() >= 0:
            break
        del kept[int(found.argmin())]
    return dict.fromkeys(names, 0.0) | {names[at]: float(value) for at, value in zip(kept, found, strict=True)}


def _predicted_us(one: Run, constants: dict[str, float]) -> float:
    return sum(constants[name] * times for name, times in _terms(one).items()) / 1000
