"""Who and what is meant: ids are types, so that one cannot stand where another belongs."""

from __future__ import annotations

from typing import NewType

BrokerId = NewType("BrokerId", str)
"""A broker, by the name that people gave it."""

TreeId = NewType("TreeId", int)
"""A source tree: one life of one broker that publishers are connected to. Unsigned 64-bit."""

PubendId = NewType("PubendId", int)
"""A durable stream of events at the broker that hosts its publishers; the same in every life. Unsigned 64-bit."""

Tick = NewType("Tick", int)
"""A place in a pubend's stream: 44 bits of milliseconds, 20 bits of counter."""

Conn = NewType("Conn", int)
"""A connection of this node: small, and used again when the connection has ended."""

Nanoseconds = NewType("Nanoseconds", int)
Seconds = NewType("Seconds", float)
