"""What is this channel? Its declaration, read and checked.

create channel near_quakes(lat double, lon double, km double, magnitude double)
period 10s on new Quakes as
select q.place, q.magnitude from Quakes q
where q.magnitude >= :magnitude and within(q.lat, q.lon, :lat, :lon, :km * 1000)
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from tidewire.channels.expressions import parameters_of
from tidewire.channels.queries import Declaration, Query
from tidewire.channels.reading import read_query
from tidewire.channels.schemas import TYPE_NAMES, Catalog, Column
from tidewire.model.errors import (
    ChannelMeaningless,
    ChannelSyntaxError,
    ChannelTooCostly,
    pointed_out,
)

TEXT_CHARACTERS_MAX: Final = 16_384
NAME_CHARACTERS_MAX: Final = 128
PARAMETERS_MAX: Final = 32
PERIOD_MS_MIN: Final = 1000
PERIOD_MS_MAX: Final = 24 * 3600 * 1000
_UNITS_MS: Final = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}
_BLANKS: Final = re.compile(r"(?:\s++|--[^\n]*+(?:\n|\Z))*+")
_TOKEN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+|[0-9]++(?:\.[0-9]++)?+|`[^`]++`|.", re.DOTALL)


def declare(text: str, catalog: Catalog) -> Declaration:
    """The channel that the text creates; an error says what is wrong with it, where, and what to do."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise ChannelTooCostly(f"the text has {len(text)} characters; at most {TEXT_CHARACTERS_MAX} are allowed")
    header = _Header(text)
    name, parameters = header.name_and_parameters()
    period_ms, feed = header.schedule()
    query = read_query(text, start=header.at, parameters=parameters, catalog=catalog)
    declaration = Declaration(name=name, parameters=parameters, period_ms=period_ms, query=query, text=text)
    _check_feed(declaration, feed, catalog)
    _check_parameters(parameters, query)
    if period_ms is None and query.is_grouped:
        raise ChannelMeaningless(
            f"channel {name}: aggregates need a period, because it is chance which rows come in one micro-batch;"
            " write period 10s instead of continuous"
        )
    return declaration


def _check_feed(declaration: Declaration, feed: str | None, catalog: Catalog) -> None:
    first = declaration.feed
    if feed is not None and catalog.dataset(feed).name != first:
        raise ChannelMeaningless(
            f"channel {declaration.name} runs on new {feed}, but reads {first} first;"
            f" write from {feed} … join {first} …"
        )
    if not catalog.dataset(first).is_feed:
        raise ChannelMeaningless(
            f"channel {declaration.name}: nothing new comes into {first}, which is loaded and not fed;"
            " the dataset that drives a channel stands first behind from"
        )
    feeds = [source.dataset for source in declaration.query.sources if catalog.dataset(source.dataset).is_feed]
    if feed is None and len(feeds) > 1:
        raise ChannelMeaningless(
            f"channel {declaration.name} reads several feeds: {', '.join(feeds)}; say which one drives it,"
            f" with on new {first} in front of as"
        )


def _check_parameters(parameters: tuple[Column, ...], query: Query) -> None:
    used = {number for node in query.nodes() for number in parameters_of(node)}
    for number, column in enumerate(parameters):
        if number not in used:
            raise ChannelMeaningless(
                f"the parameter {column.name} is not used; in the query it is written :{column.name}, or take it away"
            )


class _Header:
    """What stands before the query."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self._skip()

    def name_and_parameters(self) -> tuple[str, tuple[Column, ...]]:
        """``create channel name(parameter type, ...)``."""
        self._take("create")
        self._take("channel")
        name = self._name("the channel's name")
        found: dict[str, Column] = {}
        self._take("(")
        while not found or self._peek() != ")":
            if not found and self._peek() == ")":
                break
            at = self.at
            parameter = self._name("a parameter")
            if parameter in found:
                self._fail(f"the parameter {parameter} is there twice", at=at)
            found[parameter] = Column(parameter, TYPE_NAMES[self._take(*TYPE_NAMES)])
            if self._peek() != ")":
                self._take(",", ")")
        self._take(")")
        if len(found) > PARAMETERS_MAX:
            raise ChannelTooCostly(f"a channel has at most {PARAMETERS_MAX} parameters, this one {len(found)}")
        return name, tuple(found.values())

    def schedule(self) -> tuple[int | None, str | None]:
        """``period 10s`` or ``continuous``; ``on new Feed``; ``as``."""
        period_ms: int | None = None
        is_said, feed = False, None
        while (word := self._take("period", "continuous", "on", "as")) != "as":
            if word == "on":
                self._take("new")
                feed = self._name("a dataset")
                continue
            if is_said:
                self._fail("it is said twice when the channel runs")
            is_said = True
            period_ms = self._period_ms() if word == "period" else None
        if not is_said:
            self._fail("say when the channel runs: period 10s, or continuous, before as")
        if self._peek() not in ("select", "with", "("):
            self._fail(f"{self._peek()!r} cannot stand here" if self._peek() else "the text ends here", ("select",))
        return period_ms, feed

    def _period_ms(self) -> int:
        at, spelling = self.at, self._peek()
        if not spelling[:1].isdigit():
            self._fail(f"{spelling!r} cannot stand here", ("a period, like 10s",))
        self._step(spelling)
        period_ms = round(float(spelling) * _UNITS_MS[self._take(*_UNITS_MS)])
        if not PERIOD_MS_MIN <= period_ms <= PERIOD_MS_MAX:
            self._fail("a period is at least 1s and at most 24h", at=at)
        return period_ms

    def _name(self, what: str) -> str:
        at, found = self.at, self._peek(is_exact=True)
        name = found.strip("`")
        if not (found[:1].isalpha() or found[:1] in ("_", "`")) or not name:
            self._fail(f"{found!r} cannot stand here" if found else "the text ends here", (what,))
        if len(name) > NAME_CHARACTERS_MAX:
            self._fail(f"a name has at most {NAME_CHARACTERS_MAX} characters", at=at)
        self._step(found)
        return name

    def _peek(self, *, is_exact: bool = False) -> str:
        found = _TOKEN.match(self._text, self.at)
        word = found.group() if found else ""
        return word if is_exact else word.lower()

    def _take(self, *wanted: str) -> str:
        found = self._peek()
        if found not in wanted:
            self._fail(f"{found!r} cannot stand here" if found else "the text ends here", wanted)
        self._step(found)
        return found

    def _step(self, token: str) -> None:
        self.at += len(token)
        self._skip()

    def _skip(self) -> None:
        blanks = _BLANKS.match(self._text, self.at)
        assert blanks is not None
        self.at = blanks.end()

    def _fail(self, reason: str, expected: tuple[str, ...] = (), *, at: int | None = None) -> NoReturn:
        drawn = pointed_out(reason, text=self._text, position=self.at if at is None else at)
        raise ChannelSyntaxError(drawn + (f"\nexpected {', '.join(expected)}" if expected else ""))
