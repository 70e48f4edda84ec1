"""What was promised and what came, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable

from tidewire.live.notification import Notification

Key = tuple[int, int]
"""A publisher, and the number that it gave an event."""


class History:
    """Of all publishers: what they tried, and what was acknowledged."""

    def __init__(self) -> None:
        self.tried: dict[Key, None] = {}
        self.acknowledged: dict[Key, None] = {}


class Received:
    """What came to one durable subscription, through all its sessions."""

    def __init__(self, name: str, wants: Callable[[Key], bool]) -> None:
        self.name = name
        self._wants = wants
        self.keys: dict[Key, None] = {}
        self.repeats = 0
        self._last: dict[int, int] = {}
        self._faults: list[str] = []
        self.gaps = 0

    def begins(self) -> None:
        """A session begins without a position: it may repeat what the last one had not told to be done."""
        self._last = {}

    def add(self, event: Notification) -> None:
        """It came."""
        key = int(str(event["p"])), int(str(event["n"]))
        envelope = event.event.envelope
        assert envelope.pubend is not None
        assert envelope.tick is not None
        if envelope.tick <= self._last.get(envelope.pubend, 0):
            self._faults.append(f"{self.name}: {key} came again or late, at tick {envelope.tick}")
        self._last[envelope.pubend] = envelope.tick
        self.repeats += key in self.keys
        self.keys[key] = None

    def missing(self, history: History) -> list[Key]:
        """What was acknowledged, is wanted, and has not come."""
        return [key for key in history.acknowledged if self._wants(key) and key not in self.keys]

    def faults(self, history: History) -> list[str]:
        """All that is wrong."""
        found = [*self._faults]
        found += [f"{self.name}: {key} was acknowledged, and is lost" for key in self.missing(history)]
        strangers = [key for key in self.keys if key not in history.tried or not self._wants(key)]
        return found + [f"{self.name}: {key} came, and is not wanted or was never published" for key in strangers]
