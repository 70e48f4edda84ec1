"""What does a subscription accept? The filters of many entries of a kind, made by the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidewire.channels.expressions import COMPARISONS, Call, Field, Node, Parameter, sources_of, walk
from tidewire.channels.indexing import attribute_of, filter_of
from tidewire.channels.kinds import mirrored
from tidewire.channels.meaning import Surroundings, circle_of
from tidewire.channels.plans import Plan
from tidewire.channels.schemas import Cell, Row
from tidewire.language.leafsets import compared
from tidewire.model.filters import NOTHING, Conjunction, Constraint, Filter, encode_filter
from tidewire.model.geography import Circle
from tidewire.model.values import Kind
from tidewire.model.valuesets import ValueSet
from tidewire.spark.buckets import Buckets
from tidewire.spark.frames import Frame, Scope


class FilterMaker:
    """Makes the filters of many entries: the general way, or a short one for plain comparisons and circles."""

    def __init__(self, plan: Plan) -> None:
        self._conditions = plan.indexed
        self._new = plan.new_sources
        self._sources = len(plan.query.sources)
        leaves = [one for node in plan.indexed for one in walk(node)]
        self._fields = dict.fromkeys(
            one for one in leaves if isinstance(one, Field) and one.source not in plan.new_sources
        )
        self._parameters = dict.fromkeys(one for one in leaves if isinstance(one, Parameter))
        plain = [_plain_predicate(node, plan.new_sources) for node in plan.indexed]
        areas = [one for one in plain if one is not None and one[1] == "within"]
        self._plain = None
        if None not in plain and len(areas) <= 1:
            self._plain = [one for one in plain if one is not None]
        self.buckets = Buckets()

    def filters(self, frame: Frame, scope: Scope) -> list[bytes | None]:
        """One for each entry, encoded; None if it accepts nothing."""
        made = self._short(frame, scope) if self._plain is not None else self._general(frame, scope)
        return [None if one is None or one == NOTHING else encode_filter(self._bucketed(one)) for one in made]

    def _bucketed(self, one: Filter) -> Filter:
        return Filter(tuple(map(self.buckets.narrowed, one.conjunctions)))

    def _short(self, frame: Frame, scope: Scope) -> list[Filter | None]:
        assert self._plain is not None
        columns = []
        for attributes, operation, known in self._plain:
            values = [scope.values(node, frame) for node in known]
            if operation == "within":
                columns.append([_circle(attributes, one) for one in zip(*values, strict=True)])
            else:
                columns.append([_set(attributes[0], operation, value) for value in values[0]])
        return [_conjoined(parts) for parts in zip(*columns, strict=True)]

    def _general(self, frame: Frame, scope: Scope) -> list[Filter | None]:
        fields = [(one.source, one.name, scope.values(one, frame)) for one in self._fields]
        given = [(one.number, scope.values(one, frame)) for one in self._parameters]
        found: list[Filter | None] = []
        for number in range(frame.size):
            rows: list[dict[str, Cell]] = [{} for _ in range(self._sources)]
            for source, name, cells in fields:
                rows[source][name] = cells[number]
            parameters: dict[int, Any] = {parameter: values[number] for parameter, values in given}
            shown: list[Row | None] = list(rows)
            around = Surroundings(parameters, shown)  # type: ignore[arg-type]  # by number, as a list is
            found.append(filter_of(self._conditions, new=self._new, around=around))
        return found


_Parts = tuple[tuple[tuple[str, ValueSet], ...], tuple[Circle, ...]]
"""What each attribute may be, and areas."""


def _plain_predicate(node: Node, new: frozenset[int]) -> tuple[tuple[str, ...], str, tuple[Node, ...]] | None:
    """The attributes that it is about, the operation, and what they are compared with; None if it is not so plain."""
    if not isinstance(node, Call):
        return None
    if node.operation in COMPARISONS:
        left, right = node.arguments
        for one, other, operation in ((left, right, node.operation), (right, left, mirrored(node.operation))):
            if isinstance(one, Field) and one.source in new and not sources_of(other) & new:
                return (attribute_of(one),), operation, (other,)
    if node.operation == "within":
        ours, theirs, radius = node.arguments[:2], node.arguments[2:4], node.arguments[4]
        for columns, known in ((ours, theirs), (theirs, ours)):
            fields = [one for one in columns if isinstance(one, Field) and one.source in new]
            if len(fields) == 2 and not any(sources_of(one) & new for one in (*known, radius)):
                return tuple(map(attribute_of, fields)), "within", (*known, radius)
    return None


def _set(attribute: str, operation: str, value: Cell) -> _Parts | None:
    allowed = None if value is None else compared(operation, value)  # type: ignore[arg-type]
    return None if allowed is None else (((attribute, allowed),), ())


def _circle(attributes: tuple[str, ...], place: Sequence[Any]) -> _Parts | None:
    circle = None if None in place else circle_of(attributes[0], attributes[1], place)
    if circle is None:
        return None
    lats, lons = circle.box()
    return ((attributes[0], ValueSet(Kind.NUMBER, lats)), (attributes[1], ValueSet(Kind.NUMBER, lons))), (circle,)


def _conjoined(parts: tuple[_Parts | None, ...]) -> Filter | None:
    if None in parts:
        return None
    sets: dict[str, ValueSet] = {}
    areas: tuple[Circle, ...] = ()
    for constraints, circles in parts:  # type: ignore[misc]
        areas += circles
        for attribute, allowed in constraints:
            known = sets.get(attribute)
            both = allowed if known is None else known.meet(allowed)
            if both is None:
                return None
            sets[attribute] = both
    return Filter((Conjunction(tuple([Constraint(name, sets[name]) for name in sorted(sets)]), areas),))
