"""A subscription by name: where it begins, and where it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tidewire.model.errors import UsageError
from tidewire.model.ids import PubendId, Tick
from tidewire.model.stream_messages import NAME_MAX

Since = Literal["now", "earliest"] | float


class Durable:
    """What a subscription by name says of itself."""

    def __init__(self, name: str, *, since: Since, position: Mapping[str, int]) -> None:
        if not 1 <= len(name) <= NAME_MAX or not name.isprintable():
            raise UsageError(f"a durable subscription's name has 1 to {NAME_MAX} printable characters")
        self.name = name
        self.since_ms = _milliseconds(since)
        self.places = [(PubendId(int(pubend, 16)), Tick(tick)) for pubend, tick in position.items()]


def _milliseconds(since: Since) -> int:
    if since == "now":
        return -1
    if since == "earliest":
        return 0
    if 0 <= since < 2**34:
        return int(since * 1000)
    raise UsageError(f"since = {since!r}: it is 'now', 'earliest', or a time in seconds since 1970")
