"""What no neighbour says about streams, and no client of what it wants or offers."""

from __future__ import annotations

from collections.abc import Mapping

from tidewire._kernel._native import check_filters
from tidewire.identity.reserved import refuse_reserved
from tidewire.matching.protocol import NUMBER_LIMIT
from tidewire.model.errors import DamagedFrame, LimitReached, UsageError, ValueOutOfRange
from tidewire.model.messages import ANYTHING, Message
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
            check_filters([message.wanted])


def check_numbered(numbers: list[int], filters: list[bytes], known: Mapping[int, bytes], most: int, what: str) -> None:
    """Filters that a client gives, by its numbers, beside those that it has given, ``most`` of them in all.

    UsageError, ValueOutOfRange, LimitReached, or what is wrong with a filter.
    """
    if len(numbers) != len(filters):
        raise UsageError(f"{len(numbers)} numbers and {len(filters)} filters: there must be as many of both")
    if len(set(numbers)) != len(numbers):
        raise UsageError("a number stands twice in one request")
    if numbers and not (min(numbers) >= 0 and max(numbers) < NUMBER_LIMIT):
        raise ValueOutOfRange(f"numbers are from 0 to {NUMBER_LIMIT - 1}")
    if len(known) + sum(number not in known for number in numbers) > most:
        raise LimitReached(f"a connection has at most {most} {what}")
    check_filters([wanted for wanted in filters if wanted != ANYTHING])
    refuse_reserved(filters)
