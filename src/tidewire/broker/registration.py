"""A broker and its coordinator: registered while it is there, and on our own while it is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect, Note
from tidewire.model.chance import Chance
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import Register
from tidewire.model.placement_messages import Migrated, ReportLoad
from tidewire.wire.connections import Close, Dial, Send
from tidewire.wire.liveness import Liveness

ORDER: Final = 0
"""The order of its dialling; those of neighbours are greater."""


class Registration:
    """The connection to the coordinator, if there is one in the configuration."""

    def __init__(self, config: BrokerConfig, *, incarnation: int, chance: Chance) -> None:
        self._config = config
        self._incarnation = incarnation
        self._chance = chance
        self._conn: Conn | None = None
        self._liveness: Liveness | None = None
        self._attempts = 0
        self._retry_ns: int | None = None if config.coordinator is None else 0

    @property
    def is_there(self) -> bool:
        """Does the connection stand?"""
        return self._conn is not None

    def is_ours(self, conn: Conn) -> bool:
        """Is this the connection to the coordinator?"""
        return conn == self._conn

    def opened(self, conn: Conn, now_ns: Nanoseconds) -> list[Effect]:
        """It is there: register."""
        self._conn = conn
        self._attempts = 0
        self._liveness = Liveness(self._config.heartbeat_s, now_ns=now_ns)
        config = self._config
        return [Send(conn, Register(config.broker, self._incarnation, config.address, config.role), "control")]

    def send(self, message: ReportLoad | Migrated) -> list[Effect]:
        """Tell the coordinator, if it is there."""
        return [] if self._conn is None else [Send(self._conn, message, "control")]

    def lost(self, now_ns: Nanoseconds) -> list[Effect]:
        """It is not there, or no longer: try again later, and go on without it."""
        pause_s = min(self._config.reconnect_s * 2**self._attempts, self._config.reconnect_s_max)
        self._attempts = min(self._attempts + 1, 16)
        self._retry_ns = now_ns + int(pause_s * (0.5 + self._chance.random()) * 1e9)
        was_there, self._conn, self._liveness = self._conn is not None, None, None
        return [Note("coordinator lost", {"address": self._config.coordinator or ""})] if was_there else []

    def heard(self, now_ns: Nanoseconds) -> None:
        """Something has come from it."""
        if self._liveness is not None:
            self._liveness.heard(now_ns)

    def tick(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What is due: dialling, a ping, the end of one that is silent."""
        if self._retry_ns is not None and now_ns >= self._retry_ns:
            self._retry_ns = None
            assert self._config.coordinator is not None
            yield Dial(ORDER, self._config.coordinator)
        if self._conn is None or self._liveness is None:
            return
        if self._liveness.is_dead(now_ns):
            yield Close(self._conn)
        elif ping := self._liveness.ping(now_ns):
            yield Send(self._conn, ping, "control")

    def deadline_ns(self) -> int | None:
        """When something is due next."""
        return self._retry_ns if self._liveness is None else self._liveness.deadline_ns()
