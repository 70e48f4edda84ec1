"""For whom are events held? The names that a store knows, and where each one is. It outlives the broker.

Every store holds events for every name, from when the name began: an event that matches may be published anywhere. A
store hears of a name from those who follow by it, and from the other stores; what has ended is remembered for a while,
so that no store brings it back. Whoever came last has a name: what an older claim says of its progress counts no more,
also if a cut kept both from hearing of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from typing import Final

import msgspec

from tidewire.model.ids import PubendId, Tick
from tidewire.model.stream_messages import HeldFor, Holding
from tidewire.model.ticks import ms_of, tick_at

KEY: Final = b"hold/"
ENDED_KEY: Final = b"let-go/"
ENDED_MS: Final = 30 * 24 * 3600 * 1000
ENDED_MAX: Final = 32
"""For so long it is remembered that a name has ended, and of so many that had this name."""

LATE_MS: Final = 5000
"""By so much one may be mistaken about an age that others have told: it was under way."""

_NOW: Final = -1

Ends = Mapping[PubendId, tuple[Tick, Tick, Tick]]
"""Of each stream: where its log begins, the first tick that is kept, and the first that is not told yet."""

MayHave = Callable[[bytes], bool]
"""Can something that matches this filter have been published here?"""


class Kept(msgspec.Struct):
    """What is held for one name, as it is kept."""

    claim: int
    since: int
    """Where it was to begin, in milliseconds since 1970; -1: when it did."""

    places: dict[int, int] = {}
    """By pubend: the next tick that it is owed."""

    began: int = -1
    """When it began, by this broker's clock."""

    origin: int = 0
    """The claim that it began with."""

    begun: dict[int, int] = {}
    """By pubend: where it was put at first, as long as it is there."""

    wanted: bytes = b""
    wanted_since: int = 0
    """What it wants, and since when; empty: what that is, is not known."""

    claimed: int = -1
    """Since when somebody has followed by this claim, by this broker's clock; -1: that is not known."""

    next_of: int = 0
    """The origin of the one that it goes on from, which had ended elsewhere before this claim."""

    def moved(self, pubend: PubendId, place: Tick) -> None:
        """It is here now."""
        self.places[pubend] = place
        self.begun.pop(pubend, None)


class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """How far a name is behind the streams."""

    name: str
    age_ms: int
    behind_ms: int
    """By how much of a stream, at most: what is kept for it."""

    is_idle: bool
    """Can nothing that it wants be published here?"""


class Claimed(msgspec.Struct, frozen=True):
    """What came of a claim."""

    answer: HeldFor
    superseded: int | None = None
    """The claim that had it before, if another one did."""


