"""Which candidates are the same to a planner? Those that the samples cannot tell apart are one *bundle*.

The thesis has one report card for each distinct filter. But a card says nothing of the filter: candidates that want the
same samples, with as many subscriptions each, have the same card, and may as well be moved in one go; what none of them
can take off the donor's input rate alone, all of them together can. So a bundle is a choice of the thesis with more
clients, and a hundred thousand filters are some hundreds of choices.

Vectors may all differ. Those that would add to the acceptor's input are then too many to choose from: the best of them
are in sight, and others follow when these are used up. What adds nothing goes together, however much there is of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

import msgspec

from tidewire.balancing.outlook import Outlook, Taken
from tidewire.balancing.press import Candidate
from tidewire.balancing.tally import Tally

LOT: Final = 40
"""For each choice in sight, so many groups are sorted out at once."""

Order = Callable[[list["Group"]], list["Group"]]
"""Which are looked at first, if there are too many?"""


class Group(msgspec.Struct, eq=False, gc=False):
    """Candidates with the same vector and number of subscriptions each. Counts of samples stand for rates."""

    bits: int
    each: int
    wanted: int
    members: dict[Candidate, None]
    clients: int = 0
    extra: int = 0
    reducible: int = 0
    alike: _Alike | None = None

    @property
    def kind(self) -> tuple[int, ...]:
        """All that a card depends on."""
        return self.wanted, self.extra, self.reducible, self.each, self.clients


class _Alike:
    """Groups that add nothing to the acceptor's input and deliver as much."""

    __slots__ = ("clients", "groups", "holders", "is_sorted")

    def __init__(self) -> None:
        self.groups: dict[Group, None] = {}
        self.clients = 0
        self.holders = Tally()
        self.is_sorted = True

    def add(self, groups: list[Group]) -> None:
        """These have come to be so."""
        groups.sort(key=lambda group: group.clients)
        last = next(reversed(self.groups), groups[0])
        self.is_sorted = self.is_sorted and last.clients <= groups[0].clients
        self.groups |= dict.fromkeys(groups)
        self.clients += sum(group.clients for group in groups)
        self.holders.add([group.bits for group in groups for _ in group.members])
        for group in groups:
            group.alike = self
            group.extra = 0

    def came(self, candidates: list[Candidate]) -> None:
        """Members that a group has more."""
        self.clients += sum(map(_clients_of, candidates))
        self.holders.add([one.bits for one in candidates])

    def went(self, candidates: list[Candidate]) -> None:
        """Members that a group has no more."""
        self.clients -= sum(map(_clients_of, candidates))
        self.holders.remove([one.bits for one in candidates])

    def bundles(self, outlook: Outlook) -> list[Bundle]:
        """One, but for some groups that stay apart: they hold what would go if all went.

        Those with many clients are taken first, from the end: few are then split.
        """
        if not self.groups:
            return []
        if not self.is_sorted:
            self.groups = dict.fromkeys(sorted(self.groups, key=lambda group: group.clients))
            self.is_sorted = True
        last = self.holders.same_as(outlook.holders)
        apart: dict[Group, None] = {}
        for group in self.groups:
            if not last:
                break
            if group.bits & last:
                apart[group] = None
                last &= ~group.bits
        _weigh(apart, outlook)
        bundles = [_single(group) for group in apart]
        if len(apart) == len(self.groups):
            return bundles
        clients = self.clients - sum(group.clients for group in apart)
        return [*bundles, Bundle(self.groups, clients=clients, apart=apart)]


class Bundle:
    """Clients that are the same to a planner. Counts of samples stand for rates."""

    __slots__ = ("_apart", "_groups", "clients", "each", "extra", "reducible", "wanted")

    def __init__(
        self,
        groups: dict[Group, None],
        *,
        clients: int,
        apart: Collection[Group] = (),
        extra: int = 0,
        reducible: int = 0,
    ) -> None:
        self._groups = groups
        self._apart = apart
        one = next(iter(groups))
        self.each = one.each
        """Subscriptions that go with a client."""
        self.wanted = one.wanted
        """Samples that a client wants."""
        self.extra = extra
        """Samples that the acceptor would get in addition, however many clients move."""
        self.reducible = reducible
        """Samples that the donor would get no more, if all of them move."""
        self.clients = clients

    @property
    def groups(self) -> list[Group]:
        """All that belong to it."""
        return list(self.from_the_end())

    def from_the_end(self) -> Iterator[Group]:
        """In the order in which they are taken."""
        return (group for group in reversed(self._groups) if group not in self._apart)


