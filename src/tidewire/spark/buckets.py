"""How are narrow ranges and small areas found as fast as equal values? By the bucket that a value falls into.

A filter with a narrow range also asks for one of the two buckets that the range can touch, at a level where buckets
are as wide as it is; one with a small circle, for one of the cells of a grid. Buckets are integers, which the index
finds by their value. They decide nothing: the range and the circle stay in the filter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidewire.model.filters import Conjunction, Constraint
from tidewire.model.geography import Circle
from tidewire.model.values import Kind
from tidewire.model.valuesets import ValueSet, members

LEVELS_MAX: Final = 16
"""Every new row has a bucket on each level that some filter uses; ranges of still other widths are found without."""
_STEP: Final = 2
"""Levels are a factor of four apart: so there are few of them, and buckets are not much wider than ranges."""
_CELLS_EXACT: Final = 2.0**52
_LEVEL_MIN, _LEVEL_MAX = -1000, 1000
_GRID_LEVEL_MIN, _GRID_LEVEL_MAX = -16, 6
_LONGITUDES: Final = 1 << 26
_FULL_TURN: Final = 360.0

Base = tuple[str, ...]
"""The attribute that buckets are of, or the two of a place."""

Doubles = npt.NDArray[np.float64]


class Buckets:
    """The levels that the filters of a kind use."""

    def __init__(self) -> None:
        self._levels: dict[Base, dict[int, str]] = {}

    def narrowed(self, conjunction: Conjunction) -> Conjunction:
        """The same, with a bucket if one helps to find it."""
        made = self._grid(conjunction.areas) or self._range(conjunction.constraints)
        if made is None:
            return conjunction
        constraints = sorted((*conjunction.constraints, made), key=lambda one: one.attribute)
        return Conjunction(tuple(constraints), conjunction.areas)

    def attributes(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[int | None]]:
        """The buckets of new rows, from those of their columns that filters ask for."""
        found: dict[str, list[int | None]] = {}
        for base, levels in self._levels.items():
            values = [_doubles(columns[name]) for name in base]
            for level, attribute in levels.items():
                found[attribute] = _buckets(values, 2.0**level)
        return found

    def _range(self, constraints: Iterable[Constraint]) -> Constraint | None:
        best: tuple[float, str, float, float] | None = None
        for one in constraints:
            if one.allowed.kind is not Kind.NUMBER or len(one.allowed.intervals) != 1:
                continue
            low, high = one.allowed.intervals[0]
            if high is None:
                continue
            first, last = float(low), float(high)
            share = (last - first) / max(abs(first), abs(last), 5e-324)
            if best is None or share < best[0]:
                best = (share, one.attribute, first, last)
        if best is None:
            return None
        _, name, first, last = best
        level = _level(last - first)
        if level is None or max(abs(first), abs(last)) / 2.0**level > _CELLS_EXACT:
            return None
        return self._constraint((name,), level, _between(first, last, 2.0**level))

    def _grid(self, areas: Sequence[Any]) -> Constraint | None:
        circle = next((one for one in areas if isinstance(one, Circle) and one.inside), None)
        if circle is None:
            return None
        ((south, north),), turns = circle.box()
        known = [(low, high) for low, high in turns if high is not None]
        if north is None or not known:
            return None
        west, east = max(known, key=lambda one: one[1] - one[0])
        level = _level(max(north - south, east - west), least=_GRID_LEVEL_MIN)
        if level is None or level > _GRID_LEVEL_MAX:
            return None
        side, first = 2.0**level, west % _FULL_TURN
        last = first + (east - west)
        columns = list(_between(first, min(last, _FULL_TURN), side))
        if last >= _FULL_TURN:
            columns += _between(0.0, last - _FULL_TURN, side)
        cells = [row * _LONGITUDES + column for row in _between(south, north, side) for column in columns]
        return self._constraint((circle.latitude, circle.longitude), level, cells)

    def _constraint(self, base: Base, level: int, buckets: Iterable[int]) -> Constraint | None:
        levels = self._levels.setdefault(base, {})
        name = levels.get(level)
        if name is None:
            name = f"tw_bucket.{level}.{'.'.join(base)}"
            if len(levels) == LEVELS_MAX or len(name.encode()) > 200:  # names have a bound
                return None
            levels[level] = name
        allowed: ValueSet = members(Kind.NUMBER, sorted(dict.fromkeys(buckets)))
        return Constraint(name, allowed)


def _level(width: float, *, least: int = _LEVEL_MIN) -> int | None:
    """The first level at which a bucket is at least so wide."""
    if not 0.0 < width < math.inf:
        return None
    exponent = math.frexp(width)[1]
    level = max(least, -((-exponent) // _STEP) * _STEP)
    return level if level <= _LEVEL_MAX else None


def _between(first: float, last: float, width: float) -> range:
    return range(math.floor(first / width), math.floor(last / width) + 1)


def _doubles(cells: Sequence[Any]) -> Doubles:
    return np.array([math.nan if cell is None else float(cell) for cell in cells], np.float64)


def _buckets(values: list[Doubles], width: float) -> list[int | None]:
    if len(values) == 1:
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.floor(values[0] / width)
            is_there = np.abs(found) <= _CELLS_EXACT
        numbers = np.where(is_there, found, 0).astype(np.int64)
    else:
        lats, lons = values
        is_there = (np.abs(lats) <= 90.0) & (np.abs(lons) <= _FULL_TURN)
        rows = np.floor(np.where(is_there, lats, 0) / width).astype(np.int64)
        columns = np.floor(np.mod(np.where(is_there, lons, 0), _FULL_TURN) / width).astype(np.int64)
        numbers = rows * _LONGITUDES + columns
    return [number if there else None for number, there in zip(numbers.tolist(), is_there.tolist(), strict=True)]
