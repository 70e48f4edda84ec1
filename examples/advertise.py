"""Say what you will publish: brokers then ask only those who may want it, and refuse what is outside."""

import asyncio
import sys

import tidewire


async def main(address: str) -> None:
    async with tidewire.connect(address) as wire, wire.subscribe("class = 'STOCK'") as quotes:
        async with wire.advertise("class = 'STOCK' and price > 0"):
            await wire.publish({"class": "STOCK", "price": -1})
            await wire.publish({"class": "STOCK", "price": 25.25})
            print("came:", (await quotes.get(timeout=5))["price"])
            for notice in wire.notices:
                print(notice.what, notice.facts)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7600"))
