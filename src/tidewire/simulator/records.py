"""What has happened, as far as the checkers ask: what was published, wanted, received, and when what was down."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidewire.model.filters import Filter
from tidewire.model.ids import TreeId
from tidewire.model.values import Value

FOREVER_NS = 1 << 62


EventKey = tuple[int, int]
"""The publisher's number and the sequence: what an event's envelope says."""


class Publication(msgspec.Struct, frozen=True):
    """An event that was sent to a broker."""

    key: EventKey
    publisher: str
    sequence: int
    time_ns: int
    attributes: Mapping[str, Value]
    broker: str
    tree: TreeId


class Receipt(msgspec.Struct, frozen=True):
    """An event that an application has got."""

    key: EventKey
    time_ns: int
    attributes: Mapping[str, Value]
    subscriptions: tuple[int, ...]
    """Those of the receiver that matched, as the broker said; none: too many."""

    delay_ns: int
    """As the receiver's clock and what it knows of others say."""

    error_us: int
    via: tuple[str, ...]
    """The brokers from the source to the receiver, as the last of them knew them then."""

    life: int = 1
    """Of the receiver: one that begins again knows nothing of what came before."""


class Span(msgspec.Struct):
    """From when to when somebody wanted something, under one number."""

    number: int
    text: str
    wanted: Filter
    asked_ns: int
    confirmed_ns: int = FOREVER_NS
    leaving_ns: int = FOREVER_NS
    """When its end, or another filter in its place, was asked for."""

    gone_ns: int = FOREVER_NS
    """When that was confirmed."""

    successor: Span | None = None


class Windows:
    """Times at which something was not as it should be."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self._since_ns: int | None = None

    @property
    def is_open(self) -> bool:
        """Is it so now?"""
        return self._since_ns is not None

    def note(self, *, is_good: bool, now_ns: int) -> None:
        """How it is now."""
        if is_good and self._since_ns is not None:
            self.spans.append((self._since_ns, now_ns))
            self._since_ns = None
        elif not is_good and self._since_ns is None:
            self._since_ns = now_ns

    def all_spans(self, now_ns: int) -> list[tuple[int, int]]:
        """Those that have ended, and the one that has not."""
        return self.spans if self._since_ns is None else [*self.spans, (self._since_ns, now_ns)]

    def touch(self, start_ns: int, end_ns: int) -> bool:
        """Was it so at some time from start to end?"""
        if self._since_ns is not None and self._since_ns <= end_ns:
            return True
        return any(since <= end_ns and until >= start_ns for since, until in self.spans)
