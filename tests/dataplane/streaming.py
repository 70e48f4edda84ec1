"""Engines with streams side by side: their logs, and the frames of guaranteed events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.dataplane.world import Handled, event_bytes, frames, more_news, receive, resume, taken
from tidewire._kernel._native import Log, MemoryFiles
from tidewire._kernel.codec import decode, encode
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import Received
from tidewire.dataplane.reference_replay import StreamingReference
from tidewire.dataplane.stream_news import StreamNews
from tidewire.dataplane.streams import StreamEngine
from tidewire.model.events import Envelope, make_event
from tidewire.model.filters import ALL, Filter, encode_filter
from tidewire.model.ids import Conn, Nanoseconds, PubendId, Tick, TreeId
from tidewire.wire.frames import (
    ANSWER,
    DELIVER,
    LAST,
    LOST,
    MESSAGE,
    PLAIN,
    RECEIPT,
    RECOVER,
    RECOVER_HEAD,
    SPAN,
    STREAM,
    STREAM_HEAD,
    decode_delivered,
    decode_receipt,
    frame,
    guarantee_frame,
)

MS = 1_000_000
START = Nanoseconds(50 * MS)
UNIX_OFFSET_NS = 950 * MS
"""So the calendar says that a second has passed since 1970."""

KINDS = {PLAIN: "plain", LOST: "lost", LAST: "last", ANSWER: "answer"}

STREAM_MAKERS: dict[str, Callable[..., StreamEngine]] = {
    "reference": StreamingReference,
    "kernel": lambda **options: KernelEngine(budget_ns=0, **options),
    "hurried kernel": lambda **options: KernelEngine(budget_ns=1, simd="scalar", **options),
}
"""The last one stops after every event, and after every piece."""


class Span(msgspec.Struct, frozen=True):
    """A STREAM or RECOVER frame: whose, the ticks, what it says of them, and the attribute n of its event."""

    name: int
    """The pubend, or the number of the one who asked."""

    first: int
    tick: int
    kind: str
    n: Any = None


def guarantee(n: int, *, sequence: int, born_ns: int = 5, **more: Any) -> bytes:
    """As a client sends it."""
    return guarantee_frame(event_bytes(n, **more), born_ns=born_ns, sequence=sequence)


def streamed_event(n: int, *, tick: int, pubend: int, body: bytes | None = None, ttl_ns: int | None = None) -> bytes:
    """An event as brokers exchange it."""
    stamp = Envelope(publisher=7, sequence=n, pubend=pubend, tick=tick, ttl_ns=ttl_ns)
    return encode(make_event({"n": n}, body=body, envelope=stamp))


def stream(
    first: int,
    tick: int,
    n: int | None = None,
    *,
    tree: int,
    pubend: int,
    kind: int = PLAIN,
    born_ns: int = 5,
    error_us: int = 3,
    body: bytes | None = None,
    ttl_ns: int | None = None,
) -> bytes:
    """As a neighbour tells it; without n: silence, or what the kind says."""
    event = b"" if n is None else streamed_event(n, tick=tick, pubend=pubend, body=body, ttl_ns=ttl_ns)
    return frame(STREAM, STREAM_HEAD.pack(tree, pubend, kind) + SPAN.pack(first, tick, born_ns, error_us) + event)


def recover(
    number: int, first: int, tick: int, n: int | None = None, *, pubend: int = 0, kind: int = PLAIN, born_ns: int = 5
) -> bytes:
    """As a neighbour tells it again."""
    event = b"" if n is None else streamed_event(n, tick=tick, pubend=pubend)
    return frame(RECOVER, RECOVER_HEAD.pack(number, kind) + SPAN.pack(first, tick, born_ns, 3) + event)


def span_of(kind: int, payload: bytes) -> Span:
    """What a STREAM or RECOVER frame says."""
    if kind == STREAM:
        _, name, what = STREAM_HEAD.unpack_from(payload)
        at = STREAM_HEAD.size
    else:
        assert kind == RECOVER
        name, what = RECOVER_HEAD.unpack_from(payload)
        at = RECOVER_HEAD.size
    first, tick, _, _ = SPAN.unpack_from(payload, at)
    event = payload[at + SPAN.size :]
    return Span(name, first, tick, KINDS[what], decode(event).get("n") if event else None)


def told(engine: StreamEngine, conn: Conn) -> list[Span]:
    """The spans that wait for a neighbour."""
    return [span_of(kind, payload) for kind, payload in frames(taken(engine, conn)) if kind in (STREAM, RECOVER)]


class Got(msgspec.Struct):
    """What waited for a client."""

    receipts: list[tuple[int, int]] = []
    events: list[tuple[tuple[int, ...], int, Any]] = []
    """The numbers, the position, which is the tick of a guaranteed event, and the attribute n."""


def got(engine: StreamEngine, conn: Conn) -> Got:
    """Receipts and deliveries."""
    found = Got()
    for kind, payload in frames(taken(engine, conn)):
        if kind == RECEIPT:
            found.receipts.append(decode_receipt(payload))
        elif kind == DELIVER:
            one = decode_delivered(payload)
            found.events.append((one.numbers, one.position, decode(one.event).get("n")))
        else:
            assert kind == MESSAGE
    return found


class Host:
    """An engine that hosts pubends, its log, and the files of the log through all lives."""

    def __init__(self, make: Callable[..., StreamEngine], pubends: Sequence[int], **log_options: int) -> None:
        self.make = make
        self.files = MemoryFiles()
        self.pubends = [PubendId(pubend) for pubend in pubends]
        self.log_options = {"segment_bytes": 256 << 10, **log_options}
        self.now_ns = START
        self.begin()

    def begin(self) -> None:
        """A life begins, with what the files hold."""
        self.log = Log(self.files, log_id=1, **self.log_options)
        self.engine = self.make()
        self.engine.host(self.log, self.pubends, unix_offset_ns=UNIX_OFFSET_NS, now_ns=self.now_ns)

    def commit(self) -> Received:
        """What was appended becomes durable, and is told."""
        self.log.commit()
        return self.engine.committed(now_ns=self.now_ns)

    def receive(self, conn: Conn, data: bytes) -> Handled:
        """All of these bytes."""
        return receive(self.engine, conn, data, now_ns=self.now_ns)

    def resume(self, conn: Conn) -> Handled:
        """What had to wait."""
        return resume(self.engine, conn, now_ns=self.now_ns)

    def silent(self, pubend: int) -> None:
        """Silence is told up to now; its mark first has to become durable."""
        for _ in range(2):
            self.engine.silence(PubendId(pubend), now_ns=self.now_ns)
            self.commit()

    def passes(self, ms: int) -> None:
        """Time, or the clock goes back."""
        self.now_ns = Nanoseconds(self.now_ns + ms * MS)


def served(engine: StreamEngine) -> StreamNews:
    """All that can be told again now, and what came of it."""
    news = StreamNews()
    for _ in range(10_000):
        if not engine.is_serving:
            return news
        news = more_news(news, engine.serve(now_ns=START).news)
    raise AssertionError("there is always more to serve")


def follow(
    engine: StreamEngine, conn: Conn, number: int, pubend: int, place: int, *, sound: int, wanted: Filter = ALL
) -> None:
    """A subscription that is owed this stream from here on."""
    engine.follow(conn, number)
    engine.add_routes(conn, [number], [encode_filter(wanted)], None)
    engine.owe(conn, number, PubendId(pubend), Tick(place), sound=Tick(sound))


def trust(engine: StreamEngine, tree: int, pubend: int, tick: int, *, is_all: bool = True) -> None:
    """Silence in this tree is silence for us, from here on."""
    engine.trust(TreeId(tree), [(PubendId(pubend), Tick(tick))], is_all=is_all)
