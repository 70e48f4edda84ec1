"""`tidewire bench durable`: what is stored before it is acknowledged, beside the peers'."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tidewire.cli.bench_tables import bench_table
from tidewire.cli.bench_wire import Peers, Quick, listed
from tidewire.cli.environment import is_ci
from tidewire.cli.figures import short
from tidewire.cli.shell import AsJson, console, figure, report

if TYPE_CHECKING:
    from tidewire.benchmarks.durable import Figures, Report
    from tidewire.benchmarks.measure import Spread


def durable(
    peers: Peers = "nats,redis,mosquitto,rabbitmq",
    scenarios: Annotated[str, typer.Option(help="Which scenarios, with commas between.")] = (
        "publishers_1,publishers_10,publishers_100,in_flight_1,catch_up"
    ),
    folder: Annotated[
        Path | None,
        typer.Option(help="On the disk that is to be measured; else .cache/durable.", file_okay=False),
    ] = None,
    missed: Annotated[
        int | None, typer.Option(help="Events that a subscriber missed; else a million, with --quick 200,000.")
    ] = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Our log beside JetStream, Redis streams, mosquitto and RabbitMQ: acknowledged events/s, and how they are read.

    Every acknowledgement is counted, and everything that was acknowledged is read again: a wrong count ends the run.

    [bold]Examples[/bold]

      tidewire bench durable --quick --peers nats,redis

      tidewire bench durable --json > durable.json
    """
    import msgspec

    from tidewire.benchmarks.durable import Plan, run
    from tidewire.benchmarks.durable_peers import DurableBroker

    plan = Plan(peers=listed(peers), scenarios=listed(scenarios), needs_all_peers=is_ci())
    plan = plan.shortened() if quick else plan
    chosen = {"folder": folder, "missed_events": missed}
    plan = msgspec.structs.replace(plan, **{name: value for name, value in chosen.items() if value is not None})
    report(lambda tell: run(plan, tell=tell, ours=DurableBroker), _show, as_json=as_json)


def _show(report: Report) -> None:
    from tidewire.benchmarks.durable import CATCH_UP

    out = console()
    for scenario, servers in report.scenarios.items():
        _show_scenario(report, scenario, servers, out)
    for scenario, best in report.best_that_syncs.items():
        does = "reads" if scenario == CATCH_UP else "stores"
        out.print(f"{scenario}: ours {does} {best.events} the events of {best.peer}, the best that syncs.")
    promises = {one.promise: name for servers in report.scenarios.values() for name, one in servers.items()}
    for promise, name in promises.items():
        out.print(f"[bold]{name.partition(' ')[0]}[/bold]: {promise}")
    for name, why in report.missing.items():
        out.print(f"[yellow]{name} was not measured[/yellow]: {why}")
    for warning in report.warnings:
        out.print(f"[yellow]{warning}[/yellow]")
    disk = report.disk
    out.print(
        f"[dim]{report.machine}, {disk.file_system}: a write of {disk.written_bytes} bytes and its fdatasync take"
        f" {figure(disk.overwrite_p50.median)} µs (p99 {figure(disk.overwrite_p99.median)}), at the end of a file"
        f" {figure(disk.append_p50.median)} µs (p99 {figure(disk.append_p99.median)}). Medians of {report.rounds}"
        f" interleaved rounds; CPU of the server per event of {report.payload_bytes} bytes; p50 and p99 from sending to"
        f" acknowledgement; {report.missed_events:,} events were missed.[/dim]"
    )


def _show_scenario(report: Report, scenario: str, servers: dict[str, Figures], out: Console) -> None:
    table = bench_table(f"[bold]{scenario}[/bold]", "CPU µs", "events/s (95 %)", "p50 µs", "p99 µs", "ours: more")
    for name, figures in servers.items():
        ratio = report.ratios.get(scenario, {}).get(name)
        rate = figures.events_per_s
        table.add_row(
            name,
            figure(figures.cpu_us_per_event.median),
            f"{figure(rate.median)} ({short(rate.low)}–{short(rate.high)})",
            _median(figures.ack_p50_us),
            _median(figures.ack_p99_us),
            "" if ratio is None else str(ratio.events),
        )
    out.print(table, "")


def _median(spread: Spread | None) -> str:
    return "" if spread is None else short(spread.median)
