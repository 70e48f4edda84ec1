"""Events that are published together: none waits for the receipt of the one before, and one error tells of all."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from tidewire.model.errors import InDoubt, TidewireError, error_of
from tidewire.model.events import Event

if TYPE_CHECKING:
    from tidewire.live.connect import Wire

AWAITED_MAX: Final = 1024


class Receipts:
    """Publications, counted from 1. Best-effort ones come to their end one by one, guaranteed ones side by side."""

    def __init__(self, *, guaranteed: bool) -> None:
        self._is_guaranteed = guaranteed
        self._waiting: dict[asyncio.Task[None], int] = {}
        self._failed: dict[int, Exception] = {}
        self.begun = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._waiting:
            task.cancel()

    @property
    def has_failed(self) -> bool:
        """Has one of them? Then no more are to be added."""
        return bool(self._failed)

    async def add(self, publishing: Coroutine[Any, Any, None]) -> None:
        """One more; it waits while too many are under way."""
        self.begun += 1
        if not self._is_guaranteed:
            try:
                await publishing
            except Exception as error:  # noqa: BLE001 - ``all`` raises it
                self._failed[self.begun] = error
            except asyncio.CancelledError:
                self._failed[self.begun] = InDoubt("interrupted")
                raise
            return
        self._waiting[asyncio.create_task(publishing)] = self.begun
        if len(self._waiting) >= AWAITED_MAX:
            await self._wait(asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0)  # it begins before the next one

    async def all(self) -> None:
        """Until it is known what has become of each. Raises the first failure, with what has become of the others."""
        if self._waiting:
            await self._wait(asyncio.ALL_COMPLETED)
        if self._failed:
            first = min(self._failed)
            raise self.told(self._failed[first], f"event {first}: ") from None

    async def ended_by(self, error: Exception) -> Exception:
        """There are no more, because of this. The error to raise, when it is known what has become of each."""
        if self._waiting:
            await self._wait(asyncio.ALL_COMPLETED)
        return self.told(error)

    def told(self, error: Exception, which: str = "") -> Exception:
        """The same error, with what has become of all that were begun."""
        outcome = self.outcome()
        if isinstance(error, TidewireError):
            between = "\n" if "\n" in error.message else "; "
            return error_of(error.code, f"{which}{error.message}{between}{outcome}")
        error.add_note(f"{which}{outcome}")
        return error

    def outcome(self) -> str:
        """What has become of all that were begun, as far as it is known."""
        self._note([task for task in self._waiting if task.done()])
        doubts = len(self._waiting) + sum(isinstance(each, InDoubt) for each in self._failed.values())
        good = "durable" if self._is_guaranteed else "published"
        bad = len(self._failed) + len(self._waiting)
        counts = {good: self.begun - bad, "not taken": bad - doubts, "in doubt": doubts}
        ends = ", ".join(f"{count} {how}" for how, count in counts.items() if count or how == good)
        return f"of {self.begun} events: {ends}; none after them was begun"

    async def _wait(self, until: str) -> None:
        done, _ = await asyncio.wait(self._waiting, return_when=until)
        self._note(done)

    def _note(self, done: Iterable[asyncio.Task[None]]) -> None:
        for task in done:
            number = self._waiting.pop(task)
            error = InDoubt("interrupted") if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                self._failed[number] = error


async def publish_all(wire: Wire, events: Iterable[Mapping[str, Any] | Event], *, guaranteed: bool) -> int:
    """Publish events in their order; how many there were.

    If one fails, or if ``events`` does, no more are begun, and the error says what has become of those that were.
    """
    with Receipts(guaranteed=guaranteed) as receipts:
        try:
            for event in events:
                await receipts.add(wire.publish(event, guaranteed=guaranteed))
                if receipts.has_failed:
                    break
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised
            raise await receipts.ended_by(error) from None
        await receipts.all()
    return receipts.begun
