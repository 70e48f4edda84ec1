"""`tidewire broker`, `coordinator` and `up`: nodes that run until they are told to end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import json, structs
from rich.markup import escape

from tidewire.cli.shell import AsJson, console
from tidewire.model.errors import BadConfiguration

Listen = Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Let other machines connect, without authentication.")]
Settings = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings, as TOML; flags win.")]

_ROLES: Final = "auto, head (hosts publishers), edge (hosts subscribers) or both."


class _Speaker:
    """What a node says: lines for people, or a JSON document each."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = console()

    def say(self, what: str, facts: dict[str, Any]) -> None:
        if self._as_json:
            sys.stdout.write(json.encode({"what": what, **facts}).decode() + "\n")
            sys.stdout.flush()
            return
        told = "  ".join(f"[dim]{escape(str(name))}[/dim] {escape(str(value))}" for name, value in facts.items())
        self._console.print(f"{escape(what)}  {told}" if told else escape(what), soft_wrap=True)
        sys.stdout.flush()


def broker(
    name: Annotated[str | None, typer.Option(help="Unique in the network; by default made from the address.")] = None,
    listen: Listen = "",
    role: Annotated[str, typer.Option(help=_ROLES)] = "",
    neighbour: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Connect to it; may be repeated.")
    ] = None,
    coordinator: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Ask it for neighbours.")] = None,
    slow_subscriber: Annotated[str, typer.Option(help="Its full queue: drop the oldest events, wait, or end it.")] = "",
    covering: Annotated[bool, typer.Option(help="Tell neighbours only of filters that no other covers.")] = True,
    config: Settings = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Run one broker until Ctrl-C.

    [bold]Examples[/bold]

      tidewire broker

      tidewire broker --name head --listen 127.0.0.1:7600 --role head

      tidewire broker --name edge1 --listen 127.0.0.1:7601 --role edge --neighbour 127.0.0.1:7600

      tidewire broker --config edge1.toml
    """
    from tidewire.live.broker import LiveBroker
    from tidewire.live.process import until_told
    from tidewire.live.selector import PlaneSelector
    from tidewire.live.settings import broker_config, read_settings, refuse_exposure
    from tidewire.live.sockets import DEFAULT_PORT

    settings: dict[str, Any] = {"address": f"127.0.0.1:{DEFAULT_PORT}"}
    settings |= read_settings(config) if config is not None else {}
    given = {
        "broker": name,
        "address": listen,
        "role": role,
        "neighbours": neighbour,
        "coordinator": coordinator,
        "slow_subscriber": slow_subscriber,
    }
    settings |= {key: value for key, value in given.items() if value}
    if not covering:
        settings["covering"] = False
    settings.setdefault("broker", f"broker-{str(settings['address']).rpartition(':')[2]}")
    checked = broker_config(settings, source=str(config) if config is not None else "the flags")
    refuse_exposure(checked.address, insecure=insecure)
    speaker = _Speaker(as_json=as_json)
    selector = PlaneSelector()

    async def run() -> None:
        node = LiveBroker(checked, on_note=lambda note: speaker.say(note.what, dict(note.facts)), selector=selector)
        shown = {key: value for key, value in structs.asdict(node.config).items() if value not in (None, [])}
        speaker.say("broker", shown)
        await until_told(node.start, node.stop)
        speaker.say("stopped", {})

    with asyncio.Runner(loop_factory=selector.loop) as runner:
        runner.run(run())


def coordinator(
    listen: Listen = "127.0.0.1:7599",
    store: Annotated[Path | None, typer.Option(metavar="FILE", help="Where members are remembered.")] = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Run the coordinator: it tells a new broker its neighbours. Brokers go on without it.

    [bold]Examples[/bold]

      tidewire coordinator --listen 127.0.0.1:7599 --store members.json
    """
    from tidewire.live.coordinator import LiveCoordinator
    from tidewire.live.process import until_told
    from tidewire.live.settings import refuse_exposure

    refuse_exposure(listen, insecure=insecure)
    speaker = _Speaker(as_json=as_json)

    async def run() -> None:
        node = LiveCoordinator(listen, store=store)
        speaker.say("coordinator", {"address": node.address})
        await until_told(node.start, node.stop)
        speaker.say("stopped", {})

    asyncio.run(run())


def up(
    port: Annotated[int, typer.Option(help="Of the head; the edges and the coordinator take the next ones.")] = 7600,
    edges: Annotated[int, typer.Option(help="How many edge brokers.", min=0, max=32)] = 2,
    state: Annotated[Path, typer.Option(metavar="DIR", help="What must survive a restart.")] = Path(".tidewire"),
    as_json: AsJson = False,
) -> None:
    """Run a whole network in one terminal: coordinator, one head, two edges. Ctrl-C ends it.

    A node that dies is started again.

    [bold]Examples[/bold], the last two in another terminal

      tidewire up

      tidewire sub "magnitude >= 6"

      tidewire pub '{"class": "QUAKE", "magnitude": 6.4}'
    """
    from tidewire.live.process import until_told
    from tidewire.live.supervisor import Child, Supervisor

    if not 1 <= port <= 65_535 - edges - 1:
        raise BadConfiguration(f"--port {port}: it must leave room for {edges + 1} more ports below 65536")
    speaker = _Speaker(as_json=as_json)

    async def run() -> None:
        supervisor = Supervisor(say=lambda name, line: speaker.say(name, {"says": line}))

        async def start() -> None:
            for name, command in up_commands(port, edges, state):
                supervisor.start(Child(name, command))
            addresses = [f"127.0.0.1:{port + at}" for at in range(edges + 1)]
            speaker.say("tidewire is up", {"head": addresses[0], "edges": ", ".join(addresses[1:])})

        await until_told(start, supervisor.stop)
        speaker.say("stopped", {})

    asyncio.run(run())


def up_commands(port: int, edges: int, state: Path) -> list[tuple[str, list[str]]]:
    """The processes of `up`: their names and command lines."""
    program = [sys.executable, "-m", "tidewire"]
    where = f"127.0.0.1:{port + edges + 1}"
    store = str(state / "members.json")
    commands = [("coordinator", [*program, "coordinator", "--listen", where, "--store", store])]
    for at in range(edges + 1):
        name, role = ("head", "head" if edges else "both") if at == 0 else (f"edge{at}", "edge")
        flags = ["--name", name, "--listen", f"127.0.0.1:{port + at}", "--role", role, "--coordinator", where]
        commands.append((name, [*program, "broker", *flags]))
    return commands
