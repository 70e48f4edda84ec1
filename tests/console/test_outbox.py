"""What waits for a slow reader has a bound, and says so."""

from __future__ import annotations

import asyncio

from tidewire.console.outbox import LITTLE, MUCH, TAKEN_AT_ONCE, Outbox


def test_the_source_is_paused_and_goes_on() -> None:
    async def run() -> None:
        outbox: Outbox[bytes] = Outbox()
        said: list[str] = []
        outbox.on_much, outbox.on_little = lambda: said.append("much"), lambda: said.append("little")
        item = b"x" * 1000
        for _ in range(MUCH // 1000 + 2):
            outbox.put(item)
        assert said == ["much"]
        outbox.put_if_room(b"nobody waits for it")
        left = MUCH // 1000 + 2
        waiting = asyncio.ensure_future(outbox.until_room())
        while left * 1000 > LITTLE:
            assert said == ["much"]
            assert not waiting.done()
            taken = await outbox.take(seconds=1)
            assert set(taken) == {item}
            assert len(taken) * 1000 <= TAKEN_AT_ONCE + 1000
            left -= len(taken)
        assert said == ["much", "little"]
        await waiting
        outbox.put_if_room(b"there is room")
        rest = []
        while taken := await outbox.take(seconds=0.01):
            rest += taken
        assert rest[-1] == b"there is room"

    asyncio.run(run())


def test_nothing_comes() -> None:
    async def run() -> None:
        outbox: Outbox[str] = Outbox()
        assert await outbox.take(seconds=0.001) == []
        asyncio.get_running_loop().call_soon(outbox.put, "late")
        assert await outbox.take(seconds=5) == ["late"]

    asyncio.run(run())
