"""Publish and subscribe without asyncio."""

import sys

import tidewire

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7600"
with tidewire.sync.connect(address) as wire, wire.subscribe("n between 3 and 5") as numbers:
    wire.publish_many({"n": n} for n in range(10))
    print([numbers.get(timeout=5)["n"] for _ in range(3)])
