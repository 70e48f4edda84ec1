"""Events in bulk: off a follower's connection and into columns, as the codec reads them one by one."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire._kernel._native import harvest, join_events, read_columns
from tidewire._kernel.codec import encode
from tidewire.model.errors import DamagedEvent, DamagedFrame, UsageError
from tidewire.model.events import Envelope, make_event
from tidewire.model.values import Timestamp
from tidewire.wire.frames import DELIVER, HOP, MESSAGE, frame

BOOL, INT, FLOAT, STRING, TIME, BYTES = range(1, 7)
MAX = 1 << 20
ALL = 2**63 - 1


def event(tick: int, *, pubend: int = 7, body: bytes | None = None, **attributes: Any) -> bytes:
    return encode(make_event(attributes, body=body, envelope=Envelope(pubend=pubend, tick=tick, sequence=tick)))


def delivery(encoded: bytes, *numbers: int) -> bytes:
    return frame(
        DELIVER, HOP.pack(0, 0, 0) + bytes([len(numbers)]) + struct.pack(f"<{len(numbers)}I", *numbers) + encoded
    )


def values(column: tuple[int, int, bytes, bytes | None, bytes], kind: int) -> list[object]:
    """The rows of a column, read by hand."""
    rows, nulls, valid, offsets, data = column
    found: list[object] = []
    for row in range(rows):
        if not valid[row // 8] >> row % 8 & 1:
            found.append(None)
        elif offsets is not None:
            begin, end = struct.unpack_from("<2i", offsets, 4 * row)
            found.append(data[begin:end].decode() if kind == STRING else data[begin:end])
        elif kind == BOOL:
            found.append(bool(data[row // 8] >> row % 8 & 1))
        else:
            found.append(struct.unpack_from("<d" if kind == FLOAT else "<q", data, 8 * row)[0])
    assert nulls == found.count(None)
    return found


# -- off the connection ------------------------------------------------------------------------------------------------


def test_events_by_the_stream_and_all_else_as_it_came() -> None:
    """Of two streams, with a message and somebody else's event between, and a frame that is not whole yet."""
    message = frame(MESSAGE, b"\x90")
    other = delivery(event(9), 2)
    came = [event(1), event(2, pubend=8), event(3), event(4)]
    data = delivery(came[0], 1) + message + delivery(came[1], 1) + other + delivery(came[2], 1)
    rest = delivery(came[3], 1)[:-1]
    consumed, others, spans = harvest(data + rest, 1, {}, MAX)
    assert consumed == len(data)
    assert others == message + other
    assert spans == [(7, 1, 3, 2, join_events([came[0], came[2]])), (8, 2, 2, 1, join_events([came[1]]))]


def test_what_has_come_before_is_left_out() -> None:
    """After a reconnection a broker may begin earlier than it need."""
    data = b"".join(delivery(event(tick), 1) for tick in (3, 4, 4, 5))
    _, others, spans = harvest(data, 1, {7: 4}, MAX)
    assert others == b""
    assert [one[:4] for one in spans] == [(7, 4, 5, 2)]


def test_a_frame_that_cannot_be_one_is_refused() -> None:
    """A length of nothing, or beyond the bound."""
    for head in (struct.pack("<IB", 0, 4), struct.pack("<IB", MAX + 1, 4)):
        with pytest.raises(DamagedFrame):
            harvest(head, 1, {}, MAX)


# -- into columns ------------------------------------------------------------------------------------------------------

_COLUMNS = {
    "b": (BOOL, st.booleans()),
    "i": (INT, st.integers(-(2**63), 2**63 - 1)),
    "s": (STRING, st.text(max_size=5)),
}
_COLUMNS |= {"f": (FLOAT, st.floats(allow_nan=False)), "y": (BYTES, st.binary(max_size=5))}
_ROW = st.fixed_dictionaries({}, optional={name: strategy for name, (_, strategy) in _COLUMNS.items()})


