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
        self._order = Poset(0)
        self._order.insert(list(profile.kept_filters))
        wanted = [one for candidate in profile.candidates for one in candidate.wanted]
        nodes = iter(self._order.insert(wanted))
        self._nodes: dict[Candidate, list[int]] = {}
        self._candidates: dict[bytes, list[Candidate]] = {}
        for candidate in profile.candidates:
            self._nodes[candidate] = [next(nodes) for _ in candidate.wanted]
            for one in dict.fromkeys(candidate.wanted):
                self._candidates.setdefault(one, []).append(candidate)
        self._order.changes()

    def covering(self) -> list[Candidate]:
        """The candidates with a filter in the covering set: only they can lower the donor's input rate."""
        parent = self._order.parent
        return [one for one, nodes in self._nodes.items() if any(not parent(node) for node in nodes)]

    def without(self, gone: Iterable[Candidate]) -> list[Candidate]:
        """These have gone, with all their clients: which candidates have risen into the covering set?"""
        for candidate in gone:
            self._order.remove(array("I", self._nodes.pop(candidate)))
        came, _ = self._order.changes()
        risen = dict.fromkeys(one for wanted in came for one in self._candidates[wanted] if one in self._nodes)
        return list(risen)


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
