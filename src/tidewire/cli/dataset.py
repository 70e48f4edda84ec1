"""`tidewire dataset`: declare, list, load and show the datasets of a data cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tidewire.cli.datacluster import Folder, opened_place, refuse_missing
from tidewire.cli.marked import escape
from tidewire.cli.shell import AsJson, console, print_json

if TYPE_CHECKING:
    from tidewire.spark.datasets import Declared, Warehouse

dataset = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Declare, list, load and show datasets.", rich_markup_mode="rich"
)

Name = Annotated[str, typer.Argument(help="Of the dataset.")]


def _warehouse(folder: str | None) -> Warehouse:
    refuse_missing()
    from tidewire.spark.datasets import Warehouse

    return Warehouse(opened_place(folder))


@dataset.command(no_args_is_help=True)
def create(
    name: Name,
    columns: Annotated[str, typer.Argument(help="Names and types: 'magnitude double, place string'.")],
    feed: Annotated[str | None, typer.Option(metavar="FILTER", help="Guaranteed events that become rows.")] = None,
    since: Annotated[str, typer.Option(help="Where the feed begins: earliest, or now.")] = "earliest",
    key: Annotated[list[str] | None, typer.Option(help="One row for each value of it; may be repeated.")] = None,
    time: Annotated[str | None, typer.Option(help="The column that says when it happened.")] = None,
    late: Annotated[float, typer.Option(help="Older than so many seconds when published: set aside.")] = 86_400.0,
    others: Annotated[bool, typer.Option("--others", help="Leave out attributes that no column is for.")] = False,
    retain: Annotated[float | None, typer.Option(metavar="DAYS", help="Remove rows that are older.")] = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Declare a dataset. A data cluster that runs sees it by itself.

    Types: boolean, bigint, double, string, timestamp, binary. An event that does not fit is set aside, never lost.

    [bold]Examples[/bold]

      tidewire dataset create quakes "magnitude double, place string" --feed "class = 'QUAKE'" --others

      tidewire dataset create locations "user string, lat double, lon double" --feed "class = 'AT'" --key user --others

      tidewire dataset create shelters "name string, lat double, lon double"
    """
    warehouse = _warehouse(folder)
    from tidewire.model.errors import BadConfiguration
    from tidewire.spark.datasets import Feed, columns_of, declare
    from tidewire.spark.sink import create_tables

    if since not in ("earliest", "now"):
        raise BadConfiguration(f"--since {since!r}: it is earliest or now")
    if feed is None and (time is not None or others):
        raise BadConfiguration("--time and --others are about events: give a --feed too")
    fed = None
    if feed is not None:
        since_ms = 0 if since == "earliest" else -1
        fed = Feed(wanted=feed, since_ms=since_ms, takes_others=others, time=time, late_s=late)
    made = declare(name, columns_of(columns), key=tuple(key or ()), feed=fed, retain_days=retain)
    warehouse.refuse_taken(name)
    create_tables(warehouse, made)
    warehouse.add(made)
    if as_json:
        print_json({"dataset": made, "folder": str(warehouse.folder(name))})
    else:
        told = "is fed by events" if fed is not None else "is loaded from files: tidewire dataset load"
        console().print(f"{escape(name)} {told}; its tables are in {escape(warehouse.folder(name))}", soft_wrap=True)


@dataset.command("list")
def list_all(folder: Folder = None, as_json: AsJson = False) -> None:
    """List the datasets, with how many rows each has, and how many were set aside."""
    warehouse = _warehouse(folder)
    found = [_document(warehouse, one) for one in warehouse.all()]
    if as_json:
        print_json({"datasets": found})
        return
    if not found:
        console().print("there are no datasets: tidewire dataset create")
        return
    table = Table("name", "rows", "aside", "key", "feed", box=None, pad_edge=False, header_style="bold")
    for one in found:
        table.add_row(
            escape(one["name"]), f"{one['rows']:,}", f"{one['aside']:,}", escape(", ".join(one["key"])),
            escape(one["feed"] or ""),
        )  # fmt: skip
    console().print(table)


def _document(warehouse: Warehouse, declared: Declared) -> dict[str, Any]:
    from tidewire.spark.reports import rows_in, set_aside

    return {
        "name": declared.name,
        "columns": [{"name": column.name, "type": str(column.type)} for column in declared.columns],
        "key": list(declared.key),
        "feed": None if declared.feed is None else declared.feed.wanted,
        "rows": rows_in(warehouse, declared),
        "aside": sum(set_aside(warehouse, declared).values()),
        "folder": str(warehouse.folder(declared.name)),
    }


@dataset.command(no_args_is_help=True)
def load(
    name: Name,
    file: Annotated[Path, typer.Argument(help="Rows: .csv, .json (one object a line), or .parquet.")],
    replace: Annotated[bool, typer.Option("--replace", help="In place of the rows that are there.")] = False,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Load rows from a file into a dataset without a feed: all of them, or none.

    [bold]Examples[/bold]

      tidewire dataset load shelters shelters.csv

      tidewire dataset load shelters shelters.parquet --replace
    """
    warehouse = _warehouse(folder)
    from tidewire.spark.loading import load as load_file

    declared = warehouse.get(name)
    count = load_file(warehouse, declared, file, replace=replace)
    if as_json:
        print_json({"dataset": name, "loaded": count})
    else:
        console().print(f"{count:,} rows loaded into {escape(name)}")


@dataset.command(no_args_is_help=True)
def show(
    name: Name,
    count: Annotated[int, typer.Option("--count", help="How many rows, at most.", min=1)] = 20,
    part: Annotated[str, typer.Option(help="rows, changes (with a key: all that ever came), or aside.")] = "rows",
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show a dataset: what it is, how far it is fed, what was set aside and why, and its newest rows.

    [bold]Examples[/bold]

      tidewire dataset show quakes

      tidewire dataset show quakes --part aside --json
    """
    warehouse = _warehouse(folder)
    from tidewire.spark.reports import newest, set_aside, streams

    declared = warehouse.get(name)
    rows = newest(warehouse, declared, part, count=count)
    document = _document(warehouse, declared)
    facts = {"set_aside": set_aside(warehouse, declared), "streams": streams(warehouse, declared)}
    if as_json:
        print_json({**document, **facts, "part": part, "newest": rows})
        return
    told = console()
    told.print(
        f"[bold]{escape(name)}[/bold]  {document['rows']:,} rows, {document['aside']:,} set aside", soft_wrap=True
    )
    for fault, many in facts["set_aside"].items():
        told.print(f"  {escape(fault)}: {many:,}")
    if rows:
        shown = [column for column in rows[0] if column not in ("tw_body", "tw_content_type", "tw_day", "event")]
        table = Table(*map(escape, shown), box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*(escape("" if row[column] is None else str(row[column])) for column in shown))
        told.print(table)
