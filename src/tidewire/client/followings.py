"""What a session follows: where it is in each stream. It knows best, so it says so to every broker that it comes to."""

from __future__ import annotations

from collections.abc import Iterable

from tidewire.model.errors import FollowedElsewhere, Forgotten, TidewireError
from tidewire.model.ids import Nanoseconds, PubendId, Tick
from tidewire.model.stream_messages import Follow, Gap
from tidewire.model.traffic import NO_TERMS, Terms


class Following:
    """One subscription by name."""

    def __init__(
        self, number: int, wanted: bytes, name: str, *, claim: int, since: int, terms: Terms = NO_TERMS
    ) -> None:
        self.number = number
        self.wanted = wanted
        self.name = name
        self.claim = claim
        self.since = since
        self.terms = terms
        self.places: dict[PubendId, Tick] = {}
        """The next tick of each stream that is to come."""
        self.begun: dict[PubendId, Tick] = {}
        """Where each stream began."""
        self.undone: dict[PubendId, tuple[Tick, Tick]] = {}
        """The first and the last tick that the application has got and is not done with."""
        self.confirmed_ns: Nanoseconds | None = None
        """When a broker first said that it has begun."""
        self.origin = 0
        """Which of its name it is."""

    def goes_on(self, other: Following) -> None:
        """It goes on where this one is, which has the same name."""
        self.confirmed_ns, self.origin = other.confirmed_ns, other.origin
        self.begun, self.undone = dict(other.begun), dict(other.undone)
        for pubend, tick in other.places.items():
            self.places[pubend] = max(self.places.get(pubend, Tick(0)), tick)

    def message(self, request: int, *, now_ns: Nanoseconds) -> Follow:
        """What to say to a broker."""
        places = list(self.places.items())
        age_ms = -1 if self.confirmed_ns is None else (now_ns - self.confirmed_ns) // 1_000_000
        done = [(pubend, first) for pubend, (first, _) in self.undone.items()]
        begin = request, self.number, self.wanted, self.name, self.claim, self.since
        return Follow(*begin, places, age_ms, self.origin, done, self.terms)

    def settled(self, pubend: PubendId) -> Tick | None:
        """The application is done with all before this tick; None: nothing is known of this stream."""
        return self.undone[pubend][0] if pubend in self.undone else self.places.get(pubend)


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
        """One more, or another in place of one; where that one was meanwhile, this one is."""
        known = self._followings.get(following.number)
        if known is not None and known.name == following.name:
            following.goes_on(known)
        self._followings[following.number] = following

    def get(self, number: int) -> Following | None:
        """The one with this number."""
        return self._followings.get(number)

    def remove(self, numbers: Iterable[int]) -> None:
        """These no longer."""
        for number in numbers:
            self._followings.pop(number, None)

    def taken(self, number: int, *, is_ended: bool) -> TidewireError:
        """This one no longer: why?"""
        self.remove([number])
        if is_ended:
            return Forgotten("the name was ended by forget: nothing is kept for it any more. Subscribe to begin anew")
        return FollowedElsewhere("another session follows by this name now")

    def refused(self, number: int, code: str) -> TidewireError | None:
        """What was to change this one is refused. Why is it over, if it is by that?"""
        if number not in self or code not in (Forgotten.code, FollowedElsewhere.code):
            return None
        return self.taken(number, is_ended=code == Forgotten.code)

    def begun(self, number: int, places: Iterable[tuple[PubendId, Tick]], *, origin: int, now_ns: Nanoseconds) -> None:
        """A broker says from where on it will tell these streams; what we know better stays."""
        following = self._followings.get(number)
        if following is not None:
            following.origin = origin
            following.confirmed_ns = now_ns if following.confirmed_ns is None else following.confirmed_ns
            following.places = dict(places) | following.places
            following.begun = following.places | following.begun

    def is_due(self, number: int, pubend: PubendId, tick: Tick) -> bool:
        """Is this event owed to the application? Then nothing up to it is any more."""
        following = self._followings.get(number)
        if following is None or tick < following.places.get(pubend, 0):
            return False
        following.places[pubend] = Tick(tick + 1)
        following.undone[pubend] = following.undone.get(pubend, (tick, tick))[0], tick
        return True

    def done(self, number: int, pubend: PubendId, tick: Tick) -> None:
        """The application is done with this event, and with all before it."""
        following = self._followings.get(number)
        if following is None or pubend not in following.undone:
            return
        _, last = following.undone[pubend]
        if tick < last:
            following.undone[pubend] = Tick(tick + 1), last
        else:
            del following.undone[pubend]

    def lost(self, gap: Gap) -> dict[str, str | int | float]:
        """Nothing of this will come: what is there to tell?"""
        following = self._followings.get(gap.number)
        beyond = Tick(gap.last + 1)
        if following is not None and gap.is_back:
            following.undone.pop(gap.pubend, None)
            following.places[gap.pubend] = following.begun[gap.pubend] = beyond
        elif following is not None:
            following.places[gap.pubend] = max(following.places.get(gap.pubend, Tick(0)), beyond)
        pubend = f"{gap.pubend:016x}"
        return {"number": gap.number, "pubend": pubend, "first": gap.first, "last": gap.last, "is_back": gap.is_back}
