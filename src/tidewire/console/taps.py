"""What passes, for those who try filters: all that an identity may see, in turns. It costs little, whatever passes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import floor
from typing import Final

import msgspec

from tidewire.console.network import Network
from tidewire.console.streams import until_ended
from tidewire.live.connect import Wire
from tidewire.live.credentials import Credentials
from tidewire.live.notification import Notification
from tidewire.live.subscription import Subscription
from tidewire.model.errors import LimitReached

WINDOW_S: Final = 10.0
TAKEN_PER_S: Final = 2_000
"""Events that are taken from the network, on average. A door that does not keep up may hold publishers up."""
TURN: Final = 10_000
"""As many may be taken one after the other; then there is a rest, until as many may be taken again."""
LOOKED_AT_FIRST: Final = 100
LOOKED_AT_EVERY: Final = 10
"""Of the events of a second the first are looked at, and then one in so many."""
TAPS_MAX: Final = 16
_LINGER_S: Final = 10.0
"""A tap stays so long when nobody looks: who changes a filter goes on with what has been seen."""
EVERYTHING: Final = '"tidewire.unsampled" is null'
"""Every event that does not ask to be left out. Unlike `true` it covers no other filter: brokers do not take back what
they have told each other, to tell it all again when nobody looks any more."""


class _Second(msgspec.Struct):
    """A second of the clock."""

    number: int
    listened_s: float = 0.0
    events: int = 0


class Meter:
    """How much passes, and how much more may be taken. It has no clock of its own; its time begins with a rest."""

    def __init__(self, *, now_s: float) -> None:
        self.is_listening = False
        self._left = float(TURN)
        self._now_s = now_s
        self._seconds: deque[_Second] = deque(maxlen=int(WINDOW_S) + 1)

    def begin(self, *, now_s: float) -> None:
        """A turn begins."""
        self._go_on(now_s)
        self.is_listening = True

    def passes(self, *, now_s: float) -> bool:
        """An event passes, and is counted. Is it one to look at? The turn ends if it was the last that may be taken."""
        self._go_on(now_s)
        second = self._second(floor(now_s))
        second.events += 1
        self._left -= 1.0
        self.is_listening = self._left >= 1.0
        return second.events <= LOOKED_AT_FIRST or second.events % LOOKED_AT_EVERY == 0

    def rest_s(self) -> float:
        """So long until a whole turn can begin."""
        return (TURN - self._left) / TAKEN_PER_S

    def events_per_s(self, *, now_s: float) -> float:
        """What passed in the window, as far as it was listened to."""
        self._go_on(now_s)
        lately = [one for one in self._seconds if one.number >= now_s - WINDOW_S]
        listened_s = sum(one.listened_s for one in lately)
        return sum(one.events for one in lately) / listened_s if listened_s > 0.0 else 0.0

    def _go_on(self, now_s: float) -> None:
        """Time has passed."""
        self._left = min(float(TURN), self._left + (now_s - self._now_s) * TAKEN_PER_S)
        since_s = max(self._now_s, now_s - WINDOW_S)
        while self.is_listening and since_s < now_s:
            until_s = min(floor(since_s) + 1.0, now_s)
            self._second(floor(since_s)).listened_s += until_s - since_s
            since_s = until_s
        self._now_s = now_s

    def _second(self, number: int) -> _Second:
        if not self._seconds or self._seconds[-1].number != number:
            self._seconds.append(_Second(number))
        return self._seconds[-1]


class Tap:
    """What one identity may see, as it passes: counted while it is listened to, some is kept for a while."""

    def __init__(self, wire: Wire) -> None:
        self.kept: deque[tuple[float, int, Notification]] = deque(
            maxlen=int(WINDOW_S) * (LOOKED_AT_FIRST + TAKEN_PER_S // LOOKED_AT_EVERY) + TURN // LOOKED_AT_EVERY
        )
        """When it came, its number, and itself."""
        self.users = 0
        self.ending: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[None]
        """With the error that ended it."""
        self._wire = wire
        self._clock = asyncio.get_running_loop().time
        self._meter = Meter(now_s=self._clock())
        self._is_enough = asyncio.Event()
        self._number = 0

    async def open(self) -> None:
        """Begin to listen; raises why that cannot be."""
        await self._wire.__aenter__()
        try:
            first = await self._listen()
        except BaseException:
            await self._wire.close()
            raise
        self.ended = asyncio.ensure_future(self._take_turns(first))

    async def close(self) -> None:
        """Let go of the session."""
        self.ended.cancel()
        await asyncio.gather(self.ended, return_exceptions=True)
        await self._wire.close()

    def events_per_s(self) -> float:
        """All that passed, over the window, as far as it was listened to."""
        return self._meter.events_per_s(now_s=self._clock())

    async def _take_turns(self, subscription: Subscription) -> None:
        while True:
            await self._until_enough(subscription)
            await subscription.unsubscribe()
            await asyncio.sleep(self._meter.rest_s())
            subscription = await self._listen()

    async def _listen(self) -> Subscription:
        self._is_enough.clear()
        self._meter.begin(now_s=self._clock())
        return await self._wire.subscribe(EVERYTHING, self._came)

    async def _until_enough(self, subscription: Subscription) -> None:
        ends = [asyncio.ensure_future(one) for one in (until_ended(subscription), self._is_enough.wait())]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in ends:
                one.cancel()

    def _came(self, notification: Notification) -> None:
        if self._is_enough.is_set():  # it was on its way already
            return
        now_s = self._clock()
        if self._meter.passes(now_s=now_s):
            self._number += 1
            self.kept.append((now_s, self._number, notification))
        if not self._meter.is_listening:
            self._is_enough.set()


class Taps:
    """A tap for each identity whose filters are tried: whatever the number of its pages, there is one."""

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
                tap.ending = asyncio.get_running_loop().call_later(_LINGER_S, self._end, credentials, tap)

    async def _open(self, credentials: Credentials) -> Tap:
        if len(self._taps) >= TAPS_MAX:
            raise LimitReached(f"{TAPS_MAX} identities are trying filters here: try again in a moment")
        tap = Tap(await self._network.wire(credentials, name="http sample"))
        await tap.open()
        self._taps[credentials] = tap
        tap.ended.add_done_callback(lambda _: self._end(credentials, tap))
        return tap

    def _end(self, credentials: Credentials, tap: Tap) -> None:
        """Nobody looks any more, or it has ended by itself: who comes next gets another one."""
        if self._taps.get(credentials) is not tap:
            return
        del self._taps[credentials]
        task = asyncio.ensure_future(tap.close())
        self._closing[task] = None
        task.add_done_callback(self._closing.pop)

    async def close(self) -> None:
        """End them all."""
        for credentials, tap in list(self._taps.items()):
            if tap.ending is not None:
                tap.ending.cancel()
            self._end(credentials, tap)
        await asyncio.gather(*self._closing)
