"""`tidewire bench slow`: one subscriber that does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tidewire.cli.bench_wire import Quick
from tidewire.cli.shell import AsJson, console, figure, report

if TYPE_CHECKING:
    from tidewire.benchmarks.slow import Report


def slow(quick: Quick = False, as_json: AsJson = False) -> None:
    """One subscriber reads nothing for a minute (5 s with --quick): what do the others notice?

    [bold]Example[/bold]

      tidewire bench slow --quick
    """
    from tidewire.benchmarks.slow import Plan, run

    report(lambda tell: run(Plan().shortened() if quick else Plan(), tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("", "alone", "beside the slow one", "more (95 %)"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    alone, beside = report.alone, report.beside_slow
    for label, one, other, ratio in (
        ("CPU µs per event", alone.cpu_us_per_event, beside.cpu_us_per_event, str(report.cpu)),
        ("p50 µs", alone.delay_us.p50, beside.delay_us.p50, str(report.delay_p50)),
        ("p99 µs", alone.delay_us.p99, beside.delay_us.p99, str(report.delay_p99)),
        ("memory, MB", alone.rss_mb, beside.rss_mb, ""),
        ("lost", alone.lost, beside.lost, ""),
    ):
        table.add_row(label, figure(one), figure(other), ratio)
    out.print(table)
    out.print(
        f"\n[dim]{report.subscribers} subscribers that read, {report.rate:,.0f} events/s, {report.seconds:g} s each;"
        f" {report.machine}.[/dim]"
    )
