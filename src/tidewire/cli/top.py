"""`tidewire top`: live rates, loads and slow consumers, like htop."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidewire.cli.credentials import TokenFile
from tidewire.cli.reach import AtAny, Patience, refuse_emptiness, surveyor
from tidewire.cli.shell import AsJson, choices, console, print_json, print_json_line
from tidewire.model.errors import UnknownName

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from tidewire.cli.top_view import View
    from tidewire.live.survey import Surveyor
    from tidewire.observe.network import Network

ORDERS: Final = ("name", "events", "deliveries", "clients", "load", "queued")
_KEY: Final = re.compile(r"\x1b[\[O][A-Z]|.", re.DOTALL)
"""One key: an arrow is three characters, and several keys may come at once."""
_ARROWS: Final = {"\x1b[A": "k", "\x1b[B": "j", "\x1bOA": "k", "\x1bOB": "j"}


def top(
    at: AtAny = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 1.0,
    sort: Annotated[
        str,
        typer.Option(help="name, events, deliveries, clients, load or queued.", autocompletion=choices(*ORDERS)),
    ] = "name",
    once: Annotated[bool, typer.Option("--once", help="One look with rates, then end.")] = False,
    timeout: Patience = 2.0,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Watch a network live: rates, loads, slow consumers, and what the brokers decided. q ends it, h helps.

    Without a terminal it prints a table each time; with --json a document a line.

    [bold]Examples[/bold]

      tidewire top

      tidewire top --at 127.0.0.1:7601 --every 5 --sort load

      tidewire top --once

      tidewire top --json | jq -c '.brokers\\[] | {broker: .status.broker, rates}'
    """
    from tidewire.cli.top_view import View

    if sort not in ORDERS:
        raise UnknownName(sort, what="order", known=ORDERS)
    looking, _ = surveyor(at, token_file, timeout=timeout)
    out, view = console(), View(sort=sort)
    if as_json or once or not out.is_terminal:
        asyncio.run(_plain(looking, view, out, every=every, once=once, as_json=as_json))
    else:
        asyncio.run(_Screen(looking, view, out, every=every).run())


async def _plain(looking: Surveyor, view: View, out: Console, *, every: float, once: bool, as_json: bool) -> None:
    """A table or a document each time; the first comes with rates."""
    refuse_emptiness(await looking.look())
    while True:
        await asyncio.sleep(every)
        network = await looking.look()
        if as_json and once:
            print_json(network)
        elif as_json:
            print_json_line(network)
        else:
            _print_tables(network, view, out)
        if once:
            return


def _print_tables(network: Network, view: View, out: Console) -> None:
    from tidewire.cli.top_view import draw

    height = 20 + len(network.brokers) + len(network.silent)
    out.print(draw(network, view, height=height, plain=_is_plain(out), keys=False))
    out.print()
    sys.stdout.flush()


def _is_plain(out: Console) -> bool:
    return not out.encoding.lower().startswith("utf")


class _Screen:
    """A full screen that is drawn anew with each look and each key."""

    def __init__(self, looking: Surveyor, view: View, out: Console, *, every: float) -> None:
        self._looking = looking
        self._view = view
        self._out = out
        self._every = every
        self._network: Network | None = None
        self._is_over: asyncio.Event | None = None
        self._live: Live | None = None

    async def run(self) -> None:
        """Until q, Ctrl-C or a signal."""
        from rich.live import Live

        network = await self._looking.look()
        refuse_emptiness(network)
        self._network = network
        over = self._is_over = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, over.set)
        loop.add_signal_handler(signal.SIGWINCH, self._draw)
        with _keys(self._pressed), Live(console=self._out, screen=True, auto_refresh=False) as live:
            self._live = live
            while not over.is_set():
                self._draw()
                try:
                    async with asyncio.timeout(self._every):
                        await over.wait()
                except TimeoutError:
                    self._network = await self._looking.look()

    def _draw(self) -> None:
        from rich.console import Group
        from rich.text import Text

        from tidewire.cli.top_view import draw

        if self._live is None or self._network is None:
            return
        height = self._out.size.height
        drawn = draw(self._network, self._view, height=height, plain=_is_plain(self._out))
        keys = Text("q end  j/k choose a broker  s sort  h help", style="dim")
        self._live.update(Group(drawn, keys), refresh=True)

    def _pressed(self, key: str) -> None:
        assert self._network is not None
        assert self._is_over is not None
        match key:
            case "q" | "Q":
                self._is_over.set()
                return
            case "s":
                self._view.next_sort()
            case "j" | "k":
                self._view.move(self._network, 1 if key == "j" else -1)
            case "h" | "?":
                self._view.is_help = not self._view.is_help
            case _:
                self._view.is_help = False
        self._draw()


@contextmanager
def _keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Keys come one by one, unseen; the terminal is as it was afterwards, whatever happens."""
    if not sys.stdin.isatty():
        yield
        return
    import os
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    loop = asyncio.get_running_loop()

    def read() -> None:
        text = os.read(fd, 64).decode("utf-8", "replace")
        if not text:  # the terminal is gone
            loop.remove_reader(fd)
            pressed("q")
        for key in _KEY.findall(text):
            pressed(_ARROWS.get(key, key))

    try:
        tty.setcbreak(fd)
        loop.add_reader(fd, read)
        yield
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
