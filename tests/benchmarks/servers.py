"""Tiny servers for the tests of the load generator: brokers that tell everyone everything or keep it, and players."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Literal

from tidewire.benchmarks.certificates import Certificates
from tidewire.benchmarks.dialects import PAYLOAD_BYTES, Dialect, Step
from tidewire.benchmarks.durable_dialects import Publishing
from tidewire.model.errors import DamagedFrame
from tidewire.model.ids import BrokerId
from tidewire.model.messages import VERSION, Advertise, Bye, Done, Hello, Lost, Ping, Pong, Subscribe, Welcome
from tidewire.wire.frames import (
    BORN,
    DELIVER,
    HOP,
    MESSAGE,
    PUBLISH,
    FrameReader,
    decode_message,
    frame,
    message_frame,
)

WELCOME = Welcome(
    version=VERSION,
    broker=BrokerId("echo"),
    incarnation=1,
    address="127.0.0.1",
    heartbeat_s=5.0,
    frame_bytes_max=1 << 20,
    subscriptions_max=10,
)
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class EchoBroker:
    """Speaks frames; delivers every event to every subscriber, unless it is told to misbehave."""

    def __init__(self, *, loses_every: int = 0, swaps: bool = False, ends_after: int = 0) -> None:
        self._loses_every, self._swaps, self._ends_after = loses_every, swaps, ends_after
        self._subscribers: list[asyncio.StreamWriter] = []
        self._position = 0
        self._held = b""
        self.pongs: list[Pong] = []
        self.pings = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it ends."""
        frames = FrameReader()
        while data := await reader.read(1 << 16):
            for kind, payload in frames.feed(data):
                if kind == MESSAGE:
                    self._answer(payload, writer)
                elif kind == PUBLISH:
                    self._publish(payload)
            for subscriber in self._subscribers:
                with contextlib.suppress(ConnectionError):
                    await subscriber.drain()
        if writer in self._subscribers:
            self._subscribers.remove(writer)

    def _answer(self, payload: bytes, writer: asyncio.StreamWriter) -> None:
        message = decode_message(payload)
        match message:
            case Hello():
                writer.write(message_frame(WELCOME))
            case Advertise(request=request):
                writer.write(message_frame(Done(request)))
            case Subscribe(request=request):
                self._subscribers.append(writer)
                for sent_ns in (7, -300, 1 << 40):
                    writer.write(message_frame(Ping(sent_ns)))
                writer.write(message_frame(Done(request)) + message_frame(Ping(70_000)))
            case Ping():
                self.pings += 1
            case Pong():
                self.pongs.append(message)

    def _publish(self, payload: bytes) -> None:
        self._position += 1
        if self._loses_every and self._position % self._loses_every == 0:
            self._tell(message_frame(Lost(1)))
            return
        born, event = payload[: BORN.size], payload[BORN.size :]
        hop = HOP.pack(BORN.unpack(born)[0], 0, self._position)
        delivery = frame(DELIVER, hop + b"\x01" + (1).to_bytes(4, "little") + event)
        if self._swaps and not self._held:
            self._held = delivery
            return
        self._tell(delivery + self._held)
        self._held = b""
        if self._position == self._ends_after:
            self._tell(message_frame(Bye("overloaded", "go away")))

    def _tell(self, data: bytes) -> None:
        for subscriber in self._subscribers:
            subscriber.write(data)


GUARANTEE, RECEIPT = 5, 8
Fault = Literal["", "forgets", "repeats", "swaps", "adds", "acknowledges twice"]


