"""A syntax tree into its normal form: a disjunction of conjunctions, each attribute once, in two-valued logic.

Negations go to the leaves by De Morgan's laws, which hold in three-valued logic as well. Alternatives for one
attribute become one set of values where one can say it; a conjunction that another one covers is dropped. All this
is bounded: in conjunctions (before they are multiplied) and in comparisons made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tidewire.language.leafsets import compared, true_sets
from tidewire.language.syntax import NEGATED, And, Compare, Expression, InArea, Leaf, Not, Or, Truth
from tidewire.model.errors import FilterTooCostly
from tidewire.model.filters import CONJUNCTIONS_MAX, Conjunction, Constraint, Filter, filter_of
from tidewire.model.geography import Area
from tidewire.model.values import Kind
from tidewire.model.valuesets import ABSENT, PRESENT, ValueSet, is_rigid

TERMS_MAX: Final = 2 * CONJUNCTIONS_MAX
"""Conjunctions at any step; the end result may have half of them."""

WORK_MAX: Final = 100_000
"""Pairs of conjunctions looked at, and four times the intervals that they have beyond one for each attribute and the
pairs of patterns."""

INTERVALS_MET_AT_ONCE_MAX: Final = 16
"""A set with more intervals waits for all others of its attribute: one by one, a thousand ``<>`` are quadratic."""

Sets = dict[str, ValueSet]
Waiting = dict[str, list[ValueSet]]
Term = tuple[Sets, tuple[Area, ...]]
RigidPatterns = dict[tuple[str, bool], frozenset[str]]
"""Of a term, by attribute and whether they must match: patterns that only their like can imply."""


def normalise(expression: Expression) -> Filter:
    """The filter that is true exactly where the expression is; FilterTooCostly beyond a bound."""
    terms = _Normaliser().terms(expression, negated=False)
    return filter_of([_conjunction(sets, areas) for sets, areas in terms])


def simplified(candidate: Filter) -> Filter:
    """The same filter without conjunctions that others cover, and with those joined that can be one."""
    terms = _Normaliser().union([_term(one) for one in candidate.conjunctions])
    return filter_of([_conjunction(sets, areas) for sets, areas in terms])


def conjoined(one: Filter, other: Filter) -> Filter:
    """The filter that is true exactly where both are; FilterTooCostly beyond a bound."""
    _refuse_beyond(len(one.conjunctions) * len(other.conjunctions))
    products = [_both(_term(ours), _term(theirs)) for ours in one.conjunctions for theirs in other.conjunctions]
    terms = _Normaliser().union([term for term in products if term is not None])
    return filter_of([_conjunction(sets, areas) for sets, areas in terms])


def boxes(areas: Iterable[Area]) -> Sets | None:
    """What the bounding boxes of all areas leave for their attributes; None if that is nothing."""
    sets: Sets = {}
    for area in areas:
        lats, lons = area.box()
        for attribute, intervals in ((area.latitude, lats), (area.longitude, lons)):
            if not _narrow(sets, attribute, ValueSet(Kind.NUMBER, intervals)):
                return None
    return sets


def _term(conjunction: Conjunction) -> Term:
    return {c.attribute: c.allowed for c in conjunction.constraints}, conjunction.areas


def _conjunction(sets: Sets, areas: tuple[Area, ...]) -> Conjunction:
    constraints = tuple([Constraint(attribute, sets[attribute]) for attribute in sorted(sets)])
    return Conjunction(constraints, areas)


def _narrow(sets: Sets, attribute: str, allowed: ValueSet, waiting: Waiting | None = None) -> bool:
    """Meet the set into those of a conjunction, or have it wait where it may; False if nothing is left."""
    known = sets.get(attribute)
    if known is None:
        sets[attribute] = allowed
        return True
    if waiting is not None and len(known.intervals) > INTERVALS_MET_AT_ONCE_MAX:
        waiting.setdefault(attribute, []).append(allowed)
        return True
    met = known.meet(allowed)
    if met is None:
        return False
    sets[attribute] = met
    return True


class _Normaliser:
    """One normalisation, with what it may still spend."""

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work = 0

    def terms(self, expression: Expression, *, negated: bool) -> list[Term]:
        while isinstance(expression, Not):
            expression = expression.operand
            negated = not negated
        if isinstance(expression, And | Or):
            if isinstance(expression, Or) is negated:
                return self._all_of(expression.operands, negated=negated)
            return self.union(
                [term for operand in expression.operands for term in self.terms(operand, negated=negated)]
            )
        if isinstance(expression, Compare):
            return self._all_of((expression,), negated=negated)
        return self.union(_leaf_terms(expression, negated=negated))

    def _all_of(self, operands: tuple[Expression, ...], *, negated: bool) -> list[Term]:
        sets: Sets = {}
        areas: tuple[Area, ...] = ()
        alternatives: list[list[Term]] = []
        waiting: Waiting = {}
        for operand in operands:
            if isinstance(operand, Compare):
                allowed = compared(NEGATED[operand.op] if negated else operand.op, operand.value)
                if allowed is None or not _narrow(sets, operand.attribute, allowed, waiting):
                    return []
                continue
            terms = self.terms(operand, negated=negated)
            if len(terms) > 1:
                alternatives.append(terms)
                continue
            if not terms or not all(_narrow(sets, name, allowed, waiting) for name, allowed in terms[0][0].items()):
                return []
            if terms[0][1]:
                together = _all_areas(areas, terms[0][1])
                if together is None:
                    return []
                areas = together
        for attribute, some in waiting.items():
            met = _halved(some, ValueSet.meet)
            if met is None or not _narrow(sets, attribute, met):
                return []
        found: list[Term] = [(sets, areas)]
        for terms in alternatives:
            _refuse_beyond(len(found) * len(terms))
            products = [_both(one, other) for one in found for other in terms]
            found = self.union([term for term in products if term is not None])
        return found

    def union(self, terms: list[Term]) -> list[Term]:
        """The terms without those that others cover, joined where one can say both."""
        if len(terms) < 2:
            return terms
        kept: list[Term] = []
        rigid: list[RigidPatterns] = []
        waiting = _joined_alternatives(terms)
        _refuse_beyond(len(waiting))
        waiting.reverse()
        while waiting:
            term = waiting.pop()
            patterns = _rigid_patterns(term)
            for place, other in enumerate(kept):
                if patterns and rigid[place] and _patterns_differ(patterns, rigid[place]):
                    continue
                merged = self._merged(other, term)
                if merged is not None:
                    self._spend(place + 1)
                    del kept[place], rigid[place]
                    waiting.append(merged)
                    break
            else:
                self._spend(len(kept))
                kept.append(term)
                rigid.append(patterns)
        return kept

    def _merged(self, one: Term, other: Term) -> Term | None:
        """One term for both, if there is one."""
        few, many = (one, other) if len(one[0]) <= len(other[0]) else (other, one)
        if not few[0].keys() <= many[0].keys():
            return None
        self._spend(_further_work(few, many))
        if _covers(few, many):
            return few
        if len(few[0]) < len(many[0]):
            return None
        if _covers(many, few):
            return many
        return _joined(few, many) if few[1] == many[1] else None

    def _spend(self, amount: int) -> None:
        self.work += amount
        if self.work > WORK_MAX:
            raise FilterTooCostly(
                "the filter's alternatives take too long to compare: split it into several subscriptions"
            )


def _rigid_patterns(term: Term) -> RigidPatterns:
    found: RigidPatterns = {}
    for attribute, allowed in term[0].items():
        if allowed.like:
            found[attribute, True] = frozenset(filter(is_rigid, allowed.like))
        if allowed.unlike and all(is_rigid(p) and p.startswith("%") for p in allowed.unlike):
            found[attribute, False] = frozenset(allowed.unlike)
    return found


def _patterns_differ(ours: RigidPatterns, theirs: RigidPatterns) -> bool:
    """True only if, for some attribute, each has a pattern that the other lacks: then neither covers the other, and
    no set says both. It spares most of the comparisons in a long chain of patterns."""
    for key, patterns in ours.items():
        others = theirs.get(key)
        if others is not None and not patterns <= others and not others <= patterns:
            return True
    return False


def _further_work(few: Term, many: Term) -> int:
    work = 0
    for attribute, allowed in few[0].items():
        if len(allowed.intervals) > 1:
            work += 4 * (len(allowed.intervals) - 1)
        if allowed.like or allowed.unlike:
            other = many[0][attribute]
            work += len(allowed.like) * len(other.like) + len(allowed.unlike) * (1 + len(other.unlike))
    return work


def _leaf_terms(leaf: Leaf, *, negated: bool) -> list[Term]:
    if isinstance(leaf, Truth):
        return [({}, ())] if leaf.value is not negated else []
    if isinstance(leaf, InArea):
        area = leaf.area
        areas = (msgspec.structs.replace(area, inside=area.inside is not negated),)
        sets = boxes(areas)
        return [] if sets is None else [(sets, areas)]
    return [({leaf.attribute: allowed}, ()) for allowed in true_sets(leaf, negated=negated)]


def _both(one: Term, other: Term) -> Term | None:
    sets = dict(one[0])
    for attribute, allowed in other[0].items():
        if not _narrow(sets, attribute, allowed):
            return None
    areas = _all_areas(one[1], other[1]) if other[1] else one[1]
    return None if areas is None else (sets, areas)


def _all_areas(some: tuple[Area, ...], more: tuple[Area, ...]) -> tuple[Area, ...] | None:
    """Each area once, in a fixed order; None if a point would have to be in and out of one."""
    areas = dict.fromkeys(some + more)
    if any(msgspec.structs.replace(area, inside=not area.inside) in areas for area in areas):
        return None
    return tuple(sorted(areas, key=msgspec.msgpack.encode))


def _covers(wide: Term, narrow: Term) -> bool:
    return all(
        allowed == narrow[0][attribute] or allowed.covers(narrow[0][attribute])
        for attribute, allowed in wide[0].items()
    ) and all(area in narrow[1] for area in wide[1])


def _joined(one: Term, other: Term) -> Term | None:
    """The union of two terms with the same attributes and areas that differ in one attribute."""
    differing = [attribute for attribute, allowed in one[0].items() if allowed != other[0][attribute]]
    if len(differing) != 1:
        return None
    (attribute,) = differing
    ours, theirs = one[0][attribute], other[0][attribute]
    if {ours, theirs} == {ABSENT, PRESENT}:
        return {name: allowed for name, allowed in one[0].items() if name != attribute}, one[1]
    if ours.kind is not theirs.kind or (ours.like, ours.unlike) != (theirs.like, theirs.unlike):
        return None  # neither covers the other, or the terms would: no one set says both
    joined = ours.join(theirs)
    return None if joined is None else ({**one[0], attribute: joined}, one[1])


def _joined_alternatives(terms: list[Term]) -> list[Term]:
    """The terms, with all that constrain one attribute alone joined kind by kind: long chains of ``or``, quickly."""
    alone: dict[tuple[object, ...], list[ValueSet]] = {}
    others: list[Term] = []
    for sets, areas in terms:
        if len(sets) != 1 or areas:
            others.append((sets, areas))
            continue
        ((attribute, allowed),) = sets.items()
        alone.setdefault((attribute, allowed.kind, allowed.like, allowed.unlike), []).append(allowed)
    joined = [(str(key[0]), _halved(found, ValueSet.join)) for key, found in alone.items()]
    return [({attribute: allowed}, ()) for attribute, allowed in joined if allowed is not None] + others


def _halved(sets: list[ValueSet], combine: Callable[[ValueSet, ValueSet], ValueSet | None]) -> ValueSet | None:
    """All sets combined; in halves, which keeps it far from quadratic. None as soon as two give nothing."""
    while len(sets) > 1:
        combined = [combine(one, other) for one, other in zip(sets[::2], sets[1::2], strict=False)]
        left = [allowed for allowed in combined if allowed is not None]
        if len(left) < len(combined):
            return None
        sets = left + (sets[-1:] if len(sets) % 2 else [])
    return sets[0]


def _refuse_beyond(count: int) -> None:
    if count > TERMS_MAX:
        raise FilterTooCostly(
            f"the filter's normal form would have {count} conjunctions on the way; at most {TERMS_MAX} are allowed:"
            " split it into several subscriptions"
        )
