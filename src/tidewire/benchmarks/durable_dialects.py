"""What a client says to each server when nothing acknowledged may be lost: publish, be acknowledged, come back, read.

A durable subscriber is made before anything is published, and is away until it reads. Reading is measured with its
acknowledgements, as far as the server knows any.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec

from tidewire.benchmarks import dialects
from tidewire.benchmarks.dialects import (
    PAYLOAD,
    PAYLOAD_BYTES,
    Dialect,
    Step,
    amqp_frame,
    amqp_long,
    amqp_method,
    amqp_short,
    hear,
    mqtt_packet,
    mqtt_text,
    quote_event,
    quote_filter,
    resp,
    send,
)
from tidewire.model.messages import Done, Flush
from tidewire.model.stream_messages import Begun, Follow
from tidewire.wire.frames import BORN, HEAD, MESSAGE, TAKEN_BODY, guarantee_frame, message_frame, taken_frame

AT_ONCE: Final = 1_000
"""Deliveries for which a reader asks, or which it acknowledges, at once; a reader's events are a multiple of it."""


_TAKEN_AT_ONCE: Final = 50
"""The same, of one who is there, and whose events are few."""


class Publishing(msgspec.Struct, frozen=True):
    """A publisher whose events are acknowledged."""

    steps: Sequence[Step]
    message: bytes
    number_at: int = -1
    """Where the number of the event stands in a message, in two bytes; -1: nowhere."""

    sequence_at: int = -1
    """The same, in eight bytes."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a durable subscriber that was away reads: by the plan's words ``begin`` and ``again``."""

    steps: Sequence[Step]
    begin: bytes = b""
    every: int = AT_ONCE
    marks: Literal["last", "all"] = "last"
    before: bytes = b""
    behind: bytes = b""

    def lines(self) -> list[str]:
        """Behind the lines of its connection."""
        before, behind = (data.hex() or "-" for data in (self.before, self.behind))
        begin = [f"begin {self.begin.hex()}"] if self.begin else []
        return [*begin, f"again {self.every} {self.marks} {before} {behind}"]


class DurableDialect(Dialect, Protocol):
    """One protocol, for the events that are stored under one subject."""

    is_read_once: bool
    """Is what a subscriber has read gone? Then there is one subscriber, and others would not read the same."""

    ways: Sequence[str]
    """To read, by name."""

    def prepare(self, subject: str, *, readers: int) -> list[Step]:
        """Make the place where events are stored, and durable subscribers 0, 1, ... that are away."""

    def publishing(self, subject: str, *, publisher: int) -> Publishing:
        """One of the publishers."""

    def reading(self, subject: str, *, reader: int, way: str) -> Reading:
        """This subscriber comes back."""


class TidewireStream(dialects.Tidewire):
    """GUARANTEE and RECEIPT; a follower by name, and TAKEN by the pubend and tick of the last event."""

    is_read_once = False
    ways: Sequence[str] = ("follow",)
    _BEGUN = bytes([MESSAGE, 0x90 + len(Begun.__struct_fields__) + 1, 71])
    _FLUSHED = (send(message_frame(Flush(1))), hear(message_frame(Done(1))))
    """Nothing that was said before is left, not even in part."""

    def prepare(self, subject: str, *, readers: int) -> list[Step]:
        steps = self.hello("subscribe")
        for reader in range(readers):
            steps += [send(self._follow(subject, reader, claim=1)), hear(self._BEGUN)]
        return steps

    def publishing(self, subject: str, *, publisher: int) -> Publishing:
        del publisher
        message = guarantee_frame(quote_event(subject), born_ns=0, sequence=0)
        return Publishing(self.publisher(subject), message, sequence_at=HEAD.size + BORN.size)

    def reading(self, subject: str, *, reader: int, way: str) -> Reading:
        del way
        follow = self._follow(subject, reader, claim=2)
        return Reading(steps=[*self.hello("subscribe"), *self._FLUSHED], begin=follow, before=self._taken(reader))

    def following(self, subject: str) -> Reading:
        """Somebody who is there when the events come."""
        steps = [*self.prepare(subject, readers=1), *self._FLUSHED]
        return Reading(steps=steps, every=_TAKEN_AT_ONCE, before=self._taken(0))

    def _taken(self, number: int) -> bytes:
        taken = taken_frame(number, 0, 0)
        return taken[: len(taken) - TAKEN_BODY.size + 4]

    def _follow(self, subject: str, reader: int, *, claim: int) -> bytes:
        return message_frame(Follow(reader, reader, quote_filter(subject), f"{subject}.{reader}", claim))


