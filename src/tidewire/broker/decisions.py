"""What a broker has decided, and what has befallen it: the last of its notes, within a bound.

A note that comes again (the same words about the same things) is the same decision, told again: it is counted, and its
numbers are those of the last time. Of each kind only some are kept, so that a crowd (ten thousand clients that move)
does not hide what else there was.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidewire.broker.effects import Note
from tidewire.model.ids import Nanoseconds

DECISIONS_MAX: Final = 256
DECISIONS_BYTES_MAX: Final = 32 << 10
"""Of all that are told, as JSON: fewer are, if they are long."""
SAME_KIND_MAX: Final = 64
TEXT_MAX: Final = 64
"""Characters of a fact: names and reasons may be longer."""

Fact = str | int | float


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One of them."""

    age_s: float
    """How long ago, by the broker's own clock."""

    at_unix_s: float | None
    """When, in seconds of 1970; None where there is no such clock (in the simulator)."""

    what: str
    times: int
    """How often, counting the same about the same things; the other fields are of the last time."""

    facts: dict[str, Fact]


class _Kept(msgspec.Struct):
    at_ns: int
    times: int
    what: str
    facts: dict[str, Fact]


class Decisions:
    """A bounded memory of notes."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[tuple[tuple[str, str], ...], _Kept]] = {}

    def add(self, note: Note, *, now_ns: Nanoseconds) -> None:
        """One more."""
        facts = {name: _short(value) for name, value in note.facts.items()}
        kind = self._kinds.setdefault(note.what, {})
        about = tuple((name, value) for name, value in facts.items() if isinstance(value, str))
        known = kind.pop(about, None)
        kind[about] = _Kept(now_ns, 1 if known is None else known.times + 1, note.what, facts)
        if len(kind) > SAME_KIND_MAX:
            del kind[next(iter(kind))]

    def last(self, *, now_ns: Nanoseconds, unix_offset_ns: int | None) -> list[Decision]:
        """The last of them, the oldest first."""
        kept = sorted((one for kind in self._kinds.values() for one in kind.values()), key=lambda one: one.at_ns)
        told: list[Decision] = []
        left = DECISIONS_BYTES_MAX
        for one in reversed(kept[-DECISIONS_MAX:]):
            decision = Decision(
                age_s=round((now_ns - one.at_ns) / 1e9, 3),
                at_unix_s=None if unix_offset_ns is None else round((one.at_ns + unix_offset_ns) / 1e9, 3),
                what=one.what,
                times=one.times,
                facts=one.facts,
            )
            left -= len(msgspec.json.encode(decision))
            if left < 0:
                break
            told.append(decision)
        return told[::-1]


def _short(value: Fact) -> Fact:
    return value if not isinstance(value, str) or len(value) <= TEXT_MAX else value[: TEXT_MAX - 1] + "…"
