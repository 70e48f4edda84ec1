"""The covering order of filters (peer L5, L6): one node per distinct filter, parents cover their children.

The roots are the covering set: read in O(1), kept right by every insertion and removal. The order is kept as a forest:
a node hangs from *one* close filter that covers it, not from all of them. Covering is transitive, so the covering set,
what rises when a node goes, and every union over children and siblings come out the same; the forest costs a fraction.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NewType

from tidewire._kernel._native import Poset as NativePoset
from tidewire.model.filters import Filter, decode_filter, encode_filter

Node = NewType("Node", int)
"""A distinct filter in the order."""


class Poset:
    """Filters in covering order. Each insertion is undone by one removal of the node that it gave."""

    def __init__(self, *, seed: int = 0) -> None:
        self.native = NativePoset(seed)

    def insert(self, filters: Iterable[Filter]) -> list[Node]:
        """The nodes of these filters, in order; equal filters share a node."""
        return [Node(node) for node in self.native.insert([encode_filter(wanted) for wanted in filters])]

    def remove(self, nodes: Iterable[Node]) -> None:
        """Undo one insertion of each; a node without any left is gone, and its children rise."""
        self.native.remove(array("I", nodes))

    def covering_set(self) -> list[Node]:
        """The filters that no other one is known to cover: patterns and polygons are compared with care."""
        return [Node(node) for node in self.native.roots()]

    def parent(self, node: Node) -> Node | None:
        """The filter that this one hangs from; None for a member of the covering set."""
        return Node(self.native.parent(node)) or None

    def children(self, node: Node) -> list[Node]:
        """The filters that hang from this one."""
        return [Node(child) for child in self.native.children(node)]

    def filter_of(self, node: Node) -> Filter:
        """The filter of a node."""
        return decode_filter(self.native.filter(node))

    def __len__(self) -> int:
        return len(self.native)


class CoveringSet:
    """Encoded filters, and the changes of their covering set. Each filter is there once."""

    def __init__(self) -> None:
        self._native = NativePoset(0)
        self._native.changes()

    def change(self, *, add: list[bytes], remove: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Which filters have come into the covering set by this, and which have left it?"""
        self._native.insert(add)
        self._native.forget(remove)
        return self._native.changes()

    def __len__(self) -> int:
        return self._native.root_count
