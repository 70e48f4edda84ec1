"""`tidewire bench ingest`: events become rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidewire.cli.bench_tables import bench_table
from tidewire.cli.bench_wire import Quick
from tidewire.cli.datacluster import refuse_missing
from tidewire.cli.shell import AsJson, console, figure, report

if TYPE_CHECKING:
    from tidewire.benchmarks.ingest import Report


def ingest(
    folder: Annotated[
        Path | None,
        typer.Option(help="On the disk that is meant; else .cache/durable.", file_okay=False),
    ] = None,
    events: Annotated[int, typer.Option(help="That a broker has logged.")] = 1_000_000,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """The data cluster stores events that a broker has logged: how fast, and at what cost?

    Each round is a new dataset, from its declaration to its last row. It needs Java.

    [bold]Example[/bold]

      tidewire bench ingest --quick
    """
    refuse_missing()
    from tidewire.benchmarks.durable import FOLDER
    from tidewire.benchmarks.ingest import Plan, run

    plan = Plan(folder=folder or FOLDER, events=events)
    report(lambda tell: run(plan.shortened() if quick else plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    table = bench_table("", "median", "95 %")
    for label, one in (
        ("events/s", report.events_per_s),
        ("broker, µs of CPU an event", report.broker_us_per_event),
        ("data cluster, µs of CPU an event", report.cluster_us_per_event),
    ):
        table.add_row(label, figure(one.median), f"{figure(one.low)}–{figure(one.high)}")
    out.print(table)
    out.print(
        f"\n[dim]{report.machine}. {report.events:,} events of {report.event_bytes} bytes, {report.rounds} rounds;"
        f" {report.enough_per_s:,} events/s are to be reached.[/dim]"
    )
