"""Filters in normal form: a disjunction of conjunctions of constraints, one per attribute, and areas.

This is what matching, covering and merging work on, what is sent, and what the kernel reads: msgpack of these very
structures. A missing attribute or another type never satisfies a constraint, so that *true* is the only question left
(the third truth value ends where the normal form begins).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tidewire.model.errors import BadAttributeName, DamagedFilter, FilterTooCostly
from tidewire.model.geography import LATITUDE_MAX, LONGITUDE_MAX, Area, Circle, flaw_of_area
from tidewire.model.names import NAME_BYTES_MAX, refuse_bad_name
from tidewire.model.values import Kind, Value
from tidewire.model.valuesets import ValueSet, flaw_of

CONJUNCTIONS_MAX: Final = 128
CONSTRAINTS_MAX: Final = 256
INTERVALS_MAX: Final = 2048
AREAS_MAX: Final = 16
PATTERNS_MAX: Final = 32
COST_MAX: Final = 20_000
ACCESS_VALUES_MAX: Final = 8
"""A list of more values than this is not found by its values: the kernel's kReplicasMax, as a test checks."""

_CERTAINLY_SHORT: Final = NAME_BYTES_MAX // 4
"""Characters of a name that need not be counted in bytes."""


class Constraint(msgspec.Struct, frozen=True, array_like=True):
    """What one attribute must be."""

    attribute: str
    allowed: ValueSet


class Conjunction(msgspec.Struct, frozen=True, array_like=True):
    """Constraints that must all hold, sorted by attribute; and areas that must all hold.

    The constraints of an area's two attributes include its bounding box.
    """

    constraints: tuple[Constraint, ...] = ()
    areas: tuple[Area, ...] = ()

    def accepts(self, attributes: Mapping[str, Value]) -> bool:
        """Is it true of an event with these attributes?"""
        return all(c.allowed.has(attributes.get(c.attribute)) for c in self.constraints) and all(
            area_holds(area, attributes) is True for area in self.areas
        )


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """Any of these conjunctions; none of them: matches nothing. Equal filters in normal form compare equal."""

    conjunctions: tuple[Conjunction, ...]

    def accepts(self, attributes: Mapping[str, Value]) -> bool:
        """Is it true of an event with these attributes?"""
        return any(conjunction.accepts(attributes) for conjunction in self.conjunctions)


NOTHING: Final = Filter(())
ALL: Final = Filter((Conjunction(),))


def area_holds(area: Area, attributes: Mapping[str, Value]) -> bool | None:
    """Is the event in the area? None (unknown) if its coordinates are missing, no numbers, or out of range."""
    lat, lon = attributes.get(area.latitude), attributes.get(area.longitude)
    for value, bound in ((lat, LATITUDE_MAX), (lon, LONGITUDE_MAX)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not -bound <= value <= bound:
            return None
    return area.holds(float(lat), float(lon))  # type: ignore[arg-type]


def cost_of(candidate: Filter) -> int:
    """What a filter may cost per event, in comparisons: the bound is on this figure."""
    return sum(_conjunction_cost(c) for c in candidate.conjunctions)


def _conjunction_cost(conjunction: Conjunction) -> int:
    total = 1
    for constraint in conjunction.constraints:
        allowed = constraint.allowed
        patterns = allowed.like + allowed.unlike
        total += max(1, len(allowed.intervals).bit_length()) + 8 * len(patterns) + sum(map(len, patterns)) // 16
    for area in conjunction.areas:
        total += 8 if isinstance(area, Circle) else 8 + 3 * len(area.corners)
    return total


def checked(candidate: Filter) -> Filter:
    """The filter, if it is within every bound; else FilterTooCostly, or BadAttributeName."""
    _refuse_beyond("conjunctions", len(candidate.conjunctions), CONJUNCTIONS_MAX)
    for conjunction in candidate.conjunctions:
        _refuse_beyond("attributes in one conjunction", len(conjunction.constraints), CONSTRAINTS_MAX)
        _refuse_beyond("areas in one conjunction", len(conjunction.areas), AREAS_MAX)
        for constraint in conjunction.constraints:
            allowed = constraint.allowed
            if len(constraint.attribute) > _CERTAINLY_SHORT:
                refuse_bad_name(constraint.attribute)
            _refuse_beyond(f"intervals for {constraint.attribute!r}", len(allowed.intervals), INTERVALS_MAX)
            _refuse_beyond(
                f"patterns for {constraint.attribute!r}", len(allowed.like) + len(allowed.unlike), PATTERNS_MAX
            )
    _refuse_beyond("comparisons per event", cost_of(candidate), COST_MAX)
    return candidate


def _refuse_beyond(what: str, count: int, bound: int) -> None:
    if count > bound:
        raise FilterTooCostly(
            f"the filter's normal form has {count} {what}; at most {bound} are allowed:"
            " split it into several subscriptions or simplify it"
        )


def filter_of(conjunctions: Iterable[Conjunction]) -> Filter:
    """The filter of these conjunctions, each once, in a fixed order."""
    keyed = {_encode(conjunction): conjunction for conjunction in conjunctions}
    return checked(Filter(tuple(keyed[key] for key in sorted(keyed))))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Filter).decode


def encode_filter(candidate: Filter) -> bytes:
    """The filter as msgpack; equal filters give equal bytes."""
    return _encode(candidate)


def decode_filter(data: bytes) -> Filter:
    """The inverse of ``encode_filter``; DamagedFilter, with the reason, if these bytes are no filter in normal form."""
    try:
        found = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DamagedFilter(f"not a filter in normal form: {problem}") from problem
    try:
        checked(found)
    except (FilterTooCostly, BadAttributeName) as problem:
        raise DamagedFilter(f"not a filter in normal form: {problem}") from problem
    for conjunction in found.conjunctions:
        flaw = _flaw_of(conjunction)
        if flaw is not None:
            raise DamagedFilter(f"not a filter in normal form: {flaw}")
    return found


def _flaw_of(conjunction: Conjunction) -> str | None:
    """What keeps this, which came from elsewhere, from being a conjunction; None if it is one."""
    numbers: dict[str, None] = {}
    last = ""
    for constraint in conjunction.constraints:
        if constraint.attribute <= last:
            return "attributes are empty or not in order"
        last = constraint.attribute
        flaw = flaw_of(constraint.allowed)
        if flaw is not None:
            return f"{last!r}: {flaw}"
        if constraint.allowed.kind is Kind.NUMBER:
            numbers[last] = None
    for area in conjunction.areas:
        if area.latitude not in numbers or area.longitude not in numbers:
            return "an area's attributes are not constrained to its box"
        flaw = flaw_of_area(area)
        if flaw is not None:
            return flaw
    return None
