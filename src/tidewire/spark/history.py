"""What was in a table at which version, and what did a run of a channel look at? For whoever wants to do it again.

It reads the tables as any other program could: their logs, and the files that these name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidewire.spark.places import Place, place_of
from tidewire.spark.result_tables import LOOKED_AT
from tidewire.spark.versions import TableLog


class _Line(msgspec.Struct):
    commit: dict[str, Any] | None = msgspec.field(default=None, name="commitInfo")


class LookedAt(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a kind whose results were stored."""

    after: int
    upto: int
    """What was new in the feed: behind one version, up to another."""
    datasets: dict[str, int]
    """The versions of the others, as they stood."""
    ticks: dict[str, int]
    """Of the run of each channel that found something."""


def rows_by_version(table: Path | Place, columns: Sequence[str]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The rows that came with each version, in order."""
    place = place_of(table)
    log = TableLog(place)
    for version in log.between(-1, log.last()):
        yield (
            version.number,
            [row for path, _ in version.added for row in place.at(path).read_rows(columns).to_pylist()],
        )


def runs_of(results: Path | Place) -> Iterator[LookedAt]:
    """The runs of a kind, by the table of its results."""
    place = place_of(results)
    log = TableLog(place)
    for version in log.between(-1, log.last()):
        looked_at = _looked_at(place / "_delta_log" / f"{version.number:020d}.json")
        if looked_at is None:
            continue
        ticks: dict[str, int] = {}
        for path, _ in version.added:
            rows = place.at(path).read_rows(["tw_channel", "tw_run_tick"])
            ticks |= dict(zip(rows["tw_channel"].to_pylist(), rows["tw_run_tick"].to_pylist(), strict=True))
        datasets = {
            name.removeprefix("dataset "): number for name, number in looked_at.items() if name.startswith("dataset ")
        }
        yield LookedAt(after=looked_at["after"], upto=looked_at["upto"], datasets=datasets, ticks=ticks)


def _looked_at(file: Place) -> dict[str, int] | None:
    for line in file.read().splitlines():
        commit = msgspec.json.decode(line, type=_Line).commit
        if commit is not None and LOOKED_AT in commit:
            return msgspec.json.decode(commit[LOOKED_AT], type=dict[str, int])
    return None
