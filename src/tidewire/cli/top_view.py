"""What `tidewire top` shows: one look at a network, in as many lines and columns as there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidewire.cli.figures import ago, bar, short, size
from tidewire.cli.marked import escape
from tidewire.model.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidewire.broker.decisions import Decision
    from tidewire.broker.status import SlowConsumer
    from tidewire.observe.network import Answered, BrokerState, Network, Unanswered

ALL: Final = ""
"""Chosen: all brokers together."""
_SLOW_LINES: Final = 5
_BAR: Final = 5
_ROLE: Final = 5

SORTS: Final[dict[str, Callable[[Answered], float]]] = {
    "name": lambda _: 0.0,
    "events": lambda one: -(one.rates.events_s if one.rates else 0.0),
    "deliveries": lambda one: -(one.rates.deliveries_s if one.rates else 0.0),
    "clients": lambda one: -float(one.status.clients),
    "load": lambda one: -_highest(one),
    "queued": lambda one: -float(one.status.queued_bytes),
}

HELP: Final = """[bold]tidewire top[/bold]

  [bold]q[/bold]          end
  [bold]j k ↓ ↑[/bold]    choose a broker: slow consumers and decisions are then its own
  [bold]s[/bold]          sort by: name, events, deliveries, clients, load, queued
  [bold]h ?[/bold]        this help, and back

  [bold]clients[/bold]    connected publishers and subscribers
  [bold]in/s[/bold]       events taken per second, from publishers and neighbours
  [bold]out/s[/bold]      events delivered to subscribers per second
  [bold]fwd/s[/bold]      events forwarded to neighbours per second
  [bold]queued[/bold]     bytes that wait for clients and neighbours
  [bold]in out cpu mem[/bold]  load indices: input, output, engine, memory; red from 90 %

  [bold]balancing[/bold]  conditions; sessions in which clients moved/nothing was to move/that
             failed; how far predictions were off; of a chosen broker the matching delay

