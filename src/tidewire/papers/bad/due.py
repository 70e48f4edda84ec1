"""What was everybody owed? The same joins once more, in plain Python, from what was published and what each run saw.

Of the data cluster only this is taken: with which version of a table each row came, and which versions a run looked at.
What stood in the rows, who wanted what and which result follows from it is known or computed here.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import asin, cos, inf, radians, sin, sqrt
from typing import Any, Final

import msgspec

from tidewire.papers.bad.declarations import NEAR_M, SHELTERS_WITHIN_M, Shelter, Told

EXAMPLES_MAX: Final = 5
EARTH_M: Final = 6_371_008.8
Row = tuple[Any, ...]
Place = tuple[float, float]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a channel: when it was in its stream, and what it looked at."""

    tick: int
    after: int
    upto: int
    positions: int
    """The version of the positions."""
    or_at: int | None = None
    """It may also have been this one, or one between: what is due is due with both."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription of one subscriber: all that came, by tick, in the order in which it came."""

    who: str
    channel: str
    given: Mapping[str, Any]
    asked: int
    confirmed: int
    """As ticks: when it was asked for, and when it was confirmed."""
    ticks: Sequence[int]
    rows: Mapping[int, Counter[Row]]


class Verdict(msgspec.Struct):
    """Of all subscriptions together."""

    results: int = 0
    """Rows that came, and were due."""
    notifications: int = 0
    missing: int = 0
    twice: int = 0
    wrong: int = 0
    """Rows that were not due, or not like this."""
    unknown: int = 0
    """Notifications of runs in which nothing was due."""
    examples: list[str] = []
    """Some of what was missing or wrong, for people."""

    @property
    def is_exact(self) -> bool:
        """Did everything that was due come, once, and nothing else?"""
        return self.results > 0 and not (self.missing or self.twice or self.wrong or self.unknown)


def distance_m(one: Place, other: Place) -> float:
    """On a sphere, by the haversine."""
    (a, b), (c, d) = ((radians(lat), radians(lon)) for lat, lon in (one, other))
    return 2 * EARTH_M * asin(sqrt(sin((c - a) / 2) ** 2 + cos(a) * cos(c) * sin((d - b) / 2) ** 2))


class Reckoning:
    """All that was published, as it came into the tables."""

    def __init__(
        self,
        reports: Sequence[Told],
        shelters: Sequence[Shelter],
        *,
        arrived: Iterable[tuple[int, Sequence[int]]],
        moved: Iterable[tuple[int, Sequence[tuple[str, Place]]]],
    ) -> None:
        """``arrived``, ``moved``: with each version of the tables, the numbers of reports, and who was where."""
        self._reports = reports
        self._shelters = shelters
        self._arrived = {version: [reports[number] for number in numbers] for version, numbers in arrived}
        self._moved = sorted(moved, key=lambda one: one[0])
        self._around: dict[int, list[str | None]] = {}
        self._standing: dict[int, dict[str, Place]] = {}

    def due(
        self, channel: str, runs: Sequence[Seen], givens: Sequence[Mapping[str, Any]]
    ) -> list[dict[int, Counter[Row]]]:
        """For each of these subscriptions to a channel, by the tick of the run: all that it has to tell."""
        found: list[dict[int, Counter[Row]]] = [{} for _ in givens]
        for run in runs:
            new = [one for version in range(run.after + 1, run.upto + 1) for one in self._arrived.get(version, ())]
            standing = [self._places(at) for at in (run.positions, run.or_at) if at is not None]
            by_box = _by_box(new, givens)
            for given, rows in zip(givens, found, strict=True):
                fitting = by_box[given["south"], given["west"]] if "south" in given else new
                due = [
                    Counter(
                        row
                        for one in fitting
                        if _fits(one, given, places)
                        for row in self._rows(channel, one, given, places)
                    )
                    for places in standing
                ]
                told = due[0] & due[-1]
                if told:
                    rows[run.tick] = told
        return found

    def _places(self, version: int) -> Mapping[str, Place]:
        """Where everybody was at this version."""
        if version not in self._standing:
            self._standing[version] = {
                who: place for at, changes in self._moved if at <= version for who, place in changes
            }
        return self._standing[version]

    def _rows(self, channel: str, one: Told, given: Mapping[str, Any], places: Mapping[str, Place]) -> Iterable[Row]:
        if channel == "in an area with its shelters":
            return [(one.id, one.type, name) for name in self._near(one)]
        if channel == "near me with the nearest shelter":
            here = places[given["me"]]
            nearest = min(self._shelters, key=lambda shelter: distance_m(here, (shelter.lat, shelter.lon)))
            return [(one.id, one.type, one.text, nearest.name)]
        return [(one.id, one.type, one.text)]

    def _near(self, one: Told) -> list[str | None]:
        """The shelters around a report; None if there is none."""
        if one.id not in self._around:
            found: list[str | None] = [
                shelter.name
                for shelter in self._shelters
                if distance_m((shelter.lat, shelter.lon), (one.lat, one.lon)) <= SHELTERS_WITHIN_M
            ]
            self._around[one.id] = found or [None]
        return self._around[one.id]


