"""`tidewire pub`, `forget` and `drain`: what a person at a terminal says to a running network."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidewire.cli.credentials import At, TokenFile, access
from tidewire.cli.marked import escape
from tidewire.cli.reach import refuse_emptiness, surveyor
from tidewire.cli.session import PATIENCE_S, CoordinatorAt, Place, Way, way
from tidewire.cli.shell import ERROR_EXIT, AsJson, console, print_json
from tidewire.model.errors import TidewireError, UnknownName, UsageError, error_of
from tidewire.model.text import visible

if TYPE_CHECKING:
    from pathlib import Path

    from tidewire.client.events import Tell
    from tidewire.live.receipts import Receipts
    from tidewire.model.events import Event
    from tidewire.observe.network import Network

_TAB_S: Final = 0.5
"""Whoever presses Tab does not wait longer."""


def pub(
    events: Annotated[
        list[str],
        typer.Argument(
            metavar="EVENT",
            help="JSON or PADRES tuples; [bold]-[/bold]: lines of standard input, each published as it comes.",
        ),
    ],
    at: At = None,
    coordinator: CoordinatorAt = None,
    location: Place = None,
    token_file: TokenFile = None,
    count: Annotated[int, typer.Option(help="Publish what is on the command line so many times.", min=1)] = 1,
    rate: Annotated[float, typer.Option(help="Events per second; 0: as fast as they are taken.", min=0)] = 0.0,
    guaranteed: Annotated[
        bool,
        typer.Option(
            "--guaranteed", help="Each is acknowledged when it is durable, and then not lost (else: best effort)."
        ),
    ] = False,
    deadline: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="They are of use for so long: late ones are thrown away (best effort)."),
    ] = None,
    value: Annotated[float | None, typer.Option(help="What each is worth, from 0 to 1.")] = None,
    as_json: AsJson = False,
) -> None:
    """Publish events, in their order.

    It ends at the first that cannot be taken, with exit code 2, and says which one it is and how many were taken. No
    event at all is no error.

    [bold]Examples[/bold]

      tidewire pub '{"class": "QUAKE", "magnitude": 6.4}'

      tidewire pub "\\[class,'STOCK'],\\[volume,20]" --count 10 --rate 2

      cat quakes.jsonl | tidewire pub - --guaranteed

      tidewire pub '{"class": "WARNING", "area": 7}' --deadline 2 --value 0.9
    """
    if count > 1 and "-" in events:
        raise UsageError("--count repeats what is on the command line, and standard input has its lines only once")
    publishing = _Publishing(guaranteed=guaranteed)
    to = way(at, coordinator, location, token_file)
    try:
        made = _due(_events(events, count), deadline_s=deadline, value=value)
        asyncio.run(publishing.run(to, made, rate=rate))
    except KeyboardInterrupt:  # whoever pressed Ctrl-C wants to know where to go on
        publishing.show_interrupted(as_json=as_json)
        raise
    done = publishing.document()
    if as_json:
        print_json(done)
    else:
        _show_published(done, guaranteed=guaranteed)
    if done["refused"]:
        raise typer.Exit(ERROR_EXIT)


class _Publishing:
    """Events of one command, and what has become of them."""

    def __init__(self, *, guaranteed: bool) -> None:
        self._is_guaranteed = guaranteed
        self._receipts: Receipts | None = None
        self._refused = 0
        self._broker: str | None = None
        self._began = monotonic()

    async def run(self, to: Way, events: AsyncIterator[Event], *, rate: float) -> None:
        """Publish them; guaranteed ones are durable then."""
        from tidewire.live.receipts import Receipts

        async with to.connect("tidewire pub", on_notice=self._noticed) as wire:
            with Receipts(wire, guaranteed=self._is_guaranteed) as self._receipts:
                try:
                    await self._receipts.add_all(_add(self._receipts, events, rate=rate))
                except UsageError as error:  # a text that is no event
                    raise await self._receipts.ended_by(error) from None
                finally:
                    self._broker = wire.publishing_at
                await self._receipts.all()
            await wire.flush()
            self._broker = wire.publishing_at

    def _noticed(self, notice: Tell) -> None:
        self._refused += int(notice.facts["events"]) if notice.what == "events refused" else 0
        show_notice(notice)

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        taken, _, _ = self._counts()
        return {
            "published": taken - self._refused,
            "durable": taken if self._is_guaranteed else 0,
            "refused": self._refused,
            "broker": self._broker,
            "seconds": monotonic() - self._began,
        }

    def show_interrupted(self, *, as_json: bool) -> None:
        """How far it has come."""
        if self._receipts is not None:
            sys.stderr.write(f"interrupted; {self._receipts.outcome()}\n")
        if as_json:
            _, not_taken, in_doubt = self._counts()
            print_json({**self.document(), "not_taken": not_taken, "in_doubt": in_doubt, "interrupted": True})

    def _counts(self) -> tuple[int, int, int]:
        return (0, 0, 0) if self._receipts is None else self._receipts.counts()


async def _add(receipts: Receipts, events: AsyncIterator[Event], *, rate: float) -> None:
    began = monotonic()
    async for event in events:
        if rate:
            await asyncio.sleep(max(0.0, began + receipts.begun / rate - monotonic()))
        await receipts.add(event)
        if receipts.has_failed:
            return


def _show_published(done: dict[str, Any], *, guaranteed: bool) -> None:
    count, where = done["published"], escape(done["broker"])
    if not count and not done["refused"]:
        console().print("nothing was published: standard input had no event")
        return
    kept = f", {done['durable']} acknowledged: durable there" if guaranteed else ""
    console().print(f"published [bold]{count}[/bold] at {where}{kept}")


def show_notice(notice: Tell) -> None:
    """Events lost or refused, moves, lost connections: beside the answer."""
    told = "  ".join(f"{name} {value}" for name, value in notice.facts.items())
    sys.stderr.write(visible(f"{notice.what}  {told}") + "\n")


async def _due(events: AsyncIterator[Event], *, deadline_s: float | None, value: float | None) -> AsyncIterator[Event]:
    from tidewire.model.events import with_deadline

    async for event in events:
        yield with_deadline(event, deadline_s=deadline_s, value=value)


async def _events(texts: list[str], count: int) -> AsyncIterator[Event]:
    """What was given, so many times."""
    from tidewire.cli.typed import typed_lines

    for _ in range(count):
        for place, text in enumerate(texts, 1):
            if text != "-":
                yield _event_of(text, f"EVENT {place} of the command line" if len(texts) > 1 else "")
                continue
            number = 0
            async for line in typed_lines():
                number += 1
                if line.strip():
                    yield _event_of(line, f"line {number} of standard input")


def _event_of(text: str, where: str) -> Event:
    from tidewire.cli.explain import read_event

    try:
        return read_event(text)
    except UsageError as error:
        if not where:
            raise
        raise error_of(error.code, f"{where} is no event: {error.message}") from None


def forget(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of a durable subscription.")],
    at: At = None,
    coordinator: CoordinatorAt = None,
    location: Place = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """End a durable subscription for good: no event is kept for its name any more.

    [bold]Example[/bold]

      tidewire forget alarms
    """
    to = way(at, coordinator, location, token_file)

    async def run() -> None:
        async with to.connect("tidewire forget") as wire:
            await wire.forget(name)

    asyncio.run(run())
    if as_json:
        print_json({"forgotten": name})
    else:
        console().print(f"nothing is kept for {escape(name)} any more")


def _running_brokers(incomplete: str) -> list[tuple[str, str]]:
    """For a shell: the names of the brokers that run, and where they are."""
    try:
        found = asyncio.run(_look(None, None, seconds=_TAB_S)).brokers
    except TidewireError:
        return []
    return [(one.status.broker, one.where) for one in found if one.status.broker.startswith(incomplete)]


async def _look(at: str | None, token_file: Path | None, *, seconds: float) -> Network:
    looking, _ = surveyor(None if at is None else [at], token_file, timeout=seconds)
    return await looking.look()


def _address_of(broker: str, at: str | None, token_file: Path | None) -> str:
    """Where a broker is: it is given by that, or by its name, which another broker knows."""
    if ":" in broker or "." in broker or broker == "localhost":
        return broker
    network = asyncio.run(_look(at, token_file, seconds=PATIENCE_S))
    refuse_emptiness(network)
    found = network.broker(broker)
    if found is None:
        raise UnknownName(broker, what="broker", known=[status.broker for status in network.statuses()])
    return found.where


def drain(
    broker: Annotated[
        str,
        typer.Argument(
            metavar="BROKER", help="The broker to empty, by its name or HOST:PORT.", autocompletion=_running_brokers
        ),
    ],
    at: At = None,
    token_file: TokenFile = None,
    seconds: Annotated[float, typer.Option(help="Give up after so many.", min=0.1)] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Move every client of a broker elsewhere, without loss; then it can be stopped.

    A broker that is given by its name is looked for in the network of --at.

    [bold]Examples[/bold]

      tidewire drain edge1

      tidewire drain 127.0.0.1:7601

      tidewire drain edge1 --at 127.0.0.1:7600
    """
    from tidewire.live.operate import drain_broker

    if seconds <= 0:
        raise UsageError("--seconds must be more than 0")
    to = access(_address_of(broker, at, token_file), token_file)
    asyncio.run(drain_broker(to.at, seconds=seconds, credentials=to.credentials))
    if as_json:
        print_json({"drained": broker})
    else:
        console().print(f"{escape(broker)} has no clients any more: it can be stopped")
