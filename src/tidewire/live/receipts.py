"""Receipts that are waited for together: each event need not wait for the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Self

AWAITED_MAX: Final = 1024


class Receipts:
    """Publications that are under way. The first that fails fails all: what is not receipted then is given up."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._waiting:
            task.cancel()

    async def add(self, publishing: Coroutine[Any, Any, None]) -> None:
        """One more; it waits while too many are under way."""
        self._waiting.add(asyncio.create_task(publishing))
        if len(self._waiting) >= AWAITED_MAX:
            await self._wait(asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0)  # it begins before the next one

    async def all(self) -> None:
        """Until none is left."""
        if self._waiting:
            await self._wait(asyncio.ALL_COMPLETED)

    async def _wait(self, until: str) -> None:
        done, self._waiting = await asyncio.wait(self._waiting, return_when=until)
        for task in done:
            task.result()
