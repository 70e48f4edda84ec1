"""What follows from a change in the routing: messages to neighbours, in the data lane, and orders to the data plane."""

from __future__ import annotations

import msgspec

from tidewire.model.ids import Conn, PubendId, Tick, TreeId
from tidewire.model.messages import Message


class Tell(msgspec.Struct, frozen=True):
    """Send this to a neighbour."""

    link: Conn
    message: Message


class Install(msgspec.Struct, frozen=True):
    """Send there what matches, of this tree (None: of all)."""

    conn: Conn
    tree: TreeId | None
    numbers: list[int]
    filters: list[bytes]


class Uninstall(msgspec.Struct, frozen=True):
    """No longer."""

    conn: Conn
    tree: TreeId | None
    numbers: list[int]


class SetParent(msgspec.Struct, frozen=True):
    """The events of a tree come from there; None: from nowhere at present."""

    tree: TreeId
    parent: Conn | None


class ForgetTree(msgspec.Struct, frozen=True):
    """The tree is gone for good."""

    tree: TreeId


class Widened(msgspec.Struct, frozen=True):
    """The parent is being told that more is wanted of this tree: what was silent may not have been so for that."""

    tree: TreeId


class Confirmed(msgspec.Struct, frozen=True):
    """What the parent had been told stands on the whole way: from these ticks on silence is silence for it."""

    tree: TreeId
    heads: list[tuple[PubendId, Tick]]
    is_all: bool
    """Was that all that it has been told by now?"""


class Reached(msgspec.Struct, frozen=True):
    """A barrier that was asked for here is complete."""

    barrier: int


Answer = Tell | Install | Uninstall | SetParent | ForgetTree | Widened | Confirmed | Reached
