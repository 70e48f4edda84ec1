"""Workload files in the manner of the PEER thesis (peer §9.4): one event per line, its time in seconds first.

    1.0  broker add B0 500 16 10              id, CPU without a unit, memory in MB, output bandwidth in Mbit/s
    1.0  broker link B0 B1                    ours: the thesis gives its topologies in pictures
    5.0  publisher add P1 YHOO 10 B0          id, symbol, messages a minute, broker
    60.0 publisher chrate P1 20
    10.0 subscriber add S1 B1 class = 'STOCK' and symbol = 'YHOO'
    10.0 subscriber add S2 B1 template        one of Table 5.1 that a published stock matches
    10.0 subscriber add S3 B1 template zero   one that nothing matches
    90.0 subscriber remove S1

What stands behind a # is not read. A file is checked as a whole before anything happens: the mistake is told with its
line.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from tidewire.language import compile_filter
from tidewire.model.errors import UsageError

_FORMS: Final = {
    "broker add": "ID CPU MEMORY_MB MBPS",
    "broker link": "BROKER BROKER",
    "publisher add": "ID SYMBOL PER_MINUTE BROKER",
    "publisher chrate": "PUBLISHER PER_MINUTE",
    "subscriber add": "ID BROKER FILTER",
    "subscriber remove": "SUBSCRIBER",
}
"""What stands behind each verb: a new name, an amount, or a name that some line of the file has made."""

_AMOUNTS: Final = ("CPU", "MEMORY_MB", "MBPS", "PER_MINUTE")
PER_MINUTE_MAX: Final = 6e8
MEMORY_MB_MIN: Final = 0.01
_EXAMPLE: Final = "1.0 broker add B0 500 16 10"


class WorkloadLine(msgspec.Struct, frozen=True):
    """One event."""

    number: int
    at_s: float
    what: str
    words: list[str]

    @property
    def form(self) -> list[tuple[str, str]]:
        """Its words, each with what it must be."""
        names = _FORMS[self.what].split()
        words = self.words[: len(names)]
        if names[-1] == "FILTER" and len(self.words) >= len(names):
            words = [*self.words[: len(names) - 1], " ".join(self.words[len(names) - 1 :])]
        return list(zip(names, words, strict=False))


def read_workload(text: str) -> list[WorkloadLine]:
    """The lines of a file, all checked; UsageError with the line of the first mistake."""
    numbered = ((number, line.split("#")[0].split()) for number, line in enumerate(text.split("\n"), 1))
    lines = [_line(number, words) for number, words in numbered if words]
    made: dict[tuple[str, str], WorkloadLine] = {}
    for line in lines:
        for name, word in line.form:
            key = line.what.split()[0].upper(), word
            if name == "ID" and key in made:
                raise _mistake(line.number, f"there is a {key[0].lower()} {word} already")
            if name == "ID":
                made[key] = line
    first_stock = min((line for line in lines if line.what == "publisher add"), key=_turn, default=None)
    for line in lines:
        for name, word in line.form:
            if name in ("BROKER", "PUBLISHER", "SUBSCRIBER"):
                _check_made(line, f"{name.lower()} {word}", made.get((name, word)))
            if name == "FILTER" and word.split()[0] == "template":
                _check_made(line, "publisher whose stock a template could ask for", first_stock)
    return lines


def _turn(line: WorkloadLine) -> tuple[float, int]:
    """Lines happen in the order of this."""
    return line.at_s, line.number


def _check_made(line: WorkloadLine, what: str, made: WorkloadLine | None) -> None:
    if made is None:
        raise _mistake(line.number, f"no line adds a {what}")
    if _turn(made) > _turn(line):
        raise _mistake(line.number, f"line {made.number} adds a {what} only later, at {made.at_s:g} s")


def _line(number: int, words: list[str]) -> WorkloadLine:
    what = " ".join(words[1:3])
    at_s = _amount(words[0])
    if at_s is None or what not in _FORMS:
        raise _mistake(number, f"{' '.join(words)}: TIME WHAT VERB ID ..., as in: {_EXAMPLE}")
    line = WorkloadLine(number, at_s, what, words[3:])
    form = _FORMS[what].split()
    has_filter = form[-1] == "FILTER"
    if len(line.words) < len(form) or (len(line.words) > len(form) and not has_filter):
        raise _mistake(number, f"{what} has {_FORMS[what]} behind it, as in: {_EXAMPLE}")
    if what == "broker link" and line.words[0] == line.words[1]:
        raise _mistake(number, f"a link from {line.words[0]} to itself")
    for name, word in line.form:
        if name in _AMOUNTS and _amount(word) is None:
            raise _mistake(number, f"{name} is {word}: a number that is not negative")
        if name == "MEMORY_MB" and float(word) < MEMORY_MB_MIN:
            raise _mistake(number, f"{name} is {word}: a broker's queues need at least {MEMORY_MB_MIN:g}")
        if name == "PER_MINUTE" and float(word) > PER_MINUTE_MAX:
            raise _mistake(number, f"{name} is {word}: at most {PER_MINUTE_MAX:g}, which is ten million a second")
        if name == "FILTER" and word.split()[0] == "template":
            if word not in ("template", "template zero"):
                raise _mistake(number, f"{word}: there is template, and template zero")
        elif name == "FILTER":
            try:
                compile_filter(word)
            except UsageError as problem:
                raise _mistake(number, problem.message) from None
    return line


def _amount(word: str) -> float | None:
    try:
        amount = float(word)
    except ValueError:
        return None
    return amount if amount >= 0 and math.isfinite(amount) else None


def _mistake(number: int, what: str) -> UsageError:
    return UsageError(f"line {number}: {what}")
