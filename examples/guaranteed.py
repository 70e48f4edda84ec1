"""Lose nothing: alarms are kept while nobody listens, and whoever comes back by the same name goes on where it was."""

import asyncio
import sys
from time import time

import tidewire

NAME = "example-alarms"


async def listen(address: str, *, since: float, count: int) -> None:
    """One life of a program that must not miss an alarm. This one ends after so many; it could as well crash."""
    async with tidewire.connect(address) as wire:
        alarms = await wire.subscribe("class = 'ALARM'", durable=NAME, since=since)
        for _ in range(count):
            print("alarm", (await alarms.get(timeout=10))["number"])


async def main(address: str) -> None:
    began = time()
    async with tidewire.connect(address, guaranteed=True) as wire:
        await wire.publish({"class": "ALARM", "number": 1})  # returns when it is durable
        await listen(address, since=began, count=1)
        print("nobody listens")
        try:
            await wire.publish_many({"class": "ALARM", "number": number} for number in (2, 3, 4))
        except tidewire.InDoubt as error:
            print("some may have been taken:", error)
        await listen(address, since=began, count=3)  # it goes on: since is for a name that is new
        await wire.forget(NAME)  # until then everything would be kept for it


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7600"))
