"""Subscribers that go to another broker: they leave when the streams have come here as far as they stand there.

The sync that one waits for overtakes the streams, for each of them has a queue of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidewire.broker.attending import Attending
from tidewire.model.ids import Conn, PubendId, Tick
from tidewire.wire.connections import Send


class Leaving:
    """Those who wait, each with where the streams have to come."""

    def __init__(self, attending: Attending) -> None:
        self._attending = attending
        self._waiting: list[tuple[Send, dict[PubendId, Tick]]] = []

    def add(self, told: Send, heads: dict[PubendId, Tick]) -> Iterator[Send]:
        """One more; it may be told at once."""
        self._waiting.append((told, heads))
        yield from self.due()

    def due(self) -> Iterator[Send]:
        """Those who need wait no longer."""
        waiting, self._waiting = self._waiting, []
        for told, heads in waiting:
            ahead = self._attending.ahead(heads)
            if ahead:
                self._waiting.append((told, ahead))
            else:
                yield told

    def gone(self, conn: Conn) -> None:
        """This client waits no longer."""
        self._waiting = [one for one in self._waiting if one[0].conn != conn]
