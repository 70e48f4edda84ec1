"""What waits to be read by a client of the door: bounded. When there is much, the broker is not read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

MUCH: Final = 1 << 20
"""Bytes, or characters: from here on the broker waits ..."""
LITTLE: Final = MUCH // 4
"""... until no more than this is left."""
TAKEN_AT_ONCE: Final = 64 << 10

_Item = TypeVar("_Item", bytes, str)


class Outbox(Generic[_Item]):
    """Items in order. Beyond ``MUCH`` come only those that were on their way already."""

    def __init__(self) -> None:
        self._items: deque[_Item] = deque()
        self._size = 0
        self._stirred = asyncio.Event()
        self._is_much = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.on_much: Callable[[], object] = lambda: None
        self.on_little: Callable[[], object] = lambda: None

    def put(self, item: _Item) -> None:
        """To be sent, whatever it takes."""
        self._items.append(item)
        self._size += len(item)
        self._stirred.set()
        if self._size > MUCH and not self._is_much:
            self._is_much = True
            self._has_room.clear()
            self.on_much()

    def put_if_room(self, item: _Item) -> None:
        """To be sent unless there is much already: for what nobody waits for."""
        if not self._is_much:
            self.put(item)

    async def take(self, *, seconds: float) -> list[_Item]:
        """What waits, in order, not too much at once; nothing if nothing comes for so long."""
        if not self._items:
            self._stirred.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._stirred.wait()
            except TimeoutError:
                return []
        taken: list[_Item] = []
        size = 0
        while self._items and size < TAKEN_AT_ONCE:
            item = self._items.popleft()
            taken.append(item)
            size += len(item)
        self._size -= size
        if self._is_much and self._size <= LITTLE:
            self._is_much = False
            self._has_room.set()
            self.on_little()
        return taken

    async def until_room(self) -> None:
        """Wait until the reader has caught up, if it is behind."""
        await self._has_room.wait()
