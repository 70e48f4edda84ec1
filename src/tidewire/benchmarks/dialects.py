"""What a client says to each server: the beginning, the subscription, and one event of 200 bytes.

``tidewire-load`` sends these bytes and knows of the protocols only where a message ends. In every event 16 bytes are
left free for it: when it was sent, and its sequence.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from itertools import count
from typing import Final, Literal, Protocol

import msgspec

from tidewire._kernel._native import encode_event
from tidewire.language import compile_filter
from tidewire.model.errors import Unavailable
from tidewire.model.filters import encode_filter
from tidewire.model.messages import ANYTHING, VERSION, Advertise, Done, Hello, Ping, Subscribe, Use, Welcome
from tidewire.wire.frames import MESSAGE, message_frame, publish_frame

PAYLOAD_BYTES: Final = 200
STAMP_BYTES: Final = 16
PAYLOAD: Final = bytes(PAYLOAD_BYTES)


class Step(msgspec.Struct, frozen=True):
    """Send these bytes, or wait until they have come."""

    verb: Literal["send", "await"]
    data: bytes


def play(connection: socket.socket, steps: Iterable[Step]) -> None:
    """Go through these steps by hand; Unavailable if the server ends the connection."""
    heard = b""
    for step in steps:
        if step.verb == "send":
            connection.sendall(step.data)
            continue
        while step.data not in heard:
            got = connection.recv(1 << 16)
            if not got:
                raise Unavailable(f"the server ended the connection; it said {heard[-100:]!r}")
            heard = heard[1 - len(step.data) :] + got if len(step.data) > 1 else got
        heard = heard.partition(step.data)[2]


def send(data: bytes) -> Step:
    """Say this."""
    return Step("send", data)


def hear(data: bytes) -> Step:
    """Wait until the server has said this."""
    return Step("await", data)


class Dialect(Protocol):
    """One protocol, for the events of one subject."""

    name: str
    trailer_bytes: int
    """What follows the payload in a published message."""

    born_at: int
    """Where else the time of sending stands; -1: nowhere."""

    keepalive: bytes
    """To be sent every second, if not empty."""

    def publisher(self, subject: str) -> list[Step]:
        """The beginning of a connection that publishes."""

    def subscriber(self, subject: str) -> list[Step]:
        """The beginning of a connection that subscribes."""

    def message(self, subject: str) -> bytes:
        """One event as it is published; its stamp is the end of the payload."""


class _Plain:
    """What most have in common."""

    trailer_bytes = 0
    born_at = -1
    keepalive = b""


class Tidewire(_Plain):
    """Frames; the event has typed attributes, and the filter is on two of them."""

    name = "tidewire"
    born_at = 5
    keepalive = message_frame(Ping(0))
    _WELCOME = bytes([MESSAGE, 0x90 + len(Welcome.__struct_fields__) + 1, 3])
    _numbers = count(1)

    def __init__(self, identity: str | None = None) -> None:
        """The token that is shown; None: nobody asks for one."""
        self._identity = identity

    def publisher(self, subject: str) -> list[Step]:
        del subject
        advertise = Advertise(1, [1], [ANYTHING])  # it just publishes, as with all the others
        return [*self.hello("publish"), send(message_frame(advertise)), hear(message_frame(Done(1)))]

    def subscriber(self, subject: str) -> list[Step]:
        subscribe = Subscribe(1, [1], [quote_filter(subject)])
        return [*self.hello("subscribe"), send(message_frame(subscribe)), hear(message_frame(Done(1)))]

    def message(self, subject: str) -> bytes:
        return publish_frame(quote_event(subject), born_ns=0)

    def hello(self, use: Use) -> list[Step]:
        """The beginning of any connection. No two are one publisher."""
        number = next(self._numbers)
        hello = Hello(
            version=VERSION, name=f"load-{number}", uses=[use], publisher=number, identity=self._identity
        )  # fmt: skip
        return [send(message_frame(hello)), hear(self._WELCOME)]


def quote_event(symbol: str) -> bytes:
    """An event of exactly 200 bytes; the attribute that pads it is the last, and ends with the stamp."""
    attributes = {"class": "STOCK", "symbol": symbol, "price": 41.5, "volume": 100_000, "pad": b""}
    padding = PAYLOAD_BYTES - len(encode_event(attributes))
    assert padding >= STAMP_BYTES, "no room for the stamp"
    return encode_event({**attributes, "pad": bytes(padding)})


def quote_filter(symbol: str) -> bytes:
    """All quotes of this symbol."""
    return encode_filter(compile_filter(f"class = 'STOCK' and symbol = '{symbol}'"))


class Nats(_Plain):
    """The text protocol of NATS."""

    name = "nats"
    trailer_bytes = 2

    def publisher(self, subject: str) -> list[Step]:
        del subject
        return self.begin(b"")

    def subscriber(self, subject: str) -> list[Step]:
        return self.begin(f"SUB {subject} 1\r\n".encode())

    def message(self, subject: str) -> bytes:
        return f"PUB {subject} {PAYLOAD_BYTES}\r\n".encode() + PAYLOAD + b"\r\n"

    def begin(self, more: bytes) -> list[Step]:
        """The beginning of any connection, with more that is said at once."""
        connect = b'CONNECT {"verbose":false,"pedantic":false,"lang":"load","version":"1","protocol":1}\r\n'
        return [hear(b"INFO "), send(connect + more + b"PING\r\n"), hear(b"PONG\r\n")]


class Redis(_Plain):
    """RESP, publish and subscribe."""

    name = "redis"
    trailer_bytes = 2

    def publisher(self, subject: str) -> list[Step]:
        del subject
        return [send(resp(b"PING")), hear(b"+PONG\r\n")]

    def subscriber(self, subject: str) -> list[Step]:
        return [send(resp(b"SUBSCRIBE", subject.encode())), hear(b":1\r\n")]

    def message(self, subject: str) -> bytes:
        return resp(b"PUBLISH", subject.encode(), PAYLOAD)


def resp(*words: bytes) -> bytes:
    """A command."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Mqtt(_Plain):
    """MQTT 3.1.1, at most once."""

    name = "mqtt"

    def connect(self, name: str = "") -> bytes:
        """Without keep-alive; who has a name has a session that is kept, the others begin anew and get a name."""
        return mqtt_packet(0x10, mqtt_text("MQTT") + bytes([4, 0 if name else 2, 0, 0]) + mqtt_text(name))

    def publisher(self, subject: str) -> list[Step]:
        del subject
        return [send(self.connect()), hear(bytes([0x20, 2, 0, 0]))]

    def subscriber(self, subject: str) -> list[Step]:
        subscribe = struct.pack(">H", 1) + mqtt_text(subject) + b"\0"
        return [*self.publisher(subject), send(mqtt_packet(0x82, subscribe)), hear(bytes([0x90, 3, 0, 1, 0]))]

    def message(self, subject: str) -> bytes:
        return mqtt_packet(0x30, mqtt_text(subject) + PAYLOAD)


