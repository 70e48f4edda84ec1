"""What must the parent in a tree know of the subscriptions behind us? As little as possible.

A filter counts while it overlaps an advertisement of the tree (peer L9). Of those that count, the parent is told the
covering set: what another one covers need not be told. When a filter leaves, those that only it had covered rise into
the set, and are told before it is taken back (peer L11); so the parent has, at every moment, all that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewire.matching.covering import covers, overlaps
from tidewire.matching.poset import CoveringSet
from tidewire.model.filters import Filter, decode_filter
from tidewire.model.messages import ANYTHING


class Advertised:
    """The advertisements of a tree, by number: could an event of it match this filter?"""

    def __init__(self) -> None:
        self.filters: dict[int, bytes] = {}
        self._decoded: dict[int, Filter] = {}

    def add(self, numbers: Iterable[int], filters: Iterable[bytes]) -> None:
        """These too; a number that is in use gets the new filter."""
        for number, advertised in zip(numbers, filters, strict=True):
            self.filters[number] = advertised
            if advertised != ANYTHING:
                self._decoded[number] = decode_filter(advertised)

    def remove(self, numbers: Iterable[int]) -> None:
        """These no longer."""
        for number in numbers:
            self.filters.pop(number, None)
            self._decoded.pop(number, None)

    @property
    def is_everything(self) -> bool:
        """Does somebody publish without saying what?"""
        return len(self._decoded) < len(self.filters)

    def overlapping(self, filters: list[bytes]) -> list[bytes]:
        """Those of the filters that could match something advertised, in their order."""
        if not self.filters or self.is_everything:
            return filters if self.filters else []
        return [wanted for wanted in filters if self._overlaps(decode_filter(wanted))]

    def _overlaps(self, wanted: Filter) -> bool:
        return any(overlaps(wanted, advertised) for advertised in self._decoded.values())


class Change:
    """What the parent is to be told: first what is new, then what is no longer wanted."""

    __slots__ = ("filters", "gone", "numbers")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.filters: list[bytes] = []
        self.gone: list[int] = []


class Upstream:
    """The filters behind us in one tree, and which of them the parent has been told, by which number."""

    def __init__(self, *, covering: bool) -> None:
        self.advertised = Advertised()
        self._uses: dict[bytes, int] = {}
        """How many subscriptions have this filter?"""
        self._counting: dict[bytes, None] = {}
        """Those that overlap an advertisement."""
        self._set = CoveringSet() if covering else None
        self._told: dict[bytes, int] = {}
        self._free: list[int] = []

    def change(self, *, add: Iterable[bytes] = (), remove: Iterable[bytes] = ()) -> Change:
        """Subscriptions with these filters have come and gone."""
        uses = self._uses
        fresh: list[bytes] = []
        for wanted in add:
            count = uses.get(wanted, 0)
            uses[wanted] = count + 1
            if count == 0:
                fresh.append(wanted)
        unused: dict[bytes, None] = {}
        for wanted in remove:
            uses[wanted] -= 1
            if uses[wanted] == 0:
                unused[wanted] = None
        for wanted in unused:
            del uses[wanted]
        come = [wanted for wanted in self.advertised.overlapping(fresh) if wanted not in unused]
        gone = [wanted for wanted in unused if wanted in self._counting]
        return self._count(come, gone)

    def readvertised(self) -> Change:
        """The advertisements have changed: which filters count now?"""
        counting = dict.fromkeys(self.advertised.overlapping(list(self._uses)))
        come = [wanted for wanted in counting if wanted not in self._counting]
        gone = [wanted for wanted in self._counting if wanted not in counting]
        return self._count(come, gone)

    def everything(self) -> Change:
        """All that a new parent has to be told."""
        change = Change()
        change.filters, change.numbers = list(self._told), list(self._told.values())
        return change

    @property
    def is_idle(self) -> bool:
        """Does nobody here or behind us want any of what is advertised?"""
        return not self._told

    def told(self) -> list[bytes]:
        """The filters that the parent knows."""
        return list(self._told)

    def covers(self, wanted: bytes) -> bool:
        """Is all that matches this filter among what the parent was told? Never true if it is not."""
        if wanted in self._told:
            return True
        filter_ = decode_filter(wanted)
        return any(covers(decode_filter(told), filter_) for told in self._told)

    def uses(self) -> dict[bytes, int]:
        """The filters behind us, and how many subscriptions have each."""
        return dict(self._uses)

    def __len__(self) -> int:
        return len(self._uses)

    def _count(self, come: list[bytes], gone: list[bytes]) -> Change:
        self._counting.update(dict.fromkeys(come))
        for wanted in gone:
            del self._counting[wanted]
        risen, sunk = (come, gone) if self._set is None else self._set.change(add=come, remove=gone)
        change = Change()
        change.filters = risen
        change.numbers = [self._number(wanted) for wanted in risen]
        change.gone = [self._told.pop(wanted) for wanted in sunk]
        self._free += change.gone
        return change

    def _number(self, wanted: bytes) -> int:
        number = self._free.pop() if self._free else len(self._told)
        self._told[wanted] = number
        return number
