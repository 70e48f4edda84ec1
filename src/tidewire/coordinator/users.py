"""Who has registered, and which broker does each one get? (bad §1.1, §3)"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tidewire.model.errors import LimitReached, Unavailable, UnknownUser, UsageError
from tidewire.model.ids import BrokerId
from tidewire.model.placement_messages import HIDDEN
from tidewire.placement.choices import Candidate, Choice, Location

USERS_MAX: Final = 1_000_000
_HIDDEN: Final = re.compile(HIDDEN)


class Users:
    """By name; what is known of them survives a restart."""

    def __init__(self, names: Sequence[str], *, choice: Choice) -> None:
        self._names = dict.fromkeys(names)
        self._choice = choice

    def __len__(self) -> int:
        return len(self._names)

    def names(self) -> list[str]:
        """All of them."""
        return list(self._names)

    def register(self, name: str) -> bool:
        """Know this one from now on. False if it was known."""
        if name in self._names:
            return False
        if _HIDDEN.search(name):
            raise UsageError(f"a user's name has only characters that can be shown: {name!r} has others")
        if len(self._names) >= USERS_MAX:
            raise LimitReached(f"a coordinator knows at most {USERS_MAX} users")
        self._names[name] = None
        return True

    def choose(self, name: str, candidates: Sequence[Candidate], location: Location | None) -> BrokerId:
        """Which broker serves this user?"""
        if name not in self._names:
            raise UnknownUser(f"there is no user {name!r}: register it first (registeruser)")
        return chosen(self._choice, candidates, location, who=name)


def chosen(choice: Choice, candidates: Sequence[Candidate], location: Location | None, *, who: str) -> BrokerId:
    """One of these for ``who``, by this policy; Unavailable if there is none."""
    if not candidates:
        raise Unavailable("no broker that takes subscribers is connected: try again later")
    return choice.choose(candidates, location, who)