def mqtt_text(text: str) -> bytes:
    """A string."""
    return struct.pack(">H", len(text)) + text.encode()


def mqtt_packet(head: int, body: bytes) -> bytes:
    """A packet."""
    size, length = len(body), bytearray()
    while True:
        length.append(size & 127 | (128 if size > 127 else 0))
        size >>= 7
        if not size:
            return bytes([head]) + bytes(length) + body


class Amqp(_Plain):
    """AMQP 0-9-1: one exchange, one exclusive queue for each subscriber, no acknowledgements."""

    name = "amqp"
    trailer_bytes = 1

    def __init__(self, exchange: str = "fanout") -> None:
        self._exchange = exchange

    def begin_channel(self) -> list[Step]:
        """The beginning of any connection, with one channel."""
        start_ok = struct.pack(">I", 0) + amqp_short("PLAIN") + amqp_long(b"\0guest\0guest") + amqp_short("en_US")
        no_heartbeat = struct.pack(">HIH", 2047, 131_072, 0)
        return [
            send(b"AMQP\0\0\x09\x01"),
            hear(struct.pack(">HH", 10, 10)),
            send(amqp_method(0, 10, 11, start_ok)),
            hear(struct.pack(">BHIHH", 1, 0, 12, 10, 30)),
            send(
                amqp_method(0, 10, 31, no_heartbeat) + amqp_method(0, 10, 40, amqp_short("/") + amqp_short("") + b"\0")
            ),
            hear(amqp_method(0, 10, 41, b"\0")),
            send(amqp_method(1, 20, 10, amqp_short(""))),
            hear(amqp_method(1, 20, 11, struct.pack(">I", 0))),
        ]

    def publisher(self, subject: str) -> list[Step]:
        declare = struct.pack(">H", 0) + amqp_short(subject) + amqp_short(self._exchange) + struct.pack(">BI", 0, 0)
        return [*self.begin_channel(), send(amqp_method(1, 40, 10, declare)), hear(amqp_method(1, 40, 11, b""))]

    def subscriber(self, subject: str) -> list[Step]:
        where = struct.pack(">H", 0) + amqp_short("") + amqp_short(subject) + amqp_short("")
        return self.bound(subject, amqp_method(1, 50, 20, where + struct.pack(">BI", 1, 0)))

    def bound(self, subject: str, bindings: bytes) -> list[Step]:
        """A subscriber whose queue has these bindings, which nobody answers."""
        exclusive_and_deleted, without_ack = 4 | 8, 2
        declare = struct.pack(">H", 0) + amqp_short("") + struct.pack(">BI", exclusive_and_deleted, 0)
        consume = struct.pack(">H", 0) + amqp_short("") + amqp_short("c") + struct.pack(">BI", without_ack, 0)
        return [
            *self.publisher(subject),
            send(amqp_method(1, 50, 10, declare) + bindings + amqp_method(1, 60, 20, consume)),
            hear(amqp_method(1, 60, 21, amqp_short("c"))),
        ]

    def message(self, subject: str) -> bytes:
        publish = struct.pack(">H", 0) + amqp_short(subject) + amqp_short("") + b"\0"
        properties = struct.pack(">HHQH", 60, 0, PAYLOAD_BYTES, 0)
        return amqp_method(1, 60, 40, publish) + amqp_frame(2, 1, properties) + amqp_frame(3, 1, PAYLOAD)


