"""Which channel runs when? Every period from when it began; continuous ones whenever something has come."""

from __future__ import annotations

from tidewire.channels.queries import Declaration
from tidewire.model.ids import Nanoseconds

_MS_NS = 1_000_000


class Schedule:
    """When each channel is due."""

    def __init__(self) -> None:
        self._due_ns: dict[str, Nanoseconds] = {}
        self._channels: dict[str, Declaration] = {}

    def add(self, declaration: Declaration, *, now_ns: Nanoseconds) -> None:
        """It runs for the first time when its period is over."""
        self._channels[declaration.name] = declaration
        if declaration.period_ms is not None:
            self._due_ns[declaration.name] = Nanoseconds(now_ns + declaration.period_ms * _MS_NS)

    def remove(self, channel: str) -> None:
        """It does not run any more."""
        del self._channels[channel]
        self._due_ns.pop(channel, None)

    def fed(self, dataset: str) -> list[str]:
        """The continuous channels that look at what has come into this dataset."""
        return [name for name, one in self._channels.items() if one.period_ms is None and one.feed == dataset]

    def take_due(self, *, now_ns: Nanoseconds) -> list[str]:
        """Those that are due, the longest due first. One that is late by several periods runs once."""
        due = sorted((due_ns, name) for name, due_ns in self._due_ns.items() if due_ns <= now_ns)
        for due_ns, name in due:
            period_ns = (self._channels[name].period_ms or 0) * _MS_NS
            self._due_ns[name] = Nanoseconds(due_ns + ((now_ns - due_ns) // period_ns + 1) * period_ns)
        return [name for _, name in due]

    def next_deadline(self) -> Nanoseconds | None:
        """When the next one is due."""
        return min(self._due_ns.values(), default=None)
