"""What no neighbour says about streams."""

from __future__ import annotations

from tidewire._kernel._native import check_filters
from tidewire.model.errors import DamagedFrame
from tidewire.model.filters import decode_filter
from tidewire.model.messages import Message
from tidewire.model.stream_messages import Hold, Progress, Replay


def check(message: Message) -> None:
    """DamagedFrame or DamagedFilter if no broker would say this."""
    match message:
        case Progress(_, _, names, claims, places):
            if not len(names) == len(claims) == len(places):
                counts = f"{len(names)} names, {len(claims)} claims, {len(places)} places"
                raise DamagedFrame(f"{counts}: there must be as many of each")
        case Hold(_, _, holdings):
            check_filters([one.wanted for one in holdings if one.wanted])
        case Replay():
            decode_filter(message.wanted)
