"""`tidewire bench burst`: who misses deadlines when some classes burst?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from tidewire.cli.bench_wire import listed
from tidewire.cli.shell import VIOLATION_EXIT, AsJson, console, print_json, progress

if TYPE_CHECKING:
    from tidewire.benchmarks.burst import Report


def burst(
    policies: Annotated[
        str, typer.Option(help="never, peer, drd, peer-drd, peer-lb; several with commas between.")
    ] = "peer,drd",
    seeds: Annotated[int | None, typer.Option(min=1, max=100_000, help="Stories: 100; with --live 1.")] = None,
    first_seed: Annotated[int, typer.Option(min=0, help="The first story.")] = 0,
    live: Annotated[bool, typer.Option("--live", help="Real brokers, whose output is bounded.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="3 stories: to look at, not to cite.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bursts of some classes, under one policy of balancing and another: deadlines that are missed.

    An event is late if it comes later than its class allows. Exit code 3 if drd does not miss at least ten times fewer
    than peer among the tenth of the classes that can wait least, or misses more in one of the stories.

    [bold]Examples[/bold]

      tidewire bench burst --quick

      tidewire bench burst --policies never,peer,drd,peer-lb --seeds 20 --json

      tidewire bench burst --live
    """
    from tidewire.benchmarks import burst, burst_live

    plan = burst.Plan(policies=listed(policies), first_seed=first_seed)
    plan = msgspec.structs.replace(plan, seeds=seeds or (1 if live else 3 if quick else plan.seeds))
    with progress() as tell:
        found = burst_live.run(plan, tell=tell) if live else burst.run(plan, tell=tell)
    if as_json:
        print_json(found)
    else:
        _show(found)
    if found.holds is False:
        raise typer.Exit(VIOLATION_EXIT)


def _show(found: Report) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("policy", "tightest tenth", "late", "all", "late", "sessions", "clients moved"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    for policy, outcomes in found.outcomes.items():
        table.add_row(
            policy,
            f"{sum(one.tight_deliveries for one in outcomes):,}",
            f"{found.tight_misses[policy]:,}",
            f"{found.deliveries[policy]:,}",
            f"{found.misses[policy]:,}",
            f"{sum(one.sessions for one in outcomes):,}",
            f"{sum(one.moved for one in outcomes):,}",
        )
    out = console()
    out.print(table)
    if found.ratio is not None:
        worse = f"more in {len(found.worse)} of {found.seeds} stories" if found.worse else "more in no story"
        out.print(f"\nAmong the tightest tenth drd misses {found.ratio:,.0f} times fewer than peer, {worse}.")
    out.print(f"[dim]{found.machine}.[/dim]")
