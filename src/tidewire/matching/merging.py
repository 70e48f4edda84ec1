"""Perfect merging: fewer conjunctions that accept exactly the same events.

Two conjunctions become one if they are the same but for one attribute, and one set can say what either allows it.
The pool finds such pairs by hashing each conjunction without one of its attributes, once for each, so that the work
grows with the number of conjunctions and not with its square.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator
from typing import Generic, NewType, TypeVar

from tidewire.matching.covering import conjunction_covers
from tidewire.model.filters import (
    CONJUNCTIONS_MAX,
    COST_MAX,
    INTERVALS_MAX,
    Conjunction,
    Constraint,
    Filter,
    cost_of,
    encode_filter,
    filter_of,
)
from tidewire.model.geography import Area
from tidewire.model.values import Kind
from tidewire.model.valuesets import ANY_NUMBER, PRESENT, ValueSet, joined

_Shape = tuple[int, ...]
"""A conjunction by number: its areas, then its constraints in the order of their attributes."""

_Entry = NewType("_Entry", int)
_Owner = NewType("_Owner", int)
_Item = TypeVar("_Item")
_Choice = tuple[_Entry, ValueSet]
_Join = tuple[ValueSet | None, list[_Entry]]
"""What several entries allow together (None: anything, even nothing), and which they are."""


def merge(a: Filter, b: Filter) -> Filter | None:
    """The filter that accepts what either does, if it has fewer conjunctions than both together; else None."""
    if not a.conjunctions or not b.conjunctions:
        return a if a.conjunctions else b
    pool = _Pool([a, b])
    pool.reduce()
    left = _maximal([conjunction for merged in pool.filters() for conjunction in merged.conjunctions])
    fewer = len(left) < len(a.conjunctions) + len(b.conjunctions)
    fits = len(left) <= CONJUNCTIONS_MAX and cost_of(Filter(tuple(left))) <= COST_MAX
    return filter_of(left) if fewer and fits else None


def merge_all(filters: Iterable[Filter]) -> list[Filter]:
    """Filters that accept, all together, exactly what these do; never more of them, and as few as the pool finds.

    The answer depends on neither the order nor the repetition of the filters; merging it again changes nothing.
    """
    distinct = {encode_filter(candidate): candidate for candidate in filters if candidate.conjunctions}
    pool = _Pool([distinct[key] for key in sorted(distinct)])
    pool.reduce()
    return sorted(pool.filters(), key=encode_filter)


def _maximal(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """Those that no other one covers; of several equal ones the first."""
    kept: list[Conjunction] = []
    for candidate in conjunctions:
        if not any(conjunction_covers(one, candidate) for one in kept):
            kept = [one for one in kept if not conjunction_covers(candidate, one)]
            kept.append(candidate)
    return kept


class _Pool:
    """The conjunctions of many filters, each under the filter that owns it, by all but one of their attributes."""

    def __init__(self, filters: list[Filter]) -> None:
        self._filters = filters
        self._held: list[dict[_Entry, None]] = [{} for _ in filters]
        self._is_touched = [False] * len(filters)
        self._areas = _Numbers[tuple[Area, ...]]()
        self._constraints = _Numbers[Constraint]()
        self._attributes: dict[str, None] = {}
        self._shapes: list[_Shape] = []
        self._owners: list[_Owner] = []
        self._alive: dict[_Shape, _Entry] = {}
        self._groups: dict[tuple[str, _Shape], list[_Entry]] = {}
        self._waiting: dict[tuple[str, _Shape], None] = {}
        for number, owned in enumerate(filters):
            for conjunction in owned.conjunctions:
                self._insert(self._shape_of(conjunction), _Owner(number))
        self._waiting |= {group: None for group in self._groups if group[1] in self._alive}

    def reduce(self) -> None:
        """Join until nothing can be joined."""
        while self._waiting:
            group = next(iter(self._waiting))
            del self._waiting[group]
            self._join_group(*group)

    def filters(self) -> Iterator[Filter]:
        """What is left, by owner."""
        for owner, held in enumerate(self._held):
            if not self._is_touched[owner]:
                yield self._filters[owner]
            elif held:
                yield filter_of(self._conjunction(self._shapes[entry]) for entry in held)

    def _join_group(self, attribute: str, rest: _Shape) -> None:
        entries = [entry for entry in self._groups[attribute, rest] if self._is_alive(entry)]
        self._groups[attribute, rest] = entries
        if rest in self._alive:
            for entry in entries:
                self._remove(entry)
        elif len(entries) > 1:
            choices = [(entry, self._allowed(entry, attribute)) for entry in entries]
            for allowed, absorbed in _joins(choices):
                self._replace(absorbed, attribute, rest, allowed)

    def _replace(self, entries: list[_Entry], attribute: str, rest: _Shape, allowed: ValueSet | None) -> None:
        shape = rest if allowed is None else self._with_constraint(rest, Constraint(attribute, allowed))
        survivor = self._alive.get(shape)
        owner = min(self._owners[entry] for entry in entries) if survivor is None else self._owners[survivor]
        leaving = dict.fromkeys(entries)
        staying = [self._shapes[entry] for entry in self._held[owner] if entry not in leaving]
        after = Filter(tuple(self._conjunction(kept) for kept in dict.fromkeys([*staying, shape])))
        if cost_of(after) > COST_MAX:
            return
        for entry in entries:
            if entry != survivor:
                self._remove(entry)
        if survivor is None:
            self._is_touched[owner] = True
            self._insert(shape, owner)
            self._waiting |= {(name, shape): None for name in self._attributes if (name, shape) in self._groups}

    def _insert(self, shape: _Shape, owner: _Owner) -> None:
        if shape in self._alive:
            self._is_touched[owner] = True
            return
        entry = _Entry(len(self._shapes))
        self._shapes.append(shape)
        self._owners.append(owner)
        self._held[owner][entry] = None
        self._alive[shape] = entry
        for place in range(1, len(shape)):
            attribute = self._constraints.get(shape[place]).attribute
            self._attributes[attribute] = None
            group = (attribute, shape[:place] + shape[place + 1 :])
            entries = self._groups.setdefault(group, [])
            entries.append(entry)
            if len(entries) > 1 or group[1] in self._alive:
                self._waiting[group] = None

    def _remove(self, entry: _Entry) -> None:
        owner = self._owners[entry]
        self._is_touched[owner] = True
        del self._alive[self._shapes[entry]]
        del self._held[owner][entry]

    def _is_alive(self, entry: _Entry) -> bool:
        return self._alive.get(self._shapes[entry]) == entry

    def _allowed(self, entry: _Entry, attribute: str) -> ValueSet:
        constraints = (self._constraints.get(number) for number in self._shapes[entry][1:])
        return next(c.allowed for c in constraints if c.attribute == attribute)

    def _with_constraint(self, rest: _Shape, constraint: Constraint) -> _Shape:
        names = [self._constraints.get(number).attribute for number in rest[1:]]
        place = 1 + bisect(names, constraint.attribute)
        return (*rest[:place], self._constraints.of(constraint), *rest[place:])

    def _shape_of(self, conjunction: Conjunction) -> _Shape:
        return (self._areas.of(conjunction.areas), *map(self._constraints.of, conjunction.constraints))

    def _conjunction(self, shape: _Shape) -> Conjunction:
        return Conjunction(tuple(map(self._constraints.get, shape[1:])), self._areas.get(shape[0]))


class _Numbers(Generic[_Item]):
    """A small number for each distinct item."""

    def __init__(self) -> None:
        self._numbers: dict[_Item, int] = {}
        self._items: list[_Item] = []

    def of(self, item: _Item) -> int:
        number = self._numbers.setdefault(item, len(self._items))
        if number == len(self._items):
            self._items.append(item)
        return number

    def get(self, number: int) -> _Item:
        return self._items[number]


def _joins(choices: list[_Choice]) -> list[_Join]:
    """Which entries, the same but for this one attribute, are one entry? Each is in one answer at most."""
    given = [choice for choice in choices if choice[1].kind is not Kind.ABSENT]
    if any(allowed.kind is Kind.PRESENT for _, allowed in given):
        if len(given) < len(choices):
            return [(None, [entry for entry, _ in choices])]
        return _worthwhile([(PRESENT, [entry for entry, _ in given])])
    if any(allowed.kind is Kind.ANY_NUMBER for _, allowed in given):
        numbers = [entry for entry, allowed in given if allowed.kind in {Kind.NUMBER, Kind.ANY_NUMBER}]
        others = [choice for choice in given if choice[1].kind not in {Kind.NUMBER, Kind.ANY_NUMBER}]
        return _worthwhile([(ANY_NUMBER, numbers), *_typed_joins(others)])
    return _worthwhile(_typed_joins(given))


def _worthwhile(found: list[_Join]) -> list[_Join]:
    return [join for join in found if len(join[1]) > 1]


def _typed_joins(choices: list[_Choice]) -> list[_Join]:
    alike: dict[tuple[Kind, tuple[str, ...], tuple[str, ...]], list[_Choice]] = {}
    for entry, allowed in choices:
        alike.setdefault((allowed.kind, allowed.like, allowed.unlike), []).append((entry, allowed))
    plain: list[_Join] = []
    patterned: list[list[_Choice]] = []
    for (_, like, unlike), group in alike.items():
        if like or unlike:
            patterned.append(group)
        else:
            plain.extend(_packed(group))
    left = [[choice for choice in group if not _is_absorbed(choice, plain)] for group in patterned]
    return plain + [join for group in left for join in _packed(group)]


def _is_absorbed(choice: _Choice, plain: list[_Join]) -> bool:
    entry, allowed = choice
    for wide, entries in plain:
        if wide is not None and wide.kind is Kind.STRING and wide.covers(allowed):
            entries.append(entry)
            return True
    return False


def _packed(choices: list[_Choice]) -> Iterator[_Join]:
    """Unions within the bound on intervals, the small ones first: if the two smallest do not fit, none do."""
    entries: list[_Entry] = []
    sets: list[ValueSet] = []
    room = INTERVALS_MAX
    for entry, allowed in sorted(choices, key=lambda c: (len(c[1].intervals), c[1].intervals[0][0])):
        if sets and len(allowed.intervals) > room:
            yield joined(sets), entries
            entries, sets, room = [], [], INTERVALS_MAX
        entries.append(entry)
        sets.append(allowed)
        room -= len(allowed.intervals)
    if sets:
        yield joined(sets), entries
