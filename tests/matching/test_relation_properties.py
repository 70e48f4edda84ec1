"""The relation holds for events: sound for every filter, complete for conjunctions of plain sets."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matching.strategies import conjunctions, critical_events, events_near, normal_filters, simple_sets
from tidewire.matching.covering import Relation, covers, relation
from tidewire.model.filters import Filter
from tidewire.model.values import Value

SMALL = ("a", "b")
plain_filters = normal_filters(simple_sets(), names=SMALL, with_areas=False)
plain_conjunctions = conjunctions(simple_sets(), names=SMALL, with_areas=False).map(lambda one: Filter((one,)))

_ALLOWED_BY: dict[Relation, set[tuple[bool, bool]]] = {
    Relation.EQUAL: {(True, True), (False, False)},
    Relation.COVERS: {(True, True), (True, False), (False, False)},
    Relation.COVERED: {(True, True), (False, True), (False, False)},
    Relation.INTERSECTS: {(True, True), (True, False), (False, True), (False, False)},
    Relation.DISJOINT: {(True, False), (False, True), (False, False)},
}


def answers(a: Filter, b: Filter, attributes: dict[str, Value]) -> tuple[bool, bool]:
    return a.accepts(attributes), b.accepts(attributes)


def true_relation(a: Filter, b: Filter) -> Relation:
    """By asking both filters about an event of every region."""
    found = {answers(a, b, attributes) for attributes in critical_events(a, b)}
    if (True, True) not in found:
        return Relation.DISJOINT if found & {(True, False), (False, True)} else Relation.EQUAL
    if (True, False) in found:
        return Relation.INTERSECTS if (False, True) in found else Relation.COVERS
    return Relation.COVERED if (False, True) in found else Relation.EQUAL


@given(normal_filters(), normal_filters(), st.data())
def test_no_event_contradicts_the_relation(a: Filter, b: Filter, data: Any) -> None:
    """peer L3: covering, equality and disjointness are never claimed wrongly, whatever the filters."""
    claimed = relation(a, b)
    for attributes in data.draw(events_near(a, b)):
        assert answers(a, b, attributes) in _ALLOWED_BY[claimed]


@given(normal_filters(), normal_filters())
def test_the_relation_has_a_mirror(a: Filter, b: Filter) -> None:
    """Both sides see the same."""
    assert relation(b, a) is relation(a, b).mirrored


@given(normal_filters())
def test_a_filter_equals_itself(a: Filter) -> None:
    """Reflexive, also for a copy that is another object."""
    assert relation(a, a) is Relation.EQUAL
    assert relation(a, Filter(tuple(reversed(a.conjunctions)))) is Relation.EQUAL


@given(plain_conjunctions, plain_conjunctions)
@settings(max_examples=2 * settings().max_examples)
def test_the_relation_of_plain_conjunctions_is_exact(a: Filter, b: Filter) -> None:
    """Complete, as it is sound, for conjunctions over numbers, string sets, ranges and prefixes."""
    assert relation(a, b) is true_relation(a, b)


@given(plain_filters, plain_filters)
def test_the_relation_of_plain_disjunctions_is_sound(a: Filter, b: Filter) -> None:
    """An exhaustive search over the regions of both filters finds no event that contradicts; disjointness is exact."""
    claimed, truth = relation(a, b), true_relation(a, b)
    for attributes in critical_events(a, b):
        assert answers(a, b, attributes) in _ALLOWED_BY[claimed]
    assert (claimed is Relation.DISJOINT) == (truth is Relation.DISJOINT)


@given(st.lists(plain_conjunctions, min_size=3, max_size=8))
def test_covering_is_transitive(filters: list[Filter]) -> None:
    """What covers a coverer covers the covered."""
    pairs = [(a, b) for a in filters for b in filters if covers(a, b)]
    assert all(covers(a, c) for a, b in pairs for other, c in pairs if other == b)


@given(normal_filters(), normal_filters())
def test_a_disjunction_covers_its_parts(a: Filter, b: Filter) -> None:
    """Adding a conjunction never makes a filter narrower."""
    assert covers(Filter(a.conjunctions + b.conjunctions), a)
