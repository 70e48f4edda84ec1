"""What do brokers know of each other's load? PIE: when it is told, and how long it is believed (peer §3.2, §3.3).

The same for an edge in its cluster and for a cluster among its neighbours.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.indices import differences, is_sound
from tidewire.model.balance_messages import GlobalPie, LocalPie
from tidewire.model.ids import BrokerId, Nanoseconds

Pie = TypeVar("Pie", LocalPie, GlobalPie)


class Telling:
    """What a broker has told of itself, and whether it is time to tell more (PIE2)."""

    def __init__(self, config: BalancingConfig, *, period_s: float, now_ns: Nanoseconds) -> None:
        self._config = config
        self._period_ns = int(period_s * 1e9)
        self._next_ns = now_ns
        self._told: LocalPie | GlobalPie | None = None
        self._told_ns = 0

    def next_deadline_ns(self) -> int:
        """When to ask ``is_due`` again."""
        return self._next_ns

    def is_due(self, now_ns: Nanoseconds) -> bool:
        """Has a period passed? Then the next one begins."""
        if now_ns < self._next_ns:
            return False
        # From now on and not from when it was due: else a keep-alive may come a period later than it must.
        self._next_ns = Nanoseconds(now_ns + self._period_ns)
        return True

    def is_news(self, pie: LocalPie | GlobalPie, *, is_watching: bool, now_ns: Nanoseconds) -> bool:
        """Would this change what others think? ``is_watching``: in a session between clusters, balanced sets count."""
        told = self._told
        if told is None:
            return True
        has_changed = pie.condition != told.condition
        if self._config.as_printed.pie_both:
            return self._has_moved(pie, told) and (pie.condition == "OK" or has_changed)
        if has_changed or (is_watching and _balanced(pie) != _balanced(told)):
            return True
        keep_alive_ns = self._config.pie_keep_alive_periods * self._period_ns
        return pie.condition == "OK" and (self._has_moved(pie, told) or now_ns - self._told_ns >= keep_alive_ns)

    def _has_moved(self, pie: LocalPie | GlobalPie, told: LocalPie | GlobalPie) -> bool:
        moved = differences(pie.indices, told.indices, norm_s=self._config.delay_norm_s)
        limits = {"input": self._config.pie_ratio, "output": self._config.pie_ratio, "match": self._config.pie_delay}
        return any(abs(moved[action]) > limits[action] for action in moved)

    def tell(self, pie: LocalPie | GlobalPie, *, now_ns: Nanoseconds) -> None:
        """It has been told."""
        self._told, self._told_ns = pie, now_ns


def _balanced(pie: LocalPie | GlobalPie) -> list[BrokerId]:
    return sorted(pie.balanced) if isinstance(pie, LocalPie) else []


class Entry(msgspec.Struct, Generic[Pie], frozen=True):
    """What one broker, or a cluster by the name of its head, has told last."""

    broker: BrokerId
    cluster: BrokerId
    pie: Pie
    heard_ns: int


class Book(Generic[Pie]):
    """What others have told. Entries end when they are old (PIE3), but not those of one's own edges."""

    def __init__(self, config: BalancingConfig, *, period_s: float) -> None:
        self._lifetime_ns = config.pie_lifetime_periods * int(period_s * 1e9)
        self._entries: dict[BrokerId, Entry[Pie]] = {}
        self._kept: dict[BrokerId, None] = {}

    def take(self, broker: BrokerId, cluster: BrokerId, pie: Pie, *, now_ns: Nanoseconds) -> bool:
        """Somebody has told. Is it one that could take something, so that detection is to look at once (PIE7)?"""
        if not is_sound(pie.indices):
            return False
        self._entries[broker] = Entry(broker, cluster, pie, now_ns)
        return pie.condition == "OK"

    def keep(self, broker: BrokerId) -> None:
        """This one is connected to us: what it says holds until it says otherwise."""
        self._kept[broker] = None

    def forget(self, broker: BrokerId) -> None:
        """It is gone."""
        self._kept.pop(broker, None)
        self._entries.pop(broker, None)

    def forget_all_but(self, cluster: BrokerId) -> None:
        """Only this cluster counts from now on."""
        self._entries = {broker: entry for broker, entry in self._entries.items() if entry.cluster == cluster}

    def entries(self, *, now_ns: Nanoseconds) -> list[Entry[Pie]]:
        """All that is believed, by name."""
        self._entries = {broker: entry for broker, entry in self._entries.items() if self._is_alive(entry, now_ns)}
        return [self._entries[broker] for broker in sorted(self._entries)]

    def _is_alive(self, entry: Entry[Pie], now_ns: Nanoseconds) -> bool:
        return entry.broker in self._kept or now_ns < entry.heard_ns + self._lifetime_ns
