"""How do filters cover each other, while a session picks what goes? Private copies of two covering orders (peer §8).

The donor's says what its covering set is, and what rises into it when a candidate has gone; the acceptor's says what it
gets in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from tidewire._kernel._native import Poset
from tidewire.balancing.clientele import Clientele
from tidewire.balancing.press import Candidate, Profile
from tidewire.model.ids import Conn


class DonorOrder:
    """The donor's filters in covering order, without those of candidates that have gone."""

    def __init__(self, profile: Profile) -> None:
        self._left = dict.fromkeys(profile.candidates)
        self._wanting: dict[bytes, list[Candidate]] | None = None
        clientele = profile.clientele
        if clientele is None:
            known = {Conn(place): one.wanted for place, one in enumerate(profile.candidates)}
            clientele = Clientele({**known, Conn(-1): profile.kept_filters})
        self._clientele = clientele
        self._kept = profile.kept_filters
        self._order: Poset | None = None
        """None: all candidates are in the covering set, and nobody can rise into it."""

    def covering(self) -> list[Candidate]:
        """The candidates with a filter in the covering set, at first: only they can lower the donor's input rate."""
        roots = self._clientele.covering().keys()
        found = [one for one in self._left if one.wanted[0] in roots or not roots.isdisjoint(one.wanted[1:])]
        if len(found) < len(self._left):
            self._order = self._clientele.order()
            self._order.insert(list(self._kept))  # those hold a place though all others go who want the same
            self._order.changes()
        return found

    def without(self, gone: Iterable[Candidate]) -> list[Candidate]:
        """These have gone, with all their clients: which candidates have risen into the covering set?"""
        if self._order is None:
            return []
        filters: list[bytes] = []
        for candidate in gone:
            del self._left[candidate]
            filters += candidate.wanted
        self._order.forget(filters)
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

    def covered(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those of which each filter is covered by a single one of the acceptor's, or equal to it (peer O7)."""
        if not self._order.root_count:
            return []
        answers = iter(self._order.are_covered([wanted for one in candidates for wanted in one.wanted]))
        return [one for one in candidates if all(list(islice(answers, len(one.wanted))))]

    def take(self, candidates: Iterable[Candidate]) -> None:
        """They have been picked: what they cover, the acceptor will get."""
        self._order.insert([wanted for one in candidates for wanted in one.wanted])
