"""What waits for a connection, in the reference engine: control, data, and a queue for each stream, served in turn."""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import Final

from tidewire.dataplane.deadlines import RECEIPTS, Due, due_of
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
    While data has deadlines it goes there by way of a schedule, which takes in all of it until nothing is left there.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.expired = 0
        self._control: list[bytes] = []
        self._data: list[bytes] = []
        self._has_deadlines = False
        """Is there one in data, not yet in the schedule?"""
        self._schedule: list[tuple[bytes, Due]] = []
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
        scheduled = sum(len(frame) for frame, _ in self._schedule)
        return sum(map(len, self._data)) + sum(map(len, self._staged)) + scheduled

    @property
    def stream_bytes(self) -> int:
        """What waits of streams."""
        return sum(queue.bytes for queue in self._flows.values())

    @property
    def is_empty(self) -> bool:
        """Does nothing wait?"""
        return not (self._control or self._data or self._schedule or self._staged or self._flows)

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
        self._has_deadlines |= lane == "data" and due_of(frame).deadline_ns is not None

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
        if self._is_scheduled:
            self._put_in_order()
            for entry in list(self._schedule):
                if self.data_bytes <= bytes_left:
                    break
                if entry[1].line is not None:
                    self._schedule.remove(entry)
                    dropped += 1
            return dropped
        at = 1 if self._begun == "data" and not self._staged else 0
        while at < len(self._data) and self.data_bytes > bytes_left:
            if self._data[at][4] == MESSAGE:
                at += 1
            else:
                del self._data[at]
                dropped += 1
        return dropped

    def take(self, bytes_max: int, *, now_ns: int) -> bytes:
        """What is to be sent next."""
        taken = bytearray()
        while len(taken) < bytes_max:
            self._stage(bytes_max - len(taken), now_ns)
            if self.is_empty:
                break
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

    def _stage(self, bytes_max: int, now_ns: int) -> None:
        """Put data and streams in order, as far as is to be sent now."""
        is_scheduled = self._is_scheduled
        if self._staged or not (self._flows or is_scheduled):
            return
        self._stage_begun()
        if is_scheduled:
            self._put_in_order()
        while self._flows and sum(map(len, self._staged)) < bytes_max:
            flow = self._turns[0]
            self._turns.rotate(-1)
            if flow is None:
                deficit = self._data_deficit + QUANTUM_BYTES
                self._data_deficit = (
                    self._move_due(deficit, now_ns) if is_scheduled else self._move(self._data, deficit)
                )
                continue
            queue = self._flows[flow]
            queue.deficit = self._move(queue.frames, queue.deficit + QUANTUM_BYTES)
            queue.bytes = sum(map(len, queue.frames))
            if not queue.frames:
                del self._flows[flow]
                self._turns.remove(flow)
        while is_scheduled and sum(map(len, self._staged)) < bytes_max and (entry := self._next(now_ns)) is not None:
            self._schedule.remove(entry)
            self._staged.append(entry[0])

    def _stage_begun(self) -> None:
        if self._begun == "data" and not self._staged:
            self._staged.append(self._data.pop(0))

    def _move(self, frames: list[bytes] | deque[bytes], deficit: int) -> int:
        while frames and len(frames[0]) <= deficit:
            deficit -= len(frames[0])
            self._staged.append(frames[0])
            del frames[0]
        return deficit if frames else 0

    # -- deadlines -----------------------------------------------------------------------------------------------------

    @property
    def _is_scheduled(self) -> bool:
        return self._has_deadlines or bool(self._schedule)

    def _put_in_order(self) -> None:
        self._stage_begun()
        self._schedule += [(frame, due_of(frame)) for frame in self._data]
        self._data.clear()
        self._has_deadlines = False

    def expire(self, now_ns: int) -> None:
        """What is past its deadline goes, to make room."""
        if self._is_scheduled:
            self._put_in_order()
            self._next(now_ns)

    def _next(self, now_ns: int) -> tuple[bytes, Due] | None:
        """What is to be sent next (``protocol.py``); what is past its deadline goes."""
        while self._schedule:
            lines = takewhile(lambda entry: entry[1].line is not None, self._schedule)
            ahead = list(lines) or self._schedule[:1]
            with_deadline = [entry for entry in ahead if entry[1].deadline_ns is not None]
            urgent = min(with_deadline, key=lambda entry: entry[1].deadline_ns or 0, default=None)
            if urgent is None:
                return ahead[0]
            due = urgent[1]
            if due.may_expire and due.deadline_ns is not None and due.deadline_ns < now_ns:
                self._schedule.remove(urgent)
                self.expired += 1
                continue
            receipts = [entry for entry in ahead if entry[1].line == RECEIPTS]
            return next(iter(receipts or [entry for entry in ahead if entry[1].line == due.line]))
        return None

    def _move_due(self, deficit: int, now_ns: int) -> int:
        while (entry := self._next(now_ns)) is not None and len(entry[0]) <= deficit:
            deficit -= len(entry[0])
            self._schedule.remove(entry)
            self._staged.append(entry[0])
        return deficit if self._schedule else 0
