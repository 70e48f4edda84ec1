"""`tidewire bench wire`: our broker on real sockets beside the peers'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidewire.cli.bench_tables import servers_table
from tidewire.cli.environment import is_ci
from tidewire.cli.shell import AsJson, console, report

if TYPE_CHECKING:
    from tidewire.benchmarks.wire import Report

Quick = Annotated[bool, typer.Option("--quick", help="Few and short turns: to look at, not to cite.")]
Peers = Annotated[str, typer.Option(help="Which peers, with commas between; none: ours alone.")]


def listed(names: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in names.split(",") if name.strip() and name.strip() != "none"]


def wire(
    peers: Peers = "nats,redis,mosquitto,rabbitmq,activemq",
    scenarios: Annotated[str, typer.Option(help="Which scenarios, with commas between.")] = (
        "one_to_one,fan_out_100,two_hops,paced_1000,paced_20000"
    ),
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """A live broker beside other brokers: the same events of 200 bytes, the same client.

    Ours filters by content; the others by topic.

    [bold]Examples[/bold]

      tidewire bench wire --quick --peers nats,redis

      tidewire bench wire --scenarios one_to_one,two_hops --json > wire.json
    """
    from tidewire.benchmarks.wire import Plan, run

    plan = Plan(peers=listed(peers), scenarios=listed(scenarios), needs_all_peers=is_ci())
    if quick:
        plan = plan.shortened()
    report(lambda tell: run(plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    for scenario, servers in report.scenarios.items():
        out.print(servers_table(f"[bold]{scenario}[/bold]", servers, report.ratios.get(scenario, {})), "")
    for peer, ratio in report.two_hops_against_one.items():
        out.print(f"Our two hops beside one hop of {peer}: {ratio.cpu} less CPU.")
    for name, why in report.missing.items():
        out.print(f"[yellow]{name} was not measured[/yellow]: {why}")
    out.print(
        f"[dim]{report.machine}. Medians of {report.rounds} interleaved rounds; CPU of the server per delivery of an"
        f" event of {report.payload_bytes} bytes.[/dim]"
    )
