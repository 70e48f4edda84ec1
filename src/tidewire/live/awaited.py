"""What the session machine was asked for and has not answered: who waits for it?"""

from __future__ import annotations

import asyncio

from tidewire.client.events import Tell


class Awaited:
    """Futures by the token under which the machine will say that something is finished."""

    def __init__(self) -> None:
        self._last = 0
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._promised: dict[int, asyncio.Future[None]] = {}

    def token(self) -> int:
        """A new one, that nobody waits for."""
        self._last += 1
        return self._last

    def add(self, future: asyncio.Future[None], *, is_promised: bool = False) -> int:
        """The token under which this waits; ``is_promised``: for the receipt of a guaranteed event."""
        token = self.token()
        self._futures[token] = future
        if is_promised:
            self._promised[token] = future
        return token

    def remove(self, token: int) -> None:
        """Nobody waits under it any more."""
        del self._futures[token]
        self._promised.pop(token, None)

    @property
    def promised(self) -> int:
        """For how many receipts does somebody wait?"""
        return sum(not future.done() for future in self._promised.values())

    async def receipts(self) -> None:
        """Until nobody waits for one: each has come, or will not."""
        while waiting := [future for future in self._promised.values() if not future.done()]:
            await asyncio.wait(waiting)

    def finished(self, token: int, error: Exception | None) -> None:
        """The machine has done it, or it has failed."""
        future = self._futures.get(token)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def fail(self, error: Exception) -> None:
        """All of them."""
        for token in self._futures:
            self.finished(token, error)


def in_doubt(*, events: int, promised: int, why: str) -> dict[str, Tell]:
    """What to say at the end of events that no broker is known to have read, and of receipts that have not come."""
    found: dict[str, Tell] = {}
    if events:
        found[f"up to {events:,} of the last events published may be lost"] = Tell(
            "events may be lost", {"events": events, "reason": why}
        )
    if promised:
        found[f"guaranteed events without a receipt, which may have been taken: {promised:,}"] = Tell(
            "events without a receipt", {"events": promised, "reason": why}
        )
    return found
