"""`tidewire demo`: a real network on this machine, people who want different things, and a broker emptied meanwhile."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidewire.benchmarks.data import load_quakes, load_quotes
from tidewire.benchmarks.scene import interests, stream
from tidewire.cli.demo_matcher import headline, matcher
from tidewire.cli.demo_network import Network, Outcome, Scene
from tidewire.cli.environment import DataFolder, data_folder
from tidewire.cli.shell import AsJson, console, print_json, progress

demo = typer.Typer(rich_markup_mode="rich")
demo.command()(matcher)

PEOPLE: Final = 40
_SHOWN: Final = 6


@demo.callback(invoke_without_command=True)
def network(
    context: typer.Context,
    data: DataFolder = None,
    seconds: Annotated[float, typer.Option(help="How long events flow.", min=2, max=600)] = 12.0,
    rate: Annotated[float, typer.Option(help="Events per second.", min=1, max=5000)] = 300.0,
    as_json: AsJson = False,
) -> None:
    """See it work: a head and two edge brokers, 40 people with 200 subscriptions, earthquakes among stock quotes.

    Half-way one edge is emptied while events flow: its people move to the other one, and nobody misses anything.

    [bold]Examples[/bold]

      tidewire demo

      tidewire demo --seconds 30 --rate 1000

      tidewire demo matcher
    """
    if context.invoked_subcommand is not None:
        return
    out = Console(quiet=True) if as_json else console()
    with progress() as tell:
        tell("loading earthquakes and stock quotes")
        folder = data_folder(data)
        quakes, quotes = load_quakes(folder), load_quotes(folder)
        wanted = list(interests(quakes, quotes, count=PEOPLE * 5, seed=1))
        events = stream(quakes, quotes, seed=1)
    out.print("[bold]Tidewire[/bold]: say what you want, never where to find it.\n")
    with tempfile.TemporaryDirectory(prefix="tidewire-demo-") as state:
        outcome = asyncio.run(_play(out, Scene(wanted, events, seconds=seconds, rate=rate), Path(state)))
    if as_json:
        print_json(outcome)
    else:
        _show_end(out, outcome)


async def _play(out: Console, scene: Scene, state: Path) -> Outcome:
    async with Network(state) as network:
        with progress() as tell:
            tell("starting a coordinator, a head and two edges, each a process of its own")
            await network.until_ready()
            tell("people say what they want")
            await scene.subscribe(network)
        out.print(
            f"[bold]{len(scene.people)} people[/bold] are connected to two edge brokers; one publisher to the head."
        )
        flow = asyncio.create_task(scene.flow(network))
        if out.quiet or not out.is_terminal:
            await flow
        else:
            with Live(_picture(scene), console=out, refresh_per_second=8) as live:
                while not flow.done():
                    await asyncio.sleep(0.125)
                    live.update(_picture(scene))
        outcome = await flow
        if not out.is_terminal:
            out.print(_picture(scene))
        return outcome


def _picture(scene: Scene) -> Group:
    brokers = Table.grid(padding=(0, 2, 0, 0))
    brokers.add_row("  [dim]broker[/dim]", "[dim]people[/dim]", "[dim]events[/dim]", "[dim]sent on[/dim]", "")
    for status in scene.statuses:
        sent = f"{status.deliveries + status.forwards:,}"
        note = "[yellow]is emptied[/yellow]" if status.is_leaving else ""
        brokers.add_row(
            f"  [cyan]{escape(status.broker)}[/cyan]", str(status.subscribers), f"{status.events:,}", sent, note
        )
    people = Table.grid(padding=(0, 2, 0, 0))
    people.add_column(no_wrap=True)
    people.add_column(no_wrap=True, overflow="ellipsis")
    shown = sorted((p for p in scene.people if p.last), key=lambda p: -p.count)[:_SHOWN]
    for person in shown:
        last = Text(headline(person.last) if person.last else "", overflow="ellipsis")
        people.add_row(f"  [cyan]{person.name}[/cyan] {person.count:,} from {person.broker}", last)
    progress_line = f"  {scene.published:,} events published, {scene.got:,} deliveries"
    return Group("", brokers, "", people, "", progress_line)


def _show_end(out: Console, outcome: Outcome) -> None:
    verdict = "[bold green]nothing lost, nothing twice, all in order[/bold green]"
    if outcome.lost or outcome.twice or outcome.out_of_order:
        verdict = (
            f"[bold red]lost {outcome.lost}, twice {outcome.twice}, out of order {outcome.out_of_order}[/bold red]"
        )
    out.print(
        f"\n[bold]{outcome.events:,} events[/bold], {outcome.deliveries:,} deliveries,"
        f" {outcome.moved} people moved while events flowed: {verdict}."
    )
    out.print(
        f"From publisher to reader: half within {outcome.p50_ms:.1f} ms, 99 of 100 within {outcome.p99_ms:.1f} ms.\n"
    )
    out.print("[bold]Try next[/bold]")
    program = sys.argv[0] if sys.argv[0].endswith("tidewire") else "tidewire"
    for arguments, why in (
        ("up", "the same network, for you"),
        ("""sub "magnitude >= 6\"""", ""),
        ("""pub '{"class": "QUAKE", "magnitude": 6.4}'""", ""),
        ("demo matcher", "among 100,000 filters"),
    ):
        out.print(Text(f"  {program} {arguments}").append(f"   {why}" if why else "", style="dim"))
