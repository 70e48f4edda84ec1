"""`tidewire bench`: the benchmarks, each beside its peers in the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tidewire.cli.bench_balance import balance, live_balance
from tidewire.cli.bench_burst import burst
from tidewire.cli.bench_calibrate import calibrate
from tidewire.cli.bench_catchup import catchup
from tidewire.cli.bench_channels import channels
from tidewire.cli.bench_connections import connections
from tidewire.cli.bench_cut import cut
from tidewire.cli.bench_durable import durable
from tidewire.cli.bench_filters import filters as bench_filters
from tidewire.cli.bench_ingest import ingest
from tidewire.cli.bench_overlay import overlay
from tidewire.cli.bench_secure import secure
from tidewire.cli.bench_slow import slow
from tidewire.cli.bench_store import store
from tidewire.cli.bench_wire import wire
from tidewire.cli.environment import DataFolder, data_folder
from tidewire.cli.shell import AsJson, choices, console, figure, report
from tidewire.matching.protocol import NUMBERS_MAX
from tidewire.model.errors import Unavailable

if TYPE_CHECKING:
    from tidewire.benchmarks.match import Report

bench = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Measure, beside peers in the same run.")

STOPPED_EARLY = 0.99
_OTHER_MODES = {"find_all": "every filter found", "all_ids": "every id named"}


@bench.callback()
def _benchmarks() -> None:
    """Measure, beside peers in the same run."""


bench.command()(wire)
bench.command("filters")(bench_filters)
bench.command()(overlay)
bench.command()(slow)
bench.command()(store)
bench.command()(durable)
bench.command()(catchup)
bench.command()(ingest)
bench.command()(channels)
bench.command()(secure)
bench.command()(connections)
bench.command()(calibrate)
bench.command()(balance)
bench.command("balance-live")(live_balance)
bench.command()(cut)
bench.command()(burst)


@bench.command()
def match(
    workload: Annotated[
        str,
        typer.Option(help="stock, ranges or selective.", autocompletion=choices("stock", "ranges", "selective")),
    ] = "stock",
    filters: Annotated[int, typer.Option(help="Subscriptions; identical ones share an entry.")] = 100_000,
    events: Annotated[int, typer.Option(help="Different events; more than fit a cache say more.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.", min=0)] = 1,
    data: DataFolder = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few and short turns: to look at, not to cite.")] = False,
    as_json: AsJson = False,
) -> None:
    """The matching index beside a numpy scan that holds the same distinct filters.

    [bold]Workloads[/bold]

      [bold]stock[/bold]      quotes of 100 symbols by Zipf's law; equalities with one bound

      [bold]ranges[/bold]     3 or 4 ranges over 8 attributes, no equality, 0.5 % match

      [bold]selective[/bold]  the stock filters over many symbols; about 10 match an event

    [bold]Examples[/bold]

      tidewire bench match --workload stock --filters 1000000

      tidewire bench match --workload ranges --json > ranges.json
    """
    try:
        from tidewire.benchmarks.match import Plan, run
    except ModuleNotFoundError as problem:
        if problem.name != "numpy":
            raise
        raise Unavailable("the benchmarks need numpy: pip install 'tidewire[bench]'") from problem
    plan = Plan(workload=workload, filters=filters, events=events, seed=seed, folder=data_folder(data))
    if quick:
        plan = plan.shortened()
    report(lambda tell: run(plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    found = report.matches_per_event
    out = console()
    out.print(
        f"[bold]{report.workload}[/bold]: {report.filters:,} filters, {report.distinct_filters:,} distinct;"
        f" {report.data} data, seed {report.seed}"
    )
    out.print(
        f"An event matches {figure(found.subscriptions)} subscriptions ({figure(found.filters)} distinct filters)"
        f" of {figure(found.destinations)} destinations.\n"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for name in ("tidewire", "numpy scan", "ratio (95 %)"):
        table.add_column(name, justify="right", no_wrap=True)
    _add_times(table, report)
    _add_rates(table, report)
    out.print(table)
    out.print(
        f"\n[dim]{report.machine}. Medians of {report.pairs} interleaved pairs; the ratio says how many times less"
        f" CPU tidewire takes. Both found the same filters for {report.events_checked} events.[/dim]"
    )
    few = report.filters_found_per_event["deliver"]
    if few < STOPPED_EARLY * found.filters:
        out.print(
            f"[dim]Asked as by a broker, it stops once every destination has more than {NUMBERS_MAX} matches:"
            f" here after {figure(few)} of {figure(found.filters)} filters. 'Every match counted' goes on, as numpy"
            " does.[/dim]"
        )


def _add_times(table: Table, report: Report) -> None:
    ours, theirs = report.tidewire, report.numpy
    table.add_row(
        "[bold]CPU µs per event[/bold]",
        f"[bold]{figure(ours.us_per_event)}[/bold]",
        figure(theirs.us_per_event),
        f"[bold green]{report.ratio}[/bold green]",
    )
    for mode, label in _OTHER_MODES.items():
        if mode in ours.modes:
            table.add_row(f"  {label}", figure(ours.modes[mode].us_per_event), "", str(report.ratios[mode]))
    if report.numpy_by_shape is not None:
        against = str(report.ratios["deliver_against_numpy_by_shape"])
        table.add_row("  numpy sorted by shape", "", figure(report.numpy_by_shape.us_per_event), against)
    if ours.us_per_event_after_churn is not None and theirs.us_per_event_after_churn is not None:
        after = ours.us_per_event_after_churn, theirs.us_per_event_after_churn
        table.add_row("  after 10 % churn", *map(figure, after))


def _add_rates(table: Table, report: Report) -> None:
    ours, theirs = report.tidewire, report.numpy
    for label, one, other in (
        ("wall µs per event", ours.us_per_event_wall, theirs.us_per_event_wall),
        ("events/s of one core", ours.events_per_s, theirs.events_per_s),
        ("bytes per distinct filter", ours.bytes_per_filter, theirs.bytes_per_filter),
        ("inserts/s", ours.inserts_per_s, theirs.inserts_per_s),
        ("removes/s, random order", ours.removes_per_s, theirs.removes_per_s),
    ):
        table.add_row(label, figure(one), figure(other))
    if ours.with_poset is not None:
        table.add_row("inserts/s, poset kept", figure(ours.with_poset.inserts_per_s))
        table.add_row("removes/s, poset kept", figure(ours.with_poset.removes_per_s))
