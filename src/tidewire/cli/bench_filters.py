"""`tidewire bench filters`: one live broker with up to a million filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tidewire.cli.bench_wire import Peers, Quick, listed
from tidewire.cli.environment import DataFolder, data_folder, is_ci
from tidewire.cli.shell import AsJson, console, figure, report
from tidewire.model.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from tidewire.benchmarks.filters import Report


def filters(
    workload: Annotated[str, typer.Option(help="selective or stock.")] = "selective",
    sizes: Annotated[str, typer.Option(help="How many filters, with commas between.")] = "1000,10000,100000,1000000",
    peers: Peers = "rabbitmq,activemq",
    data: DataFolder = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """A live broker with many filters over 100 connections, beside the brokers that can filter.

    [bold]Examples[/bold]

      tidewire bench filters --sizes 1000,10000 --quick

      tidewire bench filters --workload stock --peers none --json > filters.json
    """
    try:
        from tidewire.benchmarks.filters import Plan, run
    except ModuleNotFoundError as problem:
        if problem.name != "numpy":
            raise
        raise Unavailable("the benchmarks need numpy: pip install 'tidewire[bench]'") from problem
    if workload not in ("selective", "stock"):
        raise UsageError(f"--workload {workload}: it is selective or stock")
    if not all(size.isascii() and size.isdigit() and int(size) >= 100 for size in listed(sizes)):
        raise UsageError(f"--sizes {sizes}: numbers from 100 on, with commas between")
    plan = Plan(
        workload=workload,
        sizes=[int(size) for size in listed(sizes)],
        peers=listed(peers),
        folder=data_folder(data),
        needs_all_peers=is_ci(),
    )
    report(lambda tell: run(plan.shortened() if quick else plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("filters", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name in ("CPU µs/event", "events/s", "ours: less CPU (95 %)", "filters/s taken"):
        table.add_column(name, justify="right", no_wrap=True)
    for size in report.sizes:
        for name, figures in size.servers.items():
            ratio = size.cpu_ratios.get(name)
            table.add_row(
                f"{size.filters:,}" if name == "tidewire" else "",
                name,
                figure(figures.cpu_us_per_event),
                figure(figures.events_per_s),
                "" if ratio is None else str(ratio),
                figure(size.subscribing.filters_per_s) if name == "tidewire" else "",
            )
    out.print(table)
    for size in report.sizes:
        for name, why in size.missing.items():
            out.print(f"[yellow]{name} with {size.filters:,} filters[/yellow]: {why}")
    out.print(
        f"\n[dim]{report.workload}, {report.data} data, {report.machine}. Medians of {report.rounds} interleaved"
        f" rounds; {report.subscribers} subscribers. The peers compare class and symbol only.[/dim]"
    )