class JetStream(dialects.Nats):
    """A stream in a file; the subject of the acknowledgements is the publisher's own."""

    name = "jetstream"
    is_read_once = False
    ways: Sequence[str] = ("pull",)
    _PULLED: Final = 10 * AT_ONCE
    """Is asked for ahead of what is read."""

    def prepare(self, subject: str, *, readers: int) -> list[Step]:
        stream = _stream_name(subject)
        config = {"name": stream, "subjects": [subject], "storage": "file", "retention": "limits", "num_replicas": 1}
        steps = [*self.begin(b"SUB answers 1\r\n"), *_asked(f"STREAM.CREATE.{stream}", config, '"did_create":true')]
        for reader in range(readers):
            name = f"reader{reader}"
            consumer = {"durable_name": name, "ack_policy": "all", "deliver_policy": "all", "max_ack_pending": -1}
            request = {"stream_name": stream, "config": consumer, "action": "create"}
            steps += _asked(f"CONSUMER.CREATE.{stream}.{name}", request, f'"name":"{name}"')
        return steps

    def publishing(self, subject: str, *, publisher: int) -> Publishing:
        inbox = f"acks.{subject}.{publisher}"
        message = f"PUB {subject} {inbox} {PAYLOAD_BYTES}\r\n".encode() + PAYLOAD + b"\r\n"
        return Publishing(self.begin(f"SUB {inbox} 1\r\n".encode()), message)

    def reading(self, subject: str, *, reader: int, way: str) -> Reading:
        del way
        where = f"$JS.API.CONSUMER.MSG.NEXT.{_stream_name(subject)}.reader{reader}"
        return Reading(
            steps=self.begin(b"SUB pulled 1\r\n"),
            begin=_nats_publish(where, "pulled", {"batch": self._PULLED}),
            before=b"PUB ",
            behind=b" 0\r\n\r\n" + _nats_publish(where, "pulled", {"batch": AT_ONCE}),
        )


def _stream_name(subject: str) -> str:
    return subject.replace(".", "_")


def _asked(what: str, request: object, answer: str) -> list[Step]:
    return [send(_nats_publish(f"$JS.API.{what}", "answers", request)), hear(answer.encode())]


def _nats_publish(subject: str, reply: str, content: object) -> bytes:
    body = json.dumps(content).encode()
    return f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n"


class RedisStream(dialects.Redis):
    """A stream: the group's reader is remembered by the server, the other remembers itself where it was."""

    name = "redis-streams"
    is_read_once = False
    ways: Sequence[str] = ("group", "xread")

    def prepare(self, subject: str, *, readers: int) -> list[Step]:
        steps = self.publisher(subject)
        for reader in range(readers):
            group = b"reader%d" % reader
            steps += [send(resp(b"XGROUP", b"CREATE", subject.encode(), group, b"0", b"MKSTREAM")), hear(b"+OK\r\n")]
        return steps

    def publishing(self, subject: str, *, publisher: int) -> Publishing:
        del publisher
        return Publishing(self.publisher(subject), resp(b"XADD", subject.encode(), b"*", b"e", PAYLOAD))

    def reading(self, subject: str, *, reader: int, way: str) -> Reading:
        key, count, steps = subject.encode(), b"%d" % AT_ONCE, self.publisher(subject)
        if way == "xread":
            ask = resp(b"XREAD", b"COUNT", count, b"STREAMS", key, b"0")
            before = ask.removesuffix(resp(b"0").removeprefix(b"*1\r\n"))
            return Reading(steps=steps, begin=ask, before=before)
        group = b"reader%d" % reader
        ask = resp(b"XREADGROUP", b"GROUP", group, b"me", b"COUNT", count, b"STREAMS", key, b">")
        words = (b"XACK", key, group)
        ack = resp(*words).replace(b"*%d\r\n" % len(words), b"*%d\r\n" % (len(words) + AT_ONCE), 1)
        return Reading(steps=steps, begin=ask * 2, marks="all", before=ack, behind=ask)


