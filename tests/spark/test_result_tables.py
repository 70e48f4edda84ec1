"""The results of a kind in their table: found again after a restart, removed together, and what is lost is known."""

import pyarrow as pa
import pytest

from tests.channels.emergencies import SEVEN, emergencies
from tidewire.channels.declaration import declare
from tidewire.channels.kinds import member_of_kind
from tidewire.channels.results import BEGINNING, Found, SubscriptionId
from tidewire.model.ids import Tick
from tidewire.spark import result_tables
from tidewire.spark.history import LookedAt, rows_by_version, runs_of
from tidewire.spark.places import Place
from tidewire.spark.result_tables import ResultTable, results_schema

DECLARATION = declare(SEVEN[0].replace("select *", "select r.id"), emergencies())
QUERY = member_of_kind(DECLARATION).kind.query
A, B = SubscriptionId(1), SubscriptionId(2)


def rows(channel: str, tick: int, found: list[tuple[SubscriptionId, int]]) -> pa.Table:
    """A run: the reports that it has for subscriptions."""
    columns = {
        "tw_channel": [channel] * len(found),
        "tw_run_tick": [tick] * len(found),
        "tw_subscription": [one for one, _ in found],
        "tw_stream": ["0a"] * len(found),
        "tw_tick": [number for _, number in found],
        "c1": [number for _, number in found],
    }
    return pa.Table.from_pydict(columns, schema=results_schema(QUERY))


def find(table: ResultTable, after: int, *, upto: int, one: SubscriptionId = A, rows_max: int = 100) -> Found:
    places = [(one, Tick(after))]
    [found] = table.find("c", places, upto=Tick(upto), floor=BEGINNING, rows_max=rows_max)
    return found


def told(found: Found) -> list[int]:
    return [row.cells[0] for _, packed in found.runs for row in packed.rows()]  # type: ignore[misc]


def test_results_are_found_by_channel_subscription_and_tick(place: Place) -> None:
    """Of each run that is behind a tick; also by a process that begins anew, which knows the last run."""
    table = ResultTable(place / "results", QUERY)
    assert table.last_run == 0
    table.store(1, rows("c", 10, [(A, 1), (A, 2), (B, 3)]))
    both = pa.concat_tables([rows("c", 20, [(B, 4)]), rows("d", 21, [(A, 5)])])
    table.store(2, both)
    table.store(3, rows("c", 30, [(A, 6)]))
    for one in (table, ResultTable(place / "results", QUERY)):
        assert one.last_run == 3
        assert told(find(one, 0, upto=30)) == [1, 2, 6]
        assert told(find(one, 10, upto=30)) == [6]
        assert told(find(one, 0, upto=20, one=B)) == [3, 4]
        assert told(find(one, 30, upto=30)) == []
        some = find(one, 0, upto=30, rows_max=2)
        assert (told(some), some.upto) == ([1, 2], 10)


def test_what_is_removed_is_known_to_be_lost(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only to those that it had something for, and that have not had it; also after a restart."""
    monkeypatch.setattr(result_tables, "REMOVED_AT_ONCE", 3)
    table = ResultTable(place / "results", QUERY)
    for run in range(1, 6):
        table.store(run, rows("c", 10 * run, [(A, run)] if run != 2 else [(A, run), (B, run)]))
    table.trim("c", Tick(20))
    table.remove_old({"c": None})
    assert told(find(table, 0, upto=50)) == [1, 2, 3, 4, 5], "so few are not removed"
    table.trim("c", Tick(40))
    table.remove_old({"c": None})
    for one in (table, ResultTable(place / "results", QUERY)):
        found = find(one, 0, upto=50)
        assert (told(found), found.lost_upto) == ([4, 5], 30)
        assert find(one, 30, upto=50).lost_upto == BEGINNING
        assert find(one, 0, upto=50, one=B).lost_upto == 20
        assert find(one, 20, upto=50, one=B).lost_upto == BEGINNING


def test_runs_of_channels_that_are_no_more_are_removed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was said of them."""
    monkeypatch.setattr(result_tables, "REMOVED_AT_ONCE", 2)
    table = ResultTable(place / "results", QUERY)
    table.store(1, rows("gone", 10, [(A, 1)]))
    table.store(2, rows("gone", 20, [(A, 2)]))
    table.store(3, rows("c", 30, [(A, 3)]))
    table.remove_old({"c": None})
    assert [run.number for run in table._runs] == [3]


def test_a_run_says_what_it_looked_at(place: Place) -> None:
    """In the commit that stores it, for whoever wants to do it again."""
    table = ResultTable(place / "results", QUERY)
    table.store(1, rows("c", 10, [(A, 1)]), {"after": 3, "upto": 5, "dataset UserLocations": 7})
    table.store(2, pa.concat_tables([rows("c", 20, [(B, 4)]), rows("d", 21, [(A, 5)])]), {"after": 5, "upto": 6})
    assert list(runs_of(place / "results")) == [
        LookedAt(after=3, upto=5, datasets={"UserLocations": 7}, ticks={"c": 10}),
        LookedAt(after=5, upto=6, datasets={}, ticks={"c": 20, "d": 21}),
    ]
    numbers = [row["c1"] for _, found in rows_by_version(place / "results", ["c1"]) for row in found]
    assert numbers == [1, 4, 5]
