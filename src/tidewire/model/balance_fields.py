"""Fields that many messages about load have."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidewire.model.message_fields import BrokerName

BROKERS_MAX: Final = 4096
"""In one list: of a cluster, or that are balanced with each other."""

Brokers = Annotated[list[BrokerName], Meta(max_length=BROKERS_MAX)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Amount = Annotated[float, Meta(ge=0)]


class SessionId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Who asked for it, in which of its lives, and the how manyth it was."""

    asker: BrokerName
    life: Count
    number: Count
