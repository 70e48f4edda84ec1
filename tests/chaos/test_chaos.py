"""Nothing acknowledged is lost, doubled or out of order, whatever broker dies whenever: with real processes.

For longer: ``make chaos``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

import tidewire
from tests.chaos.history import History, Key, Received
from tests.chaos.network import EDGES, HEADS, Brokers
from tidewire.model.errors import Unavailable

SECONDS = float(os.environ.get("TIDEWIRE_CHAOS_S", "10"))
SEED = int(os.environ.get("TIDEWIRE_CHAOS_SEED", "1"))
PUBLISHERS = 3
WINDOW = 64
PAUSE_S = 0.002


async def publish(brokers: Brokers, number: int, history: History, over: asyncio.Event) -> None:
    """Guaranteed events, some of them always under way, until it is over."""
    at = [brokers.addresses[name] for name in (HEADS if number % 2 else HEADS[::-1])]
    room = asyncio.Semaphore(WINDOW)

    async def one(wire: tidewire.Wire, key: Key) -> None:
        async with room:
            with suppress(Unavailable):  # it may have been taken, or not: nobody was promised anything
                await wire.publish({"p": key[0], "n": key[1], "r": key[1] % 10, "text": "x" * (key[1] % 300)})
                history.acknowledged[key] = None

    session = tidewire.connect(at, guaranteed=True, timeout=60, name=f"p{number}")
    async with session as wire, asyncio.TaskGroup() as under_way:
        n = 0
        while not over.is_set():
            n += 1
            history.tried[number, n] = None
            under_way.create_task(one(wire, (number, n)))
            await asyncio.sleep(PAUSE_S)
            while room.locked():
                await asyncio.sleep(PAUSE_S)


async def follow(
    brokers: Brokers, received: Received, wanted: str, chance: Random, over: asyncio.Event, *, keeps_position: bool
) -> None:
    """By one name, in sessions of random length, at random edges; the application keeps its position, or does not."""
    position: Mapping[str, int] = {}
    while not over.is_set():
        if not keeps_position:
            received.begins()
        at = chance.sample([brokers.addresses[name] for name in EDGES], 2)
        lasts_s = chance.uniform(1.0, 6.0)
        with suppress(Unavailable, TimeoutError):
            async with tidewire.connect(at, timeout=60, name=received.name) as wire:
                given = position if keeps_position else None
                subscription = await wire.subscribe(wanted, durable=received.name, since="earliest", position=given)
                try:
                    async with asyncio.timeout(lasts_s):
                        async for event in subscription:
                            received.add(event)
                            position = subscription.position
                finally:
                    received.gaps += sum(notice.what == "gap" for notice in wire.notices)


def test_nothing_acknowledged_is_lost_when_brokers_are_killed(tmp_path: Path) -> None:
    """Heads and edges, at random moments, under load; subscribers come and go."""
    brokers, history, chance = Brokers(tmp_path), History(), Random(SEED)
    followers = [
        (Received("all", lambda _: True), "n >= 0", True),
        (Received("few", lambda key: key[1] % 10 == 3), "r = 3", True),
        (Received("half", lambda key: key[1] % 10 < 5), "r < 5", False),
    ]

    async def run() -> None:
        over, enough = asyncio.Event(), asyncio.Event()
        readers = [
            asyncio.create_task(follow(brokers, one, wanted, Random(i), enough, keeps_position=keeps))
            for i, (one, wanted, keeps) in enumerate(followers)
        ]
        writers = [asyncio.create_task(publish(brokers, i, history, over)) for i in range(PUBLISHERS)]
        async with asyncio.timeout(60):
            while not all(one.keys for one, _, _ in followers):  # all is well, to begin with
                await asyncio.sleep(0.1)
        await brokers.suffer(chance, seconds=SECONDS)
        over.set()
        async with asyncio.timeout(60 + SECONDS):
            await asyncio.gather(*writers)
            while any(one.missing(history) for one, _, _ in followers):
                assert not [task for task in readers if task.done()]
                await asyncio.sleep(0.1)
        enough.set()
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    brokers.start_all()
    try:
        with suppress(TimeoutError):
            asyncio.run(run())
    finally:
        brokers.stop_all()
    faults = [fault for one, _, _ in followers for fault in one.faults(history)]
    told = {one.name: (len(one.keys), one.repeats) for one, _, _ in followers}
    print(f"{brokers.kills} kills, {len(history.acknowledged)} of {len(history.tried)} acknowledged, came: {told}")
    assert faults == []
    assert all(one.repeats == 0 and one.gaps == 0 for one, _, keeps in followers if keeps)
    assert brokers.kills >= SECONDS / 4
    assert len(history.acknowledged) >= 50 * SECONDS
