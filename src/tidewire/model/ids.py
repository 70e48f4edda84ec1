"""Who and what is meant: ids are types, so that one cannot stand where another belongs."""

from __future__ import annotations

from typing import NewType

BrokerId = NewType("BrokerId", str)
"""A broker, by the name that people gave it."""

TreeId = NewType("TreeId", int)
"""A source tree: one life of one broker that publishers are connected to. Unsigned 64-bit."""

PubendId = NewType("PubendId", int)
"""A pubend: an ordered, persistent stream of events at a head. Unsigned 64-bit."""

Tick = NewType("Tick", int)
"""A position in a pubend's stream, as ``ticks.py`` lays it out. Unsigned 64-bit."""

Conn = NewType("Conn", int)
"""A connection of this node: small, and used again when the connection has ended."""

Nanoseconds = NewType("Nanoseconds", int)
Seconds = NewType("Seconds", float)
