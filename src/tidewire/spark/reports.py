"""What is in a dataset? For people and commands: counts, the newest rows, what was set aside."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidewire.channels.schemas import Catalog
from tidewire.model.errors import UnknownName, UsageError
from tidewire.spark.datasets import Declared, Warehouse
from tidewire.spark.tables import open_table, stored_ends
from tidewire.spark.versions import TableLog

PARTS: Final = ("rows", "changes", "aside")


def rows_in(warehouse: Warehouse, declared: Declared, part: str = "rows") -> int:
    """How many, as the table knows it without reading them."""
    actions = pa.table(open_table(warehouse.table(declared, part)).get_add_actions(flatten=True))
    return int(pc.sum(actions["num_records"]).as_py() or 0)


def catalog_of(warehouse: Warehouse) -> Catalog:
    """The datasets as they stand now."""
    return Catalog(
        msgspec.structs.replace(one.dataset, rows=max(1, rows_in(warehouse, one))) for one in warehouse.all()
    )


def set_aside(warehouse: Warehouse, declared: Declared) -> dict[str, int]:
    """How many events were set aside, by what was wrong with them."""
    if declared.feed is None:
        return {}
    faults = open_table(warehouse.table(declared, "aside")).to_pyarrow_table(columns=["fault"])["fault"]
    return {one["values"]: one["counts"] for one in pc.value_counts(faults).to_pylist()}


class AsideWatch:
    """What is set aside while a data cluster runs: it is said, so that nobody waits for rows that will not come."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._known: dict[str, tuple[TableLog, int]] = {}
        """The versions of the tables at the last look: what there is now is no news."""
        for declared in warehouse.all():
            if declared.feed is not None:
                log = TableLog(warehouse.table(declared, "aside"))
                self._known[declared.id] = log, log.last()

    def news(self) -> list[dict[str, Any]]:
        """Of each dataset that more events were set aside of since the last look: how many in all, and the last
        reason."""
        found = []
        for declared in self._warehouse.all():
            if declared.feed is None:
                continue
            log, known = self._known.get(declared.id) or (TableLog(self._warehouse.table(declared, "aside")), 0)
            version = log.last()
            self._known[declared.id] = log, version
            if known == version:
                continue
            for last in newest(self._warehouse, declared, "aside", count=1):
                counts = set_aside(self._warehouse, declared)
                found.append({"dataset": declared.name, **counts, "last": last["reason"]})
        return found


def streams(warehouse: Warehouse, declared: Declared) -> dict[str, int]:
    """How far each stream is stored."""
    return stored_ends(open_table(warehouse.table(declared, "rows")), warehouse.streams(declared))


def newest(warehouse: Warehouse, declared: Declared, part: str, *, count: int) -> list[dict[str, Any]]:
    """The rows that were published last; of those that were loaded, some."""
    if part not in PARTS:
        raise UnknownName(part, what="part of a dataset", known=PARTS)
    if (part == "aside" and declared.feed is None) or (
        part == "changes" and (declared.feed is None or not declared.key)
    ):
        raise UsageError(f"dataset {declared.name!r} has no {part}: it is not fed, or has no key")
    found = open_table(warehouse.table(declared, part)).to_pyarrow_dataset()
    if declared.feed is None:
        rows = found.head(count)
    else:
        ticks = found.to_table(columns=["tw_tick"])["tw_tick"]
        if not len(ticks):
            return []
        least = pc.array_sort_indices(ticks, order="descending")[min(count, len(ticks)) - 1].as_py()
        rows = found.to_table(filter=pc.field("tw_tick") >= ticks[least]).sort_by([("tw_tick", "descending")])
    return [msgspec.to_builtins(row, enc_hook=_plain) for row in rows.slice(0, count).to_pylist()]


def _plain(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
