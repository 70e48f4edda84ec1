"""Change what you want while events flow: none that both filters want is missed, none comes twice."""

import asyncio
import sys

import tidewire


async def main(address: str) -> None:
    async with tidewire.connect(address) as wire, wire.subscribe("price > 100") as quotes:
        await wire.publish({"symbol": "YHOO", "price": 120})
        print("above 100:", (await quotes.get(timeout=5))["price"])
        await quotes.change("price > 10")
        await wire.publish({"symbol": "YHOO", "price": 20})
        print("above 10:", (await quotes.get(timeout=5))["price"])


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7600"))
