"""`tidewire channel`: create, list, explain, pause and drop the channels of a data cluster, and subscribe to one."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidewire.cli.credentials import At, DataClusterAt, TokenFile, cluster_access
from tidewire.cli.marked import escape
from tidewire.cli.session import CoordinatorAt, Place, Way, way
from tidewire.cli.shell import AsJson, JsonLines, console, print_json, print_json_line
from tidewire.cli.talk import show_notice
from tidewire.model.errors import BadConfiguration, Unavailable, UsageError
from tidewire.model.text import visible

if TYPE_CHECKING:
    from tidewire.channels.commands import ChannelAnswer, ChannelCommand, ChannelDocument
    from tidewire.live.channels import ChannelNotification, ChannelSubscription

channel = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Create, list, explain and end channels, and subscribe to them.",
    rich_markup_mode="rich",
)

Name = Annotated[str, typer.Argument(help="Of the channel.")]
Declared = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="create channel …; [bold]-[/bold]: standard input.")
]
FromFile = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="The text is in this file.")]
_BEGINS: Final = "create"


def _ask(data_cluster: str | None, token_file: Path | None, command: ChannelCommand) -> ChannelAnswer:
    from tidewire.live.operate import command_channels

    to = cluster_access(data_cluster, token_file)
    try:
        return asyncio.run(command_channels(to.at, command, credentials=to.credentials))
    except Unavailable as error:
        where = "--data-cluster HOST:PORT says where another one is" if data_cluster is None else "is that its address?"
        raise Unavailable(
            f"the data cluster does not answer: {error.message}. It takes some seconds to start (tidewire up"
            f" --data-cluster, tidewire datacluster); {where}"
        ) from None


def _text(text: str | None, file: Path | None) -> str:
    if (text is None) is (file is None):
        raise UsageError("give the text of the channel, or --file with it")
    if text == "-":
        return sys.stdin.read()
    if file is None:
        return text or ""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration(f"no channel can be read from {file}: {error}") from None


@channel.command(no_args_is_help=True)
def create(
    text: Declared = None,
    file: FromFile = None,
    data_cluster: DataClusterAt = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a channel: a query with parameters, which tells each subscriber what is new for it.

    [bold]Examples[/bold]

      tidewire channel create "create channel strong(least double) period 10s as
      select q.place, q.magnitude from quakes q where q.magnitude >= :least"

      tidewire channel create --file near_quakes.sql
    """
    from tidewire.channels.commands import CreateChannel

    found = _ask(data_cluster, token_file, CreateChannel(_text(text, file)))
    [made] = found.channels
    if as_json:
        print_json({"channel": made})
    else:
        given = " ".join(f"{one.name}=…" for one in made.parameters)
        console().print(f"{escape(made.channel)} is there: tidewire channel subscribe {escape(made.channel)} {given}")


