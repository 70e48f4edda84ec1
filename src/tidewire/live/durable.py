"""A subscription by name: where it begins, and where it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from re import compile as pattern
from time import time
from typing import Final, Literal

from tidewire.model.errors import UsageError
from tidewire.model.ids import PubendId, Tick
from tidewire.model.stream_messages import NAME_MAX
from tidewire.model.ticks import TICK_MAX

_STREAM: Final = pattern("[0-9a-f]{1,16}")
Since = Literal["now", "earliest"] | float


class Durable:
    """What a subscription by name says of itself."""

    def __init__(self, name: str, *, since: Since, position: Mapping[str, int]) -> None:
        check_name(name)
        self.name = name
        self.since_ms = _milliseconds(since)
        self.places = _places(position)


def check_name(name: object) -> None:
    """UsageError if no durable subscription can be called so."""
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_MAX or not name.isprintable():
        raise UsageError(f"a durable subscription's name has 1 to {NAME_MAX} printable characters, not {name!r}"[:200])


def _places(position: object) -> list[tuple[PubendId, Tick]]:
    """By the names of streams, as ``Subscription.position`` gives them."""
    if not isinstance(position, Mapping):
        raise UsageError("a position is a mapping, as Subscription.position gives it")
    found = []
    for pubend, tick in position.items():
        if not isinstance(pubend, str) or _STREAM.fullmatch(pubend) is None:
            raise UsageError(f"position: {pubend!r} is no stream; keep positions as Subscription.position gives them")
        if not isinstance(tick, int) or isinstance(tick, bool) or not 0 <= tick <= TICK_MAX:
            raise UsageError(f"position: {tick!r} is no place in the stream {pubend}; it is a number from 0 on")
        found.append((PubendId(int(pubend, 16)), Tick(tick)))
    return found


def _milliseconds(since: object) -> int:
    if since == "now":
        return -1
    if since == "earliest":
        return 0
    if isinstance(since, int | float) and not isinstance(since, bool) and since >= 0:
        if since > time():
            raise UsageError(f"since = {since!r} is in the future: nothing can begin there yet; 'now' is the latest")
        return int(since * 1000)
    raise UsageError(f"since = {since!r}: it is 'now', 'earliest', or a time in seconds since 1970")
