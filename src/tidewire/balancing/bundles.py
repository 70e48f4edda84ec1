"""Which candidates are the same to a planner? Those that the samples cannot tell apart are one *bundle*.

The thesis has one report card for each distinct filter. But a card says nothing of the filter: candidates that want the
same samples, with as many subscriptions each, have the same card, and may as well be moved in one go; what none of them
can take off the donor's input rate alone, all of them together can. So a bundle is a choice of the thesis with more
clients, and a hundred thousand filters are some hundreds of choices.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidewire.balancing.outlook import Outlook, Taken
from tidewire.balancing.press import Candidate
from tidewire.balancing.tally import Tally


class _Group:
    """Candidates with the same vector and number of subscriptions each."""

    __slots__ = ("bits", "clients", "each", "members")

    def __init__(self, bits: int, each: int) -> None:
        self.bits = bits
        self.each = each
        self.members: dict[Candidate, None] = {}
        self.clients = 0


class Bundle:
    """Clients that are the same to a planner. Counts of samples stand for rates."""

    __slots__ = ("clients", "each", "extra", "groups", "reducible", "wanted")

    def __init__(self, groups: list[_Group], *, extra: int, reducible: int) -> None:
        self.groups = groups
        self.each = groups[0].each
        """Subscriptions that go with a client."""
        self.wanted = groups[0].bits.bit_count()
        """Samples that a client wants."""
        self.extra = extra
        """Samples that the acceptor would get in addition, however many clients move."""
        self.reducible = reducible
        """Samples that the donor would get no more, if all of them move."""
        self.clients = sum(group.clients for group in groups)


class Pool:
    """Candidates that may be picked, as bundles."""

    def __init__(self, candidates: Iterable[Candidate], *, one_by_one: bool = False) -> None:
        self._one_by_one = one_by_one
        self._groups: dict[object, _Group] = {}
        self._bundles: list[Bundle] | None = None
        self._acceptor_bits = 0
        self._largest = 0
        """The most candidates in a bundle. While every sample has more holders, no pick can take the last of one."""
        self.add(candidates)

    def add(self, candidates: Iterable[Candidate]) -> None:
        """These may be picked too. Those with many clients are taken first, from the end: few are then split."""
        for one in sorted(candidates, key=lambda one: len(one.clients)):
            key = self._key(one)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group(one.bits, one.each)
            if one not in group.members:
                group.members[one] = None
                group.clients += len(one.clients)
                self._bundles = None

    def within(self, bits: int) -> list[Candidate]:
        """Those that want nothing but these samples."""
        return [one for group in self._groups.values() if not group.bits & ~bits for one in group.members]

    def discard(self, candidates: Iterable[Candidate]) -> None:
        """These may be picked no more."""
        for one in candidates:
            group = self._groups[self._key(one)]
            del group.members[one]
            group.clients -= len(one.clients)
            self._bundles = None

    def bundles(self, outlook: Outlook) -> list[Bundle]:
        """What there is to choose from, as both brokers now are."""
        is_stale = outlook.acceptor_bits != self._acceptor_bits or outlook.holders.at_most(self._largest)
        if self._bundles is None or is_stale:
            self._bundles = self._bundled(outlook)
            self._acceptor_bits = outlook.acceptor_bits
            self._largest = max((sum(len(one.members) for one in each.groups) for each in self._bundles), default=0)
        return [bundle for bundle in self._bundles if bundle.clients]

    def take(self, bundle: Bundle, clients: int) -> list[Taken]:
        """So many clients of a bundle, candidate by candidate; of the last one perhaps not all."""
        taken = []
        for group in bundle.groups:
            while clients and group.members:
                one, _ = group.members.popitem()
                group.clients -= len(one.clients)
                bundle.clients -= len(one.clients)
                moving = one.clients[:clients]
                clients -= len(moving)
                taken.append(Taken(one, moving))
        return taken

    def _key(self, one: Candidate) -> object:
        return one if self._one_by_one else (one.bits, one.each)

    def _bundled(self, outlook: Outlook) -> list[Bundle]:
        """Groups that change no rate differ only in how much they deliver: those that deliver alike go together."""
        self._groups = {key: group for key, group in self._groups.items() if group.members}
        exactly: dict[int, int] = {}
        single: list[Bundle] = []
        alike: dict[tuple[int, int], list[_Group]] = {}
        for group in self._groups.values():
            holders = len(group.members)
            if holders not in exactly:
                exactly[holders] = outlook.holders.exactly(holders)
            extra = (group.bits & ~outlook.acceptor_bits).bit_count()
            reducible = (group.bits & exactly[holders]).bit_count()
            if extra or reducible or self._one_by_one:
                single.append(Bundle([group], extra=extra, reducible=reducible))
            else:
                alike.setdefault((group.bits.bit_count(), group.each), []).append(group)
        for groups in alike.values():
            single += _together(groups, outlook.holders)
        return single


def _together(groups: list[_Group], holders: Tally) -> list[Bundle]:
    """One bundle, but for groups with a sample that nobody else wants: who takes the last of it lowers the rate."""
    if len(groups) == 1:
        return [Bundle(groups, extra=0, reducible=0)]
    own = Tally()
    for group in groups:
        own.add(group.bits, times=len(group.members))
    last = own.same_as(holders)
    common = [group for group in groups if not group.bits & last]
    bundles = [Bundle([group], extra=0, reducible=0) for group in groups if group.bits & last]
    return [*bundles, Bundle(common, extra=0, reducible=0)] if common else bundles
