"""The filter lab: what of the live traffic would a filter match? Looked at in samples, whatever the traffic."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from tidewire.console.documents import Share, passed
from tidewire.console.network import Network
from tidewire.console.streams import BEGINNING, message, until_ended
from tidewire.live.connect import Wire
from tidewire.live.credentials import Credentials
from tidewire.live.notification import Notification
from tidewire.live.subscription import Subscription
from tidewire.model.errors import LimitReached
from tidewire.model.filters import Filter

WINDOW_S: Final = 10.0
LOOKED_AT_PER_S: Final = 200
SHOWN_PER_S: Final = 20
TAPS_MAX: Final = 16
"""A tap brings all traffic that an identity may see to the door: some, not many."""
_TELL_EVERY_S: Final = 0.5
_LINGER_S: Final = 10.0
"""A tap stays so long when nobody looks: who changes a filter goes on with what has been seen."""


class Tap:
    """All that one identity may see, as it passes: everything is counted, some is kept for a while."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.subscription: Subscription | None = None
        self.kept: deque[tuple[float, int, Notification]] = deque(maxlen=int(WINDOW_S * LOOKED_AT_PER_S))
        """When it came, its number, and itself."""
        self.users = 0
        self.ending: asyncio.TimerHandle | None = None
        self._clock = asyncio.get_running_loop().time
        self._allowed = float(LOOKED_AT_PER_S)
        self._at_s = self._clock()
        self._counts: deque[tuple[int, int]] = deque(maxlen=int(WINDOW_S) + 1)
        self._number = 0

    def came(self, notification: Notification) -> None:
        """An event passes."""
        now_s = self._clock()
        second = int(now_s)
        if self._counts and self._counts[-1][0] == second:
            self._counts[-1] = second, self._counts[-1][1] + 1
        else:
            self._counts.append((second, 1))
        self._allowed = min(float(LOOKED_AT_PER_S), self._allowed + (now_s - self._at_s) * LOOKED_AT_PER_S)
        self._at_s = now_s
        if self._allowed >= 1.0:
            self._allowed -= 1.0
            self._number += 1
            self.kept.append((now_s, self._number, notification))

    def events_per_s(self) -> float:
        """All that passed, over the window."""
        since = self._clock() - WINDOW_S
        return sum(count for second, count in self._counts if second >= since) / WINDOW_S


class Taps:
    """A tap for each identity whose filters are tried."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._taps: dict[Credentials, Tap] = {}
        self._opening = asyncio.Lock()
        self._closing: dict[asyncio.Task[None], None] = {}

    @asynccontextmanager
    async def tapped(self, credentials: Credentials) -> AsyncIterator[Tap]:
        """The identity's tap, kept open."""
        async with self._opening:
            tap = self._taps.get(credentials) or await self._open(credentials)
            tap.users += 1
            if tap.ending is not None:
                tap.ending.cancel()
        try:
            yield tap
        finally:
            tap.users -= 1
            if not tap.users:
                loop = asyncio.get_running_loop()
                tap.ending = loop.call_later(_LINGER_S, self._end, credentials, tap)

    async def _open(self, credentials: Credentials) -> Tap:
        if len(self._taps) >= TAPS_MAX:
            raise LimitReached(f"{TAPS_MAX} identities are trying filters here: try again in a moment")
        wire = await self._network.wire(credentials, name="http sample")
        tap = Tap(wire)
        await wire.__aenter__()
        try:
            tap.subscription = await wire.subscribe("true", tap.came)
        except BaseException:
            await wire.close()
            raise
        self._taps[credentials] = tap
        return tap

    def _end(self, credentials: Credentials, tap: Tap) -> None:
        if self._taps.get(credentials) is tap:
            del self._taps[credentials]
        task = asyncio.ensure_future(tap.wire.close())
        self._closing[task] = None
        task.add_done_callback(self._closing.pop)

    def drop(self, credentials: Credentials, tap: Tap) -> None:
        """It has ended: who comes next gets another one."""
        if self._taps.get(credentials) is tap:
            del self._taps[credentials]

    async def close(self) -> None:
        """End them all."""
        for credentials, tap in list(self._taps.items()):
            if tap.ending is not None:
                tap.ending.cancel()
            self._end(credentials, tap)
        await asyncio.gather(*self._closing)


async def sample(tap: Tap, wanted: Filter) -> AsyncIterator[bytes]:
    """Frames: the share that matches, twice a second, and some of the events that do."""
    assert tap.subscription is not None
    ended = asyncio.ensure_future(until_ended(tap.subscription))
    judged: deque[tuple[float, bool]] = deque(maxlen=tap.kept.maxlen)
    last = 0
    clock = asyncio.get_running_loop().time
    try:
        yield BEGINNING
        while not ended.done():
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
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(ended), _TELL_EVERY_S)
        await ended
    finally:
        ended.cancel()


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