def amqp_short(text: str) -> bytes:
    """A short string."""
    return bytes([len(text)]) + text.encode()


def amqp_long(data: bytes) -> bytes:
    """A long string."""
    return struct.pack(">I", len(data)) + data


def amqp_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """A frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def amqp_method(channel: int, class_id: int, method_id: int, arguments: bytes) -> bytes:
    """A method, in its frame."""
    return amqp_frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


class Stomp(_Plain):
    """STOMP 1.2, a topic, acknowledged by itself."""

    name = "stomp"
    trailer_bytes = 1

    def publisher(self, subject: str) -> list[Step]:
        del subject
        connect = send(b"CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:0,0\n\n\0")
        return [connect, hear(b"CONNECTED\n"), hear(b"\n\n\0")]

    def subscriber(self, subject: str) -> list[Step]:
        head = f"SUBSCRIBE\nid:1\ndestination:/topic/{subject}\nack:auto\nreceipt:1\n\n\0"
        return [*self.publisher(subject), send(head.encode()), hear(b"RECEIPT\nreceipt-id:1\n\n\0")]

    def message(self, subject: str) -> bytes:
        head = f"SEND\ndestination:/topic/{subject}\ncontent-length:{PAYLOAD_BYTES}\n\n"
        return head.encode() + PAYLOAD + b"\0"
