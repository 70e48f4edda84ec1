"""The queues of the fluid engine: what waits, as runs of equal events, counted in virtual bytes."""

from __future__ import annotations

from collections import deque
from itertools import takewhile

import msgspec

from tidewire.dataplane.deadlines import Due, due_of
from tidewire.dataplane.flows import Repeat, bulk, flow, later, step_between
from tidewire.model.messages import Lane
from tidewire.wire.frames import MESSAGE


class Run(msgspec.Struct):
    """So many frames of one size: the first of them, and how far apart they were born."""

    first: bytes
    """Of a frame that is begun: what is left of it."""

    count: int = 1
    every_ns: int = 0
    due: Due = Due(None)
    """Of the first, once it is in the schedule."""

    def until(self, deadline_ns: int) -> int:
        """How many of them have a deadline before this one? They are in the order of their births."""
        first_ns = self.due.deadline_ns
        if first_ns is None or first_ns >= deadline_ns:
            return 0
        return self.count if not self.every_ns else min(self.count, -(-(deadline_ns - first_ns) // self.every_ns))

    def cut(self, count: int) -> None:
        """The first ones are gone."""
        self.first = later(self.first, count, self.every_ns)
        self.count -= count


class RunQueue:
    """A queue (``state.py``) whose cost does not grow with the number of equal events.

    What it hands over stands for exactly the bytes that a queue of single frames would hand over: an event that does
    not go whole is told alone, as an ordinary frame, and begun.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.control_bytes = 0
        self.data_bytes = 0
        self.stream_bytes = 0
        self.expired = 0
        self._control: deque[bytes] = deque()
        self._data: deque[Run] = deque()
        self._has_deadlines = False
        self._schedule: list[Run] = []
        self._staged: deque[Run] = deque()
        self._begun: Lane | None = None

    @property
    def is_empty(self) -> bool:
        """Does nothing wait?"""
        return not (self._control or self.data_bytes)

    def fits(self, size: int) -> bool:
        """Is there room for an event in a frame of this size?"""
        return not self.data_bytes or self.data_bytes + size <= self.bytes_max

    def room(self, size: int) -> int:
        """For how many such events, one behind the other?"""
        if not self.data_bytes:
            return max(1, self.bytes_max // size)
        return max(0, (self.bytes_max - self.data_bytes) // size)

    def put(self, frame: bytes, lane: Lane) -> None:
        """Behind the others of its lane."""
        if lane == "control":
            self._control.append(frame)
            self.control_bytes += len(frame)
        else:
            self._data.append(Run(frame))
            self.data_bytes += len(frame)

    def put_events(self, first: bytes, repeat: Repeat, *, is_part: bool = False) -> None:
        """Behind the others: also as more of a flow, if they continue it. ``is_part``: of one that comes in parts."""
        self.data_bytes += len(first) * repeat.count
        self._has_deadlines |= due_of(first).deadline_ns is not None
        tail = self._data[-1] if self._data else None
        is_flow = is_part or repeat.count > 1 or (tail is not None and tail.count > 1)  # else they stay what they are
        if is_flow and tail is not None and self._continues(tail, first, repeat):
            tail.every_ns = repeat.every_ns if tail.count == 1 else tail.every_ns
            tail.count += repeat.count
        else:
            self._data.append(Run(first, repeat.count, repeat.every_ns))

    def _continues(self, tail: Run, first: bytes, repeat: Repeat) -> bool:
        if len(tail.first) != len(first) or tail.first[4] != first[4]:
            return False
        if self._begun == "data" and not self._staged and len(self._data) == 1:
            return False
        if 1 not in (tail.count, repeat.count) and tail.every_ns != repeat.every_ns:
            return False
        every_ns = repeat.every_ns if tail.count == 1 else tail.every_ns
        if step_between(tail.first, first) != tail.count * every_ns:
            return False
        return later(tail.first, tail.count, every_ns) == first

    # -- throwing away -------------------------------------------------------------------------------------------------

    def drop_events(self, bytes_left: int) -> int:
        """Throw the oldest events away until at most so many bytes are left; how many were there to throw away?"""
        dropped = 0
        if self._is_scheduled:
            self._put_in_order()
        runs = self._schedule or self._data
        at = 1 if self._is_begun_in_data else 0
        while at < len(runs) and self.data_bytes > bytes_left:
            run = runs[at]
            if run.first[4] == MESSAGE:
                at += 1
                continue
            size = len(run.first)
            count = min(run.count, -(-(self.data_bytes - bytes_left) // size))
            dropped += count
            self._lose(runs, run, count)
        return dropped

    def _lose(self, runs: list[Run] | deque[Run], run: Run, count: int) -> None:
        """The first ones of a run have gone."""
        self.data_bytes -= count * len(run.first)
        if count < run.count:
            run.cut(count)
            run.due = due_of(run.first) if runs is self._schedule else run.due
        else:
            del runs[_place(runs, run)]

    @property
    def _is_begun_in_data(self) -> bool:
        return self._begun == "data" and not self._staged

    def put_dropping(self, first: bytes, repeat: Repeat) -> tuple[int, int]:
        """Put events one after the other; when one does not fit, the oldest go (``protocol.py``, ``drop``).

        How many were put, how many thrown away? The steps are as many as the queue has runs, not as there are events.
        """
        size, put, dropped = len(first), 0, 0
        if repeat.count <= self.room(size):
            self.put_events(first, repeat)
            return repeat.count, 0
        low = max(0, self.bytes_max - self.bytes_max // 4 - size)
        while put < repeat.count:
            count = min(self.room(size), repeat.count - put)
            if not count:
                dropped += self.drop_events(low)
                if not self.fits(size):
                    return put, dropped + repeat.count - put
                count = 1
            part = later(first, put, repeat.every_ns)
            self.put_events(part, Repeat(count, repeat.every_ns), is_part=repeat.count > 1)
            put += count
            again = self._again_and_again(size, low, repeat.count - put)
            put, dropped = put + again, dropped + again
        return put, dropped

    def _again_and_again(self, size: int, low: int, coming: int) -> int:
        """When all that can be thrown away is the flow that comes, it goes in circles: skip those that are whole.

        A circle takes as many events as it throws away, and leaves the queue as it was, only later.
        """
        if self._schedule or self._staged or self._has_deadlines:
            return 0
        tail = self._data[-1]
        others = self.data_bytes - tail.count * size
        if not coming or self.room(size) or self._dropped_first() is not tail:
            return 0
        left = max(0, (low - others) // size)
        if others and others + (left + 1) * size > self.bytes_max:
            return 0
        circle = tail.count - left
        again = coming // circle * circle
        tail.first = later(tail.first, again, tail.every_ns)
        return again

    def _dropped_first(self) -> Run | None:
        start = 1 if self._begun == "data" else 0
        for at in range(start, len(self._data)):
            if self._data[at].first[4] != MESSAGE:
                return self._data[at]
        return None

    # -- handing over --------------------------------------------------------------------------------------------------

    def take(self, bytes_max: int, *, now_ns: int = 0) -> bytes:
        """What is to be sent next."""
        taken = bytearray()
        room = bytes_max
        while room > 0:
            self._stage(room, now_ns)
            if self.is_empty:
                break
            lane: Lane = self._begun or ("control" if self._control else "data")
            if lane == "control":
                part = self._take_control(room)
                size = len(part)
            else:
                part, size = self._take_data(room)
            taken += part
            room -= size
        size = bytes_max - room
        return bytes(taken) if size == len(taken) else bulk(bytes(taken), size)

    def _take_control(self, room: int) -> bytes:
        frame = self._control.popleft()
        part = frame[:room]
        self.control_bytes -= len(part)
        self._begun = None
        if len(frame) > room:
            self._control.appendleft(frame[room:])
            self._begun = "control"
        return part

    def _take_data(self, room: int) -> tuple[bytes, int]:
        runs = self._staged or self._data
        run = runs[0]
        size = len(run.first)
        count = min(run.count, room // size)
        if count:
            part = flow(run.first, Repeat(count, run.every_ns))
            self._begun = None
            if count == run.count:
                runs.popleft()
            else:
                run.cut(count)
            self.data_bytes -= count * size
            return part, count * size
        part, rest = run.first[:room], run.first[room:]
        if run.count == 1:
            run.first = rest
        else:
            run.cut(1)
            runs.appendleft(Run(rest))
        self.data_bytes -= room
        self._begun = "data"
        return part, room

    # -- deadlines: the order of the reference engine's queue, a run at a time -----------------------------------------

    @property
    def _is_scheduled(self) -> bool:
        return self._has_deadlines or bool(self._schedule)

    def _put_in_order(self) -> None:
        if self._is_begun_in_data:
            self._staged.append(self._data.popleft())
        for run in self._data:
            run.due = due_of(run.first)
        self._schedule += self._data
        self._data.clear()
        self._has_deadlines = False

    def expire(self, now_ns: int) -> None:
        """What is past its deadline goes, to make room."""
        if self._is_scheduled:
            self._put_in_order()
            self._next(now_ns)

    def _stage(self, bytes_max: int, now_ns: int) -> None:
        """Put in order as much as is to be sent now."""
        if self._staged or not self._is_scheduled:
            return
        self._put_in_order()
        staged = sum(len(run.first) * run.count for run in self._staged)
        while staged < bytes_max and (found := self._next(now_ns)) is not None:
            run, count = found
            size = len(run.first)
            count = min(count, -(-(bytes_max - staged) // size))
            self._staged.append(Run(run.first, count, run.every_ns))
            self._lose(self._schedule, run, count)
            self.data_bytes += count * size  # it still waits
            staged += count * size

    def _next(self, now_ns: int) -> tuple[Run, int] | None:
        """What is to be sent next, and how many of its events are ahead of all others; what is late goes."""
        while self._schedule:
            ahead = list(takewhile(lambda run: run.due.line is not None, self._schedule)) or self._schedule[:1]
            urgent = sorted((run for run in ahead if run.due.deadline_ns is not None), key=_deadline_of)
            if not urgent:
                return ahead[0], ahead[0].count
            if late := urgent[0].until(now_ns):
                self.expired += late
                self._lose(self._schedule, urgent[0], late)
                continue
            line = urgent[0].due.line
            first = next(run for run in ahead if run.due.line == line)
            rival = next((run for run in urgent if run.due.line != line), None)
            if first is not urgent[0] or rival is None:
                return first, first.count
            is_older = _place(ahead, first) < _place(ahead, rival)
            return first, max(1, first.until(_deadline_of(rival) + is_older))
        return None


def _deadline_of(run: Run) -> int:
    assert run.due.deadline_ns is not None
    return run.due.deadline_ns


def _place(runs: list[Run] | deque[Run], run: Run) -> int:
    """Of this very run: others may be equal."""
    return next(i for i, one in enumerate(runs) if one is run)