def _single(group: Group) -> Bundle:
    return Bundle({group: None}, clients=group.clients, extra=group.extra, reducible=group.reducible)


class Pool:
    """Candidates that may be picked, as bundles."""

    def __init__(
        self,
        candidates: Iterable[Candidate],
        *,
        one_by_one: bool = False,
        choices_max: int = sys.maxsize,
        lot_max: int = sys.maxsize,
        order: Order | None = None,
    ) -> None:
        """So many choices are in sight; they come from a lot of groups that are sorted out, until it is used up.

        With an order, a lot has those that deliver least; else those with most clients.
        """
        self._one_by_one = one_by_one
        self._choices_max = choices_max
        self._lot_max = sys.maxsize if one_by_one else lot_max
        self._order = order or _varied
        self._lot_key = _clients_in if order is None else _delivers_least
        self._groups: dict[object, Group] = {}
        self._new: list[Group] = []
        """What has not been looked at."""
        self._later: list[Group] = []
        """What is not even looked at before all else is used up, or does not help: the first at the end."""
        self._alike: dict[object, _Alike] = {}
        """What adds nothing to the acceptor's input."""
        self._waiting: dict[int, list[Group]] = {}
        """What does, by one of the samples that it adds: when the acceptor gets that, it is looked at again."""
        self._near: list[Group] = []
        """Of this, what is in sight."""
        self._far: list[Group] = []
        """What follows, the best at the end."""
        self._aside: list[Group] = []
        """What was in sight, and did not help."""
        self._aside_bits = self._acceptor_bits = 0
        """What the acceptor got when something was last laid aside, and when it was last looked at."""
        self.add(candidates)

    def add(self, candidates: Iterable[Candidate]) -> None:
        """These may be picked too. Those with many clients are taken first, from the end: few are then split."""
        groups, one_by_one = self._groups, self._one_by_one
        for one in sorted(candidates, key=_clients_of):
            bits, each, clients = one.bits, len(one.wanted), len(one.clients)
            key = one if one_by_one else (bits, each)
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group(bits, each, bits.bit_count(), {one: None}, clients)
                self._new.append(group)
            elif one not in group.members:
                group.members[one] = None
                group.clients += clients
                if group.alike is not None:
                    group.alike.came([one])

    def within(self, bits: int) -> list[Candidate]:
        """Of those that add nothing to the acceptor's input, who wants only these samples?"""
        return [
            one
            for alike in self._alike.values()
            for group in alike.groups
            if not group.bits & ~bits
            for one in group.members
        ]

    def discard(self, candidates: Iterable[Candidate]) -> None:
        """These may be picked no more, if they were here."""
        gone: dict[Group, list[Candidate]] = {}
        for one in candidates:
            group = self._groups.get(self._key(one))
            if group is not None and one in group.members:
                del group.members[one]
                gone.setdefault(group, []).append(one)
        self._forget(gone)

    def bundles(self, outlook: Outlook) -> list[Bundle]:
        """What there is to choose from, as both brokers now are. Of groups with the same card, one will do."""
        self.settle(outlook)
        self._near = [group for group in self._near if group.members and group.alike is None]
        self._next(outlook)
        _weigh(self._near, outlook)
        kinds: dict[object, Group] = {}
        for group in self._near:
            kinds.setdefault(group if self._one_by_one else group.kind, group)
        bundles = [_single(group) for group in kinds.values()]
        for alike in self._alike.values():
            bundles += alike.bundles(outlook)
        outlook.looks += len(self._alike)
        return bundles

    def settle(self, outlook: Outlook) -> None:
        """Look at what is new, and at what may add nothing to the acceptor's input any more."""
        came, self._new = self._new, []
        if len(came) > self._lot_max:
            came.sort(key=self._lot_key)
            self._later += came[: -self._lot_max]
            came = came[-self._lot_max :]
        again = _waiting_for(self._waiting, outlook.acceptor_bits & ~self._acceptor_bits)
        self._acceptor_bits = outlook.acceptor_bits
        found: dict[object, list[Group]] = {}
        self._sort_out(again, found)
        self._far += self._ordered(self._sort_out(came, found), outlook)
        for key, groups in found.items():
            self._alike.setdefault(key, _Alike()).add(groups)

    def more(self, outlook: Outlook) -> bool:
        """Nothing in sight helps: is there anything else?"""
        self._aside += self._near
        self._aside_bits = outlook.acceptor_bits
        self._near = []
        self._next(outlook)
        if not self._near and self._later:
            self._new += self._later[-self._lot_max :]
            del self._later[-self._lot_max :]
        return bool(self._near or self._new)

    def take(self, bundle: Bundle, clients: int) -> list[Taken]:
        """So many clients of a bundle, candidate by candidate; of the last one perhaps not all."""
        taken = []
        gone: dict[Group, list[Candidate]] = {}
        for group in bundle.from_the_end():
            going = gone[group] = []
            while clients and group.members:
                one, _ = group.members.popitem()
                going.append(one)
                moving = one.clients[:clients]
                clients -= len(moving)
                taken.append(Taken(one, moving))
            if not clients:
                break
        self._forget(gone)
        return taken

    def _key(self, one: Candidate) -> object:
        return one if self._one_by_one else (one.bits, len(one.wanted))

    def _forget(self, gone: dict[Group, list[Candidate]]) -> None:
        """These are no members any more."""
        left: dict[_Alike, list[Candidate]] = {}
        for group, candidates in gone.items():
            group.clients -= sum(map(_clients_of, candidates))
            if group.alike is not None:
                left.setdefault(group.alike, []).extend(candidates)
                if not group.members:
                    del group.alike.groups[group]
            if not group.members and candidates:
                del self._groups[self._key(candidates[0])]
        for alike, candidates in left.items():
            alike.went(candidates)

    def _sort_out(self, groups: Iterable[Group], found: dict[object, list[Group]]) -> list[Group]:
        """Those that add nothing to the acceptor's input go to what is found; the others wait, and are returned."""
        missing, waiting, others = ~self._acceptor_bits, self._waiting, []
        for group in groups:
            added = group.bits & missing
            if added:
                waiting.setdefault(added & -added, []).append(group)
                others.append(group)
            elif group.members:
                key = group if self._one_by_one else (group.wanted, group.each)
                found.setdefault(key, []).append(group)
        return others

    def _next(self, outlook: Outlook) -> None:
        """Bring the best of what follows into sight. What was laid aside may help when it adds less than it did."""
        if not self._far and self._aside_bits != outlook.acceptor_bits:
            self._far, self._aside = self._ordered(self._aside, outlook), []
        while self._far and len(self._near) < self._choices_max:
            group = self._far.pop()
            if group.members and group.alike is None:
                self._near.append(group)

    def _ordered(self, groups: list[Group], outlook: Outlook) -> list[Group]:
        """The best at the end. Where all are in sight, their order does not matter."""
        groups = [group for group in groups if group.members and group.alike is None]
        if len(groups) <= self._choices_max:
            return groups[::-1]
        _weigh(groups, outlook)
        return self._order(groups)[::-1]


