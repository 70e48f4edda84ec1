"""The log as an engine sees it: the kernel's (``tidewire._kernel._native.Log``), or whatever keeps events as it does.

Into the open group goes what must become durable together; ``take`` gives back what has become so. The other end of it,
which writes and syncs, is the driver's.
"""

from __future__ import annotations

from typing import Protocol

Record = tuple[int, int, int, int, int, int, bytes]
"""An event as the log has it: pubend, tick, publisher, sequence, born_ns since 1970, error_us, the stamped event."""


class Log(Protocol):
    """One broker's log."""

    def append(
        self, pubend: int, tick: int, publisher: int, sequence: int, born_ns: int, error_us: int, event: bytes
    ) -> int:
        """The number of the group that it is durable with; 0: there is no room right now, and nothing has changed."""

    def put(self, key: bytes, value: bytes) -> int:
        """Small state; as above."""

    def erase(self, key: bytes) -> int:
        """No longer; as above."""

    def get(self, key: bytes) -> bytes | None:
        """What was put."""

    def items(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """All whose keys begin so."""

    def release(self, pubend: int, tick: int) -> None:
        """What is below is not needed any more."""

    @property
    def durable(self) -> int:
        """The last group that is durable."""

    @property
    def trouble(self) -> str:
        """Why there is no room; none: there is."""

    @property
    def trouble_text(self) -> str:
        """The same for people."""

    @property
    def disk_bytes(self) -> int:
        """What it takes of the disk."""

    def first_tick(self, pubend: int) -> int:
        """Of the first event that is still there; 0: there is none."""

    def take(self) -> list[tuple[int, list[Record]]]:
        """The groups that have become durable since the last call, with their events."""

    def last_tick(self, pubend: int) -> int:
        """Of its last event, durable or not; 0: there is none."""

    def durable_tick(self, pubend: int) -> int:
        """Of its last event that is durable."""

    def released_tick(self, pubend: int) -> int:
        """What is below is not needed."""

    def losses(self, pubend: int) -> list[tuple[int, int, int]]:
        """What was there, is not released, and cannot be read: first and last tick, and when that was found.

        In nanoseconds since 1970; 0: a reader has met it.
        """

    def last_sequence(self, pubend: int, publisher: int) -> int:
        """Of a publisher's last event, durable or not; 0: nothing is known of it."""

    def tick_of(self, pubend: int, publisher: int, sequence: int) -> int:
        """The tick that the event got; 0: it is too old to be known."""

    def read(
        self, pubend: int, from_tick: int, to_tick: int, bytes_max: int
    ) -> tuple[list[Record], list[tuple[int, int]], int]:
        """Durable events from one tick up to another, or so many bytes; what is lost; up to where that is all."""
