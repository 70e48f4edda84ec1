"""Who wants which class here? Counted per connection, and per voice: one identity has one, whatever it opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tidewire.congestion.fdcc.intake import Voice
from tidewire.language import compile_filter, conjoined
from tidewire.model.filters import Filter, decode_filter
from tidewire.model.ids import Conn
from tidewire.model.messages import ANYTHING
from tidewire.model.traffic import ClassKey
from tidewire.traffic.classes import UNCLASSED, Classes

REMEMBERED_MAX: Final = 65_536


class ClassOverlap:
    """Could an event of this class match that filter?"""

    def __init__(self, classes: Classes, attribute: str) -> None:
        self._classes = classes
        self._attribute = attribute
        self._filters: dict[ClassKey, Filter | None] = {key: wanted for key, wanted, _ in classes.configured()}
        self._known: dict[tuple[ClassKey, bytes], bool] = {}

    def may_match(self, key: ClassKey, wanted: bytes) -> bool:
        """Never false if one could."""
        if wanted == ANYTHING or key == UNCLASSED or self._classes.of_filter(wanted) == key:
            return True
        known = self._known.get((key, wanted))
        if known is None:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            events = self._events_of(key)
            known = events is None or bool(conjoined(events, decode_filter(wanted)).conjunctions)
            self._known[key, wanted] = known
        return known

    def is_wanted_by(self, key: ClassKey, filters: Iterable[bytes]) -> bool:
        """Could it match one of these?"""
        return any(self.may_match(key, wanted) for wanted in filters)

    def _events_of(self, key: ClassKey) -> Filter | None:
        """All events of a class; None: nobody knows what they have in common."""
        if key not in self._filters:
            if len(self._filters) >= REMEMBERED_MAX:
                self._filters.clear()
            value = key[1:].replace("'", "''")
            self._filters[key] = compile_filter(f"{self._attribute} = '{value}'") if key.startswith("=") else None
        return self._filters[key]


class WantedClasses:
    """What the subscribers of one broker want, of the classes that are published.

    Who has not changed what it wants costs next to nothing: there may be very many.
    """

    def __init__(self, overlap: ClassOverlap) -> None:
        self._overlap = overlap
        self._keys: tuple[ClassKey, ...] = ()
        self._round = 0
        """It changes with the classes that are published."""
        self._of: dict[Conn, tuple[tuple[bytes, ...], int, dict[ClassKey, None]]] = {}

    def wants(self, conn: Conn, filters: Iterable[bytes], key: ClassKey) -> bool:
        """Does this subscriber want events of this class?"""
        said = tuple(filters)
        if key not in self._keys:
            return self._overlap.is_wanted_by(key, said)
        return key in self._matched(conn, said)

    def gone(self, conn: Conn) -> None:
        """It is no longer here."""
        self._of.pop(conn, None)

    def counts(
        self,
        subscribers: Iterable[tuple[Conn, Iterable[bytes]]],
        keys: Iterable[ClassKey],
        voice_of: Callable[[Conn], Voice],
    ) -> dict[ClassKey, tuple[int, int]]:
        """Of these classes that somebody wants: how many connections, and how many voices."""
        wanted = tuple(keys)
        if wanted != self._keys:
            self._keys, self._round = wanted, self._round + 1
        connections: dict[ClassKey, int] = {}
        voices: dict[ClassKey, dict[Voice, None]] = {}
        for conn, filters in subscribers:
            for key in self._matched(conn, tuple(filters)):
                connections[key] = connections.get(key, 0) + 1
                voices.setdefault(key, {})[voice_of(conn)] = None
        return {key: (count, len(voices[key])) for key, count in connections.items()}

    def _matched(self, conn: Conn, said: tuple[bytes, ...]) -> dict[ClassKey, None]:
        known = self._of.get(conn)
        if known is None or known[0] != said or known[1] != self._round:
            matched = dict.fromkeys(key for key in self._keys if self._overlap.is_wanted_by(key, said))
            known = self._of[conn] = said, self._round, matched
        return known[2]
