"""`tidewire overlay`: the whole network, as a tree."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from tidewire.cli.credentials import TokenFile
from tidewire.cli.figures import colour, short, size
from tidewire.cli.marked import escape
from tidewire.cli.reach import AtAny, Patience, refuse_emptiness, surveyor
from tidewire.cli.shell import AsJson, console, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from tidewire.broker.channels import ChannelsStatus
    from tidewire.observe.network import Answered, Network


def overlay(
    at: AtAny = None,
    seconds: Annotated[float, typer.Option(help="Time over which rates are taken; 0: none.", min=0)] = 1.0,
    timeout: Patience = 2.0,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the whole network: brokers, roles, clients, rates, loads and links.

    Ask any broker; the others are found by way of neighbours and the coordinator.

    [bold]Examples[/bold]

      tidewire overlay

      tidewire overlay --at 127.0.0.1:7601 --seconds 5

      tidewire overlay --json | jq '.brokers\\[].status.broker'
    """

    async def look() -> Network:
        looking, _ = surveyor(at, token_file, timeout=timeout)
        network = await looking.look()
        if seconds and network.brokers:
            await asyncio.sleep(seconds)
            network = await looking.look()
        return network

    network = asyncio.run(look())
    refuse_emptiness(network)
    if as_json:
        print_json(network)
    else:
        show(network)


def show(network: Network) -> None:
    """For people: at most 80 columns."""
    from tidewire.observe.network import UNREACHABLE

    out = console()
    clients = sum(status.clients for status in network.statuses())
    out.print(f"[bold]{_many(len(network.brokers), 'broker')}[/bold], {_many(clients, 'client')}\n")
    out.print(_tree_table(network))
    out.print("[dim]in, out: taken, delivered to clients; link: from ▼ and to ▲ the broker above it[/dim]")
    for one in _cross_links(network):
        out.print(f"  also linked: {escape(one[0])} ══ {escape(one[1])}")
    for coordinator in network.coordinators:
        told = (
            f"[red]{escape(coordinator.reason)}[/red]"
            if coordinator.reason
            else _many(len(coordinator.members), "member")
        )
        out.print(f"  coordinator {escape(coordinator.address)}: {told}")
    for line in _data_clusters(network):
        out.print(f"  {line}")
    for silent in network.silent:
        who = f"{silent.broker} " if silent.broker else ""
        told = f"{escape(who + silent.address)} is [red]{UNREACHABLE}[/red]: {escape(silent.reason)}"
        out.print(f"  {told}", soft_wrap=True)


def _data_clusters(network: Network) -> Iterator[str]:
    """What brokers have to do with each."""
    by_address: dict[str, list[ChannelsStatus]] = {}
    for status in network.statuses():
        if status.channels is not None:
            by_address.setdefault(status.channels.data_cluster, []).append(status.channels)
    for address, found in by_address.items():
        reached = sum(one.is_connected for one in found)
        told = f"{reached} of {_many(len(found), 'broker')}"
        facts = [told if reached == len(found) else f"[red]{told}[/red]"]
        facts.append(_many(max(one.channels for one in found), "channel"))
        facts.append(_many(sum(one.subscriptions for one in found), "subscription"))
        yield f"data cluster {escape(address)}: {', '.join(facts)}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _tree_table(network: Network) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("broker", max_width=26, overflow="ellipsis", no_wrap=True)
    table.add_column("role")
    for name in ("clients", "in/s", "out/s", "load", "link/s", "waits"):
        table.add_column(name, justify="right", no_wrap=True)
    states = network.states()
    for branch, parent, one in _tree(network):
        status, rates = one.status, one.rates
        name, highest = highest_load(one)
        down, up, waits = _link(network, parent, one)
        state = states[status.broker]
        table.add_row(
            f"[dim]{branch}[/dim]{escape(status.broker)}",
            status.role + ("" if state == "serving" else f" [yellow]{state}[/yellow]"),
            f"{status.clients:,}",
            short(rates.events_s) if rates else "–",
            short(rates.deliveries_s) if rates else "–",
            f"[{colour(highest)}]{name} {highest:.0%}[/]",
            f"{down}▼ {up}▲" if parent is not None else "",
            waits,
        )
    return table


def highest_load(one: Answered) -> tuple[str, float]:
    """The load index that comes closest to its limit."""
    from tidewire.observe.diagnosis import loads_of

    loads = loads_of(one.status)
    name = max(loads, key=lambda key: loads[key])
    return name, loads[name]


def _link(network: Network, parent: str | None, one: Answered) -> tuple[str, str, str]:
    """What goes down to this broker and up from it, and what waits on both sides."""
    above = network.broker(parent) if parent is not None else None
    mine = next((n for n in one.status.neighbours if n.broker == parent), None)
    theirs = next((n for n in above.status.neighbours if n.broker == one.status.broker), None) if above else None
    rates = next((link for link in one.rates.links if link.neighbour == parent), None) if one.rates else None
    waits = (mine.queued_bytes if mine else 0) + (theirs.queued_bytes if theirs else 0)
    if rates is None:
        return "–", "–", size(waits) if parent else ""
    return short(rates.events_in_s), short(rates.events_out_s), size(waits)


def _neighbours(network: Network) -> dict[str, list[str]]:
    """Who is linked to whom, of those that answered; each link known to one end counts for both."""
    names = {status.broker: dict[str, None]() for status in network.statuses()}
    for status in network.statuses():
        for neighbour in status.neighbours:
            if neighbour.broker in names:
                names[status.broker][neighbour.broker] = None
                names[neighbour.broker][status.broker] = None
    return {name: sorted(linked) for name, linked in names.items()}


def _tree(network: Network) -> list[tuple[str, str | None, Answered]]:
    """Every broker with its branch drawn and the broker above it; heads with most neighbours come first."""
    linked = _neighbours(network)
    parents = _parents(network, linked)
    below: dict[str | None, list[str]] = {}
    for name, parent in parents.items():
        below.setdefault(parent, []).append(name)
    answered = {one.status.broker: one for one in network.brokers}
    rows: list[tuple[str, str | None, Answered]] = []
    waiting = [(name, "", "") for name in reversed(below.get(None, []))]
    while waiting:
        name, branch, indent = waiting.pop()
        rows.append((branch, parents[name], answered[name]))
        children = below.get(name, [])
        for at, child in enumerate(reversed(children)):
            is_last = at == 0
            waiting.append((child, indent + ("└ " if is_last else "├ "), indent + ("  " if is_last else "│ ")))
    return rows


def _parents(network: Network, linked: dict[str, list[str]]) -> dict[str, str | None]:
    """The broker above each: breadth first from the head with most neighbours; None at the top of a part."""
    roles = {status.broker: status.role for status in network.statuses()}
    first = sorted(linked, key=lambda name: (roles[name] == "edge", -len(linked[name]), name))
    parents: dict[str, str | None] = {}
    for root in first:
        if root in parents:
            continue
        parents[root] = None
        for name in (queue := [root]):
            for other in linked[name]:
                if other not in parents:
                    parents[other] = name
                    queue.append(other)
    return parents


def _cross_links(network: Network) -> list[tuple[str, str]]:
    """The links that the tree does not show."""
    linked = _neighbours(network)
    parents = _parents(network, linked)
    return [
        (name, other)
        for name, others in linked.items()
        for other in others
        if name < other and parents[name] != other and parents[other] != name
    ]
