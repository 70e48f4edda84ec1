"""The commands, by name. Each is loaded when it is called: help, completion and every other command go without it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

import tidewire
from tidewire.cli.shell import WITH_PARENT, Shell

if TYPE_CHECKING:
    from typer._click import Command, Context, Parameter


class Entry(NamedTuple):
    """A command: where it is, and the line that lists it."""

    module: str
    attribute: str
    line: str
    needs_arguments: bool = False


COMMANDS: Final = {
    "demo": Entry("demo", "demo", "See it work: a head and two edge brokers, 40 people, a broker emptied meanwhile."),
    "up": Entry("up", "up", "Run a whole network in one terminal: coordinator, one head, two edges. Ctrl-C ends it."),
    "pub": Entry("talk", "pub", "Publish events.", needs_arguments=True),
    "sub": Entry("listening", "sub", "Subscribe, and print what comes until Ctrl-C.", needs_arguments=True),
    "names": Entry("names", "names", "Show the durable subscriptions that events are kept for."),
    "forget": Entry("talk", "forget", "End a durable subscription for good.", needs_arguments=True),
    "explain": Entry(
        "explain", "explain", "Say what a filter means and costs, and why it matches.", needs_arguments=True
    ),
    "broker": Entry("serve", "broker", "Run one broker until Ctrl-C."),
    "coordinator": Entry("serve", "coordinator", "Run the coordinator: it tells a new broker its neighbours."),
    "console": Entry("console", "console", "Serve the HTTP and WebSocket API and the web page, until Ctrl-C."),
    "datacluster": Entry("datacluster", "datacluster", "Run the data cluster: events become rows of tables, on Spark."),
    "dataset": Entry("dataset", "dataset", "Declare, list, load and show the datasets of a data cluster."),
    "channel": Entry("channel", "channel", "Create, list, explain and end channels, and subscribe to them."),
    "top": Entry("top", "top", "Watch a network live: rates, loads, slow consumers, decisions."),
    "overlay": Entry("overlay", "overlay", "Show the whole network: brokers, roles, clients, rates, loads and links."),
    "doctor": Entry("doctor", "doctor", "Find what is wrong with this installation or a running network."),
    "drain": Entry("talk", "drain", "Move every client of a broker elsewhere, without loss.", needs_arguments=True),
    "rebalance": Entry("rebalance", "rebalance", "Make brokers balance their load now, or show what they would do."),
    "token": Entry("token", "token", "Who may do what: make, list, revoke tokens."),
    "certificate": Entry("token", "certificate", "Certificates of nodes, and of clients that use no token."),
    "sim": Entry("sim", "sim", "Run random networks, workloads and faults in virtual time, and check them."),
    "paper": Entry("paper", "paper", "Run the experiments of the papers: claims, the papers' figures, ours."),
    "bench": Entry("bench", "bench", "Measure, beside peers in the same run."),
}


class Root(Shell):
    """The program: it knows its commands by the table, and loads the one that is called."""

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 - the same in every context
        """All of them, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002
        """Enough of it to be listed."""
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else typer.core.TyperCommand(cmd_name, help=entry.line)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """To run what the arguments say; or, if nothing is to be run, to complete them."""
        if extra.get("resilient_parsing"):
            _take_values_as_they_are(self)
        return super().make_context(info_name, args, parent, **extra)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The one that is called, in full."""
        name, found, rest = super().resolve_command(ctx, args)
        if name is not None:
            found = load(name)
            if ctx.resilient_parsing:
                _take_values_as_they_are(found)
        return name, found, rest


def _as_it_is(ctx: Context, value: Any) -> Any:
    del ctx
    return value


def _take_values_as_they_are(command: Command) -> None:
    """For completion, which has no use for values: who presses Tab waits for what checks them, and it is large."""
    known = command.get_params

    def get_params(ctx: Context) -> list[Parameter]:
        found = known(ctx)
        for one in found:
            one.process_value = _as_it_is  # type: ignore[method-assign]
        return found

    command.get_params = get_params  # type: ignore[method-assign]
    for inner in getattr(command, "commands", {}).values():
        _take_values_as_they_are(inner)


def load(name: str) -> Command:
    """The whole command with this name."""
    entry = COMMANDS[name]
    made: Any = getattr(import_module(f"tidewire.cli.{entry.module}"), entry.attribute)
    if not isinstance(made, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name, no_args_is_help=entry.needs_arguments)(made)
        made = alone
    command = typer.main.get_command(made)
    command.name = name
    return command


app = typer.Typer(
    cls=Root,
    name="tidewire",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidewire {tidewire.__version__}")
        raise typer.Exit


def _end_with_parent(wanted: bool) -> None:
    if wanted:
        from tidewire.live.process import end_with_parent

        end_with_parent()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    with_parent: Annotated[
        bool,
        typer.Option(
            WITH_PARENT,
            callback=_end_with_parent,
            hidden=True,
            help="End when standard input does, with who started it.",
        ),
    ] = False,
) -> None:
    """Content-based publish/subscribe: say what you want, never where to find it.

    See it work:  [bold]tidewire demo[/bold]
    """
