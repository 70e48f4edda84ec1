"""The covering order of filters (peer L5, L6): one node per distinct filter, parents cover their children.

The roots are the covering set: read in O(1), kept right by every insertion and removal. The order is kept as a forest:
a node hangs from *one* close filter that covers it, not from all of them. Covering is transitive, so the covering set,
what rises when a node goes, and every union over children and siblings come out the same; the forest costs a fraction.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final, NewType

from tidewire._kernel._native import Poset as NativePoset
from tidewire.matching.covering import covers
from tidewire.model.filters import Filter, decode_filter, encode_filter

FEW_MAX: Final = 128
"""So many filters are compared one by one."""

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
    """Encoded filters, and the changes of their covering set. Each filter is there once.

    A broker has one per source tree, mostly with a handful of filters: those are compared with the covering set one
    by one. The order, which is made for many and takes most of a megabyte even when it is empty, comes with them.
    """

    def __init__(self) -> None:
        self._few = _Few()
        self._native: NativePoset | None = None

    def change(self, *, add: list[bytes], remove: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Which filters have come into the covering set by this, and which have left it?"""
        if self._native is not None:
            self._native.insert(add)
            self._native.forget(remove)
            return self._native.changes()
        was = dict.fromkeys(self._few.roots)
        for wanted in add:
            self._few.insert(wanted)
        for wanted in remove:
            self._few.forget(wanted)
        if len(self._few.covered_by) > FEW_MAX:
            self._native = NativePoset(0)
            self._native.changes()
            self._native.insert(list(self._few.covered_by))
            now = dict.fromkeys(self._native.changes()[0])
            self._few = _Few()
        else:
            now = dict.fromkeys(self._few.roots)
        return [root for root in now if root not in was], [root for root in was if root not in now]

    def __len__(self) -> int:
        return len(self._few.roots) if self._native is None else self._native.root_count


class _Few:
    """Filters, each of them a member of the covering set or below one of its members."""

    def __init__(self) -> None:
        self.roots: dict[bytes, Filter] = {}
        self.covered_by: dict[bytes, bytes | None] = {}

    def insert(self, wanted: bytes) -> None:
        """A new one: below the first root that covers it, or a root above those that it covers."""
        narrow = decode_filter(wanted)
        above = next((root for root, wide in self.roots.items() if covers(wide, narrow)), None)
        self.covered_by[wanted] = above
        if above is not None:
            return
        sinking = {root: None for root, other in self.roots.items() if covers(narrow, other)}
        for root in sinking:
            del self.roots[root]
            self.covered_by[root] = wanted
        if sinking:
            self.covered_by |= {child: wanted for child, parent in self.covered_by.items() if parent in sinking}
        self.roots[wanted] = narrow

    def forget(self, wanted: bytes) -> None:
        """One goes; those below it find another place."""
        del self.covered_by[wanted]
        if self.roots.pop(wanted, None) is not None:
            for child in [child for child, parent in self.covered_by.items() if parent == wanted]:
                self.insert(child)
