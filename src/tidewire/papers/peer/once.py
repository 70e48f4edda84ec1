"""Did every subscriber get what it wants, once and in order? What was published is matched again, at one place.

What is owed is counted, not listed: a publisher goes through its quotes again and again.
"""

from __future__ import annotations

from itertools import accumulate

from tidewire.matching.index import KernelMatcher
from tidewire.matching.protocol import Destination, SubscriptionNumber
from tidewire.model.events import make_event
from tidewire.model.filters import decode_filter
from tidewire.papers.peer.scene import Scene


def violations(scene: Scene) -> list[str]:
    """What went wrong, in words; the publishers must have ended, and all that was under way have come."""
    owed = _owed(scene)
    found = []
    for listener in scene.listeners:
        if listener.since is None:
            found.append(f"{listener.name} was never confirmed")
        elif listener.got != owed[listener.name]:
            found.append(f"{listener.name} got {listener.got} events of {owed[listener.name]}")
    return found


def _owed(scene: Scene) -> dict[str, int]:
    """How many events each confirmed listener is owed."""
    matcher = KernelMatcher()
    filters = [decode_filter(one) for one in scene.work.wanted]
    matcher.insert((Destination(place), SubscriptionNumber(0), one) for place, one in enumerate(filters))
    owed = dict.fromkeys(scene.owed_from, 0)
    for number, publisher in enumerate(scene.publishers):
        rounds: dict[int, list[int]] = {}
        events = publisher.published.events
        for place, wanting in enumerate(matcher.match([make_event(one) for one in events])):
            for delivery in wanting:
                rounds.setdefault(delivery.destination, [0] * len(events))[place] = 1
        for subscriber, wanted in rounds.items():
            name, sums = f"S{subscriber}", [0, *accumulate(wanted)]
            if name in owed:
                begun = scene.owed_from[name]
                first = begun[number] if number < len(begun) else 0
                owed[name] += _sum(sums, publisher.count) - _sum(sums, first)
    return owed


def _sum(sums: list[int], count: int) -> int:
    """How many of the first so many events are wanted?"""
    rounds, rest = divmod(count, len(sums) - 1)
    return rounds * sums[-1] + sums[rest]
