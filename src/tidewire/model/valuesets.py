"""What one attribute may be: a set of values, as sorted half-open intervals in the order of its kind.

Equality, IN lists, ranges, prefixes, negations and their combinations all become intervals ``[low, high)``, where
``None`` as the high end means no upper end. There is one representation per set, so equal sets compare equal. LIKE
patterns that are more than a prefix stay beside the intervals and narrow them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tidewire.model.patterns import matches_pattern, parse_pattern
from tidewire.model.values import BOTTOM, Bound, Kind, Timestamp, Value, after_prefix, as_bound, kind_of, successor

Interval = tuple[Bound, Bound | None]
_TYPED: Final = (Kind.BOOL, Kind.NUMBER, Kind.STRING, Kind.TIMESTAMP, Kind.BYTES)


class ValueSet(msgspec.Struct, frozen=True, array_like=True):
    """The values that a constraint allows for its attribute. Never empty."""

    kind: Kind
    intervals: tuple[Interval, ...] = ()
    like: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()

    def has(self, value: Value | None) -> bool:
        """Is this value (None: the attribute is missing) in the set?"""
        if value is None:
            return self.kind is Kind.ABSENT
        found = kind_of(value)
        if self.kind is Kind.PRESENT:
            return True
        if self.kind is Kind.ANY_NUMBER:
            return found in (Kind.NUMBER, Kind.ANY_NUMBER)
        return found is self.kind and _within(self.intervals, as_bound(value)) and self._fits(value)

    def _fits(self, value: Value) -> bool:
        if not (self.like or self.unlike):
            return True
        assert isinstance(value, str)
        return all(matches_pattern(parse_pattern(p), value) for p in self.like) and not any(
            matches_pattern(parse_pattern(p), value) for p in self.unlike
        )

    def points(self) -> tuple[Bound, ...] | None:
        """The members, if the set is finite and given by its members; else None."""
        if not self.intervals:
            return None
        lows = tuple(low for low, _ in self.intervals)
        ends = (successor(self.kind, low) for low in lows)
        return lows if all(end == high for end, (_, high) in zip(ends, self.intervals, strict=True)) else None

    def meet(self, other: ValueSet) -> ValueSet | None:
        """What both sets have; None if that is nothing."""
        if self.kind is not other.kind:
            return _narrower(self, other)
        if self.kind not in _TYPED:
            return self
        return narrowed(
            self.kind,
            _intersection(self.intervals, other.intervals),
            like=self.like + other.like,
            unlike=self.unlike + other.unlike,
        )

    def covers(self, other: ValueSet) -> bool:
        """Is every value of the other set in this one? Never claimed wrongly."""
        if self.kind is not other.kind:
            return _narrower(self, other) is other
        if self.kind not in _TYPED:
            return True
        return _contains(self.intervals, other.intervals) and self._patterns_follow(other)

    def _patterns_follow(self, other: ValueSet) -> bool:
        if not (self.like or self.unlike):
            return True
        members = other.points()
        if members is not None:
            return all(self._fits(str(member)) for member in members)
        return all(any(_implies(q, p) for q in other.like) for p in self.like) and all(
            p in other.unlike or any(_implies(p, q) for q in other.unlike) or _cannot_be(other, p) for p in self.unlike
        )

    def join(self, other: ValueSet) -> ValueSet | None:
        """The union, if one set can say it; else None."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        if self.kind is not other.kind or (self.like, self.unlike) != (other.like, other.unlike):
            return None
        return joined((self, other))


ABSENT: Final = ValueSet(Kind.ABSENT)
PRESENT: Final = ValueSet(Kind.PRESENT)
ANY_NUMBER: Final = ValueSet(Kind.ANY_NUMBER)


def everything(kind: Kind) -> ValueSet:
    """All values of a kind that can be compared."""
    return ValueSet(kind, ((BOTTOM[kind], None),))


def members(kind: Kind, values: Iterable[Bound]) -> ValueSet:
    """Exactly these values (at least one)."""
    return ValueSet(kind, _union(tuple((v, successor(kind, v)) for v in values)))


def at_least(kind: Kind, bound: Bound) -> ValueSet:
    """All values from the bound on."""
    return ValueSet(kind, ((bound, None),))


def above(kind: Kind, bound: Bound) -> ValueSet | None:
    """All values beyond the bound; None if there are none."""
    low = successor(kind, bound)
    return None if low is None else at_least(kind, low)


def below(kind: Kind, bound: Bound) -> ValueSet | None:
    """All values under the bound; None if there are none."""
    return ValueSet(kind, ((BOTTOM[kind], bound),)) if BOTTOM[kind] < bound else None


def at_most(kind: Kind, bound: Bound) -> ValueSet:
    """All values up to the bound."""
    return ValueSet(kind, ((BOTTOM[kind], successor(kind, bound)),))


def all_but(kind: Kind, bound: Bound) -> ValueSet | None:
    """All values of the kind except one; None if there are none."""
    return narrowed(kind, _complement(kind, ((bound, successor(kind, bound)),)))


