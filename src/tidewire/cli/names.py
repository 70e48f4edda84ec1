"""`tidewire names`: the durable subscriptions that events and results are kept for, and who holds back most."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from tidewire.cli.credentials import TokenFile, access
from tidewire.cli.figures import ago
from tidewire.cli.marked import escape
from tidewire.cli.reach import AtAny, Patience, refuse_emptiness, surveyor
from tidewire.cli.shell import AsJson, console, print_json
from tidewire.model.errors import TidewireError

if TYPE_CHECKING:
    from tidewire.broker.status import NameStatus
    from tidewire.cli.credentials import Access
    from tidewire.observe.network import Network

ANYBODY = "anonymous"


class Name(msgspec.Struct, kw_only=True):
    """One of them, at all stores."""

    name: str
    owner: str
    age_s: float | None
    """None: not known, of a channel."""
    behind_s: float
    """Of the store where most is kept for it."""

    brokers: list[str]
    """Those whose stores know it; of a channel it is the data cluster that does."""

    channel: str | None = None
    parameters: dict[str, bool | int | float | str] = {}


def names(
    at: AtAny = None,
    count: Annotated[int, typer.Option("--count", help="How many to show, at most.", min=1)] = 20,
    timeout: Patience = 2.0,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the durable subscriptions that events, or results of channels, are kept for: the furthest behind first.

    What is behind is kept until its subscriber comes back, or the name is ended: with tidewire forget, of a channel
    with tidewire channel subscribe CHANNEL … --name NAME --forget. Each broker, and the data cluster, tells of the
    hundred that are furthest behind.

    [bold]Examples[/bold]

      tidewire names

      tidewire names --json | jq '.names\\[] | select(.behind_s > 86400)'
    """
    looking, first = surveyor(at, token_file, timeout=timeout)
    network = asyncio.run(looking.look())
    refuse_emptiness(network)
    of_channels, silent = asyncio.run(_of_channels(network, access(first, token_file), seconds=timeout))
    held = max((status.log.held for status in network.statuses() if status.log is not None), default=0)
    held += len(of_channels)
    found = sorted([*known(network), *of_channels], key=lambda one: -one.behind_s)[:count]
    if as_json:
        print_json({"held": held, "names": found, "silent": silent})
        return
    for reason in silent:
        console().print(f"[dim]names of channels are not known: {escape(reason)}[/dim]", soft_wrap=True)
    if not found:
        console().print("events are kept for nobody")
        return
    table = Table("name", "of", "began", "behind", "kept at", box=None, pad_edge=False, header_style="bold")
    for one in found:
        owner = "" if one.owner == ANYBODY else escape(one.owner)
        began = "" if one.age_s is None else f"{ago(one.age_s)} ago"
        table.add_row(escape(one.name), owner, began, ago(one.behind_s), escape(_place(one)))
    console().print(table)
    if held > len(found):
        console().print(f"[dim]and {held - len(found)} more[/dim]")


def _place(one: Name) -> str:
    if one.channel is None:
        return ", ".join(one.brokers)
    given = ", ".join(f"{name}={value}" for name, value in one.parameters.items())
    return f"the channel {one.channel}({given})"


async def _of_channels(network: Network, known: Access, *, seconds: float) -> tuple[list[Name], list[str]]:
    """Those of the data clusters that brokers have; and why one does not tell."""
    from tidewire.channels.commands import ListNames
    from tidewire.live.operate import command_channels
    from tidewire.live.sockets import is_secured

    there = [one.channels.data_cluster for one in network.statuses() if one.channels is not None]
    scheme = "tidewires://" if is_secured(known.at) else ""
    found: list[Name] = []
    silent: list[str] = []
    for address in dict.fromkeys(there):
        try:
            answer = await command_channels(
                scheme + address, ListNames(), seconds=seconds, credentials=known.credentials
            )
        except TidewireError as error:
            silent.append(error.message)
            continue
        found += [
            Name(
                name=one.name, owner=one.owner, age_s=None, behind_s=one.behind_s, brokers=[], channel=one.channel,
                parameters=one.parameters,
            )
            for one in answer.names
        ]  # fmt: skip
    return found, silent


def known(network: Network) -> list[Name]:
    """Of all stores together."""
    found: dict[tuple[str, str], Name] = {}
    for status in network.statuses():
        for one in () if status.log is None else status.log.names:
            _add(found, one, status.broker)
    return list(found.values())


def _add(found: dict[tuple[str, str], Name], one: NameStatus, broker: str) -> None:
    first = Name(name=one.name, owner=one.owner, age_s=0.0, behind_s=0.0, brokers=[])
    seen = found.setdefault((one.owner, one.name), first)
    seen.age_s, seen.behind_s = max(seen.age_s or 0.0, one.age_s), max(seen.behind_s, one.behind_s)
    seen.brokers.append(broker)