def _by_box(reports: Sequence[Told], givens: Sequence[Mapping[str, Any]]) -> dict[tuple[float, float], list[Told]]:
    """Of each area that somebody wants, by its corner."""
    boxes = {(given["south"], given["west"]): given for given in givens if "south" in given}
    return {
        corner: [
            one for one in reports if box["south"] <= one.lat < box["north"] and box["west"] <= one.lon < box["east"]
        ]
        for corner, box in boxes.items()
    }


def _fits(one: Told, given: Mapping[str, Any], places: Mapping[str, Place]) -> bool:
    """In its area it is."""
    if "type" in given and one.type != given["type"]:
        return False
    if "me" in given:
        here = places.get(given["me"])
        return here is not None and distance_m(here, (one.lat, one.lon)) <= NEAR_M
    return True


def whole(runs: Sequence[Seen]) -> list[Seen]:
    """With those that found nothing, and so are not in the tables: nothing may have been due in them."""
    ordered = sorted(runs, key=lambda one: one.tick)
    found = ordered[:1]
    for before, one in itertools.pairwise(ordered):
        if before.upto < one.after:
            found.append(
                Seen(
                    tick=before.tick + 1,
                    after=before.upto,
                    upto=one.after,
                    positions=before.positions,
                    or_at=one.positions,
                )
            )
        found.append(one)
    return found


def judge(heard: Heard, due: Mapping[int, Counter[Row]], ticks: Sequence[int], verdict: Verdict) -> None:
    """Compare what came with what was due; ``ticks``: of all runs of the channel, in order.

    A run that was under way when the subscription was confirmed may have begun before it: it may count or not. All
    that are later must, and from the first that counts on, all.
    """
    verdict.notifications += len(heard.ticks)
    verdict.twice += sum(tick <= before for before, tick in zip(heard.ticks, heard.ticks[1:], strict=False))
    verdict.unknown += sum(tick not in due for tick in heard.rows)
    under_way = next((tick for tick in ticks if tick > heard.confirmed), inf)
    first = min(heard.rows, default=inf)
    for tick, wanted in due.items():
        came = heard.rows.get(tick, Counter())
        if tick > heard.asked and (tick > under_way or tick >= first):
            verdict.missing += _noted(verdict, heard, "missing", tick, wanted - came)
        verdict.wrong += _noted(verdict, heard, "not due", tick, came - wanted)
        verdict.results += (came & wanted).total()


def _noted(verdict: Verdict, heard: Heard, what: str, tick: int, rows: Counter[Row]) -> int:
    if rows and len(verdict.examples) < EXAMPLES_MAX:
        told = [row[0] for row in rows][:3]
        verdict.examples.append(
            f"{what}: {heard.channel} {dict(heard.given)}, of {heard.who} at {tick}: reports {told}"
        )
    return rows.total()
