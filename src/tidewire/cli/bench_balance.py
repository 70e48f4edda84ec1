"""`tidewire bench balance`: how well, how fast and at what cost load is balanced."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from tidewire.cli.bench_wire import listed
from tidewire.cli.shell import VIOLATION_EXIT, AsJson, console, figure, print_json, progress, report
from tidewire.model.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from tidewire.benchmarks.balance import Report
    from tidewire.benchmarks.balance_live import Result


def balance(
    parts: Annotated[
        str, typer.Option(help="networks, decisions, or both with a comma between.")
    ] = "networks,decisions",
    subscribers: Annotated[
        list[int] | None, typer.Option(min=10, max=1_000_000, help="2,000, 20,000 and 100,000; can be repeated.")
    ] = None,
    edges: Annotated[list[int] | None, typer.Option(min=2, max=64, help="2, 4 and 16; can be repeated.")] = None,
    decision: Annotated[
        int | None, typer.Option(min=100, max=1_000_000, help="Subscriptions in the decisions: 100,000.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small grid: to look at, not to cite.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="All chance comes from it.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Balancing in the simulator: how long it takes, who moves, what it costs, and what one decision takes.

    The whole grid takes long; each network is told when it ends.

    [bold]Examples[/bold]

      tidewire bench balance --quick

      tidewire bench balance --subscribers 2000 --edges 2 --edges 16 --json
    """
    from tidewire.benchmarks.balance import Plan, run

    usual = Plan(seed=seed, parts=listed(parts)).shortened() if quick else Plan(seed=seed, parts=listed(parts))
    plan = msgspec.structs.replace(
        usual,
        subscribers=tuple(subscribers or usual.subscribers),
        edges=tuple(edges or usual.edges),
        decision=decision or usual.decision,
    )
    report(lambda tell: run(plan, tell=tell), _show_simulated, as_json=as_json)


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, justify="left" if name in ("edge", "clients want") else "right")
    return table


def _show_simulated(found: Report) -> None:
    table = _table("subscribers", "edges", "s", "spread", "sessions", "moved", "messages", "error", "CPU s")
    for one in found.runs:
        table.add_row(
            f"{one.subscribers:,}",
            str(one.edges),
            "–" if one.converged_s is None else f"{one.converged_s:.0f}",
            f"{one.spread:.2f}",
            str(one.sessions),
            f"{one.moved:,}",
            f"{100 * one.overhead:.1f} %",
            "–" if one.estimation_error is None else f"{one.estimation_error:.3f}",
            figure(one.cpu_s),
        )
    out = console()
    if found.runs:
        out.print(table)
        out.print()
    if found.decisions:
        _show_decisions(found, out)
    out.print(f"[dim]{found.machine}.[/dim]")


def _show_decisions(found: Report, out: Console) -> None:
    out.print("PRESS and one decision, seconds of CPU: median (95 %)")
    decisions = _table("clients want", "subscriptions", "PRESS", "input", "match", "output", "PRESS and the longest")
    for case in found.decisions:
        decisions.add_row(
            case.workload + (", overloaded" if case.is_overloaded else ""),
            f"{case.subscriptions:,}",
            *(f"{one.median:.2f}" for one in (case.press_s, *case.decisions_s.values())),
            f"{case.session_s.median:.2f} ({case.session_s.low:.2f}–{case.session_s.high:.2f})",
        )
    out.print(decisions)


def live_balance(
    subscribers: Annotated[int, typer.Option(min=10, max=5000, help="All of them come to the weakest edge.")] = 2000,
    kill: Annotated[bool, typer.Option("--kill", help="Kill an edge in the middle of a session.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="300 subscribers: to look at, not to cite.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Who wants what follows from it.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the plot of loads there, as SVG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Balancing with real brokers: one head and four edges, of unequal capacities that are enforced.

    Capacities follow from what events cost on this machine: that is measured first, for a minute.

    All subscribers come to the weakest edge, and check every event that they get. Exit code 3 if one was lost or
    doubled, or if the loads do not come within the thresholds of each other.

    [bold]Examples[/bold]

      tidewire bench balance-live --quick

      tidewire bench balance-live --kill --json
    """
    from tidewire.benchmarks.balance_live import run
    from tidewire.benchmarks.balance_scene import Plan

    if out is not None and not out.is_dir():
        raise UsageError(f"--out {out}: there is no such folder")
    plan = Plan(subscribers=subscribers, kills=kill, seed=seed)
    with progress() as tell:
        result = run(plan.shortened() if quick else plan, tell=tell)
    if as_json:
        print_json(result)
    else:
        _show(result)
    if out is not None:
        _draw(result, out)
    if result.lost or result.repeated or result.unserved or result.balanced_after_s is None:
        raise typer.Exit(VIOLATION_EXIT)


def _show(result: Result) -> None:
    table = _table("edge", "subscribers", "input", "output", "CPU", "delay, ms")
    for name, load in result.edges.items():
        ratios = (f"{load.get(ratio, 0.0):.2f}" for ratio in ("input", "output", "cpu"))
        table.add_row(name, f"{load['subscribers']:.0f}", *ratios, figure(1e3 * load.get("delay_s", 0.0)))
    out = console()
    out.print(table)
    within = "not in time" if result.balanced_after_s is None else f"after {result.balanced_after_s:.0f} s"
    out.print(
        f"\n{result.subscribers:,} subscribers, {result.published:,} events published, {result.received:,} received:"
        f" {result.lost} lost, {result.repeated} twice or out of order."
        f" All had joined after {result.joined_s:.0f} s. Balanced {within}, {result.sessions} sessions,"
        f" {result.moves:,} moves."
    )
    if result.needed:
        weakest = next(iter(result.capacities.values()))
        out.print(
            f"[dim]Without limits the edges used {result.needed['cpu_share']:.4f} of a core and"
            f" {result.needed['output_bytes_s'] / 1e6:.2f} MB/s; the weakest may use {weakest['cpu_share']:.4f} and"
            f" {weakest['output_bytes_s'] / 1e6:.2f} MB/s, {result.needed['cpu_share_of_none']:.4f} of it for events"
            " whoever wants them.[/dim]"
        )
    if result.killed is not None:
        out.print(
            f"{result.killed} was killed: it took {result.lost_by_death:,} events from the {result.hit:,} that it"
            f" served; {result.unserved} are served by nobody."
        )


def _draw(result: Result, out: Path) -> None:
    from tidewire.papers.figures import svg
    from tidewire.papers.report import Figure, Series

    suffix = "" if result.killed is None else "-kill"
    titles = {"input": "Input utilisation", "output": "Output utilisation", "subscribers": "Subscribers"}
    for index, title in titles.items():
        series = [
            Series(name=name, x=[one.at_s for one in samples], y=[float(getattr(one, index)) for one in samples])
            for name, samples in result.series.items()
        ]
        drawn = Figure(
            name=f"balance-live-{index}{suffix}",
            title=f"{title} of the edges, real brokers",
            x_label="s",
            y_label="" if index == "subscribers" else "ratio",
            series=series,
        )
        (out / f"{drawn.name}.svg").write_text(svg(drawn), encoding="utf-8")
