"""`tidewire bench cut`: a cable is cut; does the most valuable keep its deadline?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tidewire.cli.shell import VIOLATION_EXIT, AsJson, console, print_json, progress

if TYPE_CHECKING:
    from tidewire.benchmarks.cut import Report, RunResult
    from tidewire.benchmarks.progress import Tell


def cut(
    live: Annotated[bool, typer.Option("--live", help="Broker processes over shaped links, in real time.")] = False,
    seconds: Annotated[float | None, typer.Option(min=5, max=86_400, help="For which the cable is cut: 300.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A minute of it: to look at, not to cite.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="All chance of the simulator comes from it.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Links that carry a third of what is published: with FDCC the least valuable gives way, without it all wait.

    Exit code 3 if the most valuable class does not keep its deadline with FDCC, does so without it, or if limits are
    not lifted in time when the links carry everything again.

    [bold]Examples[/bold]

      tidewire bench cut --quick

      tidewire bench cut --live --json
    """
    import msgspec

    from tidewire.benchmarks.cut import Plan

    usual = Plan(seed=seed)
    plan = usual.shortened() if quick else usual
    plan = plan if seconds is None else msgspec.structs.replace(plan, cut_s=seconds)
    with progress() as tell:
        found = _run(plan, is_live=live, tell=tell)
    if as_json:
        print_json(found)
    else:
        _show(found)
    if not found.holds:
        raise typer.Exit(VIOLATION_EXIT)


def _run(plan: object, *, is_live: bool, tell: Tell) -> Report:
    from tidewire.benchmarks.cut import Plan, report
    from tidewire.benchmarks.cut_live import CutScene
    from tidewire.benchmarks.cut_simulated import CutWorld

    assert isinstance(plan, Plan)
    runs: list[RunResult] = [
        CutScene(plan, is_on=is_on, tell=tell).run() if is_live else CutWorld(plan, is_on=is_on, tell=tell).run()
        for is_on in (True, False)
    ]
    return report(plan, "live" if is_live else "simulated", *runs)


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _show(found: Report) -> None:
    out = console()
    out.print(
        f"{found.offered_msgs_s:.0f} events a second, where {found.capacity_msgs_s:.0f} pass ({found.how}), for"
        f" {found.plan.cut_s:.0f} s. Delays in seconds, of what was sent while the cable was cut."
    )
    for run in (found.with_fdcc, found.without_fdcc):
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for name in (
            "class",
            "worth",
            "offered",
            "held back",
            "delivered",
            "p50",
            "p99",
            "settled",
            "deadline",
            "late",
        ):
            table.add_column(name, justify="left" if name == "class" else "right")
        for name, one in run.classes.items():
            table.add_row(
                name,
                f"{one.utility:.2f}",
                f"{one.offered:,}",
                f"{one.held_back:,}",
                f"{one.delivered:,}",
                _seconds(one.p50_s),
                _seconds(one.p99_s),
                _seconds(one.p99_settled_s),
                f"{one.delay_s:.0f}",
                f"{one.late:,}",
            )
        out.print(f"\n[bold]{'With' if run.is_on else 'Without'} FDCC[/bold]")
        out.print(table)
    on = found.with_fdcc
    out.print(
        f"\nFirst limit {_seconds(on.limited_after_s)} s after the cut, the last lifted {_seconds(on.lifted_after_s)} s"
        f" after it was mended (at most {found.lifted_within_s:.0f}). Feedback {on.feedback_msgs_s:.1f} messages a"
        f" second; {100 * on.control_share:.1f} % of all messages are about shortage."
    )