def _weigh(groups: Iterable[Group], outlook: Outlook) -> None:
    """What would the acceptor get in addition, and the donor no more?"""
    missing, held_by = ~outlook.acceptor_bits, outlook.held_by
    alone = held_by(1)
    for group in groups:
        members = len(group.members)
        group.extra = (group.bits & missing).bit_count()
        group.reducible = (group.bits & (alone if members == 1 else held_by(members))).bit_count()


def by_order(key: Callable[[Group], tuple[float, ...]]) -> Order:
    """The least first."""
    return lambda groups: sorted(groups, key=key)


def _varied(groups: list[Group]) -> list[Group]:
    """What differs first: of groups that add, lower and deliver as much, one with more clients is never worse."""
    rows: dict[tuple[int, ...], list[Group]] = {}
    for group in sorted(groups, key=lambda group: -group.clients):
        rows.setdefault((group.wanted, group.extra, group.reducible, group.each), []).append(group)
    left = sorted(rows.values(), key=lambda row: (-row[0].reducible, -row[0].clients * row[0].each))
    found: list[Group] = []
    place = 0
    while left:
        found += [row[place] for row in left]
        place += 1
        left = [row for row in left if place < len(row)]
    return found


def _waiting_for(waiting: dict[int, list[Group]], bits: int) -> list[Group]:
    """All that wait for one of these samples, and wait no more."""
    found: list[Group] = []
    while bits:
        one = bits & -bits
        bits ^= one
        found += waiting.pop(one, ())
    return found


def _clients_in(group: Group) -> int:
    return group.clients


def _delivers_least(group: Group) -> int:
    return -group.wanted


def _clients_of(one: Candidate) -> int:
    return len(one.clients)
