"""`tidewire token` and `certificate`: who may do what in a secured installation."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import to_builtins
from msgspec.structs import replace
from rich.table import Table

from tidewire.cli.credentials import STATE
from tidewire.cli.marked import escape
from tidewire.cli.shell import AsJson, console, print_json
from tidewire.model.errors import TidewireError, UsageError

if TYPE_CHECKING:
    from tidewire.live.tokens import Issued
    from tidewire.wire.connections import CertificateOf

SECURITY: Final = STATE / "security"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_557_600}

Folder = Annotated[Path, typer.Option("--security", metavar="DIR", help="Where the keys of the installation are.")]
Filter = typer.Option(metavar="FILTER", help="A filter, or [bold]*[/bold] for anything.")

token = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Who may do what: make, list, revoke tokens.")
certificate = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", help="Certificates of nodes, and of clients that use no token."
)


@token.command("create", no_args_is_help=True)
def create(
    name: Annotated[str, typer.Argument(help="Of the person or program it is for.")],
    publish: Annotated[str | None, Filter] = None,
    subscribe: Annotated[str | None, Filter] = None,
    advertise: Annotated[str | None, typer.Option(metavar="FILTER", help="By default as --publish.")] = None,
    observe: Annotated[bool, typer.Option("--observe", help="May see topology, loads, decisions, metrics.")] = False,
    operate: Annotated[
        bool, typer.Option("--operate", help="May drain brokers, make them balance now, and register foreign ones.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="May do everything.")] = False,
    weight: Annotated[
        float, typer.Option(min=0, max=1, help="How much its opinion of events counts under shortage.")
    ] = 1.0,
    expires: Annotated[str, typer.Option(metavar="TIME", help="Good for so long: 12h, 30d, 1y.")] = "30d",
    bound_to: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="Good only together with this certificate.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it there, for its owner alone.")] = None,
    security: Folder = SECURITY,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once: whoever has it can use it.

    Permissions are filters: those to subscribe narrow every subscription, those to publish are asked of every event.

    [bold]Examples[/bold]

      tidewire token create sensor7 --publish "class = 'TEMPERATURE' and room = 7"

      tidewire token create ann --subscribe "region = 'north'" --expires 12h --out ann.token

      tidewire token create admin --all
    """
    from tidewire.identity.grants import EVERYTHING, Grant, described
    from tidewire.live.certificates import fingerprint_of
    from tidewire.live.tokens import issue

    given = Grant(publish=publish, subscribe=subscribe, advertise=advertise, observe=observe, operate=operate)
    grant = replace(EVERYTHING if everything else given, weight=weight)
    if everything and (publish or subscribe or advertise):
        raise UsageError("--all allows everything: leave out --publish, --subscribe and --advertise")
    fingerprint = None if bound_to is None else fingerprint_of(bound_to)
    shown, made = issue(security, name, grant, seconds=_seconds(expires), certificate=fingerprint, out=out)
    if as_json:
        where = {"token": shown} if out is None else {"file": str(out)}
        print_json({**to_builtins(made), **where})
        return
    for act, what in described(grant):
        console().print(f"[dim]{made.name} may {act}[/dim] {escape(what)}", soft_wrap=True)
    console().print(f"[dim]until {_date(made.expires_s)}; its id is {made.id}[/dim]", soft_wrap=True)
    console().print(f"written to {escape(out)}" if out is not None else escape(shown), soft_wrap=True)


@token.command("list")
def list_tokens(security: Folder = SECURITY, as_json: AsJson = False) -> None:
    """The tokens that were made here: for whom, what they allow, and whether they are still good."""
    from tidewire.live.tokens import issued

    found = issued(security)
    if as_json:
        print_json([{**to_builtins(one.token), "state": _state(one)} for one in found])
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "name", "state", "until", "may"):
        table.add_column(column)
    for one in found:
        allowed = to_builtins(one.token.grant).items()
        may = ", ".join(act if what is True else f"{act} {what}" for act, what in allowed if what)
        cells = (one.token.id, one.token.name, _state(one), _date(one.token.expires_s), may)
        table.add_row(*map(escape, cells))
    console().print(table if found else "no token was made here: tidewire token create NAME ...")


