"""`tidewire bench secure`: what TLS and permissions cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidewire.cli.bench_tables import servers_table
from tidewire.cli.bench_wire import Peers, Quick, listed
from tidewire.cli.environment import DataFolder, data_folder, is_ci
from tidewire.cli.shell import AsJson, console, figure, report
from tidewire.model.errors import Unavailable

if TYPE_CHECKING:
    from rich.console import Console

    from tidewire.benchmarks.secure import Permissions, Report, Tls


def secure(
    parts: Annotated[str, typer.Option(help="tls, permissions, or both with a comma between.")] = "tls,permissions",
    peers: Peers = "nats,redis",
    data: DataFolder = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """A broker with TLS beside NATS and Redis with TLS, and one with permissions beside one without.

    [bold]Examples[/bold]

      tidewire bench secure --quick --parts tls

      tidewire bench secure --json > secure.json
    """
    try:
        from tidewire.benchmarks.secure import Plan, run
    except ModuleNotFoundError as problem:
        if problem.name != "numpy":
            raise
        raise Unavailable("the benchmarks need numpy: pip install 'tidewire[bench]'") from problem
    plan = Plan(parts=listed(parts), peers=listed(peers), folder=data_folder(data), needs_all_peers=is_ci())
    report(lambda tell: run(plan.shortened() if quick else plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    if report.tls is not None:
        _show_tls(report.tls, out)
    for name, why in report.missing.items():
        out.print(f"[yellow]{name} was not measured[/yellow]: {why}")
    if report.permissions is not None:
        _show_permissions(report.permissions, out)
    out.print(f"[dim]{report.machine}. Medians of interleaved rounds; CPU of the server.[/dim]")


def _show_tls(tls: Tls, out: Console) -> None:
    for scenario, servers in tls.scenarios.items():
        out.print(servers_table(f"[bold]{scenario}[/bold], TLS", servers, tls.ratios[scenario]))
        out.print(f"TLS costs ours {tls.cpu_over_plain[scenario]} the CPU of plain.")
        if share := tls.cpu_share_of_better.get(scenario):
            out.print(f"Ours is {share} of the better peer; the target is at most {tls.share_max:g}.\n")


def _show_permissions(permissions: Permissions, out: Console) -> None:
    on, off = permissions.on.cpu_us_per_event, permissions.off.cpu_us_per_event
    out.print(
        f"[bold]permissions[/bold], {permissions.filters:,} filters: {figure(on)} µs per event, without"
        f" {figure(off)} µs; {permissions.cpu}, the target is at most {permissions.cpu_max:g}."
    )
    engine = permissions.engine
    shown = [f"to {case} {ratio}" if case != "both" else f"both {ratio}" for case, ratio in engine.ratios.items()]
    none = figure(engine.timings["none"].us_per_event)
    out.print(f"In the engine alone, over {none} µs per event without permissions: {', '.join(shown)}.\n")
