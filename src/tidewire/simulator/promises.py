"""What a client was promised: events that brokers have given a receipt for, and streams that it follows."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidewire.model.filters import Filter
from tidewire.model.ids import PubendId, Tick
from tidewire.model.values import Value
from tidewire.simulator.records import FOREVER_NS, EventKey


class Promised(msgspec.Struct):
    """A guaranteed event: from when it was published to when it had a receipt."""

    key: EventKey
    attributes: Mapping[str, Value]
    published_ns: int
    receipted_ns: int = FOREVER_NS

    @property
    def is_receipted(self) -> bool:
        """Was it acknowledged?"""
        return self.receipted_ns < FOREVER_NS


class Followed(msgspec.Struct, frozen=True):
    """An event that came to one who follows."""

    time_ns: int
    pubend: PubendId
    tick: Tick
    key: EventKey
    attributes: Mapping[str, Value]


class FollowerRecord:
    """One name that an application follows by, through all its lives. The application remembers where it is."""

    def __init__(self, name: str, text: str, wanted: Filter) -> None:
        self.name = name
        self.text = text
        self.wanted = wanted
        self.begun: dict[PubendId, Tick] = {}
        """Where it began in each stream."""
        self.places: dict[PubendId, Tick] = {}
        self.received: list[Followed] = []
        self.gaps: list[tuple[PubendId, Tick, Tick]] = []
        self.confirmed_ns = self.ended_ns = FOREVER_NS
        """When it was first told that it had begun, and when it ended."""
