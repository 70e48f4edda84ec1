"""Can a neighbour mean what it says? What would harm the tables is refused here, before anything is done about it."""

from __future__ import annotations

from tidewire._kernel._native import check_filters
from tidewire.matching.protocol import NUMBER_LIMIT
from tidewire.model.errors import DamagedFrame
from tidewire.model.ids import BrokerId, TreeId
from tidewire.model.messages import ANYTHING, Message
from tidewire.model.routing_messages import Ads, AdsGone, Offer, Routes, RoutesGone


def check(message: Message, *, broker: BrokerId, own_tree: TreeId) -> None:
    """DamagedFrame or DamagedFilter if no broker would say this to ``broker``."""
    match message:
        case Ads(_, numbers, filters):
            _check_numbers(numbers)
            _check_filters(numbers, [given for given in filters if given != ANYTHING], count=len(filters))
        case Routes(_, numbers, filters):
            _check_numbers(numbers)
            _check_filters(numbers, filters, count=len(filters))
        case AdsGone(_, numbers) | RoutesGone(_, numbers):
            _check_numbers(numbers)
        case Offer(tree, path) if tree == own_tree and broker not in path:
            raise DamagedFrame("an offer of our own tree, by a way that does not begin here")


def _check_numbers(numbers: list[int]) -> None:
    if numbers and not (min(numbers) >= 0 and max(numbers) < NUMBER_LIMIT):
        raise DamagedFrame(f"numbers are from 0 to {NUMBER_LIMIT - 1}")
    if len(set(numbers)) != len(numbers):
        raise DamagedFrame("a number stands twice in one message")


def _check_filters(numbers: list[int], filters: list[bytes], *, count: int) -> None:
    if len(numbers) != count:
        raise DamagedFrame(f"{len(numbers)} numbers and {count} filters: there must be as many of both")
    check_filters(filters)
