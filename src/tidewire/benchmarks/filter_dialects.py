"""Many filters over few connections, in the words of each server that can filter.

RabbitMQ's headers exchange knows only equality, and by STOMP all that ActiveMQ's selectors see is text: both get the
class and the symbol of each filter, without its range, and so have less to do than ours.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from tidewire._kernel._native import encode_event
from tidewire.benchmarks.dialects import (
    PAYLOAD_BYTES,
    STAMP_BYTES,
    Amqp,
    Dialect,
    Step,
    Stomp,
    Tidewire,
    amqp_frame,
    amqp_method,
    amqp_short,
)
from tidewire.model.messages import ANYTHING, Advertise, Done, Subscribe
from tidewire.wire.frames import message_frame, publish_frame

BATCH: Final = 1_000
"""Filters in one Subscribe."""

_SUBJECT: Final = "bench.filters"
_SYMBOL: Final = re.compile(r"symbol = '([^']*)'")


class Wanted(NamedTuple):
    """One subscription: as bytes in normal form, and as text."""

    encoded: bytes
    text: str


class FilterDialect(Protocol):
    """A dialect for many filters on a connection."""

    @property
    def dialect(self) -> Dialect:
        """What is spoken."""

    def publisher(self) -> list[Step]:
        """The beginning of the connection that publishes."""

    def subscriber(self, wanted: Sequence[Wanted]) -> list[Step]:
        """The beginning of a connection with these subscriptions; confirmed at its end."""

    def message(self, event: dict[str, Any]) -> bytes:
        """An event as it is published."""


class Ours:
    """Subscribe, a thousand filters at a time."""

    dialect = Tidewire()

    def __init__(self, *, publisher: str | None = None, subscribers: Iterable[str] = ()) -> None:
        """The tokens that they show, one subscriber after the other; without, nobody asks for one."""
        self._publisher, self._subscribers = publisher, iter(subscribers)

    def publisher(self) -> list[Step]:
        hello = Tidewire(self._publisher).hello("publish")
        return [*hello, Step("send", message_frame(Advertise(1, [1], [ANYTHING]))), _done(1)]

    def subscriber(self, wanted: Sequence[Wanted]) -> list[Step]:
        steps = Tidewire(next(self._subscribers, None)).hello("subscribe")
        steps += [Step("send", message) for message in subscribe_messages([one.encoded for one in wanted])]
        return [*steps, _done(-(-len(wanted) // BATCH))]

    def message(self, event: dict[str, Any]) -> bytes:
        return publish_frame(encode_event({**event, "pad": bytes(STAMP_BYTES)}), born_ns=0)


def subscribe_messages(filters: list[bytes]) -> list[bytes]:
    """Requests 1, 2, ..., a batch each."""
    return [
        message_frame(
            Subscribe(1 + at // BATCH, list(range(at, at + len(filters[at : at + BATCH]))), filters[at : at + BATCH])
        )
        for at in range(0, len(filters), BATCH)
    ]


def _done(request: int) -> Step:
    return Step("await", message_frame(Done(request)))


class Selectors:
    """ActiveMQ: a subscription with a selector each, by STOMP, whose headers are text."""

    dialect = Stomp()

    def publisher(self) -> list[Step]:
        return self.dialect.publisher(_SUBJECT)

    def subscriber(self, wanted: Sequence[Wanted]) -> list[Step]:
        frames = []
        for i, one in enumerate(wanted):
            receipt = "receipt:all\n" if i == len(wanted) - 1 else ""
            frames.append(
                f"SUBSCRIBE\nid:{i}\ndestination:/topic/{_SUBJECT}\nack:auto\n{receipt}"
                f"selector:{_equalities(one.text)}\n\n\0"
            )
        sent = [Step("send", "".join(frames[at : at + BATCH]).encode()) for at in range(0, len(frames), BATCH)]
        return [*self.publisher(), *sent, Step("await", b"RECEIPT\nreceipt-id:all\n\n\0")]

    def message(self, event: dict[str, Any]) -> bytes:
        headers = "".join(f"{name}:{value}\n" for name, value in event.items())
        head = f"SEND\ndestination:/topic/{_SUBJECT}\n{headers}content-length:{PAYLOAD_BYTES}\n\n"
        return head.encode() + bytes(PAYLOAD_BYTES) + b"\0"


class Headers:
    """RabbitMQ: a headers exchange, a queue for each connection, a binding for each class and symbol."""

    dialect = Amqp("headers")

    def publisher(self) -> list[Step]:
        return self.dialect.publisher(_SUBJECT)

    def subscriber(self, wanted: Sequence[Wanted]) -> list[Step]:
        bindings = []
        for symbol in dict.fromkeys(symbol_of(one.text) for one in wanted):
            table = {"x-match": "all", "class": "STOCK", **({"symbol": symbol} if symbol else {})}
            without_answer = b"\1"
            where = struct.pack(">H", 0) + amqp_short("") + amqp_short(_SUBJECT) + amqp_short("")
            bindings.append(amqp_method(1, 50, 20, where + without_answer + _table(table)))
        return self.dialect.bound(_SUBJECT, b"".join(bindings))

    def message(self, event: dict[str, Any]) -> bytes:
        publish = struct.pack(">H", 0) + amqp_short(_SUBJECT) + amqp_short("") + b"\0"
        has_headers = 1 << 13
        headers = _table({"class": event["class"], "symbol": event["symbol"]})
        properties = struct.pack(">HHQH", 60, 0, PAYLOAD_BYTES, has_headers) + headers
        return amqp_method(1, 60, 40, publish) + amqp_frame(2, 1, properties) + amqp_frame(3, 1, bytes(PAYLOAD_BYTES))


def _equalities(text: str) -> str:
    symbol = symbol_of(text)
    return "class = 'STOCK'" + (f" and symbol = '{symbol}'" if symbol else "")


def symbol_of(text: str) -> str:
    """The symbol that a filter asks for; empty: any."""
    found = _SYMBOL.search(text)
    return found[1] if found else ""


def _table(entries: dict[str, str]) -> bytes:
    data = b"".join(
        amqp_short(name) + b"S" + struct.pack(">I", len(value.encode())) + value.encode()
        for name, value in entries.items()
    )
    return struct.pack(">I", len(data)) + data


DIALECTS: Final[dict[str, Any]] = {"tidewire": Ours, "activemq": Selectors, "rabbitmq": Headers}
