"""Which rows of a dataset may belong to a combination? By equal values, by area, or all of them; then it is asked."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tidewire.channels.expressions import Call, Field, Node, sources_of
from tidewire.channels.meaning import circle_of
from tidewire.channels.plans import Join
from tidewire.channels.queries import conjuncts
from tidewire.model.geography import LATITUDE_MAX, LONGITUDE_MAX, whole_earth
from tidewire.spark.frames import Columns, Frame, Numbers, Scope

_ANYWHERE = whole_earth()[1]


class Lookup:
    """Finds the rows of one dataset for one join."""

    def __init__(self, join: Join, columns: Columns, alive: Iterable[int]) -> None:
        self.join = join
        self._columns = columns
        parts = tuple(part for condition in join.on for part in conjuncts(condition))
        pairs = [pair for part in parts if (pair := _equated(part, join.source)) is not None]
        self.keys = tuple(field.name for field, _ in pairs)
        self.probes: tuple[Node, ...] = tuple(other for _, other in pairs)
        self._asked = tuple(part for part in parts if _equated(part, join.source) is None)
        self._area = next((area for part in parts if (area := _around(part, join.source)) is not None), None)
        self._alive: dict[int, None] = dict.fromkeys(alive)
        self._by_key: dict[tuple[Any, ...], list[int]] = {}
        self._by_latitude: tuple[list[float], list[float], list[int]] | None = None
        if self.keys:
            self.add(self._alive)

    def key_of(self, number: int) -> tuple[Any, ...] | None:
        """By which a row is found; None if it equals nothing."""
        key = tuple(self._columns.cells[name][number] for name in self.keys)
        return None if None in key else key

    def add(self, numbers: Iterable[int]) -> None:
        """More rows."""
        for number in numbers:
            self._alive[number] = None
            key = self.key_of(number)
            if self.keys and key is not None:
                self._by_key.setdefault(key, []).append(number)
        self._by_latitude = None

    def remove(self, numbers: Iterable[int]) -> None:
        """Rows that are no more."""
        for number in numbers:
            del self._alive[number]
            key = self.key_of(number)
            if self.keys and key is not None:
                self._by_key[key].remove(number)
        self._by_latitude = None

    def joined(self, frame: Frame, scope: Scope) -> Frame:
        """Every combination with each row that belongs to it; with row 0 where there is none and it is optional."""
        at, found = self._candidates(frame, scope)
        wider = frame.take(at).having(self.join.source, found).having(-1, at)
        wider = scope.true_of(self._asked, wider)
        if self.join.is_optional:
            wider = self._with_missing(frame, wider)
        rows = {source: numbers for source, numbers in wider.rows.items() if source >= 0}
        return scope.true_of(self.join.then, Frame(wider.size, rows, wider.slots))

    def _with_missing(self, frame: Frame, wider: Frame) -> Frame:
        alone = np.setdiff1d(np.arange(frame.size), wider.rows[-1])
        rest = frame.take(alone)
        nothing = np.zeros(len(alone), np.int64)
        at = np.concatenate([wider.rows[-1], alone])
        order = np.argsort(at, kind="stable")
        rows = {source: np.concatenate([wider.rows[source], numbers]) for source, numbers in rest.rows.items()}
        rows[self.join.source] = np.concatenate([wider.rows[self.join.source], nothing])
        slots = None
        if wider.slots is not None and rest.slots is not None:
            slots = np.concatenate([wider.slots, rest.slots])
        return Frame(len(at), {**rows, -1: at}, slots).take(order)

    def _candidates(self, frame: Frame, scope: Scope) -> tuple[Numbers, Numbers]:
        """Combinations, and the rows that may belong to them."""
        if self.keys:
            probes = zip(*(scope.values(node, frame) for node in self.probes), strict=True)
            return _flat([self._by_key.get(probe, ()) for probe in probes])
        if self._area is not None:
            places = zip(*(scope.values(node, frame) for node in self._area[1]), strict=True)
            return _flat([self._near(place) for place in places])
        everyone = np.fromiter(self._alive, np.int64, len(self._alive))
        return np.repeat(np.arange(frame.size), len(everyone)), np.tile(everyone, frame.size)

    def _near(self, place: Sequence[Any]) -> list[int]:
        """The rows in the box around a circle."""
        circle = None if None in place else circle_of("lat", "lon", place)
        if circle is None:
            return []
        lats, lons, numbers = self._sorted_by_latitude()
        (box,), turns = circle.box()
        first = bisect_left(lats, box[0])
        last = bisect_right(lats, math.inf if box[1] is None else box[1])
        if turns == _ANYWHERE:
            return numbers[first:last]
        return [
            number
            for lon, number in zip(lons[first:last], numbers[first:last], strict=True)
            if any(low <= lon and (high is None or lon < high) for low, high in turns)
        ]

    def _sorted_by_latitude(self) -> tuple[list[float], list[float], list[int]]:
        if self._by_latitude is None:
            assert self._area is not None
            lats, lons = (self._columns.cells[field.name] for field in self._area[0])
            places: list[tuple[Any, Any, int]] = [(lats[number], lons[number], number) for number in self._alive]
            valid = sorted(
                (lat, lon, number)
                for lat, lon, number in places
                if lat is not None and lon is not None and abs(lat) <= LATITUDE_MAX and abs(lon) <= LONGITUDE_MAX
            )
            self._by_latitude = ([one[0] for one in valid], [one[1] for one in valid], [one[2] for one in valid])
        return self._by_latitude


def _flat(found: list[Any]) -> tuple[Numbers, Numbers]:
    counts = np.fromiter(map(len, found), np.int64, len(found))
    numbers = np.fromiter((number for some in found for number in some), np.int64, int(counts.sum()))
    return np.repeat(np.arange(len(found)), counts), numbers


def _equated(node: Node, source: int) -> tuple[Field, Node] | None:
    """A column of the source, and what it must equal, which is known without it."""
    if not isinstance(node, Call) or node.operation != "=":
        return None
    left, right = node.arguments
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Field) and one.source == source and source not in sources_of(other):
            return one, other
    return None


def _around(node: Node, source: int) -> tuple[tuple[Field, Field], tuple[Node, ...]] | None:
    """The two columns of the source that must be in an area, and its centre and radius, which are known without it."""
    if not isinstance(node, Call) or node.operation != "within":
        return None
    ours, theirs, radius = node.arguments[:2], node.arguments[2:4], node.arguments[4]
    for (lat, lon), known in ((ours, theirs), (theirs, ours)):
        are_columns = isinstance(lat, Field) and isinstance(lon, Field) and lat.source == lon.source == source
        if are_columns and not any(source in sources_of(one) for one in (*known, radius)):
            return (lat, lon), (*known, radius)  # type: ignore[return-value]
    return None