class PersistentMqtt(dialects.Mqtt):
    """MQTT 3.1.1, at least once; the subscriber has a session that is kept."""

    is_read_once = True
    ways: Sequence[str] = ("session",)
    _AT_LEAST_ONCE: Final = 1

    def prepare(self, subject: str, *, readers: int) -> list[Step]:
        assert readers == 1, "each would get a copy of its own"
        subscribe = struct.pack(">H", 1) + mqtt_text(subject) + bytes([self._AT_LEAST_ONCE])
        return [
            send(self.connect(subject)),
            hear(bytes([0x20, 2, 0, 0])),
            send(mqtt_packet(0x82, subscribe)),
            hear(bytes([0x90, 3, 0, 1, self._AT_LEAST_ONCE])),
            send(mqtt_packet(0xE0, b"")),
        ]

    def publishing(self, subject: str, *, publisher: int) -> Publishing:
        del publisher
        message = mqtt_packet(0x30 | self._AT_LEAST_ONCE << 1, mqtt_text(subject) + b"\0\0" + PAYLOAD)
        return Publishing(self.publisher(subject), message, len(message) - PAYLOAD_BYTES - 2)

    def reading(self, subject: str, *, reader: int, way: str) -> Reading:
        del reader, way
        return Reading(steps=[], begin=self.connect(subject), every=1, before=bytes([0x40, 2]))


class ConfirmedAmqp(dialects.Amqp):
    """AMQP 0-9-1: a quorum queue, persistent messages, confirms; a consumer without bound acknowledges many at once."""

    is_read_once = True
    ways: Sequence[str] = ("consume",)
    _TABLE: Final = amqp_short("x-queue-type") + b"S" + amqp_long(b"quorum")
    _PERSISTENT: Final = struct.pack(">HHQHB", 60, 0, PAYLOAD_BYTES, 0x1000, 2)

    def prepare(self, subject: str, *, readers: int) -> list[Step]:
        assert readers == 1, "two would share the events"
        is_durable = 2
        declare = struct.pack(">H", 0) + amqp_short(subject) + bytes([is_durable]) + amqp_long(self._TABLE)
        return [
            *self.begin_channel(),
            send(amqp_method(1, 50, 10, declare)),
            hear(amqp_method(1, 50, 11, amqp_short(subject) + bytes(8))),
        ]

    def publishing(self, subject: str, *, publisher: int) -> Publishing:
        del publisher
        confirm = [send(amqp_method(1, 85, 10, b"\0")), hear(amqp_method(1, 85, 11, b""))]
        publish = struct.pack(">H", 0) + amqp_short("") + amqp_short(subject) + b"\0"
        message = amqp_method(1, 60, 40, publish) + amqp_frame(2, 1, self._PERSISTENT) + amqp_frame(3, 1, PAYLOAD)
        return Publishing([*self.begin_channel(), *confirm], message)

    def reading(self, subject: str, *, reader: int, way: str) -> Reading:
        del reader, way
        consume = struct.pack(">H", 0) + amqp_short(subject) + amqp_short("c") + struct.pack(">BI", 0, 0)
        ack_with_all_before = amqp_method(1, 60, 80, bytes(8) + b"\1")
        mark = len(ack_with_all_before) - 8 - 2
        return Reading(
            steps=self.begin_channel(),
            begin=amqp_method(1, 60, 20, consume),
            before=ack_with_all_before[:mark],
            behind=ack_with_all_before[mark + 8 :],
        )
