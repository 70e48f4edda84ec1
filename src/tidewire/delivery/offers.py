"""What may be in the log? What publishers have advertised there, in every life: so followers find their way to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tidewire.model.messages import ANYTHING

KEY: Final = b"offers"
OFFERS_MAX: Final = 64
"""With more different ones, it is anything."""


class Offers:
    """The advertisements that the events in a log lie within."""

    def __init__(self, kept: bytes | None = None) -> None:
        self.filters: list[bytes] = [] if kept is None else msgspec.msgpack.decode(kept, type=list[bytes])

    def add(self, filters: Iterable[bytes]) -> list[bytes]:
        """Somebody will publish this: what of it is new?"""
        new = [one for one in dict.fromkeys(filters) if one not in self.filters]
        if ANYTHING in self.filters:
            return []
        if len(self.filters) + len(new) > OFFERS_MAX or ANYTHING in new:
            new = [ANYTHING]
        self.filters += new
        return new

    def kept(self) -> bytes:
        """As it is kept."""
        return msgspec.msgpack.encode(self.filters)
