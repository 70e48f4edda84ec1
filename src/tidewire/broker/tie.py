"""A broker's connection to a node that it cannot choose: kept while that is there, and tried again while it is not."""

from __future__ import annotations

from collections.abc import Iterator

from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect
from tidewire.model.chance import Chance
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.wire.connections import Close, Dial, Send
from tidewire.wire.liveness import Liveness


class Tie:
    """One such connection; ``address`` is None if there is no such node in the configuration."""

    def __init__(self, address: str | None, order: int, config: BrokerConfig, *, chance: Chance) -> None:
        """``order``: that of its dialling."""
        self.address = address
        self._order = order
        self._config = config
        self._chance = chance
        self.conn: Conn | None = None
        """None: it does not stand."""
        self._liveness: Liveness | None = None
        self._attempts = 0
        self._retry_ns: int | None = None if address is None else 0

    def opened(self, conn: Conn, now_ns: Nanoseconds) -> None:
        """It stands."""
        self.conn = conn
        self._attempts = 0
        self._liveness = Liveness(self._config.heartbeat_s, now_ns=now_ns)

    def lost(self, now_ns: Nanoseconds) -> bool:
        """It does not stand, or no longer: it is tried again later. Did it?"""
        pause_s = min(self._config.reconnect_s * 2**self._attempts, self._config.reconnect_s_max)
        self._attempts = min(self._attempts + 1, 16)
        self._retry_ns = now_ns + int(pause_s * (0.5 + self._chance.random()) * 1e9)
        was_there, self.conn, self._liveness = self.conn is not None, None, None
        return was_there

    def heard(self, now_ns: Nanoseconds) -> None:
        """Something has come."""
        if self._liveness is not None:
            self._liveness.heard(now_ns)

    def tick(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What is due: dialling, a ping, the end of one that is silent."""
        if self._retry_ns is not None and now_ns >= self._retry_ns:
            self._retry_ns = None
            assert self.address is not None
            yield Dial(self._order, self.address)
        if self.conn is None or self._liveness is None:
            return
        if self._liveness.is_dead(now_ns):
            yield Close(self.conn)
        elif ping := self._liveness.ping(now_ns):
            yield Send(self.conn, ping, "control")

    def deadline_ns(self) -> int | None:
        """When something is due next."""
        return self._retry_ns if self._liveness is None else self._liveness.deadline_ns()
