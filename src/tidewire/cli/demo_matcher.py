"""`tidewire demo matcher`: people say what they want, events stream by, and everyone gets theirs."""

from __future__ import annotations

import gc
import sys
from time import perf_counter
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidewire.benchmarks.data import load_quakes, load_quotes
from tidewire.benchmarks.progress import Tell
from tidewire.benchmarks.scene import Interest, interests, name_of, stream
from tidewire.cli.demo_world import Example, Reason, Tally, World
from tidewire.cli.environment import DataFolder, data_folder
from tidewire.cli.explain import marked
from tidewire.cli.shell import AsJson, console, figure, print_json, progress
from tidewire.language import compile_filter
from tidewire.model.errors import UsageError
from tidewire.model.filters import Filter

SUBSCRIPTIONS_MAX: Final = 1_000_000
_TOLD_EVERY: Final = 2_000


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the demo showed."""

    quakes: str
    quotes: str
    people: int
    subscriptions: int
    distinct_filters: int
    subscribe_s: float
    events: int
    deliveries: int
    us_per_event: float
    us_per_event_scan: float
    ratio: float
    examples: list[Example]


def matcher(
    data: DataFolder = None,
    subscriptions: Annotated[int, typer.Option(help="How many, five for each person.", min=100)] = 100_000,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 1,
    as_json: AsJson = False,
) -> None:
    """How it finds who wants an event: 100,000 subscriptions, a month of earthquakes, who gets what and why.

    [bold]Examples[/bold]

      tidewire demo matcher

      tidewire demo matcher --subscriptions 20000 --json
    """
    if subscriptions > SUBSCRIPTIONS_MAX:
        raise UsageError(f"{subscriptions:,} subscriptions: the demo takes at most {SUBSCRIPTIONS_MAX:,}")
    out = Console(quiet=True) if as_json else console()
    folder = data_folder(data)
    out.print("[bold]Tidewire[/bold]: say what you want, never where to find it.\n")
    with progress() as tell:
        tell("loading earthquakes and stock quotes")
        quakes, quotes = load_quakes(folder), load_quotes(folder)
        wanted = list(interests(quakes, quotes, count=subscriptions, seed=seed))
        start = perf_counter()
        filters = _read(wanted, tell)
        read_s = perf_counter() - start
        tell("inserting into the index")
        world = World(wanted, filters, stream(quakes, quotes, seed=seed))
    _show_people(out, world, read_s)
    tally = _play(out, world)
    examples = [world.example(event) for event in (tally.loudest, world.events[-1]) if event is not None]
    for example in examples:
        _show_example(out, example)
    with progress() as tell:
        tell("asking every subscription, in Python")
        scan_us = world.scan_us_per_event()
    outcome = Outcome(
        quakes=quakes.origin,
        quotes=quotes.origin,
        people=world.people,
        subscriptions=world.index.subscriptions,
        distinct_filters=world.index.entries,
        subscribe_s=read_s + world.insert_s,
        events=tally.events,
        deliveries=tally.deliveries,
        us_per_event=tally.us_per_event,
        us_per_event_scan=scan_us,
        ratio=scan_us / tally.us_per_event,
        examples=examples,
    )
    if as_json:
        print_json(outcome)
    else:
        _show_end(out, outcome)


def _read(wanted: list[Interest], tell: Tell) -> list[Filter]:
    known: dict[str, Filter] = {}
    gc.disable()  # nothing here is garbage, and looking for some would take a third of the time
    try:
        for done, one in enumerate(wanted):
            if done % _TOLD_EVERY == 0:
                tell("reading what people want", done, len(wanted))
            if one.text not in known:
                known[one.text] = compile_filter(one.text)
    finally:
        gc.enable()
    return [known[one.text] for one in wanted]


def _show_people(out: Console, world: World, read_s: float) -> None:
    count = len(world.interests)
    out.print(f"[bold]{world.people:,} people[/bold] said what they want, in {count:,} subscriptions:")
    rows = Table.grid(padding=(0, 2, 0, 0))
    for one in world.interests[:4]:
        rows.add_row(f"  [cyan]{name_of(one.person)}[/cyan]", escape(one.text))
    out.print(rows)
    out.print(
        f"[dim]Read and normalised in {read_s:.1f} s, in the index {world.insert_s:.2f} s later"
        f" ({world.index.entries:,} distinct conjunctions, {world.index.memory_bytes / 1e6:.0f} MB).[/dim]\n"
    )


def _play(out: Console, world: World) -> Tally:
    tally = Tally()
    total = len(world.events)
    quakes = sum(event["class"] == "QUAKE" for event in world.events)
    out.print(f"[bold]{total:,} events[/bold] stream by, {quakes:,} earthquakes among them:")
    if out.quiet or not out.is_terminal:
        world.play(tally, lambda: None)
        out.print(_counters(tally, total))
    else:
        with Live(_counters(tally, total), console=out, refresh_per_second=12) as live:
            world.play(tally, lambda: live.update(_counters(tally, total)))
    out.print()
    return tally


def _counters(tally: Tally, total: int) -> Table:
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_row("  events", f"{tally.events:,} of {total:,}")
    rows.add_row("  deliveries", f"{tally.deliveries:,}, one per event and person, however many of theirs match")
    rows.add_row("  matching", f"[bold green]{figure(tally.us_per_event)} µs[/bold green] of CPU per event")
    rows.add_row("  just now", Text(headline(tally.last), no_wrap=True, overflow="ellipsis") if tally.last else "")
    return rows


def headline(event: dict[str, Any]) -> str:
    """An event in a line."""
    if event["class"] == "QUAKE":
        return f"magnitude {event['magnitude']}, {event['place']}"
    return f"{event['symbol']} closed at {event['close']}, volume {event['volume']:,}"


def _show_example(out: Console, example: Example) -> None:
    out.print(f"[bold]{escape(headline(example.event))}[/bold] goes to {example.people:,} people.")
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(no_wrap=True)
    for reason, verdict in ((example.gets_it, "[green]gets it[/green]"), (example.does_not, "[red]does not[/red]")):
        if reason is not None:
            rows.add_row(f"  [cyan]{reason.person}[/cyan] {verdict}", marked(reason.explanation))
            rows.add_row("", _because(reason))
    out.print(rows)
    out.print()


def _because(reason: Reason) -> Text:
    return Text("; ".join(str(decision.because) for decision in reason.explanation.decisions), style="dim")


def _show_end(out: Console, outcome: Outcome) -> None:
    out.print(
        f"The index took [bold green]{figure(outcome.us_per_event)} µs[/bold green] per event."
        f" Asking each subscription, in Python, gives the same answers and takes"
        f" [bold]{figure(outcome.us_per_event_scan)} µs[/bold]: {figure(outcome.ratio)} times more.\n"
    )
    origins = {"real": "real records", "generated": "generated records; real ones come from --data DIR"}
    out.print(f"[dim]Earthquakes: {origins[outcome.quakes]}. Quotes: {origins[outcome.quotes]}.[/dim]\n")
    out.print("[bold]Try next[/bold]")
    program = sys.argv[0] if sys.argv[0].endswith("tidewire") else "tidewire"
    for arguments in (
        """explain "magnitude >= 6" '{"magnitude": 5.9}'""",
        "bench match --workload selective",
        "--help",
    ):
        out.print(Text(f"  {program} {arguments}"))
