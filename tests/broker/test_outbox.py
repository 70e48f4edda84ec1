"""Results that are longer than a client's queue: it is sent them as fast as it reads, and not ended for them."""

from __future__ import annotations

from tidewire.broker.outbox import LOOK_NS, STALLED_NS, Outbox
from tidewire.dataplane.kernel import KernelEngine
from tidewire.model.channel_messages import TALK_BYTES, ChannelEnded, News, Notified
from tidewire.model.ids import Conn, Nanoseconds, Tick
from tidewire.model.messages import Done, Message
from tidewire.wire.frames import FrameReader, decode_message, message_frame

QUEUE = 8 * TALK_BYTES
CLIENT, OTHER = Conn(1), Conn(2)


class Reading:
    """Two clients of an engine, who read as much as is said."""

    def __init__(self) -> None:
        self.engine = KernelEngine()
        for conn in (CLIENT, OTHER):
            self.engine.open(conn, is_link=False, when_full="drop", queue_bytes_max=QUEUE)
        self.outbox = Outbox(self.engine, queue_bytes_max=QUEUE)
        self.now_ns = Nanoseconds(0)
        self.got: dict[Conn, list[Message]] = {CLIENT: [], OTHER: []}
        self._readers = {conn: FrameReader() for conn in self.got}

    def say(self, conn: Conn, message: Message) -> None:
        frame = message_frame(message)
        if not self.outbox.takes(conn, message, frame, now_ns=self.now_ns):
            self.engine.send(conn, frame, "data")

    def read(self, conn: Conn, size: int) -> None:
        data = self.engine.output(conn, bytes_max=size)
        self.got[conn] += [decode_message(payload) for _, payload in self._readers[conn].feed(data)]

    def look(self, *, after_ns: int = LOOK_NS) -> None:
        self.now_ns = Nanoseconds(self.now_ns + after_ns)
        for conn, frame in self.outbox.due(self.now_ns):
            self.engine.send(conn, frame, "data")

    def queued(self, conn: Conn) -> int:
        return self.engine.traffic(conn).queued_bytes


def piece(at: int) -> Notified:
    return Notified([News(1, Tick(7), 1, bytes([at]) * TALK_BYTES, is_last=False)])


def test_a_long_run_goes_out_as_it_is_read_and_in_order() -> None:
    reading = Reading()
    said: list[Message] = [piece(at) for at in range(40)]
    said.append(ChannelEnded(1, "gone", "it is no more"))
    for message in said:
        reading.say(CLIENT, message)
    reading.say(OTHER, piece(99))
    assert reading.queued(CLIENT) <= QUEUE // 2
    deadline_ns = reading.outbox.deadline_ns()
    assert deadline_ns is not None
    reading.read(OTHER, QUEUE)
    assert reading.got[OTHER] == [piece(99)], "nobody waits for another one"
    looks = 0
    while reading.outbox.deadline_ns() is not None or reading.queued(CLIENT):
        reading.read(CLIENT, 3 * TALK_BYTES)
        reading.look()
        assert reading.queued(CLIENT) <= QUEUE // 2
        looks += 1
    assert reading.got[CLIENT] == said
    assert looks < 40


def test_who_does_not_read_is_not_sent_more_and_other_messages_do_not_wait() -> None:
    reading = Reading()
    for at in range(40):
        reading.say(CLIENT, piece(at))
    full = reading.queued(CLIENT)
    for _ in range(5):
        reading.look()
    assert reading.queued(CLIENT) == full
    assert not reading.outbox.takes(CLIENT, Done(1), b"", now_ns=reading.now_ns)
    reading.outbox.gone(CLIENT)
    assert reading.outbox.deadline_ns() is None
    reading.read(CLIENT, full)
    reading.look()
    assert not reading.queued(CLIENT)


def test_who_reads_nothing_for_long_is_sent_all_and_ended_for_it() -> None:
    """Else one that does not read would fill our memory."""
    reading = Reading()
    for at in range(40):
        reading.say(CLIENT, piece(at))
    reading.look()
    reading.look(after_ns=STALLED_NS - 1)
    assert reading.outbox.deadline_ns() is not None
    reading.look()
    assert reading.outbox.deadline_ns() is None
    for at in range(40):
        reading.say(OTHER, piece(at))
    for _ in range(3):
        reading.read(OTHER, 1000)
        reading.look(after_ns=STALLED_NS - LOOK_NS)
    assert reading.outbox.deadline_ns() is not None, "slow is not stalled"


def test_what_is_longer_than_the_queue_by_itself_goes_alone() -> None:
    reading = Reading()
    reading.outbox = Outbox(reading.engine, queue_bytes_max=TALK_BYTES)
    reading.say(CLIENT, piece(1))
    reading.say(CLIENT, piece(2))
    reading.look(after_ns=LOOK_NS - 1)
    reading.read(CLIENT, QUEUE)
    assert reading.got[CLIENT] == [piece(1)]
    reading.look(after_ns=1)
    reading.read(CLIENT, QUEUE)
    assert reading.got[CLIENT] == [piece(1), piece(2)]
