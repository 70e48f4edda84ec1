"""Who is concerned by a new row? The subscriptions of a kind, each with what was joined to it, in the matching index.

An *entry* is a subscription with a row of each dataset that is joined to subscriptions; it has one filter. Entries come
and go with subscriptions and with rows of those datasets; nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tidewire._kernel._native import Index, encode_event, join_events
from tidewire.channels.expressions import Field, walk
from tidewire.channels.indexing import attribute_of
from tidewire.channels.plans import Plan
from tidewire.spark.filters import FilterMaker
from tidewire.spark.frames import Frame, Numbers, Scope
from tidewire.spark.lookups import Lookup

_WITHOUT_LIMIT: Final = 0
_GROWN_BY: Final = 1.5


class Entries:
    """Those of one kind."""

    def __init__(self, plan: Plan, scope: Scope) -> None:
        self._plan = plan
        self._scope = scope
        self._index = Index()
        self._maker = FilterMaker(plan)
        self._joined = [join.source for join in plan.subscription_joins]
        self._slots: Numbers = np.zeros(1024, np.int64)
        self._rows: dict[int, Numbers] = {source: np.zeros(1024, np.int64) for source in self._joined}
        self._of_slot: dict[int, list[int]] = {}
        self._free: list[int] = []
        self._end = 0
        fields = {attribute_of(one): one for node in plan.indexed for one in walk(node) if isinstance(one, Field)}
        self._attributes = {name: one for name, one in fields.items() if one.source in plan.new_sources}

    def __len__(self) -> int:
        return self._end - len(self._free)

    def add(self, slots: Iterable[int], lookups: Mapping[int, Lookup]) -> None:
        """The entries of these subscriptions."""
        numbers = np.fromiter(slots, np.int64)
        frame = Frame(len(numbers), {}, numbers)
        frame = self._scope.true_of(self._plan.subscription_conditions, frame)
        for join in self._plan.subscription_joins:
            frame = lookups[join.source].joined(frame, self._scope)
        if not frame.size:
            return
        if not self._plan.indexed:
            self._numbers(frame)
            return
        made = self._maker.filters(frame, self._scope)
        frame = frame.take(np.array([one is not None for one in made], np.bool_))
        entries = self._numbers(frame)
        filters = [one for one in made if one is not None]
        self._index.insert(_nobody(len(entries)), entries.astype(np.uint32).data, filters)

    def remove(self, slots: Iterable[int]) -> None:
        """These subscriptions are no more, or not as they were."""
        gone = [entry for slot in slots for entry in self._of_slot.pop(slot, ())]
        if not gone:
            return
        numbers = np.array(gone, np.uint32)
        if self._plan.indexed:
            self._index.remove(_nobody(len(gone)), numbers.data)
        self._free += gone
        self._slots[numbers] = -1

    def _numbers(self, frame: Frame) -> Numbers:
        """A number for each entry; those of entries that are gone are given again."""
        again = min(len(self._free), frame.size)
        taken = [self._free.pop() for _ in range(again)]
        fresh = range(self._end, self._end + frame.size - again)
        self._end += len(fresh)
        entries = np.array([*taken, *fresh], np.int64)
        self._grow(self._end)
        assert frame.slots is not None
        self._slots[entries] = frame.slots
        for source in self._joined:
            self._rows[source][entries] = frame.rows[source]
        for slot, entry in zip(frame.slots.tolist(), entries.tolist(), strict=True):
            self._of_slot.setdefault(slot, []).append(entry)
        return entries

    def _grow(self, size: int) -> None:
        if size > len(self._slots):
            more = int(size * _GROWN_BY) - len(self._slots)
            self._slots = np.concatenate([self._slots, np.zeros(more, np.int64)])
            for source, numbers in self._rows.items():
                self._rows[source] = np.concatenate([numbers, np.zeros(more, np.int64)])

    def matches(self, new: Frame) -> Frame:
        """Each new row with each entry that it concerns."""
        if self._plan.indexed:
            at, entries = self._found(new)
        else:
            everyone = np.flatnonzero(self._slots[: self._end] >= 0)
            at, entries = np.repeat(np.arange(new.size), len(everyone)), np.tile(everyone, new.size)
        rows = {source: numbers[at] for source, numbers in new.rows.items()}
        rows |= {source: numbers[entries] for source, numbers in self._rows.items()}
        return Frame(len(at), rows, self._slots[entries])

    def _found(self, new: Frame) -> tuple[Numbers, Numbers]:
        columns: dict[str, list[Any]] = {
            name: self._scope.values(field, new) for name, field in self._attributes.items()
        }
        columns |= self._maker.buckets.attributes(columns)
        names = list(columns)
        batch = join_events([_encoded(names, row) for row in zip(*columns.values(), strict=True)])
        found = self._index.match(batch, limit=_WITHOUT_LIMIT)
        assert not found.damaged, found.damaged
        deliveries, ends = np.asarray(found.event_first), np.asarray(found.number_first)
        counts = ends[deliveries[1:]].astype(np.int64) - ends[deliveries[:-1]]
        return np.repeat(np.arange(new.size), counts), np.asarray(found.numbers).astype(np.int64)


def _nobody(count: int) -> memoryview:
    """The one destination that there is."""
    return np.zeros(count, np.uint32).data


def _encoded(names: Sequence[str], row: Sequence[Any]) -> bytes:
    return encode_event({name: cell for name, cell in zip(names, row, strict=True) if cell is not None})