@channel.command("list")
def list_all(data_cluster: DataClusterAt = None, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """List the channels: what they take and tell, how often they run, and how many subscriptions they have."""
    from rich.table import Table

    from tidewire.channels.commands import ListChannels

    found = _ask(data_cluster, token_file, ListChannels()).channels
    if as_json:
        print_json({"channels": found})
        return
    if not found:
        console().print("there are no channels: tidewire channel create")
        return
    table = Table(
        "name", "parameters", "columns", "runs", "subscriptions", box=None, pad_edge=False, header_style="bold"
    )
    for one in found:
        parameters = ", ".join(f"{column.name} {column.type}" for column in one.parameters)
        columns = ", ".join(column.name for column in one.columns)
        table.add_row(escape(one.channel), escape(parameters), escape(columns), _rhythm(one), f"{one.subscriptions:,}")
    console().print(table)


def _rhythm(one: ChannelDocument) -> str:
    if one.is_paused:
        return "paused"
    return "continuous" if one.period_ms is None else f"every {one.period_ms / 1000:g} s"


def _change(command: ChannelCommand, told: str, to: tuple[str | None, Path | None], *, as_json: bool) -> None:
    [one] = _ask(*to, command).channels
    if as_json:
        print_json({"channel": one})
    else:
        console().print(f"{escape(one.channel)} {told}")


@channel.command(no_args_is_help=True)
def drop(name: Name, data_cluster: DataClusterAt = None, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """End a channel for good, with its results. Its subscribers are told."""
    from tidewire.channels.commands import DropChannel

    _change(DropChannel(name), "is no more", (data_cluster, token_file), as_json=as_json)


@channel.command(no_args_is_help=True)
def pause(
    name: Name, data_cluster: DataClusterAt = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Let a channel run no more for now. Its subscriptions stay, and what comes meanwhile waits."""
    from tidewire.channels.commands import PauseChannel

    _change(PauseChannel(name), "is paused: tidewire channel resume", (data_cluster, token_file), as_json=as_json)


@channel.command(no_args_is_help=True)
def resume(
    name: Name, data_cluster: DataClusterAt = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Let a paused channel run again: its first run looks at all that has come meanwhile."""
    from tidewire.channels.commands import ResumeChannel

    _change(ResumeChannel(name), "runs again", (data_cluster, token_file), as_json=as_json)


@channel.command(no_args_is_help=True)
def explain(
    text: Annotated[str | None, typer.Argument(metavar="NAME|TEXT", help="A channel, or one to be.")] = None,
    file: FromFile = None,
    data_cluster: DataClusterAt = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Say how a channel is carried out, and at what cost, by estimate; or how one would be.

    [bold]Examples[/bold]

      tidewire channel explain near_quakes

      tidewire channel explain --file near_quakes.sql
    """
    from tidewire.channels.commands import ExplainChannel

    declared = _text(text, file)
    is_text = declared.lstrip().lower().startswith(_BEGINS) and len(declared.split()) > 1
    command = ExplainChannel(text=declared) if is_text else ExplainChannel(declared)
    found = _ask(data_cluster, token_file, command)
    if as_json:
        print_json({"explanation": found.explanation.splitlines()})
    else:
        console().print(escape(found.explanation, lines=True), soft_wrap=True)


@channel.command(no_args_is_help=True)
def subscribe(
    channel: Name,
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE",
            help="Numbers, true, false; else a string, in double quotes if it looks like those; @2026-11-15T12:00:00Z.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="By this name every result is owed, also those from while nobody listens."),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Nothing is owed to the name any more.")] = False,
    count: Annotated[int, typer.Option(help="End after so many notifications; 0: never.", min=0)] = 0,
    seconds: Annotated[float, typer.Option(help="End after so many seconds; 0: never.", min=0)] = 0.0,
    at: At = None,
    coordinator: CoordinatorAt = None,
    location: Place = None,
    token_file: TokenFile = None,
    as_json: JsonLines = False,
) -> None:
    """Subscribe to a channel, and print what it finds until Ctrl-C.

    With --json each line is a document with the "rows" of one run, each with the events that it came from.

    [bold]Examples[/bold]

      tidewire channel subscribe strong least=6

      tidewire channel subscribe near_me me=ann --name ann --json

      tidewire channel subscribe near_me me=ann --name ann --forget
    """
    given = dict(_given(one) for one in parameters or [])
    if forget and name is None:
        raise UsageError("--forget needs the --name to which nothing is owed any more")
    to = way(at, coordinator, location, token_file)
    try:
        asyncio.run(_listen(to, channel, given, name, forget=forget, count=count, seconds=seconds, as_json=as_json))
    except TimeoutError:
        return


def _given(text: str) -> tuple[str, Any]:
    """A parameter with its value."""
    import msgspec

    from tidewire.model.values import Timestamp

    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"{text!r} is no parameter: write NAME=VALUE")
    if value.startswith("@"):
        return name, Timestamp.parse(value[1:])
    try:
        return name, msgspec.json.decode(value, type=bool | int | float | str)
    except msgspec.DecodeError:
        return name, value


async def _listen(
    to: Way,
    channel: str,
    given: dict[str, Any],
    name: str | None,
    *,
    forget: bool,
    count: int,
    seconds: float,
    as_json: bool,
) -> None:
    async with (
        to.connect("tidewire channel", on_notice=show_notice) as wire,
        asyncio.timeout(seconds or None),
        wire.channel(channel, given, name=name) as found,
    ):
        if forget:
            await found.forget()
            _show_forgotten(channel, name or "", as_json=as_json)
            return
        sys.stderr.write(visible(f"subscribed at {wire.subscribed_at}; Ctrl-C ends it") + "\n")
        await _print(found, count, as_json=as_json)


async def _print(found: ChannelSubscription, count: int, *, as_json: bool) -> None:
    got = 0
    async for notification in found:
        _show(notification, as_json=as_json)
        got += 1
        if got == count:
            return


def _show_forgotten(channel: str, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json_line({"forgotten": name, "channel": channel})
    else:
        console().print(f"nothing of {escape(channel)} is kept for {escape(name)} any more")


def _show(notification: ChannelNotification, *, as_json: bool) -> None:
    rows = [({name: _cell(value) for name, value in row.items()}, row.origins) for row in notification]
    if as_json:
        print_json_line(
            {
                "channel": notification.channel,
                "parameters": {name: _cell(value) for name, value in notification.parameters.items()},
                "tick": notification.tick,
                "rows": [{"row": row, "origins": origins} for row, origins in rows],
            }
        )
        return
    for row, _ in rows:
        told = "  ".join(f"[dim]{escape(name)}[/dim] {escape(value)}" for name, value in row.items())
        console().print(f"[green]{escape(notification.channel)}[/green]  {told}", soft_wrap=True)
    sys.stdout.flush()


def _cell(value: Any) -> Any:
    from tidewire.model.values import Timestamp

    return str(value) if isinstance(value, Timestamp) else value
