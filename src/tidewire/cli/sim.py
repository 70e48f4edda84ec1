"""`tidewire sim`: random networks, workloads and faults in virtual time, and what must never happen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.markup import escape

from tidewire.cli.seeds import seed_range
from tidewire.cli.shell import VIOLATION_EXIT, AsJson, choices, console, print_json, progress
from tidewire.model.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from tidewire.simulator.random_runs import Outcome, Summary

SECONDS_MAX: Final = 1e7
"""Some months: what is beyond is a mistake."""
Seconds = Annotated[
    float,
    typer.Option(min=1, max=SECONDS_MAX, help="How long the large network or the workload runs, in its own time."),
]
Calm = Annotated[
    bool, typer.Option("--calm", help="Random runs without drains, slow readers, crashing clients, coordinators.")
]
Balance = Annotated[
    bool, typer.Option("--balance", help="Random runs in which brokers share their load, and die meanwhile.")
]
Policy = Annotated[
    str,
    typer.Option(
        help="With --balance, who decides who moves: peer, drd, peer-drd or peer-lb.",
        autocompletion=choices("peer", "drd", "peer-drd", "peer-lb"),
    ),
]

Channels = Annotated[
    bool, typer.Option("--channels", help="Random runs with a data cluster, whose channels clients hear of.")
]

Brokers = Annotated[int | None, typer.Option(min=1, help="One large network of so many brokers, instead of seeds.")]


def sim(
    scenarios: Annotated[
        list[Path] | None, typer.Argument(metavar="[SCENARIO...]", help="Text scenarios; instead of seeds.")
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="A..B", help="Random runs from seed A to seed B.")] = "0..19",
    engine: Annotated[
        str,
        typer.Option(
            help="reference (plain Python), kernel (C++) or fluid (equal events at once).",
            autocompletion=choices("reference", "kernel", "fluid"),
        ),
    ] = "reference",
    calm: Calm = False,
    balance: Balance = False,
    policy: Policy = "peer",
    channels: Channels = False,
    brokers: Brokers = None,
    workload: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Play a workload file of the PEER thesis, instead of seeds.")
    ] = None,
    seconds: Seconds = 60.0,
    as_json: AsJson = False,
) -> None:
    """Run random topologies, workloads and faults in virtual time, and check that nothing is lost, doubled or late.

    The brokers and sessions are those that run live. A violation is shown with the command that repeats it. Exit code 3
    if there is one. With --brokers, one large network without faults, and what it took to simulate. With --workload,
    what each broker had to do.

    [bold]Examples[/bold]

      tidewire sim --seeds 4711..4711 --engine kernel

      tidewire sim --seeds 0..99 --balance --policy drd

      tidewire sim tests/scenarios/covering.txt

      tidewire sim --brokers 1000 --seconds 60

      tidewire sim --workload market.txt --seconds 120 --engine fluid
    """
    if scenarios:
        failed = _play(scenarios, engine=engine, as_json=as_json)
    elif workload is not None:
        failed = _play_workload(workload, seconds, engine=engine, as_json=as_json)
    elif brokers is not None:
        failed = _run_large(brokers, seconds, engine=engine, as_json=as_json)
    elif channels:
        failed = _run_channels(seed_range(seeds), as_json=as_json)
    else:
        by = _policy(policy) if balance else None
        summary = _run(seed_range(seeds), engine=engine, is_calm=calm, policy=by)
        if as_json:
            print_json(summary)
        else:
            _show(summary)
        failed = bool(summary.violations)
    if failed:
        raise typer.Exit(VIOLATION_EXIT)


def _policy(name: str) -> str:
    from tidewire.broker.balancing import POLICIES

    if name == "never" or name not in POLICIES:
        raise UnknownName(name, what="balancing", known=[one for one in POLICIES if one != "never"])
    return name


def _run_channels(seeds: range, *, as_json: bool) -> bool:
    from tidewire.simulator.channel_runs import run_channel_seeds

    with progress() as tell:
        tell(f"running seeds {seeds[0]}..{seeds[-1]}")
        summary = run_channel_seeds(seeds[0], seeds[-1])
    if as_json:
        print_json(summary)
        return bool(summary.violations)
    console().print(
        f"[bold]{summary.runs:,} runs[/bold]: {summary.results:,} results, {summary.notifications:,} notifications;"
        f" {summary.moves:,} moves, {summary.faults:,} faults"
    )
    _show_violations([f"seed {one['seed']} {one['what']}: {one['replay']}" for one in summary.violations])
    return bool(summary.violations)


def _run_large(brokers: int, seconds: float, *, engine: str, as_json: bool) -> bool:
    from tidewire.benchmarks.large import Plan, run

    with progress() as tell:
        made = run(Plan(brokers=brokers, seconds=seconds, engine=engine), tell=tell)
    if as_json:
        print_json(made)
        return bool(made.violations)
    out = console()
    out.print(
        f"[bold]{made.brokers:,} brokers for {made.simulated_s:g} s[/bold]: {made.links:,} links,"
        f" {made.clients:,} clients,"
        f" {made.trees:,} source trees; {made.events:,} events, {made.deliveries:,} deliveries"
    )
    out.print(
        f"{made.cpu_s:,.1f} CPU s, {made.cpu_check_s:,.1f} more to check; at most {made.peak_rss_mb:,.0f} MB;"
        f" {made.steps:,} steps, {made.bytes_carried / 1e6:,.1f} MB carried; engine {made.engine}"
    )
    _show_violations(made.violations)
    return bool(made.violations)


def _play_workload(file: Path, seconds: float, *, engine: str, as_json: bool) -> bool:
    from rich.table import Table

    from tidewire.simulator.play import play_workload

    text = _read(file)
    with progress() as tell:
        made = play_workload(
            text, seconds=seconds, engine=engine, on_second=lambda now_s: tell("playing", int(now_s), int(seconds))
        )
    if as_json:
        print_json(made)
        return bool(made.violations)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("broker", "role", "filters", "events", "delivered", "forwarded", "CPU", "output"):
        table.add_column(name, justify="left" if name in ("broker", "role") else "right", no_wrap=True)
    for one in made.brokers:
        output = "–" if one.output_busy is None else f"{one.output_busy:.1%}"
        counts = (one.subscriptions, one.events, one.deliveries, one.forwards)
        table.add_row(escape(one.broker), one.role, *(f"{n:,}" for n in counts), f"{one.cpu_busy:.1%}", output)
    out = console()
    out.print(table)
    out.print(
        f"\n[bold]{made.simulated_s:g} s[/bold]: {made.events:,} events, {made.deliveries:,} deliveries to"
        f" {len(made.received):,} subscribers; engine {made.engine}"
    )
    _show_violations(made.violations)
    return bool(made.violations)


def _show_violations(violations: list[str]) -> None:
    if not violations:
        console().print("[green]no violation[/green]")
    for what in violations:
        console().print(f"[red]{escape(what)}[/red]")


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is no text'}") from None


def _run(seeds: range, *, engine: str, is_calm: bool, policy: str | None) -> Summary:
    from tidewire.simulator.random_runs import run_seeds

    first, last = seeds[0], seeds[-1]
    with progress() as tell:
        done = violations = 0

        def on_progress(outcome: Outcome) -> None:
            nonlocal done, violations
            done += 1
            violations += len(outcome.violations)
            told = f", {violations} violations" if violations else ""
            tell(f"running seeds {first}..{last}{told}", done, last - first + 1)

        return run_seeds(
            first,
            last,
            engine=engine,
            is_calm=is_calm,
            is_balanced=policy is not None,
            policy=policy or "peer",
            on_progress=on_progress,
        )


def _show(summary: Summary) -> None:
    out = console()
    out.print(
        f"[bold]{summary.runs:,} runs[/bold]: {summary.publications:,} events, {summary.deliveries:,} deliveries;"
        f" {summary.moves:,} moves, {summary.faults:,} faults"
    )
    if not summary.violations:
        out.print("[green]no violation[/green]")
    for violation in summary.violations:
        out.print(f"[red]seed {violation['seed']}[/red] {escape(str(violation['what']))}")
        out.print(f"  [bold]{escape(str(violation['replay']))}[/bold]")


def _play(files: list[Path], *, engine: str, as_json: bool) -> bool:
    from tidewire.simulator.scenario import Scenario

    found: list[dict[str, object]] = [
        {"scenario": str(file), "violations": Scenario(_read(file), engine=engine).play()} for file in files
    ]
    if as_json:
        print_json(found)
    else:
        for one in found:
            wrong = one["violations"]
            assert isinstance(wrong, list)
            verdict = f"[red]{escape('; '.join(wrong))}[/red]" if wrong else "[green]holds[/green]"
            console().print(f"{escape(str(one['scenario']))}: {verdict}")
    return any(one["violations"] for one in found)
