"""Engines side by side, and the frames that tests give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidewire._kernel.codec import decode, encode
from tidewire.dataplane.fluid import FluidEngine
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import REFUSED_LISTED_MAX, Engine, Received
from tidewire.dataplane.reference import ReferenceEngine
from tidewire.dataplane.stream_news import StreamNews
from tidewire.model.errors import TidewireError
from tidewire.model.events import Envelope, make_event
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.wire.frames import FORWARD, HOP, FrameReader, decode_delivered, frame, publish_frame

NOW = Nanoseconds(1_000_000)

MAKERS: dict[str, Callable[..., Engine]] = {
    "reference": ReferenceEngine,
    "fluid": FluidEngine,
    "kernel": lambda **options: KernelEngine(budget_ns=0, **options),
    "hurried kernel": lambda **options: KernelEngine(budget_ns=1, simd="scalar", **options),
}
"""The last one stops after every event."""


class Handled(msgspec.Struct):
    """What came of some bytes, once the engine had nothing more to do with them."""

    state: str = "idle"
    messages: list[bytes] = []
    refused: dict[str, tuple[list[int], int]] = {}
    """By code: the first sequences, and how many in all."""

    guaranteed: list[int] = []
    """All sequences of GUARANTEE frames that were refused."""

    ready: list[Conn] = []
    overrun: list[Conn] = []
    news: StreamNews = StreamNews()


def more_news(known: StreamNews, told: StreamNews | None) -> StreamNews:
    """Both, one behind the other."""
    if told is None:
        return known
    doubtful, replayed = known.doubtful + told.doubtful, known.replayed + told.replayed
    lacks, unknown = known.lacks + told.lacks, known.unknown + told.unknown
    return StreamNews(doubtful, replayed, known.fallen + told.fallen, lacks, unknown)


def handled(engine: Engine, conn: Conn, first: Received, *, now_ns: Nanoseconds = NOW) -> Handled:
    """The call, and all that it takes to go on."""
    found, step = Handled(), first
    while True:
        if step.message is not None:
            found.messages.append(step.message)
        for refusal in step.refusals:
            sequences, count = found.refused.get(refusal.code, ([], 0))
            listed = [*sequences, *refusal.sequences][:REFUSED_LISTED_MAX]
            found.refused[refusal.code] = (listed, count + len(refusal.sequences) + refusal.further)
            found.guaranteed += refusal.sequences if refusal.is_guaranteed else []
        found.news = more_news(found.news, step.news)
        found.ready = sorted({*found.ready, *step.ready})
        found.overrun = sorted({*found.overrun, *step.overrun})
        found.state = step.state
        if step.state != "busy":
            return found
        step = engine.resume(conn, now_ns=now_ns)


def receive(engine: Engine, conn: int, data: bytes, *, now_ns: Nanoseconds = NOW) -> Handled:
    """All of these bytes."""
    return handled(engine, Conn(conn), engine.receive(Conn(conn), data, now_ns=now_ns), now_ns=now_ns)


def resume(engine: Engine, conn: int, *, now_ns: Nanoseconds = NOW) -> Handled:
    """What had to wait."""
    return handled(engine, Conn(conn), engine.resume(Conn(conn), now_ns=now_ns), now_ns=now_ns)


def taken(engine: Engine, conn: int) -> bytes:
    """All that waits for a connection."""
    return engine.output(Conn(conn), bytes_max=1 << 40)


def frames(data: bytes) -> list[tuple[int, bytes]]:
    """The kinds and payloads in whole frames."""
    reader = FrameReader(frame_bytes_max=1 << 30)
    return list(reader.feed(data))


def delivered(engine: Engine, conn: int) -> list[tuple[tuple[int, ...], Any]]:
    """The numbers and the attribute ``n`` of the events that wait for a client."""
    found = [decode_delivered(payload) for _, payload in frames(taken(engine, conn))]
    return [(one.numbers, decode(one.event).get("n")) for one in found]


def event_bytes(
    n: int = 0,
    *,
    body: bytes | None = None,
    tree: int | None = None,
    ttl_ns: int | None = None,
    publisher: int = 7,
    **attributes: Any,
) -> bytes:
    """An event with a number; stamped, as brokers exchange it, if it has a tree."""
    stamp = Envelope(ttl_ns=ttl_ns)
    if tree is not None:
        stamp = Envelope(publisher=publisher, sequence=n, tree=tree, ttl_ns=ttl_ns)
    return encode(make_event({"n": n, **attributes}, body=body, envelope=stamp))


def publish(n: int = 0, *, born_ns: int = 5, **more: Any) -> bytes:
    """As a client sends it."""
    return publish_frame(event_bytes(n, **more), born_ns=born_ns)


def forward(position: int, *, tree: int, born_ns: int = 5, error_us: int = 3, **more: Any) -> bytes:
    """As a neighbour sends it."""
    return frame(FORWARD, HOP.pack(born_ns, error_us, position) + event_bytes(position, tree=tree, **more))


class Side:
    """Several engines that get the same calls and must give the same answers."""

    def __init__(self, *, frame_bytes_max: int) -> None:
        self.engines = {name: make(frame_bytes_max=frame_bytes_max) for name, make in MAKERS.items()}

    def all_say(self, call: Callable[..., object], *arguments: object) -> Any:
        """The one answer that they all give; an error by its code."""
        answers = {name: _answer(call, engine, *arguments) for name, engine in self.engines.items()}
        assert len({repr(answer) for answer in answers.values()}) == 1, answers
        return answers["reference"]


def _answer(call: Callable[..., object], engine: Engine, *arguments: object) -> object:
    try:
        return call(engine, *arguments)
    except TidewireError as problem:
        return problem.code
