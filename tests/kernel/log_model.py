"""A log and a small model of it, which is told the same and must know the same, also after the power was gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidewire._kernel._native import Log, MemoryFiles

Record = tuple[int, int, int, int, int, int, bytes]

WINDOW = 4
SEGMENT_BYTES = 8192
PUBENDS = (1, 2, 3)
FOREVER = 2**63


@dataclass
class Known:
    """What follows from records, applied in order."""

    events: dict[int, list[Record]] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    keys: dict[bytes, bytes] = field(default_factory=dict)
    windows: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)

    def append(self, record: Record) -> None:
        """An event."""
        pubend, tick, publisher, sequence = record[:4]
        self.events.setdefault(pubend, []).append(record)
        self.last[pubend] = tick
        if publisher:
            window = self.windows.setdefault((pubend, publisher), [])
            window.append((sequence, tick))
            del window[:-WINDOW]

    def advance(self, pubend: int, tick: int) -> None:
        """Nothing is published up to this tick."""
        self.last[pubend] = max(self.last.get(pubend, 0), tick)


@dataclass
class Operation:
    """Something that was put into a group."""

    group: int
    name: str
    values: tuple[object, ...]


class Twins:
    """The log over files in memory, beside its model; every method checks what it can."""

    def __init__(self, *, cache_bytes: int = 0, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.files = MemoryFiles()
        self._options = {"cache_bytes": cache_bytes, "segment_bytes": segment_bytes}
        self._operations: list[Operation] = []
        self._taken: list[Record] = []
        self.known = Known()
        self.released: dict[int, int] = {}
        self._released_durable: dict[int, int] = {}
        self.sequences: dict[tuple[int, int], int] = {}
        self.log = self._open()

    def _open(self) -> Log:
        return Log(
            self.files, log_id=7, group_bytes=1024, publisher_window=WINDOW, backlog_bytes_max=1 << 16, **self._options
        )

    # --- into the log

    def append(self, pubend: int, *, step: int, publisher: int, event: bytes) -> bool:
        """The pubend's next event, so many ticks further on."""
        tick = self.known.last.get(pubend, 0) + step
        sequence = self.sequences.get((pubend, publisher), 0) + 1 if publisher else 0
        record = (pubend, tick, publisher, sequence, tick * 1000, 5, event)
        group = self.log.append(*record)
        if group:
            self._did(group, "append", record)
            self.sequences[pubend, publisher] = sequence
        return bool(group)

    def put(self, key: bytes, value: bytes) -> None:
        """A key gets a value."""
        if group := self.log.put(key, value):
            self._did(group, "put", (key, value))

    def erase(self, key: bytes) -> None:
        """A key is gone."""
        if group := self.log.erase(key):
            self._did(group, "erase", (key,))

    def advance(self, pubend: int, step: int) -> None:
        """The pubend says that nothing will come up to a tick."""
        tick = self.known.last.get(pubend, 0) + step
        if group := self.log.advance(pubend, tick):
            self._did(group, "advance", (pubend, tick))

    def release(self, pubend: int, tick: int) -> None:
        """What is below the tick is not needed any more."""
        self.log.release(pubend, tick)
        self.released[pubend] = max(tick, self.released.get(pubend, 0))
        assert self.log.released_tick(pubend) == self.released[pubend]

    def _did(self, group: int, name: str, values: tuple[object, ...]) -> None:
        assert not self._operations or group >= self._operations[-1].group
        assert group > self.log.durable
        operation = Operation(group, name, values)
        self._operations.append(operation)
        _apply(self.known, operation)

    # --- to the disk

    def commit(self) -> bool:
        """Everything is durable, if there is room."""
        is_done = self.log.commit()
        if is_done:
            assert self.log.waiting_events == 0
            assert all(operation.group <= self.log.durable for operation in self._operations)
            self._released_durable = dict(self.released)
        return is_done

    def take(self) -> None:
        """What has become durable comes back once, in order, as it was."""
        for number, records in self.log.take():
            assert number <= self.log.durable
            self._taken += records
        expected = [op.values for op in self._operations if op.name == "append" and op.group <= self.log.durable]
        assert self._taken == expected

    # --- what can happen

    def crash(self, seed: int) -> None:
        """The power goes; what was durable is there again, and perhaps more, but nothing that is not whole."""
        durable = self.log.durable
        self.files.crash(seed)
        self._come_back(durable)
        assert not self.log.report[5], "power alone damages nothing"

    def end(self) -> None:
        """The process ends without a word; the machine goes on."""
        durable = self.log.durable
        del self.log
        self._come_back(durable)

    def close(self) -> None:
        """The log is closed as it should be."""
        if self.commit():
            self.log.close()
            durable = self.log.durable
            self._come_back(durable)
            assert self.log.report[3] == 0, "nothing is cut from a log that was closed"

    def _come_back(self, durable: int) -> None:
        self.log = self._open()
        found = self.log.durable - 1  # the last group is the mark of the new life
        assert found >= durable, "a durable group is gone"
        self._operations = [operation for operation in self._operations if operation.group <= found]
        self._taken = [op.values for op in self._operations if op.name == "append"]  # type: ignore[misc]
        self.known = Known()
        for operation in self._operations:
            _apply(self.known, operation)
        self.sequences = {key: window[-1][0] for key, window in self.known.windows.items()}
        for pubend in PUBENDS:
            released = self.log.released_tick(pubend)
            upper = max(self.released.get(pubend, 0), self.known.last.get(pubend, 0) + 1)
            assert self._released_durable.get(pubend, 0) <= released <= upper
            self.released[pubend] = self._released_durable[pubend] = released
        self.check()

    # --- what it knows

    def check(self) -> None:
        """Everything that can be asked."""
        self.check_state()
        durable = Known()
        for operation in self._operations:
            if operation.group <= self.log.durable:
                _apply(durable, operation)
        for pubend in PUBENDS:
            assert self.log.durable_tick(pubend) == durable.last.get(pubend, 0)
            self.check_reading(pubend, 0, FOREVER, bytes_max=1 << 30, durable=durable)

    def check_state(self) -> None:
        """Keys, ticks, publishers."""
        assert dict(self.log.items(b"")) == self.known.keys
        for key, value in self.known.keys.items():
            assert self.log.get(key) == value
        for pubend in PUBENDS:
            assert self.log.last_tick(pubend) == self.known.last.get(pubend, 0)
        for (pubend, publisher), window in self.known.windows.items():
            assert self.log.last_sequence(pubend, publisher) == window[-1][0]
            for sequence, tick in window:
                assert self.log.tick_of(pubend, publisher, sequence) == tick
            assert self.log.tick_of(pubend, publisher, window[-1][0] + 1) == 0
            if window[0][0] > 1:
                assert self.log.tick_of(pubend, publisher, window[0][0] - 1) == 0

    def durable_known(self) -> Known:
        """What follows from what is durable."""
        known = Known()
        for operation in self._operations:
            if operation.group <= self.log.durable:
                _apply(known, operation)
        return known

    def check_reading(
        self, pubend: int, from_tick: int, to_tick: int, *, bytes_max: int, durable: Known | None = None
    ) -> None:
        """Piece by piece: every event that is kept, in order, once; what is released is told as lost."""
        known = durable or self.durable_known()
        released = self.released.get(pubend, 0)
        end = max(from_tick, min(to_tick, max(released, known.last.get(pubend, 0) + 1)))
        found: list[Record] = []
        lost: list[tuple[int, int]] = []
        at = from_tick
        while True:
            records, gone, following = self.log.read(pubend, at, to_tick, bytes_max)
            assert following >= at
            found += records
            lost += gone
            if following == at or following >= end:
                break
            at = following
        wanted = [r for r in known.events.get(pubend, []) if max(from_tick, released) <= r[1] < to_tick]
        assert found == wanted
        is_behind = from_tick < min(released, to_tick)
        assert lost == ([(from_tick, min(released, to_tick))] if is_behind else [])


def _apply(known: Known, operation: Operation) -> None:
    values = operation.values
    if operation.name == "append":
        known.append(values)  # type: ignore[arg-type]
    elif operation.name == "put":
        known.keys[values[0]] = values[1]  # type: ignore[index, assignment]
    elif operation.name == "erase":
        known.keys.pop(values[0], None)  # type: ignore[call-overload]
    elif operation.name == "advance":
        known.advance(*values)  # type: ignore[arg-type]
