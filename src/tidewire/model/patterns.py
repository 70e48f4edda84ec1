"""LIKE patterns: ``%`` is any run of characters, ``_`` is one; matched in linear time, without backtracking.

A pattern is kept in one canonical spelling with ``\\`` as the escape. It is a list of *runs* between the ``%``; each
run finds its leftmost place after the one before, which is enough for patterns of this form.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from tidewire.model.errors import FilterMeaningless, FilterTooLong

PATTERN_CHARACTERS_MAX: Final = 1024
WILD_RUN_CHARACTERS_MAX: Final = 64
"""A run that has ``_`` in it and stands between two ``%`` is searched with one machine word."""

ANY_CHARACTER: Final = None
Run = tuple[str | None, ...]


class Pattern(msgspec.Struct, frozen=True):
    """A LIKE pattern, parsed: its runs, and whether a ``%`` stands before the first and after the last."""

    runs: tuple[Run, ...]
    open_start: bool
    open_end: bool

    @property
    def literal_prefix(self) -> str:
        """What every match begins with."""
        return "" if self.open_start or not self.runs else _literal_head(self.runs[0])

    @property
    def is_prefix_only(self) -> bool:
        """True of ``'abc%'`` and ``'%'``: the prefix says it all."""
        return self.open_end and (
            not self.runs or (len(self.runs) == 1 and not self.open_start and None not in self.runs[0])
        )

    @property
    def is_literal(self) -> bool:
        """True if there is no wildcard at all."""
        return not (self.open_start or self.open_end or len(self.runs) > 1 or (self.runs and None in self.runs[0]))


def _literal_head(run: Run) -> str:
    head: list[str] = []
    for character in run:
        if character is None:
            break
        head.append(character)
    return "".join(head)


@lru_cache(maxsize=4096)
def parse_pattern(canonical: str) -> Pattern:
    """Read a pattern in its canonical spelling (escape ``\\``)."""
    return _read(canonical, "\\")


def canonical_pattern(text: str, *, escape: str | None) -> str:
    """The one spelling of a pattern that was written with this escape character, or with none."""
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise FilterTooLong(f"a LIKE pattern has {len(text)} characters; at most {PATTERN_CHARACTERS_MAX} are allowed")
    pattern = _read(text, escape)
    for position, run in enumerate(pattern.runs):
        floats = (position > 0 or pattern.open_start) and (position + 1 < len(pattern.runs) or pattern.open_end)
        if floats and None in run and len(run) > WILD_RUN_CHARACTERS_MAX:
            raise FilterTooLong(
                f"a part with '_' between two '%' has {len(run)} characters;"
                f" at most {WILD_RUN_CHARACTERS_MAX} are allowed"
            )
    return spell_pattern(pattern)


def is_canonical(pattern: str) -> bool:
    """Is it a pattern, within its bounds, and spelled as ``canonical_pattern`` spells it?"""
    try:
        return canonical_pattern(pattern, escape="\\") == pattern
    except (FilterMeaningless, FilterTooLong):
        return False


def spell_pattern(pattern: Pattern) -> str:
    """Write a pattern in its canonical spelling."""
    middle = "%".join(
        "".join("_" if c is None else "\\" + c if c in "%_\\" else c for c in run) for run in pattern.runs
    )
    if not pattern.runs:
        return "%" if pattern.open_start else ""
    return ("%" if pattern.open_start else "") + middle + ("%" if pattern.open_end else "")


def _read(text: str, escape: str | None) -> Pattern:
    runs: list[Run] = []
    run: list[str | None] = []
    gaps: list[bool] = []  # is there a '%' directly before run i (and, last, at the end)?
    pending_gap = False
    characters = iter(text)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None or following not in ("%", "_", escape):
                raise FilterMeaningless(
                    f"the escape character {escape!r} in a LIKE pattern must stand before '%', '_' or itself"
                )
            run.append(following)
        elif character == "%":
            if run:
                runs.append(tuple(run))
                gaps.append(pending_gap)
                run = []
            pending_gap = True
        else:
            run.append(None if character == "_" else character)
    if run:
        runs.append(tuple(run))
        gaps.append(pending_gap)
        return Pattern(runs=tuple(runs), open_start=gaps[0], open_end=False)
    return Pattern(runs=tuple(runs), open_start=gaps[0] if gaps else pending_gap, open_end=pending_gap)


def matches_pattern(pattern: Pattern, text: str) -> bool:
    """Is the whole text of this form?"""
    runs = pattern.runs
    if not runs:
        return pattern.open_start or not text
    if len(runs) == 1 and not pattern.open_start and not pattern.open_end:
        return len(text) == len(runs[0]) and _run_at(runs[0], text, 0)
    start, end = 0, len(text)
    first, last = 0, len(runs)
    if not pattern.open_start:
        if len(text) < len(runs[0]) or not _run_at(runs[0], text, 0):
            return False
        start, first = len(runs[0]), 1
    if not pattern.open_end:
        last -= 1
        end -= len(runs[-1])
        if end < start or not _run_at(runs[-1], text, end):
            return False
    for run in runs[first:last]:
        found = _find_run(run, text, start, end)
        if found < 0:
            return False
        start = found + len(run)
    return True


def _run_at(run: Run, text: str, start: int) -> bool:
    return all(c is None or c == text[start + i] for i, c in enumerate(run))


def _find_run(run: Run, text: str, start: int, end: int) -> int:
    if None not in run:
        return text.find("".join(c for c in run if c is not None), start, end)
    anything, masks = _masks(run)
    goal = 1 << (len(run) - 1)
    state = 0
    for at in range(start, end):
        state = (state << 1 | 1) & masks.get(text[at], anything)
        if state & goal:
            return at - len(run) + 1
    return -1


@lru_cache(maxsize=1024)
def _masks(run: Run) -> tuple[int, dict[str, int]]:
    """For any character, and for each that the run names: at which places of the run it may stand (shift-and)."""
    anything = sum(1 << i for i, c in enumerate(run) if c is None)
    masks = {c: anything for c in run if c is not None}
    for i, c in enumerate(run):
        if c is not None:
            masks[c] |= 1 << i
    return anything, masks
