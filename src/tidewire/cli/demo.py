"""`tidewire demo`: a real network on this machine, people who want different things, and a broker emptied meanwhile.

Then a channel: people are told of earthquakes near where they are. Its Spark starts while the events flow.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from msgspec import structs
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidewire.benchmarks.data import load_quakes, load_quotes
from tidewire.benchmarks.scene import interests, stream
from tidewire.benchmarks.whereabouts import CHANNEL, NEAR_M
from tidewire.cli.datacluster import why_it_cannot_run
from tidewire.cli.demo_channel import ChannelOutcome, ChannelScene
from tidewire.cli.demo_matcher import headline, matcher
from tidewire.cli.demo_network import Network, Outcome, Scene
from tidewire.cli.demo_tsunami import tsunami
from tidewire.cli.environment import DataFolder, data_folder
from tidewire.cli.shell import AsJson, console, print_json, progress
from tidewire.model.errors import TidewireError

demo = typer.Typer(rich_markup_mode="rich")
demo.command()(matcher)
demo.command()(tsunami)

PEOPLE: Final = 40
CHANNEL_S: Final = 8.0
"""So long earthquakes flow into the channel, at most."""
_Result = TypeVar("_Result")
_SHOWN: Final = 6


@demo.callback(invoke_without_command=True)
def network(
    context: typer.Context,
    data: DataFolder = None,
    seconds: Annotated[float, typer.Option(help="How long events flow.", min=2, max=600)] = 12.0,
    rate: Annotated[float, typer.Option(help="Events per second.", min=1, max=5000)] = 300.0,
    without_channel: Annotated[
        bool, typer.Option("--no-channel", help="Without what needs Spark: half a minute less.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """See it work: a head and two edge brokers, 40 people with 200 subscriptions, earthquakes among stock quotes.

    Half-way one edge is emptied while events flow: its people move to the other one, and nobody misses anything. Then a
    channel tells people of earthquakes near where they are: a query over stored events, on Spark.

    [bold]Examples[/bold]

      tidewire demo

      tidewire demo --seconds 30 --rate 1000

      tidewire demo matcher

      tidewire demo tsunami
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
        channel = ChannelScene(quakes, people=PEOPLE, seconds=min(seconds, CHANNEL_S))
        why = "--no-channel" if without_channel else why_it_cannot_run()
    out.print("[bold]Tidewire[/bold]: say what you want, never where to find it.\n")
    play = _Play(out, Scene(wanted, events, seconds=seconds, rate=rate), channel, why)
    # A Spark that is told to end while it starts may still write there for a moment.
    with tempfile.TemporaryDirectory(prefix="tidewire-demo-", ignore_cleanup_errors=True) as state:
        outcome = asyncio.run(play.run(Path(state)))
    if as_json:
        print_json({**structs.asdict(outcome), "channel": play.told, "why_no_channel": play.why})
    else:
        _show_next(out)


class _Play:
    """The whole demo: the network's scene, then the channel's."""

    def __init__(self, out: Console, scene: Scene, channel: ChannelScene, why: str | None) -> None:
        self._out, self._scene, self._channel = out, scene, channel
        self.why = why
        """Why there is no channel, if there is none."""
        self.told: ChannelOutcome | None = None

    async def run(self, state: Path) -> Outcome:
        """Both scenes; the first one begins at once, while Spark starts."""
        async with Network(state, with_data=self.why is None) as network:
            outcome = await _play(self._out, self._scene, network)
            _show_end(self._out, outcome)
            if self.why is None:
                await self._tell_of_channel(network)
            if self.why is not None and self.why != "--no-channel":
                self._out.print(f"[yellow]No channel is shown:[/yellow] {escape(self.why)}.\n", soft_wrap=True)
            with progress() as tell:
                tell("all processes end")
                await network.stop()
        return outcome

    async def _tell_of_channel(self, network: Network) -> None:
        try:
            with progress() as tell:
                await self._channel.prepare(network, tell)
            _show_channel(self._out, self._channel)
            self.told = await _watched(self._out, self._channel.flow(network), self._channel.picture)
            _show_told(self._out, self.told)
        except TidewireError as error:
            self.why = error.message
        finally:
            await self._channel.close()


async def _watched(out: Console, flow: Coroutine[Any, Any, _Result], picture: Callable[[], Group]) -> _Result:
    """What comes of it, with a picture that moves on a terminal, and the last one elsewhere."""
    flowing = asyncio.create_task(flow)
    if out.quiet or not out.is_terminal:
        await flowing
    else:
        with Live(picture(), console=out, refresh_per_second=8) as live:
            while not flowing.done():
                await asyncio.sleep(0.125)
                live.update(picture())
    result = await flowing
    if not out.is_terminal:
        out.print(picture())
    return result


async def _play(out: Console, scene: Scene, network: Network) -> Outcome:
    with progress() as tell:
        tell("starting a coordinator, a head and two edges, each a process of its own")
        await network.until_ready()
        tell("people say what they want")
        await scene.subscribe(network)
    out.print(f"[bold]{len(scene.people)} people[/bold] are connected to two edge brokers; one publisher to the head.")
    return await _watched(out, scene.flow(network), lambda: _picture(scene))


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


def _show_channel(out: Console, channel: ChannelScene) -> None:
    out.print(
        f"[bold]A channel[/bold] is a query over stored events. {len(channel.listeners)} people are somewhere, and want"
        f" to hear of earthquakes within {NEAR_M / 1000:.0f} km, with the nearest station:\n"
    )
    for line in CHANNEL.splitlines():
        out.print(Text(f"  {line}", style="dim"))


def _show_told(out: Console, told: ChannelOutcome) -> None:
    verdict = "[bold green]each once, none missing[/bold green]"
    if told.lost or told.unasked or told.twice:
        verdict = f"[bold red]lost {told.lost}, unasked {told.unasked}, twice {told.twice}[/bold red]"
    out.print(
        f"\n[bold]{told.quakes:,} earthquakes[/bold] stored and joined with people, places and stations,"
        f" {told.results:,} results in {told.notifications:,} notifications: {verdict}."
    )
    out.print(f"From publisher to person, by way of tables: half within {told.p50_s:.1f} s.\n")


def _show_next(out: Console) -> None:
    out.print("[bold]Try next[/bold]")
    program = sys.argv[0] if sys.argv[0].endswith("tidewire") else "tidewire"
    for arguments, why in (
        ("up --data-cluster", "the same network, for you"),
        ("""sub "magnitude >= 6\"""", ""),
        ("""pub '{"class": "QUAKE", "magnitude": 6.4}'""", ""),
        ("demo matcher", "among 100,000 filters"),
        ("demo tsunami", "a warning system whose cable breaks"),
    ):
        out.print(Text(f"  {program} {arguments}").append(f"   {why}" if why else "", style="dim"))
