"""What a session follows: where it is in each stream. It knows best, so it says so to every broker that it comes to."""

from __future__ import annotations

from collections.abc import Iterable

from tidewire.model.ids import PubendId, Tick
from tidewire.model.stream_messages import Follow


class Following:
    """One subscription by name."""

    def __init__(self, number: int, wanted: bytes, name: str, *, claim: int, since: int) -> None:
        self.number = number
        self.wanted = wanted
        self.name = name
        self.claim = claim
        self.since = since
        self.places: dict[PubendId, Tick] = {}
        """The next tick of each stream that is to come."""
        self.begun: dict[PubendId, Tick] = {}
        """Where each stream began."""

    def message(self, request: int) -> Follow:
        """What to say to a broker."""
        places = list(self.places.items())
        return Follow(request, self.number, self.wanted, self.name, self.claim, self.since, places)


class Followings:
    """All of a session, by their numbers."""

    def __init__(self) -> None:
        self._followings: dict[int, Following] = {}

    def __len__(self) -> int:
        return len(self._followings)

    def __contains__(self, number: int) -> bool:
        return number in self._followings

    def all(self) -> list[Following]:
        """Every one."""
        return list(self._followings.values())

    def add(self, following: Following) -> None:
        """One more, or another in place of one."""
        self._followings[following.number] = following

    def get(self, number: int) -> Following | None:
        """The one with this number."""
        return self._followings.get(number)

    def remove(self, numbers: Iterable[int]) -> None:
        """These no longer."""
        for number in numbers:
            self._followings.pop(number, None)

    def begun(self, number: int, places: Iterable[tuple[PubendId, Tick]]) -> None:
        """A broker says from where on it will tell these streams; what we know better stays."""
        following = self._followings.get(number)
        if following is not None:
            following.places = dict(places) | following.places
            following.begun = following.places | following.begun

    def is_due(self, number: int, pubend: PubendId, tick: Tick) -> bool:
        """Is this event owed to the application? Then nothing up to it is any more."""
        following = self._followings.get(number)
        if following is None or tick < following.places.get(pubend, 0):
            return False
        following.places[pubend] = Tick(tick + 1)
        return True

    def lost(self, number: int, pubend: PubendId, last: Tick) -> None:
        """Nothing up to this tick will come."""
        following = self._followings.get(number)
        if following is not None:
            following.places[pubend] = max(following.places.get(pubend, Tick(0)), Tick(last + 1))