class Holds:
    """The names of one store. What has changed is to be kept: ``changed`` names it; and told to others: ``news``."""

    def __init__(self, kept: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._held: dict[str, Kept] = {}
        self._ended: dict[str, dict[int, int]] = {}
        """By name: of those that are over the origins, and when they ended."""
        self._idle: dict[str, None] = {}
        """Those for whom nothing can have been published here: they keep nothing back."""
        self._changed: dict[bytes, None] = {}
        self._news: dict[str, None] = {}
        for key, value in kept:
            if key.startswith(KEY):
                held = msgspec.msgpack.decode(value, type=Kept)
                held.began = held.began if held.began >= 0 else max(0, held.since)
                self._held[key.removeprefix(KEY).decode()] = held
            else:
                ended = msgspec.msgpack.decode(value, type=dict[int, int])
                self._ended[key.removeprefix(ENDED_KEY).decode()] = ended
        self._news.update(dict.fromkeys((*self._held, *self._ended)))

    def __len__(self) -> int:
        return len(self._held)

    def names(self) -> list[str]:
        """Of all for whom something is held."""
        return list(self._held)

    # -- beginning -----------------------------------------------------------------------------------------------------

    def claim(self, holding: Holding, ends: Ends, *, now_ms: int, may_have: MayHave) -> Claimed:
        """Somebody follows by this name from now on, or another store knows it, or it has ended."""
        if holding.kind == "end":
            return self._end(holding.name, holding.origin, _ago(now_ms, holding.age_ms))
        if holding.kind == "left":
            return self._left(holding, ends)
        began, came = _ago(now_ms, holding.age_ms), _ago(now_ms, holding.claim_age_ms)
        superseded = self._succeed(holding, began, now_ms) if holding.ended else None
        held = self._held.get(holding.name)
        if self._is_over(holding, held, began):
            return Claimed(self._over(holding, held, now_ms), superseded)
        is_new, key = held is None, KEY + holding.name.encode()
        before = self._encoded(key)
        if held is not None and holding.kind == "claim" and _came_before(came, holding, held, now_ms):
            return Claimed(HeldFor("taken"), superseded)
        if held is None:
            origin = holding.origin or holding.claim
            held = self._held[holding.name] = Kept(holding.claim, holding.since, began=began, origin=origin)
            held.claimed = came if holding.kind == "claim" else -1
            self._news[holding.name] = None
        elif holding.kind == "claim" and held.claim != holding.claim:
            superseded, held.claim, held.claimed = held.claim, holding.claim, came
        if holding.age_ms >= 0 and began < held.began and holding.origin != held.origin:
            self._began_before(holding, held, began, ends)
        self._is_one(holding, held)
        self._want(holding, held, ends, now_ms=now_ms, may_have=may_have)
        places, lost = self._begin(holding, held, ends, now_ms)
        if self._encoded(key) != before:  # what is known already need not be written again
            self._changed[key] = None
        age_ms = max(0, now_ms - held.began)
        return Claimed(HeldFor("held", age_ms, is_new, list(places.items()), held.origin, lost), superseded)

    def _left(self, holding: Holding, ends: Ends) -> Claimed:
        """How far one was that could not say so when it left; unless somebody else has had the name since."""
        for pubend, place in holding.places:
            if pubend in ends:
                self.progress(holding.name, holding.claim, pubend, place)
        return Claimed(HeldFor("held"))

    def _is_over(self, holding: Holding, held: Kept | None, began: int) -> bool:
        """Is it over, as this store knows? A session that does not know its origin knows how old it is."""
        ended = self._ended.get(holding.name, {})
        if holding.origin in ended:  # one who follows goes on with another of this name, unless that is its own
            return held is None or holding.kind == "copy" or held.origin == holding.claim
        if holding.origin:
            return False
        return held is None and holding.age_ms >= 0 and any(began <= time for time in ended.values())

    def _over(self, holding: Holding, held: Kept | None, now_ms: int) -> HeldFor:
        """A store that did not hear of the end hears, together with it, that another has the name now."""
        if held is None or holding.kind != "copy":
            last_ms = max(self._ended[holding.name].values())
            return HeldFor("ended", max(0, now_ms - last_ms), origin=holding.origin)
        self._news[holding.name] = None
        return HeldFor("held", origin=held.origin)

    def _succeed(self, holding: Holding, began: int, now_ms: int) -> int | None:
        """One is over, and another store knows the next of its name. Who came here after that had begun, by the name
        alone, could not know: it goes on as the next. Else: whose claim is over?"""
        held, is_copy = self._held.get(holding.name), holding.kind == "copy"
        is_next = is_copy and holding.origin not in self._ended.get(holding.name, {})
        if held is not None and is_next and held.origin == holding.ended and held.claimed > began:
            held.origin, held.began = holding.origin, began
            self._news[holding.name] = None
        elif held is not None and not is_copy and holding.ended_age_ms < 0 and held.next_of == holding.ended:
            self._drop(holding.name)  # it has not begun yet: it begins anew
        superseded = self._end(holding.name, holding.ended, _ago(now_ms, holding.ended_age_ms)).superseded
        return superseded if is_copy else None

    def _is_one(self, holding: Holding, held: Kept) -> None:
        """Two of one name that are not over become one: where somebody follows, that one; else both stores agree."""
        is_over = holding.origin in self._ended.get(holding.name, {})
        is_other = bool(holding.origin) and holding.origin != held.origin and not is_over
        if is_other and (holding.kind == "claim" or holding.origin < held.origin or not held.origin):
            held.origin = holding.origin
            self._news[holding.name] = None

    def _began_before(self, holding: Holding, held: Kept, began: int, ends: Ends) -> None:
        """Others have known it for longer, as another. Where it has had nothing yet, it goes back to where that was."""
        held.began = began
        held.since = holding.since if holding.since != _NOW and held.since == _NOW else held.since
        self._news[holding.name] = None
        for pubend, end in ends.items():
            if held.places.get(pubend, -1) == held.begun.get(pubend):
                place = min(held.places[pubend], _place(held, end, late_ms=LATE_MS))
                held.places[pubend] = held.begun[pubend] = place

    def _want(self, holding: Holding, held: Kept, ends: Ends, *, now_ms: int, may_have: MayHave) -> None:
        """What it wants may have changed. What it did not want before, it is owed from the change on."""
        since = now_ms if holding.wanted_age_ms < 0 else now_ms - holding.wanted_age_ms
        was_idle, place = holding.name in self._idle, None
        if holding.wanted != held.wanted and holding.wanted and (since > held.wanted_since or not held.wanted):
            held.wanted, held.wanted_since = holding.wanted, since
            self._news[holding.name] = None
            place = tick_at(max(0, since - LATE_MS))
        if held.wanted and not may_have(held.wanted):
            self._idle[holding.name] = None
        elif was_idle:
            del self._idle[holding.name]
            for pubend, (_, _, head) in ends.items():
                held.moved(pubend, head if place is None else min(head, place))

    def _begin(
        self, holding: Holding, held: Kept, ends: Ends, now_ms: int
    ) -> tuple[dict[PubendId, Tick], list[tuple[PubendId, Tick]]]:
        """Where it goes on, and what it lacks. Where it has not been it begins; one who can want nothing here lacks
        nothing. A place that it names itself is better than what is known: it goes on there. But what it has got and is
        not done with, it is owed again, should it end.

        A place that the stream has not come to yet was told by a log that had more. What that had behind it nobody
        knows: it goes on from now, and lacks what is between. Now may be before that place, if the clock was set back.
        """
        given, done = dict(holding.places), dict(holding.done)
        places, lost = dict[PubendId, Tick](), list[tuple[PubendId, Tick]]()
        is_idle = holding.name in self._idle
        for pubend, end in ends.items():
            head = end[2]
            if pubend not in held.places:
                late_ms = 0 if holding.age_ms < 0 else LATE_MS
                is_now = holding.age_ms < 0 and held.since == _NOW
                place = head if is_now else _place(held, end, late_ms=late_ms)
                held.places[pubend] = held.begun[pubend] = place
            if is_idle and holding.kind != "copy":
                held.moved(pubend, Tick(max(head, held.places[pubend])))
            elif given.get(pubend, 0) > head:
                lost.append((pubend, Tick(given[pubend])))
                held.moved(pubend, Tick(max(head, tick_at(now_ms))))
            elif pubend in given:
                here, settled = held.places[pubend], min(given[pubend], done.get(pubend, given[pubend]))
                held.moved(pubend, given[pubend] if given[pubend] < here else Tick(max(here, settled)))
                places[pubend] = given[pubend]
            places.setdefault(pubend, Tick(held.places[pubend]))
        return places, lost

    def settle(self, may_have: MayHave) -> None:
        """The log is open: for whom can nothing have been published here?"""
        self._idle = {name: None for name, one in self._held.items() if one.wanted and not may_have(one.wanted)}

    def woken(self, ends: Ends, may_have: MayHave) -> None:
        """More may be published here from now on: for those who want it, it is held."""
        for name in [name for name in self._idle if may_have(self._held[name].wanted)]:
            del self._idle[name]
            for pubend, (_, _, head) in ends.items():
                self._held[name].moved(pubend, head)
            self._changed[KEY + name.encode()] = None

    # -- going on ------------------------------------------------------------------------------------------------------

    def progress(self, name: str, claim: int, pubend: PubendId, place: Tick) -> bool:
        """All before this tick is settled; false if it is no longer theirs: of somebody else, or ended."""
        held = self._held.get(name)
        if held is None or held.claim != claim:
            return held is None and name not in self._ended
        if place > held.places.get(pubend, 0):
            held.moved(pubend, place)
            self._changed[KEY + name.encode()] = None
        return True

    def is_ended(self, name: str) -> bool:
        """Has it ended, and not begun anew?"""
        return name in self._ended and name not in self._held

    def least(self, pubend: PubendId) -> Tick | None:
        """The first tick that somebody is owed; None: nobody is owed anything."""
        busy = (held for name, held in self._held.items() if name not in self._idle)
        places = [held.places[pubend] for held in busy if pubend in held.places]
        return Tick(min(places)) if places else None

    def behind(self, ends: Ends, *, now_ms: int, most: int) -> list[Behind]:
        """Those who are furthest behind, first; so many at most."""
        found = [
            Behind(
                name=name,
                age_ms=max(0, now_ms - held.began),
                behind_ms=0 if name in self._idle else _behind_ms(held, ends),
                is_idle=name in self._idle,
            )
            for name, held in self._held.items()
        ]
        return nlargest(most, found, key=lambda one: one.behind_ms)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _end(self, name: str, origin: int, ended_ms: int) -> Claimed:
        """The one with this origin is over, or, with 0, whichever has the name.

        Who came by the name after it had ended elsewhere could not know: it goes on as the next.
        """
        held = self._held.get(name)
        superseded = None
        if held is not None and origin and origin == held.origin and held.claimed > ended_ms:
            held.origin, held.next_of = held.claim, origin
            self._changed[KEY + name.encode()] = self._news[name] = None
        elif held is not None and origin in (0, held.origin):
            origin, superseded = held.origin, held.claim
            self._drop(name)
        ended = self._ended.setdefault(name, {})
        if origin and origin not in ended:
            ended[origin] = ended_ms
            while len(ended) > ENDED_MAX:
                del ended[next(iter(ended))]
            self._changed[ENDED_KEY + name.encode()] = self._news[name] = None
        if not ended:
            del self._ended[name]
        return Claimed(HeldFor("ended", origin=origin), superseded)

    def _drop(self, name: str) -> None:
        del self._held[name]
        self._idle.pop(name, None)
        self._changed[KEY + name.encode()] = None

    def forget_ended(self, *, now_ms: int) -> None:
        """What ended long ago is no longer remembered."""
        for name in [name for name, ended in self._ended.items() if max(ended.values()) + ENDED_MS < now_ms]:
            del self._ended[name]
            self._changed[ENDED_KEY + name.encode()] = None

    # -- for the log, and for other stores -----------------------------------------------------------------------------

    def changed(self) -> list[tuple[bytes, bytes | None]]:
        """What is to be kept since this was last asked; None: no longer."""
        changed, self._changed = self._changed, {}
        return [(key, self._encoded(key)) for key in changed]

    def _encoded(self, key: bytes) -> bytes | None:
        if key.startswith(KEY):
            held = self._held.get(key.removeprefix(KEY).decode())
            return None if held is None else msgspec.msgpack.encode(held)
        ended = self._ended.get(key.removeprefix(ENDED_KEY).decode())
        return None if ended is None else msgspec.msgpack.encode(ended)

    def news(self) -> list[str]:
        """The names of which other stores should hear, since this was last asked."""
        news, self._news = self._news, {}
        return list(news)

    def known(self) -> list[str]:
        """All names that another store should hear of."""
        return list(dict.fromkeys((*self._held, *self._ended)))

    def copies(self, names: Iterable[str], *, now_ms: int) -> list[Holding]:
        """What another store is to know of these, and of which one each took the place: who follows goes on with it."""
        found: list[Holding] = []
        for name in names:
            held, ended = self._held.get(name), dict(self._ended.get(name, {}))
            last, last_ms = ended.popitem() if ended and held is not None else (0, now_ms)
            for origin, ended_ms in ended.items():
                found.append(Holding(name, 0, _NOW, age_ms=max(0, now_ms - ended_ms), kind="end", origin=origin))
            if held is not None:
                ages = max(0, now_ms - held.began), max(0, now_ms - held.wanted_since)
                copy = Holding(name, held.claim, held.since, [], held.wanted, *ages, "copy", held.origin, last)
                found.append(msgspec.structs.replace(copy, ended_age_ms=max(0, now_ms - last_ms)))
        return found


def _ago(now_ms: int, age_ms: int) -> int:
    """When that was; -1: now."""
    return now_ms if age_ms < 0 else max(0, now_ms - age_ms)


def _came_before(came: int, holding: Holding, held: Kept, now_ms: int) -> bool:
    """Has a session the name that came later? If that was in the future, the clock was set back: it is not known."""
    return held.claim != holding.claim and came < held.claimed <= now_ms


def _behind_ms(held: Kept, ends: Ends) -> int:
    lags = [ms_of(head) - ms_of(Tick(held.places.get(pubend, head))) for pubend, (_, _, head) in ends.items()]
    return max(0, *lags)


def _place(held: Kept, ends: tuple[Tick, Tick, Tick], *, late_ms: int) -> Tick:
    """Where one begins that began a while ago. What was released since then is a gap. What was before is one for who
    named a time; who wants the earliest wants what there is."""
    begin, first, head = ends
    began = tick_at(max(0, held.began - late_ms))
    start = began if held.since == _NOW else min(tick_at(held.since), began)
    kept = begin if held.since > 0 else min(first, began)
    return Tick(min(head, max(begin, start, kept)))
