"""`tidewire names`: the durable subscriptions that events are kept for, and who holds back most."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from tidewire.cli.credentials import TokenFile
from tidewire.cli.figures import ago
from tidewire.cli.marked import escape
from tidewire.cli.reach import AtAny, Patience, refuse_emptiness, surveyor
from tidewire.cli.shell import AsJson, console, print_json

if TYPE_CHECKING:
    from tidewire.broker.status import NameStatus
    from tidewire.observe.network import Network

ANYBODY = "anonymous"


class Name(msgspec.Struct, kw_only=True):
    """One of them, at all stores."""

    name: str
    owner: str
    age_s: float
    behind_s: float
    """Of the store where most is kept for it."""

    brokers: list[str]
    """Those whose stores know it."""


def names(
    at: AtAny = None,
    count: Annotated[int, typer.Option("--count", help="How many to show, at most.", min=1)] = 20,
    timeout: Patience = 2.0,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the durable subscriptions that events are kept for: those that are furthest behind, first.

    What is behind is kept until its subscriber comes back, or the name is ended with tidewire forget. Each broker
    tells of the hundred that are furthest behind.

    [bold]Examples[/bold]

      tidewire names

      tidewire names --json | jq '.names\\[] | select(.behind_s > 86400)'
    """
    looking, _ = surveyor(at, token_file, timeout=timeout)
    network = asyncio.run(looking.look())
    refuse_emptiness(network)
    found = sorted(known(network), key=lambda one: -one.behind_s)[:count]
    held = max((status.log.held for status in network.statuses() if status.log is not None), default=0)
    if as_json:
        print_json({"held": held, "names": found})
        return
    if not found:
        console().print("events are kept for nobody")
        return
    table = Table("name", "of", "began", "behind", "kept at", box=None, pad_edge=False, header_style="bold")
    for one in found:
        owner = "" if one.owner == ANYBODY else escape(one.owner)
        at_brokers = escape(", ".join(one.brokers))
        table.add_row(escape(one.name), owner, f"{ago(one.age_s)} ago", ago(one.behind_s), at_brokers)
    console().print(table)
    if held > len(found):
        console().print(f"[dim]and {held - len(found)} more[/dim]")


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
    seen.age_s, seen.behind_s = max(seen.age_s, one.age_s), max(seen.behind_s, one.behind_s)
    seen.brokers.append(broker)
