"""`tidewire bench overlay`: networks of live brokers, with covering and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tidewire.cli.bench_wire import Quick, listed
from tidewire.cli.shell import AsJson, console, figure, report
from tidewire.model.errors import UsageError

if TYPE_CHECKING:
    from tidewire.benchmarks.overlay import Report


def overlay(
    sizes: Annotated[str, typer.Option(help="How many brokers, with commas between.")] = "1,2,4,8",
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Chains and trees of live brokers, each a process: events/s, delay, CPU, and what covering saves.

    [bold]Example[/bold]

      tidewire bench overlay --sizes 1,2,4 --quick
    """
    from tidewire.benchmarks.overlay import Plan, run

    if not all(size.isascii() and size.isdigit() and 1 <= int(size) <= 32 for size in listed(sizes)):
        raise UsageError(f"--sizes {sizes}: numbers from 1 to 32, with commas between")
    plan = Plan(sizes=[int(size) for size in listed(sizes)])
    report(lambda tell: run(plan.shortened() if quick else plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for name in ("covering", "events/s", "CPU µs", "p50 µs", "p99 µs", "routes", "link bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in report.networks:
        table.add_row(
            f"{one.shape} of {one.brokers}",
            "on" if one.covering else "off",
            figure(one.events_per_s),
            figure(one.cpu_us_per_delivery),
            figure(one.delay_us.p50),
            figure(one.delay_us.p99),
            f"{one.routes:,}",
            f"{one.link_bytes_before_events:,}",
        )
    out = console()
    out.print(table)
    out.print(
        f"\n[dim]{report.machine}. {report.filters_per_subscriber:,} filters of each subscriber, one covers the"
        " others. CPU of all brokers per delivery; delays at 1,000 events/s; bytes between brokers until all was"
        " subscribed.[/dim]"
    )
