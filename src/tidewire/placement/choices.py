"""Which broker does a newcomer get? Stage 1 of bad §3: it has no subscription yet, so only places and counts matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import dist
from typing import Final, Protocol

import msgspec

from tidewire.model.chance import Chance
from tidewire.model.errors import Unavailable, UnknownName, UsageError
from tidewire.model.geography import unit_vector
from tidewire.model.ids import BrokerId


class Location(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A point on the globe, in degrees."""

    lat: float
    lon: float

    def __post_init__(self) -> None:
        if not -90 <= self.lat <= 90 or not -180 <= self.lon <= 180:
            raise UsageError(f"lat = {self.lat}, lon = {self.lon}: from -90 to 90, and from -180 to 180 degrees")


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that takes subscribers."""

    broker: BrokerId
    location: Location | None = None
    load: float = 0.0
    """In bytes per second, as it was reported last."""


class Choice(Protocol):
    """One of the policies; some remember whose turn it is."""

    def choose(self, candidates: Sequence[Candidate], location: Location | None, who: str = "") -> BrokerId:
        """Which of them, for ``who``? They come in the order of their registration; there is at least one."""


class Nearest:
    """The broker that is nearest on the globe; a tie goes to the one that registered first."""

    def choose(self, candidates: Sequence[Candidate], location: Location | None, _who: str = "") -> BrokerId:
        """See ``Choice``."""
        if location is None:
            raise UsageError("brokers are chosen by distance here: say where you are (location: lat, lon)")
        placed = [(one.location, one.broker) for one in candidates if one.location is not None]
        if not placed:
            raise Unavailable(
                "no broker has said where it is: set location in their settings, or locations in the coordinator's"
            )
        here = unit_vector(location.lat, location.lon)
        return min(placed, key=lambda one: dist(here, unit_vector(one[0].lat, one[0].lon)))[1]


class RoundRobin:
    """Each broker in turn; one that comes or goes does not change whose turn it is among the others."""

    def __init__(self) -> None:
        self._given: dict[BrokerId, int] = {}
        """When each one had its last turn."""
        self._turns = 0

    def choose(self, candidates: Sequence[Candidate], _location: Location | None, _who: str = "") -> BrokerId:
        """See ``Choice``."""
        chosen = min(candidates, key=lambda one: self._given.get(one.broker, 0)).broker
        self._turns += 1
        self._given = {one.broker: self._given.get(one.broker, 0) for one in candidates}
        self._given[chosen] = self._turns
        return chosen


class Random:
    """Any of them, all with the same chance."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def choose(self, candidates: Sequence[Candidate], _location: Location | None, _who: str = "") -> BrokerId:
        """See ``Choice``."""
        return candidates[int(self._chance.random() * len(candidates))].broker


class Drawn:
    """Any of them, all with the same chance; for the same name and seed the same, whoever came before or asks again.

    So runs that are to be compared begin alike. Brokers are taken by name: they register in any order.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def choose(self, candidates: Sequence[Candidate], _location: Location | None, who: str = "") -> BrokerId:
        """See ``Choice``."""
        drawn = int.from_bytes(blake2b(f"{self._seed}/{who}".encode(), digest_size=8).digest())
        return sorted(one.broker for one in candidates)[drawn * len(candidates) >> 64]


class LeastLoaded:
    """The one with the least load: a crowd that comes at once all goes there, and overloads it (bad §3)."""

    def choose(self, candidates: Sequence[Candidate], _location: Location | None, _who: str = "") -> BrokerId:
        """See ``Choice``."""
        return min(candidates, key=lambda one: one.load).broker


PLACEMENTS: Final[dict[str, Callable[[Chance, int | None], Choice]]] = {
    "nearest": lambda _chance, _seed: Nearest(),
    "round-robin": lambda _chance, _seed: RoundRobin(),
    "random": lambda chance, seed: Random(chance) if seed is None else Drawn(seed),
    "least-loaded": lambda _chance, _seed: LeastLoaded(),
}


def placement(name: str, *, chance: Chance, seed: int | None = None) -> Choice:
    """The policy with this name; UnknownName with those that there are. With a seed the same names get the same."""
    if name not in PLACEMENTS:
        raise UnknownName(name, what="placement", known=PLACEMENTS)
    return PLACEMENTS[name](chance, seed)
