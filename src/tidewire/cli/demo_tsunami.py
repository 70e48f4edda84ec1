"""`tidewire demo tsunami`: a warning system whose cable breaks, without ePEER and with it."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from tidewire.benchmarks.data import load_buoy, load_quakes
from tidewire.cli.environment import DataFolder, data_folder
from tidewire.cli.shell import AsJson, console, print_json, progress
from tidewire.cli.tsunami_scene import DEMAND, EDGES, SERVICES, WINDOW_S, Act, Readings, Scene

CALM_SHARE: Final = 0.15
MENDED_SHARE: Final = 0.2
"""Of an act: before the cable breaks, and after it is mended."""
ANSWERED_S: Final = 8.0
"""So long after the break it is not counted: until then nobody can know what the lines still carry."""
STRONG: Final = 5.0
"""Earthquakes of this magnitude on are worth a warning."""
LIFTED_S: Final = 15.0
"""So long after the repair, at most, it is waited for the last limit to be lifted."""


def tsunami(
    data: DataFolder = None,
    seconds: Annotated[float, typer.Option(help="How long each of the two acts lasts.", min=15, max=600)] = 30.0,
    as_json: AsJson = False,
) -> None:
    """See a warning system lose two thirds of its lines: a regional centre, three national ones and a coast.

    Buoys, centres and the public publish three times what the broken lines carry. First all wait; then, with ePEER,
    what subscribers value least gives way before a message is made of it, and warnings keep their deadline.

    [bold]Examples[/bold]

      tidewire demo tsunami

      tidewire demo tsunami --seconds 60 --json
    """
    out = Console(quiet=True) if as_json else console()
    with progress() as tell:
        tell("loading a buoy's record and earthquakes")
        folder = data_folder(data)
        buoy, quakes = load_buoy(folder), load_quakes(folder)
    strong = [(one.magnitude, one.place) for one in quakes.records if one.magnitude >= STRONG]
    out.print(
        f"[bold]A warning system[/bold]: 5 clusters, 7 broker processes; buoy {buoy.origin}, earthquakes"
        f" {quakes.origin}.\nThe lines of the first national centre to {' and '.join(EDGES)} break: they\n"
        "carry a third of what is published.\n"
    )
    acts = [
        asyncio.run(_act(out, Readings(buoy.readings, strong), is_epeer=is_epeer, seconds=seconds))
        for is_epeer in (False, True)
    ]
    if as_json:
        print_json({"without_epeer": acts[0], "with_epeer": acts[1], "records": {"buoy": buoy.origin}})
    else:
        _show_end(out, acts)


async def _act(out: Console, readings: Readings, *, is_epeer: bool, seconds: float) -> Act:
    name = "With ePEER" if is_epeer else "Without ePEER"
    scene = Scene(readings, is_epeer=is_epeer)
    try:
        with progress() as tell:
            tell(f"{name.lower()}: starting five heads and two edges, each a process of its own")
            await scene.begin()
        playing = asyncio.ensure_future(_play(scene, seconds))
        if out.quiet or not out.is_terminal:
            act = await playing
            out.print(_picture(scene, name))
        else:
            with Live(_picture(scene, name), console=out, refresh_per_second=4) as live:
                while not playing.done():
                    await asyncio.sleep(0.25)
                    live.update(_picture(scene, name))
            act = await playing
    finally:
        with progress() as tell:
            tell(f"{name.lower()}: all processes end")
            await scene.end()
    return act


async def _play(scene: Scene, seconds: float) -> Act:
    """Calm, broken, mended."""
    await asyncio.sleep(seconds * CALM_SHARE)
    cut, before = time.monotonic(), scene.counts()
    since = cut + ANSWERED_S
    scene.cut()
    limited_s: float | None = None
    end = cut + seconds * (1 - CALM_SHARE - MENDED_SHARE)
    while time.monotonic() < end:
        await asyncio.sleep(0.1)
        if time.monotonic() < since:
            before = scene.counts()
        if limited_s is None and any(one.is_limited for one in scene.publishers):
            limited_s = time.monotonic() - cut
    mended, after = time.monotonic(), scene.counts()
    scene.mend()
    lifted_s: float | None = None
    end = mended + max(seconds * MENDED_SHARE, LIFTED_S if limited_s is not None else 0.0)
    while time.monotonic() < end and (lifted_s is None or time.monotonic() < mended + seconds * MENDED_SHARE):
        await asyncio.sleep(0.1)
        if lifted_s is None and limited_s is not None and not any(one.is_limited for one in scene.publishers):
            lifted_s = time.monotonic() - mended
    return Act(
        is_epeer=scene.is_epeer,
        services=scene.seen(since, mended, before, after),
        experience=scene.experience(since, mended),
        utility_s=scene.utility_s(since, mended),
        limited_after_s=limited_s,
        lifted_after_s=lifted_s,
    )


def _picture(scene: Scene, name: str) -> Group:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(*(f"[dim]{one}[/dim]" for one in ("  class", "of use", "p99 now", "late", "sent", "held back")))
    for service, (offered, held) in zip(SERVICES, scene.counts().values(), strict=True):
        delays = sorted(took for _, took in scene.recent[service.name])
        p99 = delays[len(delays) * 99 // 100] if delays else None
        is_late = p99 is not None and p99 > service.delay_s
        late = sum(one > service.delay_s for one in delays) / len(delays) if delays else 0.0
        colour = "red" if is_late else "green"
        table.add_row(
            f"  [cyan]{service.name}[/cyan]",
            f"{service.delay_s:.0f} s",
            f"[{colour}]{p99:.2f} s[/{colour}]" if p99 is not None else "–",
            f"{late:.0%}",
            f"{offered - held:,}",
            f"{held:,}",
        )
    state = "[bold red]the cable is broken[/bold red]" if scene.is_cut else "[green]all lines carry everything[/green]"
    loads = ", ".join(f"{broker} {rate:,.0f}/s" for broker, rate in scene.outputs.items())
    now = time.monotonic()
    quality = f"quality of experience {scene.experience(now - WINDOW_S, now):.2f}"
    return Group(f"[bold]{name}[/bold]: {state}", "", table, "", f"  deliveries: {loads}", f"  {quality}", "")


def _show_end(out: Console, acts: list[Act]) -> None:
    out.print(
        f"[bold]While the cable was broken[/bold], from {ANSWERED_S:.0f} s on, with {DEMAND:.0f} times what the lines"
        " carry:\n"
    )
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_row(*(f"[dim]{one}[/dim]" for one in ("", "without ePEER", "with ePEER")))
    first = SERVICES[0]
    p99s = [act.services[first.name].p99_s for act in acts]
    table.add_row(f"  warnings: p99 (of use for {first.delay_s:.0f} s)", *(_seconds(one) for one in p99s))
    lates = [act.services[first.name] for act in acts]
    table.add_row("  warnings late, or not there", *(f"{one.late + one.missing:,}" for one in lates))
    table.add_row("  quality of experience", *(f"{act.experience:.2f}" for act in acts))
    table.add_row("  utility that came in time, per s", *(f"{act.utility_s:,.0f}" for act in acts))
    table.add_row("  first limit after the break", *(_seconds(act.limited_after_s) for act in acts))
    table.add_row("  last limit lifted after the repair", *(_seconds(act.lifted_after_s) for act in acts))
    out.print(table)


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"
