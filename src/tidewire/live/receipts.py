"""Events that are published together: none waits for the receipt of the one before, and one error tells of all."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from tidewire.model.errors import InDoubt, TidewireError, error_of
from tidewire.model.events import Event

if TYPE_CHECKING:
    from tidewire.live.publishing import Publishing

AWAITED_MAX: Final = 1024


class Receipts:
    """Publications, counted from 1. Best-effort ones come to their end one by one, guaranteed ones side by side."""

    def __init__(self, wire: Publishing, *, guaranteed: bool) -> None:
        self._wire = wire
        self._is_guaranteed = guaranteed
        self._waiting: dict[asyncio.Task[None], None] = {}
        self._failed: dict[int, Exception] = {}
        self._failure = asyncio.Event()
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

    async def add(self, event: Mapping[str, Any] | Event) -> None:
        """One more; it waits while too many are under way."""
        self.begun += 1
        publishing = self._ended(self.begun, self._wire.publish(event, guaranteed=self._is_guaranteed))
        if not self._is_guaranteed or not self._is_advertised():
            await publishing
            return
        task = asyncio.create_task(publishing)
        self._waiting[task] = None
        task.add_done_callback(self._waiting.pop)
        if len(self._waiting) >= AWAITED_MAX:
            await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0)  # it begins before the next one

    def _is_advertised(self) -> bool:
        """Until then those who publish wait for that, and whether theirs can be sent is not known."""
        return self._wire._is_advertised and not self._wire._unadvertised

    async def _ended(self, number: int, publishing: Coroutine[Any, Any, None]) -> None:
        """Its failure is known when it has failed, not when somebody asks: the next one must not be begun."""
        try:
            await publishing
        except Exception as error:  # noqa: BLE001 - ``all`` raises it
            self._fail(number, error)
        except asyncio.CancelledError:
            self._fail(number, InDoubt("interrupted"))
            raise

    def _fail(self, number: int, error: Exception) -> None:
        self._failed[number] = error
        self._failure.set()

    async def add_all(self, adding: Coroutine[Any, Any, None]) -> None:
        """Until whoever adds them is done, or one has failed: then it is called off, whatever it waits for."""
        tasks = asyncio.create_task(adding), asyncio.create_task(self._failure.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(ends[0], Exception):
            raise ends[0]

    async def all(self) -> None:
        """Until it is known what has become of each. Raises the first failure, with what has become of the others."""
        await self._wait_for_all()
        if self._failed:
            first = min(self._failed)
            raise self.told(self._failed[first], f"event {first}: ") from None

    async def ended_by(self, error: Exception) -> Exception:
        """There are no more, because of this. The error to raise, when it is known what has become of each."""
        await self._wait_for_all()
        return self.told(error)

    def told(self, error: Exception, which: str = "") -> Exception:
        """The same error, with what has become of all that were begun."""
        outcome = self.outcome()
        if isinstance(error, TidewireError):
            between = "\n" if "\n" in error.message else "; "
            return error_of(error.code, f"{which}{error.message}{between}{outcome}")
        error.add_note(f"{which}{outcome}")
        return error

    def counts(self) -> tuple[int, int, int]:
        """Of all that were begun: how many were taken, were not, and are in doubt, as far as it is known."""
        waiting = sum(not task.done() for task in self._waiting)
        doubts = waiting + sum(isinstance(each, InDoubt) for each in self._failed.values())
        bad = waiting + len(self._failed)
        return self.begun - bad, bad - doubts, doubts

    def outcome(self) -> str:
        """What has become of all that were begun, as far as it is known."""
        good = "durable" if self._is_guaranteed else "published"
        counts = dict(zip((good, "not taken", "in doubt"), self.counts(), strict=True))
        ends = ", ".join(f"{count} {how}" for how, count in counts.items() if count or how == good)
        return f"of {self.begun} events: {ends}; none after them was begun"

    async def _wait_for_all(self) -> None:
        if self._waiting:
            await asyncio.wait(self._waiting)


async def publish_all(wire: Publishing, events: Iterable[Mapping[str, Any] | Event], *, guaranteed: bool) -> int:
    """Publish events in their order; how many there were.

    If one fails, or if ``events`` does, no more are begun, and the error says what has become of those that were.
    """
    with Receipts(wire, guaranteed=guaranteed) as receipts:
        try:
            for event in events:
                await receipts.add(event)
                if receipts.has_failed:
                    break
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised
            raise await receipts.ended_by(error) from None
        await receipts.all()
    return receipts.begun
