"""A dataset as it stands is one version of it, whatever is committed while it is looked at."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.spark.test_tables import FED, NOON, block, made, written
from tidewire.spark import sink, versions
from tidewire.spark.datasets import Declared, Warehouse
from tidewire.spark.jobs import Standing
from tidewire.spark.places import Place
from tidewire.spark.sink import commit_part
from tidewire.spark.tables import open_table
from tidewire.spark.versions import Present

COLUMNS = {"user": None, "n": None}


def feed(warehouse: Warehouse, declared: Declared, first: int, **places: int) -> None:
    """Where somebody is."""
    rows = [{"user": user, "n": n} for user, n in places.items()]
    commit_part(warehouse, declared, written(warehouse, declared, block(NOON + first, rows)))


def seen(standing: Standing, place: Place) -> dict[str, int]:
    """What one who knows nothing yet finds: of equal keys the newest."""
    files = [*standing.files, *(path for number, path in standing.more if number > standing.base)]
    columns = [*COLUMNS, *(["tw_tick"] if standing.key else [])]
    rows = [row for path in files for row in place.at(path).read_rows(columns).to_pylist()]
    return {row["user"]: row["n"] for row in sorted(rows, key=lambda row: row.get("tw_tick", 0))}


def while_it_is_opened(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Something is committed, once, just before the table of the rows is opened."""
    plain, acts = open_table, [act]

    def opened(path: Place) -> Any:
        while acts:
            acts.pop()()
        return plain(path)

    monkeypatch.setattr(versions, "open_table", opened)


def test_what_comes_while_the_rows_are_opened_belongs_to_the_version_that_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bad §1.3: the current location of a user is one row; a run looks at one version of it."""
    warehouse = Warehouse(place)
    declared = made(warehouse, "user string, n bigint", key=("user",), feed=FED)
    feed(warehouse, declared, 0, ann=1, bob=1)
    present = Present(warehouse, declared)
    while_it_is_opened(monkeypatch, lambda: feed(warehouse, declared, 10, ann=2))
    standing = present.standing(COLUMNS)
    assert standing.version == 2, "that of the second change"
    assert seen(standing, place) == {"ann": 2, "bob": 1}
    assert len([1 for number, _ in standing.more if number > standing.base]) == len(dict(standing.more)) == 2


def test_a_change_that_is_not_among_the_rows_yet_is_not_missed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the table of changes first."""
    warehouse = Warehouse(place)
    declared = made(warehouse, "user string, n bigint", key=("user",), feed=FED)
    feed(warehouse, declared, 0, ann=1)
    with monkeypatch.context() as patch:
        patch.setattr(sink, "upsert_files", lambda *_: True)
        feed(warehouse, declared, 10, ann=2, bob=1)
    assert seen(Present(warehouse, declared).standing(COLUMNS), place) == {"ann": 2, "bob": 1}


def test_rows_without_a_key_are_those_of_their_version(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes meanwhile is told with the next version, and not twice."""
    warehouse = Warehouse(place)
    declared = made(warehouse, "user string, n bigint", feed=FED)
    feed(warehouse, declared, 0, ann=1)
    present = Present(warehouse, declared)
    while_it_is_opened(monkeypatch, lambda: feed(warehouse, declared, 10, bob=1))
    first = present.standing(COLUMNS)
    assert (first.version, len(first.files), seen(first, place)) == (1, 1, {"ann": 1})
    second = present.standing(COLUMNS)
    assert (second.version, len(second.files) + len(second.more), seen(second, place)) == (2, 2, {"ann": 1, "bob": 1})
