"""The coordinator on real sockets, with a small durable store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Final

from tidewire.coordinator.config import Decides
from tidewire.coordinator.core import CoordinatorCore, CoordinatorEffect, CoordinatorEvent, Save, read_saved
from tidewire.live.clock import now
from tidewire.live.doorway import Doorway
from tidewire.live.security import Security
from tidewire.model.errors import BadConfiguration
from tidewire.model.notes import Note
from tidewire.wire.connections import Close, Send

CERTIFICATE: Final = "coordinator"
"""The name in its own."""


class LiveCoordinator:
    """One coordinator in this process. ``store``: the file that it remembers the members in."""

    def __init__(
        self,
        address: str,
        *,
        store: Path | None = None,
        security: Path | None = None,
        decides: Decides | None = None,
        on_note: Callable[[Note], object] = lambda _note: None,
    ) -> None:
        self._security = None if security is None else Security(security, name=CERTIFICATE, of="coordinator")
        self._store = store
        self._on_note = on_note
        if store is not None:
            self._try_to_save()
        self.core = CoordinatorCore(self._saved(), chance=Random(), is_secured=security is not None, decides=decides)
        self._doorway = Doorway(address, security=self._security, tell=self.tell, on_note=on_note)
        self.address = self._doorway.address

    def _saved(self) -> bytes | None:
        if self._store is None or not self._store.exists():
            return None
        saved = self._store.read_bytes()
        try:
            read_saved(saved)
        except ValueError as error:
            raise BadConfiguration(
                f"{self._store} is damaged ({error}): remove it, the brokers will register again"
            ) from None
        return saved

    async def start(self) -> None:
        """Listen."""
        await self._doorway.start()

    async def stop(self) -> None:
        """End all connections."""
        await self._doorway.stop()

    def tell(self, event: CoordinatorEvent) -> None:
        """Something has happened."""
        self._act(self.core.handle(event, now_ns=now()))

    def _act(self, effects: Iterable[CoordinatorEffect]) -> None:
        for effect in effects:
            match effect:
                case Send(conn, message):
                    self._doorway.send(conn, message)
                case Close(conn):
                    self._doorway.end(conn)
                case Save(document):
                    self._save(document)
                case Note():
                    self._on_note(effect)
        self._doorway.wake_at(self.core.deadline_ns())

    def _try_to_save(self) -> None:
        assert self._store is not None
        try:
            self._store.parent.mkdir(parents=True, exist_ok=True)
            with self._store.with_suffix(".new").open("wb"):
                pass
            self._store.with_suffix(".new").unlink()
        except OSError as error:
            raise BadConfiguration(f"members cannot be remembered in {self._store}: {error.strerror}") from None

    def _save(self, document: bytes) -> None:
        """What cannot be saved now is saved with the next change: meanwhile the brokers are served."""
        try:
            self._write(document)
        except OSError as error:
            self._on_note(Note("members are not remembered", {"in": str(self._store), "why": error.strerror or ""}))

    def _write(self, document: bytes) -> None:
        if self._store is None:
            return
        self._store.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._store.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(document)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._store)
