"""What permissions cost in the engine alone: without sockets and TLS their share is largest, and the noise least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from tidewire.benchmarks.filter_dialects import Ours
from tidewire.benchmarks.measure import Contender, Ratio, Timing, ratio, take_turns
from tidewire.benchmarks.plane import PUBLISHER, batches
from tidewire.benchmarks.workloads import Workload
from tidewire.dataplane.kernel import KernelEngine
from tidewire.identity.grants import Grant, Permissions
from tidewire.model.ids import Conn, Nanoseconds, TreeId

PUBLISH: Final = "class = 'STOCK' and volume > 0 or class = 'QUAKE' and magnitude > 2 or class = 'NEWS'"
SUBSCRIBE: Final = "class = 'STOCK' and volume > {}"
"""Each has an identity of its own, with another bound."""

CASES: Final = ("none", "publish", "subscribe", "both")
_NOW: Final = Nanoseconds(1)
_QUEUE_BYTES: Final = 64 << 20


class Permits(msgspec.Struct, frozen=True, kw_only=True):
    """CPU per event in the engine: matching, grouping, queueing."""

    timings: dict[str, Timing]
    """With permissions to publish, to subscribe, both or none."""

    ratios: dict[str, Ratio]
    """Over none."""


def grants(who: int) -> Grant:
    """Of a subscriber. All events of the workload are within it."""
    return Grant(subscribe=SUBSCRIBE.format(who))


def measure_permits(work: Workload, *, subscribers: int, pairs: int, turn_s: float) -> Permits:
    """Engines with the same filters and other permissions take turns with the same events, and deliver the same."""
    reads = batches([Ours().message(event) for event in work.events])
    engines = {case: _engine(work, case, subscribers) for case in CASES}
    refuse_unequal(engines, reads, subscribers)
    contenders = {
        case: Contender(case, _calls(engine, reads, subscribers), events_per_call=len(work.events) / len(reads))
        for case, engine in engines.items()
    }
    take_turns(list(contenders.values()), pairs=pairs, turn_s=turn_s)
    none = contenders["none"]
    return Permits(
        timings={case: one.timing() for case, one in contenders.items()},
        ratios={case: ratio(one, none) for case, one in contenders.items() if one is not none},
    )


def _engine(work: Workload, case: str, subscribers: int) -> KernelEngine:
    engine = KernelEngine(seed=1)
    engine.own_tree(TreeId(1))
    engine.open(PUBLISHER, is_link=False, when_full="drop")
    engine.may_publish(PUBLISHER, publisher=1, next_sequence=1)
    if case in ("publish", "both"):
        engine.permit(PUBLISHER, Permissions("publisher", Grant(publish=PUBLISH)).publishable())
    made = work.subscriptions
    for who in range(subscribers):
        conn = Conn(1 + who)
        engine.open(conn, is_link=False, when_full="drop", queue_bytes_max=_QUEUE_BYTES)
        filters = [made.distinct[i] for i in made.chosen[who::subscribers].tolist()]
        if case in ("subscribe", "both"):
            filters = Permissions(f"subscriber{who}", grants(who)).narrowed(filters)
        engine.add_routes(conn, range(len(filters)), filters, None)
    return engine


def refuse_unequal(engines: Mapping[str, KernelEngine], reads: Sequence[bytes], subscribers: int) -> None:
    """Every subscriber gets the same bytes of each engine, or there is nothing to compare."""
    for read in reads:
        first, *others = [_take(engine, read, subscribers) for engine in engines.values()]
        assert all(other == first for other in others), "with permissions the same is delivered"


def _take(engine: KernelEngine, read: bytes, subscribers: int) -> list[bytes]:
    received = engine.receive(PUBLISHER, read, now_ns=_NOW)
    assert not received.refusals, "all events are permitted"
    while received.state == "busy":
        received = engine.resume(PUBLISHER, now_ns=_NOW)
    return [engine.output(Conn(1 + who), bytes_max=_QUEUE_BYTES) for who in range(subscribers)]


def _calls(engine: KernelEngine, reads: Sequence[bytes], subscribers: int) -> list[Callable[[], object]]:
    return [partial(_take, engine, read, subscribers) for read in reads]