An event counts at every broker that it passes; [bold]all[/bold] is the sum of them.
A slow consumer has a queue more than a quarter full, or has lost events.
"""


class View(msgspec.Struct):
    """What the person at the keyboard has chosen."""

    sort: str = "name"
    chosen: str = ALL
    is_help: bool = False

    def next_sort(self) -> None:
        """The next of the orders."""
        names = list(SORTS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]

    def move(self, network: Network, step: int) -> None:
        """Choose the next broker, or the one before; at the top are all of them."""
        names = [ALL, *(one.status.broker for one in self.sorted(network))]
        at = names.index(self.chosen) if self.chosen in names else 0
        self.chosen = names[min(max(at + step, 0), len(names) - 1)]

    def sorted(self, network: Network) -> list[Answered]:
        """The brokers in the chosen order."""
        return sorted(network.brokers, key=lambda one: (SORTS[self.sort](one), one.status.broker))


def _highest(one: Answered) -> float:
    return max(_loads(one).values())


def _loads(one: Answered) -> dict[str, float]:
    from tidewire.observe.diagnosis import loads_of

    return loads_of(one.status)


def draw(network: Network, view: View, *, height: int, plain: bool = False, keys: bool = True) -> RenderableType:
    """A screen of this height, and 80 columns."""
    if view.is_help:
        return Text.from_markup(HELP)
    silent = len(network.silent)
    slow = _slow_of(network, view)
    slow_lines = min(len(slow), _SLOW_LINES)
    balancing = _balancing(network, view)
    room = height - 2 - (balancing is not None) - silent - (slow_lines + 2 if slow else 1) - (1 if keys else 0)
    broker_lines = min(len(network.brokers) + 1, max(2, room - 5))
    decisions = max(0, room - broker_lines - 1)
    parts: list[RenderableType] = [_title(network, view), _brokers(network, view, broker_lines, plain=plain)]
    parts += [] if balancing is None else [balancing]
    parts += [Text(visible(_unreachable(one)), style="red", no_wrap=True) for one in network.silent]
    parts.append(_slow_table(slow, slow_lines, plain=plain) if slow else Text("no slow consumers", style="dim"))
    if decisions:
        parts.append(_decisions(_decisions_of(network, view), decisions))
    return Group(*parts)


def _balancing(network: Network, view: View) -> Text | None:
    """In one line: how those that balance are, and what has come of it; None if nobody does."""
    found = [(one.status.broker, one.status.balance) for one in _of_view(network, view) if one.status.balance]
    if not found:
        return _balanced_by_coordinator(network)
    balances = [balance for _, balance in found]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("balancing" if all(one.is_automatic for one in balances) else "balancing by hand", style="dim")
    for condition in ("OK", "LOW", "BUSY", "STABILIZING", "HIGH", "N/A", "OVERLOAD"):
        of = [broker for broker, balance in found if balance.condition == condition]
        if of:
            text.append(f"  {len(of)} {condition}", style="bold red" if condition in ("N/A", "OVERLOAD") else "")
    sessions = {name: sum(one.sessions.get(name, 0) for one in balances) for name in ("moved", "nothing", "failed")}
    text.append(f"  sessions {sessions['moved']}/{sessions['nothing']}/{sessions['failed']}")
    text.append(f"  clients moved {short(sum(one.moved_away for one in balances))}")
    errors = [one.errors for one in balances if one.errors is not None]
    if errors:
        worst = (max(getattr(one, name) for one in errors) for name in ("input_utilisation", "output_utilisation"))
        text.append("  off by in {:.0%} out {:.0%}".format(*worst))
    delays = [one.status.load.matching_delay_s for one in _of_view(network, view) if one.status.load is not None]
    if view.chosen != ALL and delays:
        text.append(f"  delay {delays[0] * 1e3:.2g}ms")
    return text


def _balanced_by_coordinator(network: Network) -> Text | None:
    """The same of a coordinator that decides; None if none does."""
    for one in network.coordinators:
        if one.balance is not None:
            seen = one.balance
            text = Text(no_wrap=True, overflow="ellipsis")
            text.append("balancing", style="dim")
            text.append(f"  {seen.policy} by the coordinator  cov {seen.cov:.2f}  mean {short(seen.mean_bytes_s)}B/s")
            text.append(f"  plans {seen.plans}  clients moved {short(seen.moved)}")
            text.append("  moving" if seen.is_moving else "")
            return text
    return None


def _unreachable(one: Unanswered) -> str:
    from tidewire.observe.network import UNREACHABLE

    who = f"{one.broker} at {one.address}" if one.broker else one.address
    return f"{who} is {UNREACHABLE}: {one.reason}"


def _title(network: Network, view: View) -> Text:
    from datetime import datetime

    now = datetime.fromtimestamp(network.at_unix_s).astimezone().strftime("%H:%M:%S")
    clients = sum(status.clients for status in network.statuses())
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("tidewire top", style="bold")
    text.append(f"  {now}  {len(network.brokers)} brokers  {clients:,} clients")
    text.append(f"  sorted by {view.sort}", style="dim")
    if network.silent:
        text.append(f"  {len(network.silent)} unreachable", style="bold red")
    return text


def _table(*columns: tuple[str, int, bool]) -> Table:
    """Columns by name, width, and whether they hold numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    for name, width, is_number in columns:
        table.add_column(
            name,
            width=width,
            justify="right" if is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    return table


def _brokers(network: Network, view: View, lines: int, *, plain: bool) -> Table:
    figures = [(name, 6, True) for name in ("in/s", "out/s", "fwd/s", "queued")]
    table = _table(
        ("broker", 13, False), ("role", _ROLE, False), ("client", 6, True), *figures,
        *((name, _BAR, False) for name in ("in", "out", "cpu", "mem")),
    )  # fmt: skip
    rows, states = view.sorted(network), network.states()
    table.add_row(*_total_row(network), style="reverse" if view.chosen == ALL else "bold")
    at = next((place for place, one in enumerate(rows) if one.status.broker == view.chosen), 0)
    room = max(1, lines - 1)
    first = max(0, min(at - room + 1, len(rows) - room)) if at >= room else 0
    for one in rows[first : first + room]:
        status, rates = one.status, one.rates
        figures_shown = (
            [short(r) for r in (rates.events_s, rates.deliveries_s, rates.forwards_s)] if rates else ["-"] * 3
        )
        table.add_row(
            escape(status.broker),
            _role(one, states[status.broker]),
            short(status.clients),
            *figures_shown,
            size(status.queued_bytes),
            *(bar(value, _BAR, plain=plain) for value in _loads(one).values()),
            style="reverse" if status.broker == view.chosen else "",
        )
    return table


def _role(one: Answered, state: BrokerState) -> str:
    """Its role, or its state if that says more; as much of it as there is room for."""
    return one.status.role if state == "serving" else f"[yellow]{state[:_ROLE]}[/yellow]"


def _total_row(network: Network) -> list[str]:
    rates = [one.rates for one in network.brokers if one.rates is not None]
    clients = sum(status.clients for status in network.statuses())
    queued = sum(status.queued_bytes for status in network.statuses())
    figures = ["-"] * 3
    if rates:
        figures = [
            short(sum(getattr(one, name) for one in rates)) for name in ("events_s", "deliveries_s", "forwards_s")
        ]
    return ["all", "", short(clients), *figures, size(queued), "", "", "", ""]


def _of_view(network: Network, view: View) -> list[Answered]:
    return [one for one in network.brokers if view.chosen in (ALL, one.status.broker)]


def _slow_of(network: Network, view: View) -> list[tuple[Answered, SlowConsumer]]:
    found = [(one, slow) for one in _of_view(network, view) for slow in one.status.slow]
    return sorted(found, key=lambda pair: (pair[1].queued_bytes, pair[1].dropped), reverse=True)


def _slow_table(slow: list[tuple[Answered, SlowConsumer]], lines: int, *, plain: bool) -> Table:
    table = _table(
        ("slow consumer", 26, False), ("at", 14, False), ("queue", 8, False), ("queued", 6, True), ("lost", 6, True),
        ("last loss", 9, True),
    )  # fmt: skip
    for one, client in slow[:lines]:
        lost = client.dropped_age_s
        table.add_row(
            escape(client.name),
            escape(one.status.broker),
            bar(client.queued_bytes / one.status.queue_bytes_max, 8, plain=plain),
            size(client.queued_bytes),
            short(client.dropped),
            "-" if lost is None else f"{ago(lost)} ago",
        )
    if len(slow) > lines:
        table.add_row(f"[dim]and {len(slow) - lines} more[/dim]")
    return table


def _decisions_of(network: Network, view: View) -> list[tuple[str, Decision]]:
    found = [(one.status.broker, decision) for one in _of_view(network, view) for decision in one.status.decisions]
    return sorted(found, key=lambda pair: pair[1].age_s)


def _decisions(decisions: list[tuple[str, Decision]], lines: int) -> Table:
    table = _table(("ago", 4, True), ("at", 12, False), ("what happened", 62, False))
    for broker, one in decisions[:lines]:
        times = f" x{one.times}" if one.times > 1 else ""
        facts = sorted(one.facts.items(), key=lambda fact: isinstance(fact[1], str))  # names may be long: last
        told = "  ".join(f"[dim]{escape(name)}[/dim] {escape(value)}" for name, value in facts)
        table.add_row(ago(one.age_s), escape(broker), f"{escape(one.what)}{times}  {told}")
    return table
