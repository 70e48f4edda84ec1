"""`tidewire bench store`: our log beside what libraries give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tidewire.cli.bench_wire import Quick, listed
from tidewire.cli.shell import AsJson, console, figure, report

if TYPE_CHECKING:
    from tidewire.benchmarks.store import Report


def store(
    stores: Annotated[str, typer.Option(help="Which ones, with commas between.")] = "tidewire,rocksdb,lmdb,sqlite,disk",
    folder: Annotated[Path | None, typer.Option(help="On the disk that is meant; else .cache/store.")] = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """How fast events of 200 bytes become durable, in groups, and are read again.

    [bold]Example[/bold]

      tidewire bench store --quick --stores tidewire,sqlite
    """
    from tidewire.benchmarks.store import FOLDER, Plan, run

    plan = Plan(stores=listed(stores), folder=folder or FOLDER)
    report(lambda tell: run(plan.shortened() if quick else plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    for count, ratios in report.commit_ratios.items():
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column(f"[bold]groups of {count}[/bold]", no_wrap=True)
        for name in ("durable/s", "p50 µs", "p99 µs", "CPU µs", "ours: more (95 %)"):
            table.add_column(name, justify="right", no_wrap=True)
        for name, side in report.stores.items():
            of = side.commits[count]
            cells = [figure(one) for one in (of.events_per_s, of.commit_us_p50, of.commit_us_p99, of.cpu_us_per_event)]
            table.add_row(name, *cells, str(ratios.get(name, "")))
        out.print(table, "")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("[bold]read again[/bold]", no_wrap=True)
    for name in ("events/s", "CPU µs", "ours: more (95 %)"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, side in report.stores.items():
        of_reads = side.reads
        cells = [figure(of_reads.events_per_s), figure(of_reads.cpu_us_per_event)]
        table.add_row(name, *cells, str(report.read_ratios.get(name, "")))
    out.print(table)
    for name, why in report.missing.items():
        out.print(f"[yellow]{name} was not measured[/yellow]: {why}")
    out.print(
        f"[dim]{report.machine}. Medians of {report.rounds} interleaved turns, events of {report.event_bytes} bytes;"
        " CPU per event.[/dim]"
    )
