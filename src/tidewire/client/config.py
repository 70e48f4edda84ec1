"""How a session behaves."""

from __future__ import annotations

import msgspec

from tidewire.placement.choices import Location


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a session behaves."""

    addresses: list[str]
    """Brokers to begin with; any one will do. The coordinator's address will do, too."""

    coordinator: str | None = None
    """Asked first which broker to use; the addresses are for when it is not there."""

    location: tuple[float, float] | None = None
    """Latitude and longitude, for a coordinator that chooses by distance."""

    name: str = "client"
    identity: str | None = None
    """The token that it shows."""

    publisher: int = 0
    """Who publishes, for order and against repetition: unique, chosen by the driver."""

    welcome_s: float = 3.0
    """A broker that is reached but does not answer for so long is left for the next one."""

    reconnect_s: float = 0.1
    reconnect_s_max: float = 5.0
    give_up_s: float = 10.0
    """A request that finds no broker for so long fails, and so does an event that is to be published."""

    def __post_init__(self) -> None:
        if self.location is not None:
            Location(lat=self.location[0], lon=self.location[1])

    def began_with(self) -> list[str]:
        """Where it begins: the coordinator first."""
        brokers = [address for address in self.addresses if address != self.coordinator]
        return brokers if self.coordinator is None else [self.coordinator, *brokers]
