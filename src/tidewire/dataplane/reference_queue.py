"""What waits for a connection, in the reference engine: control, data, and a queue for each stream, served in turn."""

from __future__ import annotations

from collections import deque
from typing import Final

from tidewire.model.ids import PubendId
from tidewire.model.messages import Lane
from tidewire.wire.frames import MESSAGE

QUANTUM_BYTES: Final = 1 << 10
"""What a queue may send in its turn; what it does not use, because its next frame is too large, it has in the next."""

Flow = tuple[PubendId, bool]
"""A stream, and whether it is told anew, for those who lack it."""


class _Queue:
    """Frames of one flow."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.bytes = 0
        self.deficit = 0


class Outbox:
    """Frames that wait to be sent: control ahead of data, but never into a frame that is begun.

    While streams wait, data and they take turns (deficit round robin), by way of a short stretch that is in order.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._control: list[bytes] = []
        self._data: list[bytes] = []
        self._begun: Lane | None = None
        """The lane whose first frame is sent in part; what is left of it stands in the frame's place."""
        self._staged: deque[bytes] = deque()
        self._flows: dict[Flow, _Queue] = {}
        self._turns: deque[Flow | None] = deque([None])
        """Who is next; None: data."""
        self._data_deficit = 0

    @property
    def control_bytes(self) -> int:
        """What waits in the control queue."""
        return sum(map(len, self._control))

    @property
    def data_bytes(self) -> int:
        """What waits in the data queue, in order already or not."""
        return sum(map(len, self._data)) + sum(map(len, self._staged))

    @property
    def stream_bytes(self) -> int:
        """What waits of streams."""
        return sum(queue.bytes for queue in self._flows.values())

    @property
    def is_empty(self) -> bool:
        """Does nothing wait?"""
        return not self._control and not self._data and not self._staged and not self._flows

    def fits(self, size: int) -> bool:
        """Is there room for an event in a frame of this size?"""
        return not self.data_bytes or self.data_bytes + size <= self.bytes_max

    def fits_stream(self, flow: Flow, size: int) -> bool:
        """Is there room in this stream's queue? All have one bound, and each one its share of it for sure."""
        queue = self._flows.get(flow)
        if queue is None or self.stream_bytes + size <= self.bytes_max:
            return True
        return queue.bytes + size <= self.bytes_max // len(self._flows)

    def put(self, frame: bytes, lane: Lane) -> None:
        """Behind the others of its lane."""
        (self._control if lane == "control" else self._data).append(frame)

    def put_stream(self, flow: Flow, frame: bytes) -> None:
        """Behind the others of its stream."""
        if flow not in self._flows:
            self._flows[flow] = _Queue()
            self._turns.append(flow)
        queue = self._flows[flow]
        queue.frames.append(frame)
        queue.bytes += len(frame)

    def drop_events(self, bytes_left: int) -> int:
        """Throw the oldest events away until at most so many bytes are left; how many were there to throw away?"""
        dropped = 0
        at = 1 if self._begun == "data" and not self._staged else 0
        while at < len(self._data) and self.data_bytes > bytes_left:
            if self._data[at][4] == MESSAGE:
                at += 1
            else:
                del self._data[at]
                dropped += 1
        return dropped

    def take(self, bytes_max: int) -> bytes:
        """What is to be sent next."""
        taken = bytearray()
        while not self.is_empty and len(taken) < bytes_max:
            self._stage(bytes_max - len(taken))
            lane: Lane = self._begun or ("control" if self._control else "data")
            queue: list[bytes] | deque[bytes] = self._control if lane == "control" else self._staged or self._data
            room = bytes_max - len(taken)
            taken += queue[0][:room]
            if len(queue[0]) > room:
                queue[0] = queue[0][room:]
                self._begun = lane
            else:
                del queue[0]
                self._begun = None
        return bytes(taken)

    def _stage(self, bytes_max: int) -> None:
        """Put data and streams in order, as far as is to be sent now."""
        if not self._flows or self._staged:
            return
        if self._begun == "data":
            self._staged.append(self._data.pop(0))
        while self._flows and sum(map(len, self._staged)) < bytes_max:
            flow = self._turns[0]
            self._turns.rotate(-1)
            if flow is None:
                self._data_deficit = self._move(self._data, self._data_deficit + QUANTUM_BYTES)
                continue
            queue = self._flows[flow]
            queue.deficit = self._move(queue.frames, queue.deficit + QUANTUM_BYTES)
            queue.bytes = sum(map(len, queue.frames))
            if not queue.frames:
                del self._flows[flow]
                self._turns.remove(flow)

    def _move(self, frames: list[bytes] | deque[bytes], deficit: int) -> int:
        while frames and len(frames[0]) <= deficit:
            deficit -= len(frames[0])
            self._staged.append(frames[0])
            del frames[0]
        return deficit if frames else 0
