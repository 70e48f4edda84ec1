"""What have clients said of their traffic? Only of those who have said something is anything kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidewire.model.errors import UsageError
from tidewire.model.ids import Conn
from tidewire.model.messages import Use
from tidewire.model.traffic import NO_TERMS, Terms

_NOTHING: Mapping[int, Terms] = {}


class ClientTerms:
    """By connection and use: the terms of subscriptions and advertisements, by their numbers."""

    def __init__(self) -> None:
        self._said: dict[tuple[Conn, Use], dict[int, Terms]] = {}

    def said(self, conn: Conn, use: Use, numbers: list[int], terms: list[Terms]) -> None:
        """A client says these, in place of what it said of the same numbers. See ``check_terms``."""
        self.taken_back(conn, use, numbers)
        named = {number: one for number, one in zip(numbers, terms, strict=False) if one != NO_TERMS}
        if named:
            self._said.setdefault((conn, use), {}).update(named)

    def taken_back(self, conn: Conn, use: Use, numbers: Iterable[int]) -> None:
        """These have ended."""
        known = self._said.get((conn, use))
        if known is None:
            return
        for number in numbers:
            known.pop(number, None)
        if not known:
            del self._said[conn, use]

    def gone(self, conn: Conn) -> None:
        """The client has ended."""
        self._said.pop((conn, "publish"), None)
        self._said.pop((conn, "subscribe"), None)

    def of(self, conn: Conn, use: Use) -> Mapping[int, Terms]:
        """What was said, by number; a number that is not there has no terms."""
        return self._said.get((conn, use), _NOTHING)


def check_terms(numbers: list[int], terms: list[Terms]) -> None:
    """None, or one for each number; else UsageError."""
    if terms and len(terms) != len(numbers):
        raise UsageError(f"{len(numbers)} numbers and {len(terms)} terms: there must be as many of both, or no terms")
