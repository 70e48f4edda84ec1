"""How operators' commands reach a running network: where to ask, with what to show, how long to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidewire.model.errors import Unavailable

if TYPE_CHECKING:
    from tidewire.live.survey import Surveyor
    from tidewire.observe.network import Network

DEFAULT_AT: Final = "127.0.0.1:7600"

AtAny = Annotated[
    list[str] | None,
    typer.Option(
        "--at", metavar="HOST:PORT", help=f"Any broker; may be repeated. [dim]\\[default: {DEFAULT_AT}][/dim]"
    ),
]
Patience = Annotated[float, typer.Option("--timeout", help="Seconds to wait for each broker.", min=0.1)]


def surveyor(at: list[str] | None, *, timeout: float) -> Surveyor:
    """Who looks at the network."""
    from tidewire.live.survey import Surveyor

    return Surveyor(at or [DEFAULT_AT], seconds=timeout)


def refuse_emptiness(network: Network) -> None:
    """Unavailable if nobody has answered."""
    if not network.brokers:
        raise Unavailable(
            "; ".join(one.reason for one in network.silent)
            + ". Is a broker running there? Start one with: tidewire up. Look closer with: tidewire doctor"
        )
