"""The commands, by name."""

from __future__ import annotations

from typing import Annotated

import typer

import tidewire
from tidewire.cli.bench import bench
from tidewire.cli.demo import demo
from tidewire.cli.explain import explain
from tidewire.cli.serve import broker, coordinator
from tidewire.cli.shell import Shell
from tidewire.cli.sim import sim
from tidewire.cli.talk import drain, pub, sub
from tidewire.cli.token import certificate, token
from tidewire.cli.up import up

app = typer.Typer(
    cls=Shell,
    name="tidewire",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidewire {tidewire.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Content-based publish/subscribe: say what you want, never where to find it.

    See it work:  [bold]tidewire demo[/bold]
    """


app.add_typer(demo, name="demo")
app.command()(up)
app.command(no_args_is_help=True)(pub)
app.command(no_args_is_help=True)(sub)
app.command(no_args_is_help=True)(explain)
app.command()(broker)
app.command()(coordinator)
app.command(no_args_is_help=True)(drain)
app.add_typer(token, name="token")
app.add_typer(certificate, name="certificate")
app.command()(sim)
app.add_typer(bench, name="bench")