@given(st.lists(_ROW, max_size=20))
def test_columns_hold_what_the_events_say(rows: list[dict[str, Any]]) -> None:
    """Of every type, present or not, in events of many shapes."""
    batch = join_events([event(tick, **row) for tick, row in enumerate(rows)])
    wanted = [(name, kind, False) for name, (kind, _) in _COLUMNS.items()]
    ticks, bodies, _, columns, faults = read_columns(batch, wanted, 0, ALL)
    assert faults == []
    assert values(ticks, INT) == list(range(len(rows)))
    assert values(bodies, BYTES) == [None] * len(rows)
    for (name, (kind, _)), column in zip(_COLUMNS.items(), columns, strict=True):
        assert values(column, kind) == [row.get(name) for row in rows]


def test_only_the_ticks_that_are_asked_for() -> None:
    """What came together is not always read together."""
    batch = join_events([event(tick, i=tick) for tick in range(10)])
    ticks, *_, columns, _ = read_columns(batch, [("i", INT, False)], 3, 6)
    assert values(ticks, INT) == values(columns[0], INT) == [3, 4, 5]


def test_what_does_not_fit_is_a_fault_and_the_rest_goes_on() -> None:
    """Another type, a column without an attribute that must be there, an attribute without a column."""
    wanted = [("i", INT, True), ("f", FLOAT, False)]
    given_rows: list[dict[str, Any]] = [
        {"i": 1, "f": 2},
        {"i": "1"},
        {"f": 1.0},
        {"i": 1, "z": 1},
        {"i": 1, "f": 2**60},
    ]
    batch = join_events([event(tick, **row) for tick, row in enumerate(given_rows)])
    _, _, _, columns, faults = read_columns(batch, wanted, 0, ALL)
    assert values(columns[1], FLOAT) == [2.0]
    assert [(tick, kind) for tick, kind, _, _ in faults] == [(at, "malformed") for at in (1, 2, 3, 4)]
    assert [reason for _, _, reason, _ in faults] == [
        "'i' is a string, and its column a integer",
        "'i' is missing",
        "'z' is in no column",
        "'f' is an integer that no float is equal to",
    ]
    assert faults[0][3] == event(1, i="1")
    *_, faults = read_columns(batch, wanted, 0, ALL, takes_others=True)
    assert [tick for tick, *_ in faults] == [1, 2, 4]


def test_no_number_is_no_value() -> None:
    """As in filters, NaN is nothing; of the two zeros there is one."""
    batch = join_events([event(0, f=float("nan")), event(1, f=-0.0)])
    _, _, _, columns, faults = read_columns(batch, [("f", FLOAT, False)], 0, ALL)
    assert str(values(columns[0], FLOAT)) == "[None, 0.0]"
    assert faults == []
    *_, faults = read_columns(batch, [("f", FLOAT, True)], 0, ALL)
    assert [reason for _, _, reason, _ in faults] == ["'f' is not a number"]


def test_late_is_by_when_it_was_published() -> None:
    """A tick tells the time: whenever it is stored, the same events are late."""
    tick = 100_000 << 20  # at 100 s
    batch = join_events([event(tick + at, t=Timestamp(ns)) for at, ns in enumerate((95 * 10**9, 89 * 10**9, -1))])
    wanted = [("t", TIME, False)]
    _, _, _, columns, faults = read_columns(batch, wanted, 0, ALL, time_column=0, late_us=10 * 10**6)
    assert values(columns[0], TIME) == [95 * 10**6]
    assert [(kind, reason) for _, kind, reason, _ in faults] == [("late", "late by 11 s"), ("late", "late by 100 s")]


def test_bodies_come_along() -> None:
    """With what they are."""
    with_type = make_event({}, body=b"x", content_type="text/plain", envelope=Envelope(tick=1))
    batch = join_events([encode(with_type), event(2, body=b"")])
    _, bodies, types, _, _ = read_columns(batch, [], 0, ALL)
    assert values(bodies, BYTES) == [b"x", b""]
    assert values(types, STRING) == ["text/plain", None]


def test_a_batch_that_is_none_is_refused() -> None:
    """It was checked when it was logged: here it is no event's fault, but the reader's."""
    for batch in (b"\x01", join_events([b"no event"]), join_events([encode(make_event({"i": 1}))])):
        with pytest.raises(DamagedEvent):
            read_columns(batch, [], 0, ALL)
    with pytest.raises(UsageError):
        read_columns(b"", [("i", INT, False)], 0, ALL, time_column=0)
