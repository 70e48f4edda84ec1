"""How operators' commands reach a running network: where to ask, with what to show, how long to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidewire.model.errors import NotAuthenticated, NotPermitted, Unavailable, error_of

if TYPE_CHECKING:
    from pathlib import Path

    from tidewire.live.survey import Surveyor
    from tidewire.observe.network import Network

AtAny = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="HOST:PORT",
        help="Any broker of the network, or several; [bold]tidewires://[/bold]HOST:PORT if it is secured. Found by"
        " itself beside [bold]tidewire up[/bold].",
    ),
]
Patience = Annotated[float, typer.Option("--timeout", help="Seconds to wait for each broker.", min=0.1)]


def surveyor(at: list[str] | None, token_file: Path | None, *, timeout: float) -> tuple[Surveyor, str]:
    """Who looks at the network, and where it begins."""
    from tidewire.cli.credentials import access, known_profile
    from tidewire.live.survey import Surveyor

    found = [access(one, token_file) for one in at or []] or [access(None, token_file)]
    first, profile = found[0], known_profile()
    office = None if at or profile is None or profile.coordinator is None else access(profile.coordinator).at
    addresses = [one.at for one in found]
    return Surveyor(addresses, coordinator=office, seconds=timeout, credentials=first.credentials), first.at


def refuse_emptiness(network: Network) -> None:
    """If nobody has answered: NotAuthenticated or NotPermitted if somebody refused to, else Unavailable."""
    if network.brokers:
        return
    for one in network.silent:
        if one.code in (NotAuthenticated.code, NotPermitted.code):
            raise error_of(one.code, one.reason)
    raise Unavailable(
        "; ".join(one.reason for one in network.silent)
        + ". Is a broker running there? Start one with: tidewire up. Look closer with: tidewire doctor"
    )