def _good_tokens(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """For a shell: names and ids of what can still be revoked."""
    from tidewire.live.tokens import issued

    try:
        good = [one.token for one in issued(Path(ctx.params.get("security") or SECURITY)) if _state(one) == "good"]
    except TidewireError:
        return []
    offered = {one.name: f"all of {one.name}" for one in good} | {one.id: f"of {one.name}" for one in good}
    return [(word, told) for word, told in offered.items() if word.startswith(incomplete)]


@token.command("revoke", no_args_is_help=True)
def revoke_token(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID", help="Ids of tokens, or names: then all of that name.", autocompletion=_good_tokens
        ),
    ],
    security: Folder = SECURITY,
    as_json: AsJson = False,
) -> None:
    """Take tokens back. Brokers that read this folder see it within a second, and end what was begun with them."""
    from tidewire.live.tokens import revoke_tokens

    gone = revoke_tokens(security, ids)
    if as_json:
        print_json({"revoked": [one.id for one in gone]})
        return
    for one in gone:
        console().print(f"revoked {one.id} of {escape(one.name)}")


def _state(one: Issued) -> str:
    return "revoked" if one.is_revoked else "expired" if one.has_expired else "good"


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([smhdwy])", text.strip())
    if found is None or int(found[1]) == 0:
        raise UsageError(f"--expires {text}: write a number and a unit, such as 90s, 30m, 12h, 30d, 2w or 1y")
    return int(found[1]) * _UNITS[found[2]]


def _date(unix_s: float) -> str:
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):  # no date is so late
        return "the end of the calendar"


@certificate.command("init")
def init(security: Folder = SECURITY, as_json: AsJson = False) -> None:
    """Make an authority that signs certificates, and the keys of tokens, unless they are there."""
    from tidewire.live.security import init_security

    is_new = init_security(security)
    if as_json:
        print_json({"security": str(security), "isNew": is_new})
    else:
        console().print(f"{'made' if is_new else 'there is one already in'} {escape(security)}")


@certificate.command("create", no_args_is_help=True)
def create_certificate(
    name: Annotated[str, typer.Argument(help="Of the client, or of the broker.")],
    broker: Annotated[bool, typer.Option("--broker", help="It is for the broker of this name.")] = False,
    coordinator: Annotated[bool, typer.Option("--coordinator", help="It is for the coordinator.")] = False,
    datacluster: Annotated[bool, typer.Option("--datacluster", help="It is for the data cluster.")] = False,
    host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Where the node is found; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="By default with the keys.")] = None,
    security: Folder = SECURITY,
    as_json: AsJson = False,
) -> None:
    """Make a certificate, NAME.pem and NAME.key.

    What a client with a certificate may do stands in permissions.toml beside the keys.

    [bold]Examples[/bold]

      tidewire certificate create edge3 --broker --host 10.0.0.3

      tidewire certificate create sensor7
    """
    from tidewire.identity.tokens import checked_name
    from tidewire.live.certificates import fingerprint_of, make_certificate

    kinds: dict[CertificateOf, bool] = {"broker": broker, "coordinator": coordinator, "datacluster": datacluster}
    of = [kind for kind, is_meant in kinds.items() if is_meant]
    if len(of) > 1:
        raise UsageError(f"a certificate is for one node: --{of[0]} or --{of[1]}, not both")
    hosts = host or (["127.0.0.1", "::1", "localhost"] if of else [])
    made = make_certificate(
        security,
        checked_name(name),
        of=of[0] if of else "client",
        hosts=hosts,
        into=out,
    )
    if as_json:
        files = {"certificate": str(made), "key": str(made.with_suffix(".key"))}
        print_json({**files, "fingerprint": fingerprint_of(made)})
    else:
        console().print(f"{escape(made)} and its key", soft_wrap=True)


@certificate.command("revoke", no_args_is_help=True)
def revoke_certificate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The certificates, NAME.pem.")],
    security: Folder = SECURITY,
    as_json: AsJson = False,
) -> None:
    """Take certificates back. Brokers that read this folder see it within a second."""
    from tidewire.live.certificates import fingerprint_of
    from tidewire.live.security import revoke

    fingerprints = [fingerprint_of(file) for file in files]
    revoke(security, fingerprints)
    if as_json:
        print_json({"revoked": fingerprints})
    else:
        console().print(f"revoked {len(fingerprints)}")
