"""What the data plane takes per event: bytes of a publisher in, frames in the queues of its subscribers.

    python -m tidewire.benchmarks.plane            what the kernel takes; sockets come on top
    python -m tidewire.benchmarks.plane --sockets  through socket pairs, with what the system takes

Events of 200 bytes, one filter per subscriber, 64 KiB per call.
"""

from __future__ import annotations

import argparse
import random
import socket
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import thread_time
from typing import Final

from tidewire._kernel.codec import encode
from tidewire.benchmarks.measure import Contender, Ratio, ratio, take_turns
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import Engine
from tidewire.dataplane.reference import ReferenceEngine
from tidewire.language import compile_filter
from tidewire.model.events import make_event
from tidewire.model.filters import encode_filter
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.wire.frames import publish_frame

EVENT_BYTES: Final = 200
BATCH_BYTES: Final = 64 << 10
PUBLISHER: Final = Conn(0)
_SYMBOLS: Final = ("AAPL", "MSFT", "ORCL", "IBM", "INTC", "CSCO", "HPQ", "DELL", "AMZN", "EBAY")


def published(count: int, *, seed: int = 1) -> list[bytes]:
    """Frames with quotes of about 200 bytes each."""
    chance = random.Random(seed)
    frames = []
    for _ in range(count):
        price = round(chance.uniform(10, 90), 2)
        attributes = {
            "class": "STOCK",
            "symbol": chance.choice(_SYMBOLS),
            "open": price,
            "close": round(price * chance.uniform(0.95, 1.05), 2),
            "volume": chance.randrange(1000, 10_000_000),
        }
        bare = len(encode(make_event(attributes, body=b"")))
        frames.append(publish_frame(encode(make_event(attributes, body=bytes(EVENT_BYTES - bare))), born_ns=0))
    return frames


def batches(frames: list[bytes]) -> list[bytes]:
    """The same bytes, cut as reads cut them."""
    stream = b"".join(frames)
    return [stream[at : at + BATCH_BYTES] for at in range(0, len(stream), BATCH_BYTES)]


def broker(engine: Engine, subscribers: int) -> Engine:
    """One publisher, and so many subscribers that want all of it, each by a filter of its own."""
    engine.own_tree(TreeId(1))
    engine.open(PUBLISHER, is_link=False, when_full="wait")
    engine.may_publish(PUBLISHER, publisher=1, next_sequence=1)
    for i in range(1, subscribers + 1):
        engine.open(Conn(i), is_link=False, when_full="wait", queue_bytes_max=64 << 20)
        wanted = compile_filter(f"class = 'STOCK' and close > {i / (subscribers + 1):.3f}")
        engine.add_routes(Conn(i), [1], [encode_filter(wanted)], None)
    return engine


def queued_ns(subscribers: int, *, events: int = 20_000, rounds: int = 15) -> float:
    """CPU time per event from the publisher's bytes to the subscribers' queues; what is in these is thrown away."""
    engine = broker(KernelEngine(), subscribers)
    data = batches(published(events))
    spent = []
    for _ in range(rounds):
        total = 0.0
        for batch in data:
            start = thread_time()
            state = engine.receive(PUBLISHER, batch, now_ns=Nanoseconds(0)).state
            while state == "busy":
                state = engine.resume(PUBLISHER, now_ns=Nanoseconds(0)).state
            total += thread_time() - start
            assert state == "idle"
            for i in range(1, subscribers + 1):
                engine.output(Conn(i), bytes_max=1 << 30)
        spent.append(total * 1e9 / events)
    assert engine.work().deliveries == events * subscribers * rounds
    return statistics.median(spent)


@contextmanager
def _pairs(count: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with ExitStack() as stack:
        made = [socket.socketpair() for _ in range(count)]
        for ours, theirs in made:
            stack.enter_context(ours)
            stack.enter_context(theirs)
            for one in (ours, theirs):
                one.setblocking(False)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        yield made


def pumped_ns(subscribers: int, *, events: int = 20_000, rounds: int = 7) -> float:
    """The same through sockets, in the broker's calls alone: its reads and writes, not those of the clients."""
    engine = KernelEngine()
    broker(engine, subscribers)
    data = batches(published(events))
    scratch = bytearray(1 << 20)
    spent = []
    with _pairs(subscribers + 1) as sockets:
        for i, (ours, _) in enumerate(sockets):
            engine.attach(Conn(i), ours.fileno())
        sent = 0
        for _ in range(rounds):
            total = 0.0
            for batch in data:
                sockets[0][1].sendall(batch)
                sent += len(batch)
                start = thread_time()
                _pump_all(engine, sent)
                total += thread_time() - start
                for i, (_, theirs) in enumerate(sockets[1:], start=1):
                    while theirs.recv_into(scratch) and engine.traffic(Conn(i)).queued_bytes:
                        engine.flush(Conn(i))
            spent.append(total * 1e9 / events)
    assert engine.work().deliveries == events * subscribers * rounds
    return statistics.median(spent)


def _pump_all(engine: KernelEngine, bytes_in: int) -> None:
    while engine.pump(PUBLISHER, now_ns=Nanoseconds(0)) is not None or engine.traffic(PUBLISHER).bytes_in < bytes_in:
        pass


def measure_plane(turn_s: float, *, subscribers: int = 10, pairs: int = 10) -> dict[str, Ratio]:
    """For the ledger: the kernel's engine beside the reference, one publisher and a few subscribers."""
    frames = published(500)

    def call(engine: Engine, data: bytes) -> Callable[[], None]:
        def run() -> None:
            state = engine.receive(PUBLISHER, data, now_ns=Nanoseconds(0)).state
            while state == "busy":
                state = engine.resume(PUBLISHER, now_ns=Nanoseconds(0)).state
            for i in range(1, subscribers + 1):
                engine.output(Conn(i), bytes_max=1 << 30)

        return run

    ours = Contender("kernel", [call(broker(KernelEngine(), subscribers), b"".join(frames))], events_per_call=500)
    few = [call(broker(ReferenceEngine(), subscribers), b"".join(frames[:10]))]
    theirs = Contender("reference", few, events_per_call=10)
    take_turns([ours, theirs], pairs=pairs, turn_s=turn_s)
    return {f"plane.fan_out_{subscribers}.reference": ratio(theirs, ours)}


def main(arguments: list[str] | None = None) -> int:
    """Print ns per event and per delivery."""
    parser = argparse.ArgumentParser(prog="python -m tidewire.benchmarks.plane", description="CPU time of the plane.")
    parser.add_argument("--sockets", action="store_true", help="through socket pairs")
    parser.add_argument("--subscribers", type=int, nargs="*", default=[1, 100])
    chosen = parser.parse_args(arguments)
    for subscribers in chosen.subscribers:
        events = 20_000 if subscribers <= 10 else 4_000
        measure = pumped_ns if chosen.sockets else queued_ns
        ns = measure(subscribers, events=events)
        sys.stdout.write(f"1→{subscribers:<4} {ns:8.1f} ns per event {ns / subscribers:8.1f} ns per delivery\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
