"""`tidewire bench channels`: what channels cost, and how late they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidewire.cli.bench_tables import bench_table
from tidewire.cli.bench_wire import Quick
from tidewire.cli.datacluster import refuse_missing
from tidewire.cli.shell import AsJson, console, figure, report

if TYPE_CHECKING:
    from tidewire.benchmarks.channels import Cost, Report


def channels(
    folder: Annotated[
        Path | None,
        typer.Option(help="On the disk that is meant; else .cache/durable.", file_okay=False),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Batches of 10,000 publications for each figure.", min=1)] = 10,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Channels on Spark: the cost of 10,000 publications by subscriptions, brokers and channels, and the delay.

    Beside them the naive way: one query for each subscription. It needs Java.

    [bold]Example[/bold]

      tidewire bench channels --quick
    """
    refuse_missing()
    from tidewire.benchmarks.channels import Plan, run
    from tidewire.benchmarks.durable import FOLDER

    plan = Plan(folder=folder or FOLDER, rounds=rounds)
    report(lambda tell: run(plan.shortened() if quick else plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    table = bench_table("10,000 publications", "subscriptions", "CPU-s", "s", "results", "index, CPU-s, once")
    for one in report.sizes:
        ready = figure(one.ready_cpu_s)
        table.add_row(one.shape, f"{one.subscriptions:,}", *_figures(one.run), ready)
    out.print(table)
    for title, costs in (
        ("brokers that hold the same 1,000", report.holders),
        ("clients of 10 brokers that want the same 100", report.front_ends),
        ("channels of 8 kinds, 10,000 subscriptions", report.channels),
        ("naive: queries, one for each subscription", report.naive),
    ):
        table = bench_table(title, "CPU-s", "s", "results")
        for count, cost in costs.items():
            table.add_row(f"{count:,}", *_figures(cost))
        out.print()
        out.print(table)
    table = bench_table("publish to notification, events/s", "p50 s", "p99 s", "told", "busy cores")
    for delay in report.delays:
        busy = figure(sum(delay.busy_cores.values()))
        table.add_row(f"{delay.events_per_s:,}", figure(delay.p50_s), figure(delay.p99_s), f"{delay.told:,}", busy)
    out.print()
    out.print(table)
    out.print(
        f"\n[dim]{report.machine}. Medians of {report.rounds} rounds. To be reached: a million subscriptions in"
        f" {report.enough_cpu_s:g} CPU-s, half of the results within {report.enough_p50_s:g} s.[/dim]"
    )


def _figures(cost: Cost) -> tuple[str, str, str]:
    return figure(cost.cpu_s), figure(cost.seconds), f"{cost.results:,}"
