"""For whom are events held? The followers of the pubends of one broker, and where each one is. It outlives the broker.

A follower is known by its name. Whoever claims it last has it: what an older claim says of its progress counts no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tidewire.model.ids import PubendId, Tick
from tidewire.model.stream_messages import HeldAt, Holding
from tidewire.model.ticks import tick_at

KEY: Final = b"hold/"
_NOW: Final = -1


class Held(msgspec.Struct):
    """What is held for one follower, as it is kept."""

    claim: int
    since: int
    """When it began, in milliseconds since 1970."""

    places: dict[int, int] = {}
    """By pubend: the next tick that it is owed."""


class Claimed(msgspec.Struct, frozen=True):
    """What came of a claim."""

    places: list[HeldAt]
    superseded: int | None
    """The claim that had it before, if another one did."""

    beyond: dict[PubendId, Tick] = {}
    """Places that it has come to, and the log has not: there was more in it once."""


class Holds:
    """The followers of one broker's pubends. What has changed is to be kept: ``changed`` names it."""

    def __init__(self, kept: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._held: dict[str, Held] = {}
        self._changed: dict[str, None] = {}
        for key, value in kept:
            self._held[key.removeprefix(KEY).decode()] = msgspec.msgpack.decode(value, type=Held)

    def __len__(self) -> int:
        return len(self._held)

    def names(self) -> list[str]:
        """Of all for whom something is held."""
        return list(self._held)

    def claim(self, holding: Holding, heads: Mapping[PubendId, tuple[Tick, Tick]], *, now_ms: int) -> Claimed:
        """Somebody follows by this name from now on. A place that it names itself is better than what is known.

        One that the stream has not come to yet was told by a log that had more. What that had behind it nobody knows:
        the follower goes on from now, and lacks what is between.

        ``heads``: the first tick of each stream that is kept, and the first that is not told yet.
        """
        held = self._held.get(holding.name)
        superseded = None if held is None or held.claim == holding.claim else held.claim
        if held is None:
            held = self._held[holding.name] = Held(holding.claim, now_ms if holding.since == _NOW else holding.since)
        held.claim = holding.claim
        given = dict(holding.places)
        beyond = {pubend: given[pubend] for pubend, (_, head) in heads.items() if given.get(pubend, 0) > head}
        places: list[HeldAt] = []
        for pubend, (first, head) in heads.items():
            is_new = pubend not in held.places
            if pubend in given:
                held.places[pubend] = max(given[pubend], tick_at(now_ms)) if pubend in beyond else given[pubend]
            elif is_new:
                began = head if holding.since == _NOW else min(head, max(first, tick_at(holding.since)))
                held.places[pubend] = began
            is_new = is_new and pubend not in given
            places.append(
                HeldAt(pubend, Tick(held.places[pubend]), held.since, is_new, lost=beyond.get(pubend, Tick(0)))
            )
        self._changed[holding.name] = None
        return Claimed(places, superseded, beyond)

    def progress(self, name: str, claim: int, pubend: PubendId, place: Tick) -> bool:
        """All before this tick is settled; false if somebody else follows by that name now."""
        held = self._held.get(name)
        if held is None or held.claim != claim:
            return held is None
        if place > held.places.get(pubend, 0):
            held.places[pubend] = place
            self._changed[name] = None
        return True

    def release(self, name: str) -> None:
        """Nothing is held for this follower any more."""
        if self._held.pop(name, None) is not None:
            self._changed[name] = None

    def least(self, pubend: PubendId) -> Tick | None:
        """The first tick that somebody is owed; None: nobody is owed anything."""
        places = [held.places[pubend] for held in self._held.values() if pubend in held.places]
        return Tick(min(places)) if places else None

    def changed(self) -> list[tuple[bytes, bytes | None]]:
        """What is to be kept since this was last asked; None: no longer."""
        changed, self._changed = self._changed, {}
        found = [(KEY + name.encode(), self._held.get(name)) for name in changed]
        return [(key, None if held is None else msgspec.msgpack.encode(held)) for key, held in found]
