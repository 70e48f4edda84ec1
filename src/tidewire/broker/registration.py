"""A broker and its coordinator: registered while it is there, and on our own while it is not."""

from __future__ import annotations

from typing import Final

from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect, Note
from tidewire.broker.tie import Tie
from tidewire.model.chance import Chance
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import Register
from tidewire.model.placement_messages import Migrated, ReportLoad
from tidewire.wire.connections import Send

ORDER: Final = 0
"""The order of its dialling; those of neighbours are greater."""


class Registration:
    """The connection to the coordinator, if there is one in the configuration."""

    def __init__(self, config: BrokerConfig, *, incarnation: int, chance: Chance) -> None:
        self._config = config
        self._incarnation = incarnation
        self._tie = Tie(config.coordinator, ORDER, config, chance=chance)
        self.heard = self._tie.heard
        self.tick = self._tie.tick
        self.deadline_ns = self._tie.deadline_ns

    @property
    def is_there(self) -> bool:
        """Does the connection stand?"""
        return self._tie.conn is not None

    def is_ours(self, conn: Conn) -> bool:
        """Is this the connection to the coordinator?"""
        return conn == self._tie.conn

    def opened(self, conn: Conn, now_ns: Nanoseconds) -> list[Effect]:
        """It is there: register."""
        self._tie.opened(conn, now_ns)
        config = self._config
        place = None if config.location is None else (config.location.lat, config.location.lon)
        register = Register(config.broker, self._incarnation, config.address, config.role, place)
        return [Send(conn, register, "control")]

    def send(self, message: ReportLoad | Migrated) -> list[Effect]:
        """Tell the coordinator, if it is there."""
        return [] if self._tie.conn is None else [Send(self._tie.conn, message, "control")]

    def lost(self, now_ns: Nanoseconds) -> list[Effect]:
        """It is not there, or no longer: try again later, and go on without it."""
        lost = self._tie.lost(now_ns)
        return [Note("coordinator lost", {"address": self._config.coordinator or ""})] if lost else []
