"""What deadlines take per event: of ten publishers into the queue of a subscriber, and out of it when 2,000 wait.

    python -m tidewire.benchmarks.deadlines

Beside a queue in which nothing has a deadline, which stays as it came: one event in a hundred has one, or each.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from typing import Final

from tidewire._kernel.codec import encode
from tidewire.benchmarks.measure import Contender, Ratio, ratio, take_turns
from tidewire.dataplane.kernel import KernelEngine
from tidewire.model.events import Envelope, make_event
from tidewire.model.filters import ALL, encode_filter
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.wire.frames import publish_frame

PUBLISHERS: Final = 10
WAITING: Final = 2_000
SHARES: Final = {"none": 0.0, "few": 0.01, "all": 1.0}
_SUBSCRIBER: Final = Conn(PUBLISHERS)


def _broker() -> KernelEngine:
    engine = KernelEngine(budget_ns=0)
    engine.own_tree(TreeId(1))
    for i in range(PUBLISHERS):
        engine.open(Conn(i), is_link=False, when_full="wait")
        engine.set_clock(Conn(i), offset_ns=0, error_us=0)
        engine.may_publish(Conn(i), publisher=1 + i, next_sequence=1)
    engine.open(_SUBSCRIBER, is_link=False, when_full="wait", queue_bytes_max=64 << 20)
    engine.add_routes(_SUBSCRIBER, [1], [encode_filter(ALL)], None)
    return engine


def _published(share: float, *, seed: int = 1) -> list[bytes]:
    """What each publisher says: events of about 200 bytes, of which so many have a deadline."""
    chance = random.Random(seed)
    said = [bytearray() for _ in range(PUBLISHERS)]
    for i in range(WAITING):
        ttl_ns = chance.randrange(1, 10**9) if chance.random() < share else None
        event = make_event({"n": i, "class": "READING"}, body=bytes(130), envelope=Envelope(ttl_ns=ttl_ns))
        said[i % PUBLISHERS] += publish_frame(encode(event), born_ns=0)
    return [bytes(one) for one in said]


def _call(share: float) -> Callable[[], None]:
    engine, said = _broker(), _published(share)

    def run() -> None:
        for i, data in enumerate(said):
            engine.receive(Conn(i), data, now_ns=Nanoseconds(0))
        while engine.output(_SUBSCRIBER, bytes_max=16 << 10, now_ns=Nanoseconds(0)):
            pass

    run()
    assert engine.work().deliveries == WAITING
    return run


def measure_deadlines(turn_s: float, *, pairs: int = 10) -> dict[str, Ratio]:
    """How many times more events a queue without deadlines takes in the same time; by the share that has one."""
    contenders = {name: Contender(name, [_call(share)], events_per_call=WAITING) for name, share in SHARES.items()}
    take_turns(list(contenders.values()), pairs=pairs, turn_s=turn_s)
    plain = contenders["none"]
    return {f"deadlines.{name}": ratio(one, plain) for name, one in contenders.items() if name != "none"}


def main(arguments: list[str] | None = None) -> int:
    """Print what an event takes, relative to one in a queue without deadlines."""
    parser = argparse.ArgumentParser(
        prog="python -m tidewire.benchmarks.deadlines", description="CPU time of queues with deadlines."
    )
    parser.add_argument("--turn-s", type=float, default=0.2, help="how long each one measures at a time")
    parser.add_argument("--pairs", type=int, default=10)
    chosen = parser.parse_args(arguments)
    for name, found in measure_deadlines(chosen.turn_s, pairs=chosen.pairs).items():
        sys.stdout.write(f"{name:<16} {found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