def beginning_with(prefix: str) -> ValueSet:
    """All strings with this prefix."""
    return ValueSet(Kind.STRING, ((prefix, after_prefix(prefix)),))


def matching(canonical: str) -> ValueSet:
    """All strings of a LIKE pattern's form, given in canonical spelling."""
    pattern = parse_pattern(canonical)
    if pattern.is_literal:
        return members(Kind.STRING, ["".join(c for run in pattern.runs for c in run if c is not None)])
    start = beginning_with(pattern.literal_prefix)
    return start if pattern.is_prefix_only else ValueSet(Kind.STRING, start.intervals, like=(canonical,))


def not_matching(canonical: str) -> ValueSet | None:
    """All strings not of a LIKE pattern's form; None if there are none."""
    positive = matching(canonical)
    if positive.like:
        return narrowed(Kind.STRING, everything(Kind.STRING).intervals, unlike=(canonical,))
    return narrowed(Kind.STRING, _complement(Kind.STRING, positive.intervals))


def narrowed(
    kind: Kind, intervals: tuple[Interval, ...], *, like: tuple[str, ...] = (), unlike: tuple[str, ...] = ()
) -> ValueSet | None:
    """The set of these intervals and patterns in its one representation; None if it is empty."""
    if not intervals:
        return None
    if not (like or unlike):
        return ValueSet(kind, intervals)
    like, unlike = tuple(sorted(dict.fromkeys(like))), tuple(sorted(dict.fromkeys(unlike)))
    whole = ValueSet(kind, intervals, like, unlike)
    values = whole.points()
    if values is None:
        return None if any(p in unlike for p in like) else whole
    kept = [value for value in values if whole._fits(str(value))]
    return members(kind, kept) if kept else None


def joined(sets: Sequence[ValueSet]) -> ValueSet:
    """The union of sets (at least one) of one typed kind and with the same patterns."""
    first = sets[0]
    spans = tuple(interval for one in sets for interval in one.intervals)
    return ValueSet(first.kind, _union(spans), first.like, first.unlike)


def shown(kind: Kind, bound: Bound) -> Value:
    """A bound as the value that it stands for."""
    return Timestamp(int(bound)) if kind is Kind.TIMESTAMP else bound


def _narrower(one: ValueSet, other: ValueSet) -> ValueSet | None:
    """Of two sets of different kinds, the one inside the other; None if they have nothing in common."""
    for wide, narrow in ((one, other), (other, one)):
        if wide.kind is Kind.PRESENT and narrow.kind is not Kind.ABSENT:
            return narrow
        if wide.kind is Kind.ANY_NUMBER and narrow.kind is Kind.NUMBER:
            return narrow
    return None


def _within(intervals: tuple[Interval, ...], value: Bound) -> bool:
    return any(low <= value and (high is None or value < high) for low, high in intervals)


def _lower_end(one: Bound | None, other: Bound | None) -> Bound | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _intersection(ours: tuple[Interval, ...], theirs: tuple[Interval, ...]) -> tuple[Interval, ...]:
    found: list[Interval] = []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        low = max(ours[i][0], theirs[j][0])
        high = _lower_end(ours[i][1], theirs[j][1])
        if high is None or low < high:
            found.append((low, high))
        if ours[i][1] == high:
            i += 1
        else:
            j += 1
    return tuple(found)


def _union(intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for low, high in sorted(intervals, key=lambda interval: interval[0]):
        if merged and (merged[-1][1] is None or low <= merged[-1][1]):
            last_low, last_high = merged[-1]
            upper = None if last_high is None or high is None else max(last_high, high)
            merged[-1] = (last_low, upper)
        else:
            merged.append((low, high))
    return tuple(merged)


def _complement(kind: Kind, intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    gaps: list[Interval] = []
    start: Bound | None = BOTTOM[kind]
    for low, high in intervals:
        if start is not None and start < low:
            gaps.append((start, low))
        start = high
    if start is not None:
        gaps.append((start, None))
    return tuple(gaps)


def _contains(outer: tuple[Interval, ...], inner: tuple[Interval, ...]) -> bool:
    return _intersection(outer, inner) == inner


def _implies(strict: str, loose: str) -> bool:
    """Does every string of the first pattern's form have the second's? Sure of suffixes and parts only."""
    if strict == loose:
        return True
    wanted, given = parse_pattern(loose), parse_pattern(strict)
    if len(wanted.runs) != 1 or None in wanted.runs[0] or not wanted.open_start:
        return False
    needle = wanted.runs[0]
    if not wanted.open_end:
        return not given.open_end and len(given.runs) > 0 and given.runs[-1][-len(needle) :] == needle
    return any(_holds_run(run, needle) for run in given.runs)


def _holds_run(run: tuple[str | None, ...], needle: tuple[str | None, ...]) -> bool:
    return any(run[at : at + len(needle)] == needle for at in range(len(run) - len(needle) + 1))


def _cannot_be(allowed: ValueSet, canonical: str) -> bool:
    """True only if no allowed string has the pattern's form."""
    return not _intersection(allowed.intervals, matching(canonical).intervals)
