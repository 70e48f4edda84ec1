"""What a broker tells the people who run it, within a measure: a flood of notes costs more than what it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidewire.broker.effects import Note
from tidewire.model.ids import Nanoseconds

NOTES_AT_ONCE: Final = 20
"""Of one kind, in one second. The rest is counted."""
_SECOND_NS: Final = 1_000_000_000

Listener = Callable[[Note], None]


class Journal:
    """Passes notes on; of each kind so many a second, then how many more there were."""

    def __init__(self, tell: Listener) -> None:
        self._tell = tell
        self._since_ns = 0
        self._counts: dict[tuple[str, object], int] = {}

    def add(self, note: Note, *, now_ns: Nanoseconds) -> None:
        """One more."""
        self.look(now_ns)
        kind = note.what, note.facts.get("code")
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= NOTES_AT_ONCE:
            self._tell(note)

    def look(self, now_ns: Nanoseconds) -> None:
        """If the second is over, what was left out is told, and the next one begins."""
        if now_ns - self._since_ns < _SECOND_NS:
            return
        self._since_ns, counts, self._counts = now_ns, self._counts, {}
        for (what, code), count in counts.items():
            if count > NOTES_AT_ONCE:
                about: dict[str, str | int | float] = {} if code is None else {"code": str(code)}
                self._tell(Note(what, {**about, "further": count - NOTES_AT_ONCE}))
