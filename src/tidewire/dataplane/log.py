"""The log as an engine sees it: the kernel's (``tidewire._kernel._native.Log``), or whatever keeps events as it does.

Into the open group goes what must become durable together; ``take`` gives back what has become so. The other end of it,
which writes and syncs, is the driver's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Record(Protocol):
    """An event as the log has it."""

    @property
    def pubend(self) -> int:
        """The stream."""

    @property
    def tick(self) -> int:
        """Its place there."""

    @property
    def publisher(self) -> int:
        """Who published it."""

    @property
    def sequence(self) -> int:
        """The publisher's number for it."""

    @property
    def born_ns(self) -> int:
        """When that was, since 1970."""

    @property
    def error_us(self) -> int:
        """How far off that may be."""

    @property
    def event(self) -> bytes:
        """Encoded, and stamped."""


class Log(Protocol):
    """One broker's log."""

    def append(
        self,
        pubend: int,
        tick: int,
        publisher: int,
        sequence: int,
        born_ns: int,
        error_us: int,
        event: bytes,
    ) -> bool:
        """False: there is no room right now, and nothing has changed."""

    def put(self, key: bytes, value: bytes) -> bool:
        """Small state; durable with the open group. False as above."""

    def get(self, key: bytes) -> bytes | None:
        """What was put."""

    @property
    def open_group(self) -> int:
        """The number of the group that the next record goes to."""

    @property
    def durable(self) -> int:
        """The last group that is durable."""

    def take(self) -> Sequence[Sequence[Record]]:
        """The groups that have become durable since the last call, with their events."""

    def last_tick(self, pubend: int) -> int:
        """Of its last event, durable or not; 0: there is none."""

    def durable_tick(self, pubend: int) -> int:
        """Of its last event that is durable."""

    def last_sequence(self, pubend: int, publisher: int) -> int:
        """Of a publisher's last event, durable or not; 0: nothing is known of it."""

    def tick_of(self, pubend: int, publisher: int, sequence: int) -> int:
        """The tick that the event got; 0: it is too old to be known."""

    def read(
        self, pubend: int, first: int, end: int, bytes_max: int
    ) -> tuple[Sequence[Record], Sequence[tuple[int, int]], int]:
        """Durable events from the first tick up to the end, or so many bytes; what is lost; up to where that is all."""
