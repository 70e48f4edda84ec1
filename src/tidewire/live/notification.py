"""An event as a client gets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidewire.model.events import Event

if TYPE_CHECKING:
    from tidewire.live.subscription import Subscription


class Notification:
    """An event as it came. Reads like a mapping of its attributes, and knows how long it took to come."""

    __slots__ = ("event", "latency", "latency_error", "subscriptions")

    def __init__(
        self, event: Event, *, latency: float, latency_error: float, subscriptions: tuple[Subscription, ...]
    ) -> None:
        self.event = event
        self.latency = latency
        """Seconds from its publication to here."""
        self.latency_error = latency_error
        """Give or take: the clocks of other machines are known only so well."""
        self.subscriptions = subscriptions
        """The subscriptions of this session that it matched."""

    @property
    def deadline(self) -> float | None:
        """For so many seconds from its publication on it is of use; None: for ever. To be compared with ``latency``."""
        ttl_ns = self.event.envelope.ttl_ns
        return None if ttl_ns is None else ttl_ns / 1e9

    @property
    def is_late(self) -> bool:
        """Has it come after its deadline, as well as that is known?"""
        ttl_ns = self.event.envelope.ttl_ns
        return ttl_ns is not None and self.latency > ttl_ns / 1e9

    @property
    def value(self) -> float | None:
        """What it is worth, from 0 to 1, if its publisher or a traffic class says so."""
        return self.event.envelope.value

    def __getitem__(self, name: str) -> Any:
        return self.event[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute's value; the default if it is absent."""
        return self.event.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self.event

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All its attributes."""
        return self.event.attributes

    @property
    def body(self) -> bytes | None:
        """Its opaque body, if it has one."""
        return self.event.body

    def __repr__(self) -> str:
        return f"<Notification {dict(self.event.attributes)!r} after {self.latency * 1000:.3f} ms>"
