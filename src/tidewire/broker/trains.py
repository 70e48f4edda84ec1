"""What does a link carry that is not full? A train of messages says, while there is a shortage (epeer §2.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidewire.congestion.fdcc.links import LinkMeter, TrainMeter
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.shortage_messages import Carried, Train
from tidewire.wire.connections import Send

MESSAGE_BYTES: Final = 1400
"""Of each: about a packet."""
MESSAGES_MIN: Final = 4
SHARE: Final = 0.03
"""Of what a link carries in a second: a train is no longer than this, unless it is too short to tell anything."""


class Trains:
    """Those that a broker sends over its links, and those that come."""

    def __init__(self, *, train_bytes: int) -> None:
        self._most = train_bytes // MESSAGE_BYTES
        self._number = 0
        self._sent: dict[Conn, int] = {}
        self._coming: dict[Conn, TrainMeter] = {}
        self.sent = 0

    def gone(self, conn: Conn) -> None:
        """A lane has ended."""
        self._sent.pop(conn, None)
        self._coming.pop(conn, None)

    def send(self, data: Conn, *, capacity_bytes_s: float) -> Iterator[Send]:
        """One sets out, on this data lane, that is thought to carry so much: a small share of that."""
        count = min(self._most, max(MESSAGES_MIN, int(SHARE * capacity_bytes_s / MESSAGE_BYTES)))
        if count < 2:
            return
        self._number += 1
        self.sent += 1
        self._sent[data] = self._number
        padding = bytes(MESSAGE_BYTES)
        for place in range(count):
            yield Send(data, Train(self._number, place, place == count - 1, padding))

    def came(self, data: Conn, control: Conn, train: Train, *, now_ns: Nanoseconds) -> Iterator[Send]:
        """One of a train has come; when it was the last, the sender hears how fast they came."""
        meter = self._coming.setdefault(data, TrainMeter())
        is_complete, bytes_s = meter.came(
            train.number, train.place, len(train.padding), is_last=train.is_last, now_ns=now_ns
        )
        if is_complete:
            yield Send(control, Carried(train.number, bytes_s), "control")

    def carried(self, data: Conn, carried: Carried, meter: LinkMeter | None) -> None:
        """The other side says how fast they came."""
        if meter is not None and self._sent.get(data) == carried.number:
            meter.carried(carried.bytes_s)
