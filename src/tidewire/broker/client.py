"""What does a broker know of one client?"""

from __future__ import annotations

from tidewire.identity.authority import Identity
from tidewire.model.messages import Hello, Use
from tidewire.wire.liveness import Readings


class Client:
    """One client connection. There may be very many."""

    __slots__ = ("barriers", "identity", "leaves_by", "moves", "name", "next_sequence", "publisher", "readings")

    def __init__(self, hello: Hello, identity: Identity) -> None:
        self.name = hello.name
        self.identity = identity
        self.publisher = identity.publisher(hello.publisher)
        self.next_sequence = hello.next_sequence
        self.readings = Readings()
        self.moves: dict[int, Use] = {}
        """Sessions of migration, and what moves; also those that took too long: it may still come."""
        self.barriers: dict[int, None] = {}
        """That it waits for."""
        self.leaves_by = 0
        """The session by which it is served elsewhere, and here only until our queues are through; 0: none."""
