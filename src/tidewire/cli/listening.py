"""`tidewire sub`: what comes, for people or as documents; and what will not come any more."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tidewire.cli.credentials import At, TokenFile
from tidewire.cli.gaps import Gaps, show_loss
from tidewire.cli.marked import escape
from tidewire.cli.session import CoordinatorAt, Place, Way, way
from tidewire.cli.shell import JsonLines, console, print_json_line
from tidewire.cli.talk import show_notice
from tidewire.model.errors import TidewireError, UsageError
from tidewire.model.text import visible

if TYPE_CHECKING:
    from tidewire.client.events import Tell
    from tidewire.live.durable import Since
    from tidewire.live.notification import Notification
    from tidewire.live.subscription import Subscription


def sub(
    filters: Annotated[
        list[str],
        typer.Argument(
            metavar="FILTER", help="Selectors, or PADRES tuples; an event comes once, whichever it matches."
        ),
    ],
    at: At = None,
    coordinator: CoordinatorAt = None,
    location: Place = None,
    token_file: TokenFile = None,
    count: Annotated[int, typer.Option(help="End after so many events; 0: never.", min=0)] = 0,
    seconds: Annotated[float, typer.Option(help="End after so many seconds; 0: never.", min=0)] = 0.0,
    durable: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="By this name every guaranteed event is owed, in order and once, also those from while nobody listens."
            " It is kept until [bold]tidewire forget[/bold] NAME.",
        ),
    ] = None,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Where a name begins that is new: now, earliest, or a time such as 2026-11-15T12:00:00Z.",
        ),
    ] = "now",
    keywords: Annotated[
        str, typer.Option(metavar="WORDS", help="What you are interested in, with commas: events without it give way.")
    ] = "",
    utility: Annotated[
        str | None,
        typer.Option(metavar="EXPRESSION", help='What an event is worth to you, from 0 to 1: "magnitude / 10".'),
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Subscribe, and print what comes until Ctrl-C.

    With --json each line is a document with an "event", with a "gap" in a stream, or with how many were "lost".

    [bold]Examples[/bold]

      tidewire sub "class = 'QUAKE' and magnitude >= 6"

      tidewire sub "symbol = 'YHOO' and price < 20" "class = 'NEWS'" --json

      tidewire sub "magnitude >= 6" --durable alarms --since earliest
    """
    begins = _begins(filters, durable, since)
    to = way(at, coordinator, location, token_file)
    name = None if durable is None else (durable, begins)
    try:
        worth = {"keywords": [word.strip() for word in keywords.split(",") if word.strip()], "utility": utility}
        asyncio.run(_listen(to, filters, name, worth, count=count, seconds=seconds, as_json=as_json))
    except TimeoutError:
        return


async def _listen(
    to: Way,
    filters: list[str],
    name: tuple[str, Since] | None,
    worth: dict[str, Any],
    *,
    count: int,
    seconds: float,
    as_json: bool,
) -> None:
    """Until there was so much, or for so long; ``name``: by which, and where it begins; ``worth``: how it is judged."""
    from tidewire.language import as_selector

    wanted = [as_selector(text) for text in filters]
    gaps = Gaps("" if name is None else name[0], as_json=as_json)

    def noticed(notice: Tell) -> None:
        if notice.what == "gap":
            gaps.add(notice)
        elif notice.what == "events lost":
            show_loss(notice, as_json=as_json)
        else:
            show_notice(notice)

    async with (
        to.connect("tidewire sub", on_notice=noticed) as wire,
        asyncio.timeout(seconds or None),
    ):
        if name is None:
            made = await wire.subscribe_many(wanted, **worth)
        else:
            made = [await wire.subscribe(wanted[0], durable=name[0], since=name[1], **worth)]
        sys.stderr.write(visible(f"subscribed at {wire.subscribed_at}; Ctrl-C ends it") + "\n")
        if name is None:
            await _print(made, filters, count, as_json=as_json)
        else:
            await _print_owed(made[0], filters, count, gaps, as_json=as_json)


def _begins(filters: list[str], durable: str | None, since: str) -> Since:
    """Where it begins; UsageError at once if what was asked for cannot be."""
    from tidewire.live.durable import Durable

    begins = _since(since)
    if durable is not None:
        if len(filters) > 1:
            raise UsageError("a durable subscription has one filter: join them by 'or', or give each a name of its own")
        Durable(durable, since=begins, position={})
    elif begins != "now":
        raise UsageError(
            "--since is for a durable subscription, which past events are kept for: add --durable NAME."
            " When you no longer need it: tidewire forget NAME"
        )
    return begins


def _since(text: str) -> Since:
    """As people write it."""
    from datetime import datetime

    if text in ("now", "earliest"):
        return cast("Since", text)
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"--since {text!r}: now, earliest, seconds since 1970, or 2026-11-15T12:00:00Z") from None


async def _print_owed(subscription: Subscription, filters: list[str], count: int, gaps: Gaps, *, as_json: bool) -> None:
    """What comes by a name, until there was so much. None is taken before the one ahead of it is printed."""
    got = 0
    with gaps.told_beside(subscription):
        async for notification in subscription:
            gaps.before(notification)
            _show(notification, filters, subscription.number, as_json=as_json)
            got += 1
            if got == count:
                return


async def _print(made: list[Subscription], filters: list[str], count: int, *, as_json: bool) -> None:
    """What comes, until there were so many."""
    got, inbox = 0, asyncio.Queue[Any]()
    tasks = [asyncio.create_task(_collect(one, inbox)) for one in made]
    try:
        while not count or got < count:
            notification = await inbox.get()
            if isinstance(notification, TidewireError):
                raise notification
            _show(notification, filters, made[0].number, as_json=as_json)
            got += 1
    finally:
        for task in tasks:
            task.cancel()


async def _collect(subscription: Subscription, inbox: asyncio.Queue[Any]) -> None:
    try:
        async for notification in subscription:
            if notification.subscriptions[0] is subscription:  # the others have it too
                await inbox.put(notification)
    except TidewireError as error:
        await inbox.put(error)


def _show(notification: Notification, filters: list[str], first: int, *, as_json: bool) -> None:
    from tidewire.model.values import Timestamp

    attributes = {
        name: str(value) if isinstance(value, Timestamp) else value for name, value in notification.attributes.items()
    }
    matched = [filters[one.number - first] for one in notification.subscriptions]
    if as_json:
        document = {"event": attributes, "matched": matched, "latency_s": notification.latency}
        if notification.deadline is not None:
            document |= {"deadline_s": notification.deadline, "is_late": notification.is_late}
        print_json_line(document)
    else:
        told = "  ".join(f"[dim]{escape(name)}[/dim] {escape(value)}" for name, value in attributes.items())
        colour, late = ("red", "[red]late[/red]  ") if notification.is_late else ("green", "")
        console().print(f"[{colour}]{notification.latency * 1000:8.2f} ms[/{colour}]  {late}{told}", soft_wrap=True)
    sys.stdout.flush()
