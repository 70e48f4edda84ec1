"""The filter lab: what of the live traffic would a filter match? Looked at in samples, whatever the traffic."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from tidewire.console.documents import Share, passed
from tidewire.console.streams import BEGINNING, message
from tidewire.console.taps import WINDOW_S, Tap
from tidewire.live.notification import Notification
from tidewire.model.filters import Filter

SHOWN_PER_S: Final = 20
_TELL_EVERY_S: Final = 0.5


async def sample(tap: Tap, wanted: Filter) -> AsyncIterator[bytes]:
    """Frames: the share that matches, twice a second, and some of the events that do."""
    judged: deque[tuple[float, bool]] = deque(maxlen=tap.kept.maxlen)
    last = 0
    clock = asyncio.get_running_loop().time
    yield BEGINNING
    while not tap.ended.done():
        frames: list[bytes] = []
        for at_s, number, notification in _newer(tap, last):
            last = number
            is_match = wanted.accepts(notification.event.attributes)
            judged.append((at_s, is_match))
            if is_match and len(frames) < SHOWN_PER_S * _TELL_EVERY_S:
                frames.append(message("event", passed(notification)))
        while judged and judged[0][0] < clock() - WINDOW_S:
            judged.popleft()
        frames.insert(0, message("share", _share(judged, tap)))
        yield b"".join(frames)
        await asyncio.wait([tap.ended], timeout=_TELL_EVERY_S)
    await tap.ended


def _newer(tap: Tap, last: int) -> list[tuple[float, int, Notification]]:
    found = []
    for one in reversed(tap.kept):
        if one[1] <= last:
            break
        found.append(one)
    return found[::-1]


def _share(judged: deque[tuple[float, bool]], tap: Tap) -> Share:
    matched = sum(is_match for _, is_match in judged)
    return Share(
        window_s=WINDOW_S,
        seen=len(judged),
        matched=matched,
        share=matched / len(judged) if judged else None,
        events_per_s=tap.events_per_s(),
    )