class Keeper:
    """Speaks frames; keeps what is published with a guarantee, says so, and delivers all of a symbol to a subscriber.

    It acknowledges all that one read brought, at once.
    """

    def __init__(self, fault: Fault = "") -> None:
        self._fault = fault
        self.kept: list[bytes] = []
        self.pings = 0
        """What readers say after so many deliveries."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it ends."""
        frames, sequence = FrameReader(), 0
        while data := await reader.read(1 << 16):
            before = sequence
            for kind, payload in frames.feed(data):
                if kind == MESSAGE:
                    self._answer(payload, writer)
                elif kind == GUARANTEE:
                    sequence += 1
                    self.kept.append(payload)
            if sequence > before:
                receipt = frame(RECEIPT, struct.pack("<QQ", sequence, len(self.kept)))
                writer.write(receipt * (2 if self._fault == "acknowledges twice" else 1))
            await writer.drain()

    def _answer(self, payload: bytes, writer: asyncio.StreamWriter) -> None:
        message = decode_message(payload)
        match message:
            case Hello():
                writer.write(message_frame(WELCOME))
            case Advertise(request=request):
                writer.write(message_frame(Done(request)))
            case Subscribe(request=request, filters=[symbol]):
                wanted = [payload for payload in self.kept if symbol in payload]
                writer.write(message_frame(Done(request)) + b"".join(map(self._delivery, self._told(wanted))))
            case Ping():
                self.pings += 1
                if self._fault == "adds":
                    writer.write(self._delivery(self.kept[0]))

    def _told(self, wanted: list[bytes]) -> list[bytes]:
        first, second, *rest = wanted
        told = {"forgets": [second, *rest], "repeats": [first, first, *rest], "swaps": [second, first, *rest]}
        return told.get(self._fault, wanted)

    @staticmethod
    def _delivery(payload: bytes) -> bytes:
        hop = HOP.pack(BORN.unpack_from(payload)[0], 0, 1)
        return frame(DELIVER, hop + b"\x01" + (1).to_bytes(4, "little") + payload[BORN.size :])


class Acknowledger:
    """Plays the other side of a publisher's script, then acknowledges what it reads, in pieces of odd sizes.

    ``acknowledge`` gets how many were acknowledged before and how many have come, and says what the server would.
    """

    def __init__(self, publishing: Publishing, acknowledge: Callable[[int, int], bytes]) -> None:
        self._publishing, self._acknowledge = publishing, acknowledge
        self.at_once_max = 0
        """Events that waited for their acknowledgement."""

        self.messages: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One publisher, until it ends."""
        await play_server(self._publishing.steps, reader, writer)
        rest, done, size = b"", 0, len(self._publishing.message)
        while data := await reader.read(1 << 16):
            rest += data
            come = len(rest) // size
            self.messages += [rest[at * size : (at + 1) * size] for at in range(come)]
            rest = rest[come * size :]
            self.at_once_max = max(self.at_once_max, come)
            said = self._acknowledge(done, done + come)
            done += come
            cut = 1 + done * 7 % max(1, len(said) - 1)
            for piece in (said[:cut], said[cut:]):
                writer.write(piece)
                await asyncio.sleep(0)


async def play_server(steps: Iterable[Step], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The server's side of a client's script."""
    for step in steps:
        if step.verb == "send":
            assert await reader.readexactly(len(step.data)) == step.data
        else:
            writer.write(step.data)


class Player:
    """Plays the other side of a dialect's script, then wraps what is published as the real server would deliver it.

    It writes in pieces of odd sizes, so that messages are cut everywhere.
    """

    def __init__(self, dialect: Dialect, subject: str, deliver: Callable[[bytes], bytes]) -> None:
        self._dialect, self._subject, self._deliver = dialect, subject, deliver
        self._subscriber: asyncio.StreamWriter | None = None
        self.answers = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The first connection is the subscriber, the second the publisher."""
        if self._subscriber is None:
            self._subscriber = writer
            await play_server(self._dialect.subscriber(self._subject), reader, writer)
            while data := await reader.read(1 << 16):
                self.answers += data
        else:
            await play_server(self._dialect.publisher(self._subject), reader, writer)
            await self._relay(reader, self._subscriber)

    async def _relay(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        size, trailer = len(self._dialect.message(self._subject)), self._dialect.trailer_bytes
        with contextlib.suppress(asyncio.IncompleteReadError):
            for number in range(1 << 30):
                message = await reader.readexactly(size)
                delivery = self._deliver(message[size - trailer - PAYLOAD_BYTES : size - trailer])
                cut = 1 + number * 7 % (len(delivery) - 1)
                for piece in (delivery[:cut], delivery[cut:]):
                    to.write(piece)
                    await asyncio.sleep(0)


def _closing(serve: Serve) -> Serve:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, DamagedFrame, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone or speaks something else, or the test is over
        finally:
            writer.close()

    return connected


@contextlib.contextmanager
def serving(serve: Serve, *, port: int = 0, certificates: Certificates | None = None) -> Iterator[int]:
    """The port on which connections are served, by a thread of their own; with certificates, by TLS."""
    loop = asyncio.new_event_loop()
    context = None
    if certificates is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
    server = loop.run_until_complete(asyncio.start_server(_closing(serve), "127.0.0.1", port, ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)  # closed transports let go of their sockets in the next turn


async def _serve_forever(port: int) -> None:
    server = await asyncio.start_server(_closing(EchoBroker().serve), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve_forever(int(sys.argv[1])))
