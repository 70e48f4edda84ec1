"""Tables without Spark: a part of a stream is stored once, whatever is tried again; what does not fit stands aside."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidewire._kernel._native import join_events
from tidewire._kernel.codec import encode
from tidewire.model.errors import BadConfiguration, StoreLocked, UnknownName, UsageError
from tidewire.model.events import Envelope, make_event
from tidewire.model.ticks import tick_at
from tidewire.spark.datasets import Declared, Feed, Warehouse, columns_of, declare
from tidewire.spark.loading import load
from tidewire.spark.places import Place
from tidewire.spark.reports import AsideWatch, newest, rows_in, set_aside, streams
from tidewire.spark.rows import Block, rows_of
from tidewire.spark.sink import Part, commit_part, create_tables, stored
from tidewire.spark.tables import last_of_each, open_table, tidy, write_files

STREAM = f"{7:016x}"
NOON = tick_at(1_800_000_000_000)


def block(first: int, rows: list[dict[str, Any]], *, gaps: list[tuple[int, int]] | None = None) -> Block:
    """Rows that were published one tick after the other."""
    events = [encode(make_event(row, envelope=Envelope(pubend=7, tick=first + at))) for at, row in enumerate(rows)]
    return Block(STREAM, first, first + len(rows), join_events(events), gaps or [])


def made(warehouse: Warehouse, columns: str, **given: Any) -> Declared:
    declared = declare("d", columns_of(columns), **given)
    create_tables(warehouse, declared)
    warehouse.add(declared)
    return declared


def written(warehouse: Warehouse, declared: Declared, one: Block) -> Part:
    """What a task has written of a block."""
    rows, aside = rows_of(declared, one)
    place = warehouse.table(declared, "changes" if declared.key else "rows")
    part = Part(ends={one.stream: one.end})
    part.rows += write_files(place, rows)
    part.aside += write_files(warehouse.table(declared, "aside"), aside) if len(aside) else []
    return part


FED = Feed(wanted="class = 'A'", takes_others=True)


def test_a_part_of_a_stream_is_stored_once(place: Place) -> None:
    """A batch that is committed again, in other files, changes nothing; the table itself knows."""
    warehouse = Warehouse(place)
    declared = made(warehouse, "n bigint", feed=FED)
    one = block(NOON, [{"n": n} for n in range(5)])
    for _ in range(2):
        commit_part(warehouse, declared, written(warehouse, declared, one))
    assert rows_in(warehouse, declared) == 5
    assert stored(warehouse) == {declared.id: {STREAM: NOON + 5}} == {declared.id: streams(warehouse, declared)}
    commit_part(warehouse, declared, written(warehouse, declared, block(NOON + 5, [{"n": 5}])))
    assert [row["n"] for row in newest(warehouse, declared, "rows", count=3)] == [5, 4, 3]


def test_what_does_not_fit_stands_aside_and_is_counted(place: Place) -> None:
    """Malformed, of another schema, late, or lost: told with its place, its reason and the event."""
    warehouse = Warehouse(place)
    feed = Feed(wanted="n >= 0 or t is not null", time="t", late_s=60)
    watch = AsideWatch(warehouse)
    declared = made(warehouse, "n bigint, t timestamp", feed=feed)
    assert watch.news() == []
    rows: list[dict[str, Any]] = [{"n": 1}, {"n": "one"}, {"n": 1, "more": 1}, {"t": datetime(2020, 1, 1, tzinfo=UTC)}]
    part = written(warehouse, declared, block(NOON, rows, gaps=[(NOON - 9, NOON - 1)]))
    for _ in range(2):
        commit_part(warehouse, declared, part)
    assert rows_in(warehouse, declared) == 1
    counts = {"malformed": 2, "late": 1, "gap": 1}
    assert set_aside(warehouse, declared) == counts
    [news] = watch.news()
    assert (news.pop("last"), news) == (
        newest(warehouse, declared, "aside", count=1)[0]["reason"],
        {"dataset": "d"} | counts,
    )
    assert watch.news() == [] == AsideWatch(warehouse).news()
    aside = {row["tw_tick"]: row for row in newest(warehouse, declared, "aside", count=10)}
    assert aside[NOON + 1]["attributes"] == '{"n":"one"}'
    assert aside[NOON + 2]["reason"] == "'more' is in no column"
    assert (aside[NOON - 9]["fault"], aside[NOON - 9]["tw_last"]) == ("gap", NOON - 1)


def test_with_a_key_there_is_the_current_row_and_the_log_of_changes(place: Place) -> None:
    """bad §1.3: the current location of a user is one row; what came before stays readable."""
    warehouse = Warehouse(place)
    declared = made(warehouse, "user string, at bigint", key=("user",), feed=FED)
    first = block(NOON, [{"user": "ann", "at": 1}, {"user": "bob", "at": 2}, {"user": "ann", "at": 3}])
    second = block(NOON + 3, [{"user": "bob", "at": 4}, {"at": 5}])
    for one in (first, first, second, second):
        commit_part(warehouse, declared, written(warehouse, declared, one))
    current = {row["user"]: row["at"] for row in newest(warehouse, declared, "rows", count=10)}
    assert current == {"ann": 3, "bob": 4}
    assert sorted(row["at"] for row in newest(warehouse, declared, "changes", count=10)) == [1, 2, 3, 4]
    assert set_aside(warehouse, declared) == {"malformed": 1}


def test_a_crash_between_the_tables_of_a_dataset_is_mended(place: Place) -> None:
    """The changes were committed, the current rows not: the next try brings them, and no change twice."""
    from tidewire.spark.rows import schema_of
    from tidewire.spark.tables import append_files

    warehouse = Warehouse(place)
    declared = made(warehouse, "user string, at bigint", key=("user",), feed=FED)
    one = block(NOON, [{"user": "ann", "at": 1}])
    part = written(warehouse, declared, one)
    append_files(warehouse.table(declared, "changes"), schema_of(declared), part.rows, part.ends)
    assert streams(warehouse, declared) == {}
    commit_part(warehouse, declared, written(warehouse, declared, one))
    assert rows_in(warehouse, declared) == rows_in(warehouse, declared, "changes") == 1


def test_the_last_of_each_key() -> None:
    """By tick, and by stream where ticks are equal."""
    rows = pa.table({"k": [1, 1, 2, 1], "tw_tick": [5, 9, 1, 9], "tw_stream": ["b", "a", "a", "b"], "at": [0, 1, 2, 3]})
    assert sorted(last_of_each(rows, ("k",))["at"].to_pylist()) == [2, 3]


def test_old_rows_go_and_small_files_are_put_together(place: Place) -> None:
    """Retention is by the day of publication; how far streams are stored stays known."""
    warehouse = Warehouse(place)
    declared = made(warehouse, "n bigint", feed=FED)
    for at in range(4):
        commit_part(warehouse, declared, written(warehouse, declared, block(NOON + at, [{"n": at}])))
    day_later = NOON + (86_400_000 << 20)
    commit_part(warehouse, declared, written(warehouse, declared, block(day_later, [{"n": 9}])))
    rows = warehouse.table(declared, "rows")
    assert len(open_table(rows).file_uris()) == 5
    tidy(rows, retain_days=None, now=datetime.fromtimestamp(1_800_000_000, UTC))
    assert len(open_table(rows).file_uris()) == 2
    tidy(rows, retain_days=0.25, now=datetime.fromtimestamp(1_800_000_000 + 86_400, UTC))
    assert [row["n"] for row in newest(warehouse, declared, "rows", count=9)] == [9]
    assert streams(warehouse, declared) == {STREAM: day_later + 1}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_reference_data_is_loaded_whole(tmp_path: Path, place: Place, suffix: str) -> None:
    """bad §1: a dataset is fed continuously, or loaded once. A file with one bad row loads nothing."""
    import pyarrow.parquet as pq

    warehouse = Warehouse(place)
    declared = made(warehouse, "name string, places bigint")
    file, bad = tmp_path / f"shelters.{suffix}", tmp_path / f"bad.{suffix}"
    if suffix == "csv":
        file.write_text("name,places\nschool,100\nhall,\n")
        bad.write_text("name,places\nschool,100\nhall,many\n")
    elif suffix == "jsonl":
        file.write_text('{"name": "school", "places": 100}\n{"name": "hall"}\n')
        bad.write_text('{"name": "school", "places": 100}\n{"name": "hall", "places": "many"}\n')
    else:
        pq.write_table(pa.table({"name": ["school", "hall"], "places": [100, None]}), file)
        pq.write_table(pa.table({"name": ["school", "hall"], "places": ["100", "many"]}), bad)
    assert load(warehouse, declared, file, replace=False) == 2
    assert load(warehouse, declared, file, replace=True) == 2
    with pytest.raises(UsageError, match="bad"):
        load(warehouse, declared, bad, replace=False)
    rows = newest(warehouse, declared, "rows", count=9)
    assert rows == [{"name": "school", "places": 100}, {"name": "hall", "places": None}]


@pytest.mark.parametrize("replace", [False, True])
def test_of_several_rows_with_one_key_the_last_counts(tmp_path: Path, place: Place, replace: bool) -> None:
    """As of events; also where the key is there already."""
    warehouse = Warehouse(place)
    declared = made(warehouse, "s string, v bigint", key=("s",))
    file = tmp_path / "r.csv"
    file.write_text("s,v\nz,7\ny,1\nz,9\nz,8\n")
    for _ in range(2):
        assert load(warehouse, declared, file, replace=replace) == 2
        rows = newest(warehouse, declared, "rows", count=9)
        assert sorted((row["s"], row["v"]) for row in rows) == [("y", 1), ("z", 8)]


def test_what_cannot_be_a_dataset_is_refused(place: Place) -> None:
    """With what is wrong, before anything is there."""
    refused: list[tuple[str, str, dict[str, Any]]] = [
        ("1", "a bigint", {}),
        ("d", "a", {}),
        ("d", "tw_a bigint", {}),
        ("d", "a bigint", {"key": ("b",)}),
        ("d", "a bigint", {"retain_days": 0}),
        ("d", "a bigint", {"feed": Feed(wanted="a = 1", time="a")}),
        ("d", "a bigint", {"feed": Feed(wanted="a = 1 or class = 'A'")}),
    ]
    for name, columns, given in refused:
        with pytest.raises(BadConfiguration):
            declare(name, columns_of(columns), **given)
    with pytest.raises(UnknownName, match="bigint"):
        columns_of("a number")
    warehouse = Warehouse(place)
    made(warehouse, "a bigint")
    with pytest.raises(BadConfiguration, match="already"):
        made(warehouse, "a bigint")
    with pytest.raises(UnknownName, match="known: d"):
        warehouse.get("e")


def test_one_data_cluster_at_a_time(tmp_path: Path, place: Place) -> None:
    """Two would follow by the same names, and take them from each other. In a store, from another machine too."""
    one, same = (Warehouse(place, state=tmp_path / "here") for _ in range(2))
    with one.locked(), pytest.raises(StoreLocked, match="end it"), same.locked():
        pass
