"""Results of channels that a client's queue has no room for, yet: one run may bring more than a queue may hold.

A queue that is full ends its connection, for who does not read must not fill our memory. Who reads as fast as it can is
another matter: it is sent the next piece when there is room for it. One who has read nothing for a while is sent all
that waits, and so ended as others are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from tidewire.dataplane.protocol import Engine
from tidewire.model.channel_messages import ChannelEnded, ChannelOpened, Notified, NotifiedLost
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import Message

LOOK_NS: Final = 10_000_000
"""So often it is looked whether there is room."""
STALLED_NS: Final = 10_000_000_000
"""Who has read nothing for so long does not read."""


class Outbox:
    """Of all clients of a broker; most of the time it is empty."""

    def __init__(self, engine: Engine, *, queue_bytes_max: int) -> None:
        self._engine = engine
        self._room_bytes = queue_bytes_max // 2
        self._waiting: dict[Conn, deque[bytes]] = {}
        self._taken: dict[Conn, tuple[int, Nanoseconds]] = {}
        """What each of them has read, and since when that is so."""
        self._look_ns = Nanoseconds(0)

    def takes(self, conn: Conn, message: Message, frame: bytes, *, now_ns: Nanoseconds) -> bool:
        """Must this wait? Then it is kept, and whatever else is said of channels stays behind it."""
        if not isinstance(message, Notified | NotifiedLost | ChannelEnded | ChannelOpened):
            return False
        if conn not in self._waiting:
            if not isinstance(message, Notified) or self._has_room(conn, frame):
                return False
            self._waiting[conn] = deque()
            self._look_ns = Nanoseconds(now_ns + LOOK_NS)
        self._waiting[conn].append(frame)
        return True

    def due(self, now_ns: Nanoseconds) -> Iterator[tuple[Conn, bytes]]:
        """What there is room for by now. Each is to be sent before the next is asked for."""
        if not self._waiting or now_ns < self._look_ns:
            return
        self._look_ns = Nanoseconds(now_ns + LOOK_NS)
        for conn, frames in list(self._waiting.items()):
            is_stalled = self._is_stalled(conn, now_ns)
            while frames and (is_stalled or self._has_room(conn, frames[0])):
                yield conn, frames.popleft()
            if not frames:
                self.gone(conn)

    def gone(self, conn: Conn) -> None:
        """This client gets nothing more."""
        self._waiting.pop(conn, None)
        self._taken.pop(conn, None)

    def deadline_ns(self) -> Nanoseconds | None:
        """When to look again."""
        return self._look_ns if self._waiting else None

    def _is_stalled(self, conn: Conn, now_ns: Nanoseconds) -> bool:
        traffic = self._engine.traffic(conn)
        taken = traffic.bytes_out - traffic.queued_bytes
        known, since_ns = self._taken.get(conn, (-1, now_ns))
        self._taken[conn] = taken, since_ns if taken == known else now_ns
        return taken == known and now_ns >= since_ns + STALLED_NS

    def _has_room(self, conn: Conn, frame: bytes) -> bool:
        queued = self._engine.traffic(conn).queued_bytes
        return not queued or queued + len(frame) <= self._room_bytes
