"""How commands that publish and subscribe reach the network: by the coordinator, if one is known, else by a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from tidewire.cli.credentials import access, known_profile
from tidewire.live.credentials import Credentials
from tidewire.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tidewire.client.events import Tell
    from tidewire.live.connect import Wire

PATIENCE_S: Final = 3.0

CoordinatorAt = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT",
        help="Ask it which broker to use. Found by itself beside [bold]tidewire up[/bold], unless --at says which.",
    ),
]
Place = Annotated[
    str | None,
    typer.Option(
        "--location", metavar="LAT,LON", help="Where you are, for a coordinator that chooses the nearest broker."
    ),
]


class Way(msgspec.Struct, frozen=True):
    """Where to go, whom to ask, and what to show there."""

    brokers: list[str]
    coordinator: str | None
    location: tuple[float, float] | None
    credentials: Credentials

    def connect(self, name: str, *, on_notice: Callable[[Tell], None] | None = None) -> Wire:
        """A session, to be entered."""
        import tidewire

        return tidewire.connect(
            self.brokers,
            coordinator=self.coordinator,
            location=self.location,
            name=name,
            timeout=PATIENCE_S,
            on_notice=on_notice,
            credentials=self.credentials,
        )


def way(at: str | None, coordinator: str | None, location: str | None, token_file: Path | None) -> Way:
    """What flags, environment and profile say together. The profile's coordinator is asked if no flag says where."""
    place = None if location is None else _place(location)
    if at is None and coordinator is None and (profile := known_profile()) is not None:
        coordinator = profile.coordinator
        known = access(None, token_file)
        brokers = [known.at]
    else:
        known = access(at or coordinator, token_file)
        brokers = [known.at] if at is not None or coordinator is None else []
    office = None if coordinator is None else access(coordinator, token_file).at
    return Way(brokers, office, place, known.credentials)


def _place(text: str) -> tuple[float, float]:
    """As people write it; whether it is on the globe is asked where it is used."""
    try:
        lat, lon = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--location {text!r}: write latitude and longitude in degrees, such as 60.17,24.94") from None
    return lat, lon
