"""`tidewire console`: the front door for browsers, curl and every other language."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tidewire.cli.serve import Insecure, Speaker
from tidewire.cli.shell import AsJson

Brokers = Annotated[
    list[str] | None, typer.Option("--at", metavar="HOST:PORT", help="A broker; may be repeated. The others are found.")
]


def console(
    at: Brokers = None,
    coordinator: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="It knows all brokers.")] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")] = "",
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Serve the HTTP and WebSocket API and the web page, until Ctrl-C.

    [bold]Examples[/bold]

      tidewire console

      tidewire console --at 127.0.0.1:7600 --coordinator 127.0.0.1:7603 --listen 127.0.0.1:7680
    """
    from tidewire.console.network import Network
    from tidewire.console.server import DEFAULT_PORT, LiveDoor
    from tidewire.live.process import until_told
    from tidewire.live.settings import refuse_exposure
    from tidewire.live.sockets import DEFAULT_PORT as BROKER_PORT
    from tidewire.live.sockets import parse_address

    where = listen or f"127.0.0.1:{DEFAULT_PORT}"
    brokers = at or [f"127.0.0.1:{BROKER_PORT}"]
    for address in [*brokers, *([coordinator] if coordinator else [])]:
        parse_address(address)
    refuse_exposure(where, insecure=insecure)
    speaker = Speaker(as_json=as_json)

    async def run() -> None:
        door = LiveDoor(where, Network(brokers=tuple(brokers), coordinator=coordinator))

        async def start() -> None:
            await door.start()
            speaker.say("console", {"address": door.url, "brokers": ", ".join(brokers)})

        await until_told(start, door.stop)
        speaker.say("stopped", {})

    asyncio.run(run())
