"""How do filters cover each other, while a session picks what goes? Private copies of two covering orders (peer §8).

The donor's says what its covering set is, and what rises into it when a candidate has gone; the acceptor's says what it
gets in any case.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from tidewire._kernel._native import Poset
from tidewire.balancing.press import Candidate, Profile


class DonorOrder:
    """The donor's filters in covering order, without those of candidates that have gone."""

    def __init__(self, profile: Profile) -> None:
        self._left: dict[Candidate, int] = {}
        """With the place of its first node."""
        self._wanting: dict[bytes, list[Candidate]] | None = None
        self._order = Poset(0)
        self._order.insert(list(profile.kept_filters))
        self._nodes = self._order.insert([one for candidate in profile.candidates for one in candidate.wanted])
        self._order.changes()
        place = 0
        for one in profile.candidates:
            self._left[one] = place
            place += len(one.wanted)

    def covering(self) -> list[Candidate]:
        """The candidates with a filter in the covering set, at first: only they can lower the donor's input rate."""
        roots, nodes = dict.fromkeys(self._order.roots()).keys(), self._nodes
        return [
            one
            for one, place in self._left.items()
            if nodes[place] in roots or not roots.isdisjoint(nodes[place + 1 : place + len(one.wanted)])
        ]

    def without(self, gone: Iterable[Candidate]) -> list[Candidate]:
        """These have gone, with all their clients: which candidates have risen into the covering set?"""
        nodes = array("I")
        for candidate in gone:
            place = self._left.pop(candidate)
            nodes.extend(self._nodes[place : place + len(candidate.wanted)])
        self._order.remove(nodes)
        came, _ = self._order.changes()
        return list(dict.fromkeys(one for filter_ in came for one in self._who_want(filter_) if one in self._left))

    def _who_want(self, wanted: bytes) -> list[Candidate]:
        if self._wanting is None:
            self._wanting = {}
            for candidate in self._left:
                for one in dict.fromkeys(candidate.wanted):
                    self._wanting.setdefault(one, []).append(candidate)
        return self._wanting.get(wanted, [])


class AcceptorOrder:
    """What the acceptor gets in any case: its covering set, and what has been picked for it."""

    def __init__(self, covering_set: Iterable[bytes]) -> None:
        self._order = Poset(0)
        self._order.insert(list(covering_set))

    def covers(self, candidate: Candidate) -> bool:
        """Is each of its filters covered by a single one of the acceptor's, or equal to it (peer O7)?"""
        return all(self._covers(wanted) for wanted in candidate.wanted)

    def take(self, candidate: Candidate) -> None:
        """It has been picked: what it covers, the acceptor will get."""
        self._order.insert(list(candidate.wanted))

    def _covers(self, wanted: bytes) -> bool:
        (node,) = self._order.insert([wanted])
        is_covered = self._order.uses(node) > 1 or self._order.parent(node) != 0
        self._order.remove(array("I", [node]))
        return is_covered
