"""A broker's disk in virtual time: what was not synced may be lost with the power; it can be slow, and full."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tidewire._kernel._native import Log, MemoryFiles
from tidewire.model.errors import StoreFailed
from tidewire.simulator.agenda import Agenda, in_ns

SYNC_S: Final = 0.002
SEGMENT_BYTES: Final = 256 << 10
GROUP_BYTES: Final = 64 << 10
_ROOM: Final = 1 << 62


class Disk:
    """The files of one broker through all its lives, and the log that its present life has opened."""

    def __init__(self, agenda: Agenda, *, log_id: int, seed: str) -> None:
        self.files = MemoryFiles()
        self.log: Log | None = None
        self.sync_s = SYNC_S
        """What a sync takes."""
        self.on_durable: Callable[[], object] = lambda: None
        self._agenda = agenda
        self._log_id = log_id
        self._chance = Random(f"{seed}/disk")
        self._is_busy = False
        self._sealed = 0
        """The last group that is to be written."""
        self._life = 0

    def open(self) -> Log:
        """A life begins."""
        self._sealed = 0
        self.log = Log(self.files, log_id=self._log_id, segment_bytes=SEGMENT_BYTES, group_bytes=GROUP_BYTES)
        return self.log

    def close(self, *, loses_power: bool) -> None:
        """The process is gone. With the power goes what was not synced, or some of it."""
        self._life += 1
        self._is_busy = False
        self.log = None
        if loses_power:
            self.files.crash(self._chance.randrange(1 << 32))

    def fill(self, *, bytes_left: int) -> None:
        """Somebody else has taken all but so many bytes."""
        self.files.set_capacity(sum(size for _, size in self.files.list()) + bytes_left)

    def empty(self) -> None:
        """There is room again."""
        self.files.set_capacity(_ROOM)
        self.look()

    def look(self) -> None:
        """What waits is written, and synced a little later. What comes meanwhile goes with the next group."""
        if self.log is None or self._is_busy or self.log.trouble == "failed":
            return
        self._sealed = max(self._sealed, self.log.seal())
        if self._sealed <= self.log.durable:
            return
        self._is_busy = True
        life = self._life
        is_written = self.log.write()
        self._agenda.after(in_ns(self.sync_s), lambda: self._synced(is_written) if life == self._life else None)

    def _synced(self, is_written: bool) -> None:
        assert self.log is not None
        self._is_busy = False
        try:
            is_durable = is_written and self.log.sync()
        except StoreFailed:
            return  # the log has said its last word; those who look at it hear so
        if is_durable:
            self.on_durable()
        self.look()
