"""`tidewire bench catchup`: one who reads what it missed, and the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidewire.cli.bench_tables import bench_table
from tidewire.cli.bench_wire import Quick
from tidewire.cli.shell import AsJson, console, figure, report

if TYPE_CHECKING:
    from tidewire.benchmarks.catchup import Report


def catchup(
    folder: Annotated[
        Path | None,
        typer.Option(help="On the disk that is meant; else .cache/durable.", file_okay=False),
    ] = None,
    missed: Annotated[int, typer.Option(help="Events that a subscriber missed.")] = 1_000_000,
    rate: Annotated[float, typer.Option(help="Events/s of each of the two flows to others.", min=1)] = 1_000.0,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """A durable subscriber reads a million events that it missed, at full speed: what do the others notice?

    The others are a best-effort subscriber and a durable one that is there, each with a modest flow.

    [bold]Example[/bold]

      tidewire bench catchup --quick
    """
    from tidewire.benchmarks.catchup import Plan, run
    from tidewire.benchmarks.durable import FOLDER

    plan = Plan(folder=folder or FOLDER, missed_events=missed, rate=rate)
    report(lambda tell: run(plan.shortened() if quick else plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    table = bench_table("", "alone", "beside", "more (95 %)")
    for name, others in report.flows.items():
        for label, one, other, ratio in (
            ("p50", others.alone.delay_us.p50, others.beside.delay_us.p50, others.delay_p50),
            ("p99", others.alone.delay_us.p99, others.beside.delay_us.p99, others.delay_p99),
        ):
            table.add_row(f"{name} {label} µs", figure(one), figure(other), str(ratio))
    out.print(table)
    rate = report.events_per_s
    out.print(
        f"\nCaught up with {figure(rate.median)} events/s ({figure(rate.low)}–{figure(rate.high)})."
        f" The p99 of others may be {report.delay_max:g}× as long."
    )
    out.print(
        f"[dim]{report.machine}, {report.disk.file_system}. {report.missed_events:,} events were missed; two flows of"
        f" {report.rate:,.0f} events/s to others, {report.rounds} interleaved rounds; somebody was catching up for"
        f" {report.covered:.0%} of the time.[/dim]"
    )
