"""What the stores of other brokers are asked about names, and who wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tidewire.broker.followers import Follower
from tidewire.broker.ways import Ways
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.model.stream_messages import Hold, Holding
from tidewire.wire.connections import Send

AGAIN_NS: Final = 2_000_000_000
"""What is not answered is asked again after so long."""


class Neighbour(msgspec.Struct, frozen=True):
    """One behind us in the tree, and its number for the question."""

    link: Conn
    token: int


class Forgetting(msgspec.Struct):
    """A client who ends a name, and what is still to be heard of it."""

    conn: Conn
    request: int
    name: str
    waiting: dict[TreeId, None] = {}
    is_kept: bool = False
    """Has a store noted it?"""


class Copies(msgspec.Struct, frozen=True):
    """This broker's own store: other stores are to know this too."""

    holdings: list[Holding]


class Leavers(msgspec.Struct, frozen=True):
    """Those who followed here and have left: a store is to know how far they were."""

    holdings: list[Holding]


Asker = Neighbour | Follower | Forgetting | Copies | Leavers


class Asked(msgspec.Struct, frozen=True):
    """A question under way."""

    tree: TreeId
    asker: Asker
    count: int
    """How many names it is about."""

    at_ns: Nanoseconds


class Asking:
    """The questions of one broker."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways
        self._tokens = 0
        self._asked: dict[int, Asked] = {}

    def ask(self, tree: TreeId, asker: Asker, holdings: list[Holding], *, now_ns: Nanoseconds) -> Iterator[Send]:
        """The source of a tree."""
        self._tokens += 1
        self._asked[self._tokens] = Asked(tree, asker, len(holdings), now_ns)
        yield from self._ways.up(tree, Hold(tree, self._tokens, holdings))

    def answered(self, token: int, count: int) -> Asked | None:
        """A source has answered about so many names: which question?"""
        asked = self._asked.get(token)
        if asked is None or asked.count != count:
            return None
        return self._asked.pop(token)

    def overdue(self, now_ns: Nanoseconds) -> list[Asked]:
        """Questions that were not answered in time, or never will be: they are taken back by this."""
        late = [
            token
            for token, asked in self._asked.items()
            if now_ns >= asked.at_ns + AGAIN_NS or not self._ways.is_on(asked.tree)
        ]
        return [self._asked.pop(token) for token in late]

    def deadline_ns(self) -> Nanoseconds | None:
        """When one of them is overdue."""
        return min((Nanoseconds(asked.at_ns + AGAIN_NS) for asked in self._asked.values()), default=None)
