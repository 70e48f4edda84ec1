"""The types of the fields of messages, with what they allow."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from tidewire.model.ids import BrokerId, PubendId, Tick, TreeId

BROKER_NAME_MAX: Final = 64
CLIENT_NAME_MAX: Final = 128
"""Characters that are kept of what a client calls itself."""
SECONDS_MIN: Final = 0.001
SECONDS_MAX: Final = 86_400.0
"""Of any pace or patience."""
Seconds = Annotated[float, Meta(ge=SECONDS_MIN, le=SECONDS_MAX)]

_IN_SIGHT: Final = r"^[^\x00-\x1f\x7f-\x9f]*\Z"
"""No control characters: it stands in logs and on terminals."""
BrokerName = Annotated[BrokerId, Meta(min_length=1, max_length=BROKER_NAME_MAX, pattern=_IN_SIGHT)]
Tree = Annotated[TreeId, Meta(ge=0)]
Pubend = Annotated[PubendId, Meta(ge=0)]
Place = Annotated[Tick, Meta(ge=0, le=2**63 - 1)]
Path = Annotated[list[BrokerName], Meta(min_length=1)]
Sequence = Annotated[int, Meta(ge=0, le=2**62)]
Time = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
