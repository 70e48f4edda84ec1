"""What one attribute may be: a set of values, as sorted half-open intervals in the order of its kind.

Equality, IN lists, ranges, prefixes, negations and their combinations all become intervals ``[low, high)``, where
``None`` as the high end means no upper end. There is one representation per set, so equal sets compare equal. LIKE
patterns that are more than a prefix stay beside the intervals and narrow them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from tidewire.model.patterns import is_canonical, matches_pattern, parse_pattern
from tidewire.model.values import (
    BOTTOM,
    INT64_MAX,
    INT64_MIN,
    Bound,
    Kind,
    Timestamp,
    Value,
    after_prefix,
    as_bound,
    kind_of,
    successor,
)

Interval = tuple[Bound, Bound | None]
_BOUND_TYPES: Final[dict[Kind, tuple[type, ...]]] = {
    Kind.BOOL: (bool,),
    Kind.NUMBER: (int, float),
    Kind.STRING: (str,),
    Kind.TIMESTAMP: (int,),
    Kind.BYTES: (bytes,),
}
_TYPED: Final = tuple(_BOUND_TYPES)


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
        is_within = self.intervals == other.intervals or _contains(self.intervals, other.intervals)
        return is_within and self._patterns_follow(other)

    def _patterns_follow(self, other: ValueSet) -> bool:
        if not (self.like or self.unlike):
            return True
        # No string is the last one: with an open end there are endless many.
        members = other.points() if other.intervals[-1][1] is not None else None
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


def flaw_of(allowed: ValueSet) -> str | None:
    """What keeps this, which came from elsewhere, from being a set of values; None if it is one."""
    kind, intervals = allowed.kind, allowed.intervals
    if (kind in _TYPED) is not bool(intervals):
        return "its intervals do not fit its kind"
    if kind is not Kind.STRING and (allowed.like or allowed.unlike):
        return "only strings have patterns"
    if not all(is_canonical(pattern) for pattern in allowed.like + allowed.unlike):
        return "a pattern is not acceptable"
    reached: Bound | None = None
    for place, (low, high) in enumerate(intervals):
        if not _is_bound(kind, low) or not (high is None or _is_bound(kind, high)):
            return "a bound is not of its kind"
        if high is not None and not low < high:
            return "an interval is empty"
        if place and (reached is None or low < reached):
            return "its intervals are not in order"
        reached = high
    return None


def _is_bound(kind: Kind, bound: Bound) -> bool:
    if type(bound) not in _BOUND_TYPES[kind]:
        return False
    if type(bound) is int:
        return INT64_MIN <= bound <= INT64_MAX
    return bool(bound == bound)


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
    needle, is_open = _needle(loose)
    if not needle:
        return False
    texts = _run_texts(strict)
    if not is_open:
        return not parse_pattern(strict).open_end and len(texts) > 0 and texts[-1].endswith(needle)
    return any(needle in text for text in texts)


def is_rigid(canonical: str) -> bool:
    """True of a pattern that is implied by no other one, as far as is shown here."""
    return not _needle(canonical)[0]


@lru_cache(maxsize=1024)
def _needle(canonical: str) -> tuple[str, bool]:
    """The text of ``%text`` or ``%text%``, and whether it is the latter; empty for any other pattern."""
    pattern = parse_pattern(canonical)
    if len(pattern.runs) != 1 or None in pattern.runs[0] or not pattern.open_start:
        return "", False
    return _run_texts(canonical)[0], pattern.open_end


@lru_cache(maxsize=1024)
def _run_texts(canonical: str) -> tuple[str, ...]:
    """The runs as strings, which are searched quickly; for any character stands what is no character."""
    return tuple("".join("\ud800" if c is None else c for c in run) for run in parse_pattern(canonical).runs)


def _cannot_be(allowed: ValueSet, canonical: str) -> bool:
    """True only if no allowed string has the pattern's form."""
    return not _intersection(allowed.intervals, matching(canonical).intervals)
