"""`tidewire bench connections`: very many connections at one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidewire.cli.bench_tables import beside_table
from tidewire.cli.bench_wire import Quick
from tidewire.cli.shell import AsJson, console, figure, report

if TYPE_CHECKING:
    from tidewire.benchmarks.connections import Report


def connections(
    connections: Annotated[int, typer.Option(help="How many say nothing.", min=1)] = 10_000,
    attackers: Annotated[int, typer.Option(help="How many send a byte a second and never greet.", min=1)] = 2_000,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Very many connections that say nothing: what they cost, what others notice; and an attack by slow ones.

    [bold]Examples[/bold]

      tidewire bench connections --quick

      tidewire bench connections --connections 5000 --json > connections.json
    """
    from tidewire.benchmarks.connections import Plan, run

    plan = Plan(connections=connections, attackers=attackers)
    report(lambda tell: run(plan.shortened() if quick else plan, tell=tell), _show, as_json=as_json)


def _show(report: Report) -> None:
    out = console()
    crowd, attack = report.crowd, report.attack
    out.print(
        f"[bold]{crowd.connections:,} connections[/bold]: {figure(crowd.connects_per_s)} connects/s,"
        f" {figure(crowd.connect_cpu_us)} µs and {figure(crowd.memory_bytes)} bytes of the broker for each;"
        f" idle they take {crowd.idle_cpu:.1%} of a core (target: at most {crowd.idle_cpu_max:.0%}),"
        f" {crowd.ended:,} were ended.\n"
    )
    ratios = (report.cpu, report.delay_p50, report.delay_p99)
    out.print(beside_table("the crowd", report.alone, report.beside_crowd, ratios))
    out.print(
        f"\n[bold]{attack.attackers:,} attackers[/bold], ended {attack.ended:,} times. Newcomers are served within"
    )
    for label, serving in (("without them", attack.before), ("beside them", attack.during)):
        out.print(
            f"  {label:12}  p50 {figure(serving.p50_ms)} ms, p99 {figure(serving.p99_ms)} ms,"
            f" at most {figure(serving.max_ms)} ms; the broker takes {serving.cpu:.0%} of a core"
        )
    out.print(
        f"\n[dim]{report.subscribers} other subscribers, {report.rate:,.0f} events/s, {report.rounds} interleaved"
        f" rounds; {report.machine}.[/dim]"
    )
