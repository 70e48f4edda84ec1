"""`tidewire bench slow`: one subscriber that does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidewire.cli.bench_tables import beside_table
from tidewire.cli.bench_wire import Quick
from tidewire.cli.shell import AsJson, console, report

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
    alone, beside = report.alone, report.beside_slow
    memory = ("memory, MB", alone.rss_mb, beside.rss_mb)
    out.print(beside_table("the slow one", alone, beside, (report.cpu, report.delay_p50, report.delay_p99), [memory]))
    out.print(
        f"\n[dim]{report.subscribers} subscribers that read, {report.rate:,.0f} events/s, {report.seconds:g} s each;"
        f" {report.machine}.[/dim]"
    )
