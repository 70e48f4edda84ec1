"""`tidewire console`: the front door for browsers, curl and every other language."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from tidewire.cli.serve import Insecure, Speaker
from tidewire.cli.shell import AsJson
from tidewire.model.errors import BadConfiguration

Brokers = Annotated[
    list[str] | None, typer.Option("--at", metavar="HOST:PORT", help="A broker; may be repeated. The others are found.")
]


def console(
    at: Brokers = None,
    coordinator: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="It knows all brokers.")] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")] = "",
    authority: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate by which secured brokers are known.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="Serve HTTPS, with this ...")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="... and its key.")] = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Serve the HTTP and WebSocket API and the web page, until Ctrl-C. It has no rights of its own.

    [bold]Examples[/bold]

      tidewire console

      tidewire console --at 127.0.0.1:7600 --coordinator 127.0.0.1:7603 --listen 127.0.0.1:7680

      tidewire console --at tidewires://127.0.0.1:7600 --authority .tidewire/security/authority.pem
    """
    from tidewire.console.network import Network
    from tidewire.console.server import DEFAULT_PORT, LiveDoor
    from tidewire.live.process import allow_many_files, until_told
    from tidewire.live.sockets import DEFAULT_PORT as BROKER_PORT
    from tidewire.live.sockets import is_secured, parse_address

    where = listen or f"127.0.0.1:{DEFAULT_PORT}"
    brokers = at or ([] if coordinator else [f"127.0.0.1:{BROKER_PORT}"])
    for address in [*brokers, *([coordinator] if coordinator else [])]:
        parse_address(address)
    if (certificate is None) != (key is None):
        raise BadConfiguration("--certificate and --key go together")
    is_safe = certificate is not None and all(is_secured(one) for one in brokers or [coordinator or ""])
    _refuse_exposure(where, is_safe=is_safe, insecure=insecure)
    speaker = Speaker(as_json=as_json)
    allow_many_files()
    network = Network(brokers=tuple(brokers), coordinator=coordinator, authority=authority)

    async def run() -> None:
        door = LiveDoor(where, network, certificate=certificate, key=key)

        async def start() -> None:
            await door.start()
            speaker.say("console", {"address": door.url})

        await until_told(start, door.stop)
        speaker.say("stopped", {})

    asyncio.run(run())


def _refuse_exposure(where: str, *, is_safe: bool, insecure: bool) -> None:
    """Other machines may come in only with HTTPS and to brokers that ask who they are, or if somebody says so."""
    from tidewire.live.sockets import is_loopback, parse_address

    if not is_safe and not insecure and not is_loopback(parse_address(where)[0]):
        raise BadConfiguration(
            f"{where} can be reached from other machines, and anyone could publish and subscribe: serve secured brokers"
            " with --certificate and --key, listen on 127.0.0.1, or say --insecure if that is what you want"
        )
