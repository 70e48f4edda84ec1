"""The tuple notation of PADRES, read and written: ``[class,eq,'STOCK'],[volume,>,15]`` (peer §1.1).

Subscriptions and advertisements are lists of ``[attribute,operator,value]``, all of which must hold; publications are
lists of ``[attribute,value]``. Values are written as in filters, ``*`` stands for any value. An attribute may stand
in several tuples of a subscription.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, NoReturn, TypeVar, cast

from tidewire.language.cursor import in_range
from tidewire.language.leafsets import compared
from tidewire.language.lexer import number_of, refuse_unreadable
from tidewire.language.parser import PREDICATES_MAX
from tidewire.language.spelling import (
    finite_points,
    lower_end,
    missing_points,
    prefix_of,
    spell_bound,
    spell_value,
    upper_end,
)
from tidewire.language.syntax import Operator
from tidewire.model.errors import (
    BadAttributeName,
    FilterMeaningless,
    FilterSyntaxError,
    FilterTooLong,
    UsageError,
    ValueOutOfRange,
    pointed_out,
)
from tidewire.model.filters import NOTHING, Conjunction, Constraint, Filter, filter_of
from tidewire.model.names import refuse_bad_name
from tidewire.model.patterns import Pattern, canonical_pattern, parse_pattern, spell_pattern
from tidewire.model.values import Bound, Kind, Timestamp, Value, kind_of
from tidewire.model.valuesets import ANY_NUMBER, PRESENT, ValueSet, everything, matching

ANY: Final = "*"
_Placeable = TypeVar("_Placeable", FilterMeaningless, ValueOutOfRange, BadAttributeName)
_COMPARISONS: Final[dict[str, Operator]] = {
    "eq": "=",
    "=": "=",
    "neq": "<>",
    "<>": "<>",
    ">": ">",
    "<": "<",
    ">=": ">=",
    "<=": "<=",
}
_TEXT_OPERATORS: Final = {
    "str-prefix": (False, True),
    "str-suffix": (True, False),
    "str-contains": (True, True),
}
"""For each, whether anything may stand before and after the text."""

OPERATORS: Final = (*_COMPARISONS, *_TEXT_OPERATORS, "isPresent")

_BLANK: Final = r"[ \t\r\n]*+"
_FIELD: Final = re.compile(
    rf"""{_BLANK}(?:'((?:[^']|'')*+)'|"((?:[^"]|"")*+)"|([xX]'[^']*+')|([^\s,\[\]'"]++)){_BLANK}"""
)
_PIECE: Final = re.compile(r"""'[^']*+'?+|"[^"]*+"?+|[^\s,\[\]'"]++|.""", re.DOTALL)
_DATE: Final = re.compile(r"[0-9]{4}-.*+")
_BARE_NAME: Final = re.compile(r"[^\s,\[\]'\"]++")
_DUMMIES: Final[dict[Kind, Value]] = {
    Kind.BOOL: False,
    Kind.ANY_NUMBER: 0,
    Kind.STRING: "",
    Kind.TIMESTAMP: Timestamp(0),
    Kind.BYTES: b"",
}


def read_tuples(text: str) -> Filter:
    """The filter that a subscription or an advertisement says."""
    sets: dict[str, ValueSet] = {}
    is_possible = True
    reader = _Reader(text)
    for row, (name, operator, value) in enumerate(reader.tuples(fields=3)):
        try:
            allowed = _allowed(str(operator), value)
        except FilterMeaningless as problem:
            raise reader.placed(problem, reader.values_at[row]) from None
        known = sets.get(str(name))
        met = allowed if known is None or allowed is None else known.meet(allowed)
        if met is None:
            is_possible = False
        else:
            sets[str(name)] = met
    if not is_possible:
        return NOTHING
    return filter_of([Conjunction(tuple(Constraint(name, sets[name]) for name in sorted(sets)))])


def read_publication(text: str) -> dict[str, Value]:
    """The attributes of a publication."""
    attributes: dict[str, Value] = {}
    for name, value in _Reader(text).tuples(fields=2):
        if name in attributes:
            raise BadAttributeName(f"the publication gives {name!r} twice")
        if value is None:
            raise FilterMeaningless(f"a publication says what {name!r} is: * is for subscriptions")
        attributes[str(name)] = value
    return attributes


def write_publication(attributes: Mapping[str, Value]) -> str:
    """The attributes as a publication; UsageError if a value has no spelling."""
    for name, value in attributes.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name!r} is {value}, which the tuple notation cannot say")
    return ",".join(f"[{_spell_name(name)},{spell_value(value)}]" for name, value in attributes.items())


def write_tuples(candidate: Filter) -> str:
    """The filter as a subscription; UsageError, saying why, if tuples cannot say it."""
    if len(candidate.conjunctions) != 1:
        what = "nothing" if not candidate.conjunctions else "any of several alternatives"
        raise UsageError(f"the tuple notation says one conjunction; this filter matches {what}")
    (conjunction,) = candidate.conjunctions
    if conjunction.areas:
        raise UsageError("the tuple notation has no areas (within, inside)")
    if not conjunction.constraints:
        raise UsageError("the tuple notation cannot say a filter that matches everything; try [class,eq,*]")
    return ",".join(
        f"[{_spell_name(constraint.attribute)},{operator},{value}]"
        for constraint in conjunction.constraints
        for operator, value in _pairs(constraint)
    )


class _Reader:
    """Steps through ``[field,field,...],[...]``."""

    def __init__(self, text: str) -> None:
        refuse_unreadable(text)
        self.text = text
        self.at = 0
        self.values_at: list[int] = []

    def tuples(self, *, fields: int) -> list[tuple[str | Value | None, ...]]:
        found: list[tuple[str | Value | None, ...]] = []
        self._blanks()
        while True:
            self._sign("[")
            name = self._name()
            row: list[str | Value | None] = [name]
            if fields == 3:
                self._sign(",")
                row.append(self._operator())
            self._sign(",")
            row.append(self._value())
            self._sign("]")
            found.append(tuple(row))
            if len(found) > PREDICATES_MAX:
                raise FilterTooLong(f"there are more than {PREDICATES_MAX} tuples")
            self._blanks()
            if self.at == len(self.text):
                return found
            self._sign(",")
            self._blanks()

    def _blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1

    def _sign(self, sign: str) -> None:
        if self.text[self.at : self.at + 1] != sign:
            self._fail((sign,))
        self.at += 1

    def _fail(self, expected: tuple[str, ...], *, at: int | None = None) -> NoReturn:
        position = self.at if at is None else at
        found = _PIECE.match(self.text, position)
        what = f"{found.group()[:40]!r} cannot stand here" if found else "the text ends here"
        raise FilterSyntaxError(what, text=self.text, position=position, expected=expected)

    def _field(self, *expected: str) -> re.Match[str]:
        found = _FIELD.match(self.text, self.at)
        if found is None:
            self._blanks()
            self._fail(expected)
        return found

    def _name(self) -> str:
        found = self._field("an attribute")
        quoted = found.group(2)
        name = found.group(4) if quoted is None else quoted.replace('""', '"')
        if not name:
            self._fail(("an attribute",), at=_start(found))
        if quoted is None and number_of(name) is not None:
            raise FilterSyntaxError(
                f"{name[:40]!r} is a number where an attribute's name is due; a name like it stands in double quotes",
                text=self.text,
                position=_start(found),
                expected=("an attribute",),
            )
        try:
            refuse_bad_name(name)
        except BadAttributeName as problem:
            raise self.placed(problem, _start(found)) from None
        self.at = found.end()
        return name

    def _operator(self) -> str:
        found = self._field(*OPERATORS)
        if found.group(4) not in OPERATORS:
            self._fail(OPERATORS, at=_start(found))
        self.at = found.end()
        return found.group(4)

    def _value(self) -> Value | None:
        expected = ("a string in '...'", "a number", "true", "false", "a timestamp", "x'..'", ANY)
        found = self._field(*expected)
        text, _, data, bare = found.groups()
        start = _start(found)
        self.values_at.append(start)
        value: Value | None = None
        if text is not None:
            value = text.replace("''", "'")
        elif data is not None:
            value = _bytes_of(data)
        elif bare is None or (bare != ANY and (value := self._bare(bare, start)) is None):
            self._fail(expected, at=start)
        if data is not None and value is None:
            self._fail(("pairs of hexadecimal digits",), at=start)
        self.at = found.end()
        return value

    def _bare(self, spelling: str, start: int) -> Value | None:
        try:
            return _bare_value(spelling)
        except ValueOutOfRange as problem:
            raise self.placed(problem, start) from None

    def placed(self, problem: _Placeable, position: int) -> _Placeable:
        """The same error, with its place in the text."""
        return type(problem)(pointed_out(problem.message, text=self.text, position=position))


def _start(found: re.Match[str]) -> int:
    """Where the field begins, its quote included."""
    group = found.lastindex or 0
    return found.start(group) - (group in (1, 2))


def _bytes_of(spelling: str) -> bytes | None:
    try:
        return bytes.fromhex(spelling[2:-1])
    except ValueError:
        return None


def _bare_value(spelling: str) -> Value | None:
    if spelling.lower() in ("true", "false"):
        return spelling.lower() == "true"
    if _DATE.fullmatch(spelling):
        return Timestamp.parse(spelling)
    number = number_of(spelling)
    return None if number is None else in_range(number, spelling)


def _allowed(operator: str, value: Value | None) -> ValueSet | None:
    """The values that one tuple accepts; None if there are none."""
    if operator == "isPresent":
        return PRESENT if value is None else _all_of_type(value)
    if value is None:
        if _COMPARISONS.get(operator) != "=":
            raise FilterMeaningless(f"* can stand after eq and isPresent only, not after {operator}")
        return PRESENT
    if operator in _COMPARISONS:
        return compared(_COMPARISONS[operator], value)
    if not isinstance(value, str):
        raise FilterMeaningless(f"{operator} needs a string, not {spell_value(value)}")
    open_start, open_end = _TEXT_OPERATORS[operator]
    runs = (tuple(value),) if value else ()
    is_any = not value
    pattern = Pattern(runs=runs, open_start=open_start or is_any, open_end=open_end or is_any)
    return matching(canonical_pattern(spell_pattern(pattern), escape="\\"))


def _all_of_type(value: Value) -> ValueSet:
    kind = kind_of(value)
    return ANY_NUMBER if kind in (Kind.NUMBER, Kind.ANY_NUMBER) else everything(kind)


def _spell_name(name: str) -> str:
    return name if _BARE_NAME.fullmatch(name) and number_of(name) is None else '"' + name.replace('"', '""') + '"'


def _pairs(constraint: Constraint) -> list[tuple[str, str]]:
    """Operator and value of each tuple for one attribute."""
    allowed, kind = constraint.allowed, constraint.allowed.kind
    if kind is Kind.ABSENT or allowed.unlike:
        raise UsageError(f"the tuple notation cannot say what {constraint.attribute!r} must not be (null, not like)")
    if kind is Kind.PRESENT:
        return [("eq", ANY)]
    if allowed == _all_of_type(_DUMMIES.get(kind, 0)):
        return [("isPresent", spell_value(_DUMMIES[kind]))]
    pairs = [_text_pair(constraint.attribute, pattern) for pattern in allowed.like]
    gaps = missing_points(kind, allowed.intervals)
    points = finite_points(ValueSet(kind, allowed.intervals))
    if points is not None and len(points) == 1:
        return [("eq", spell_bound(kind, points[0]))]
    if gaps is None:
        raise UsageError(f"the tuple notation cannot say several ranges for {constraint.attribute!r}")
    low, high = allowed.intervals[0][0], allowed.intervals[-1][1]
    if not pairs and not gaps and (low, high) == everything(kind).intervals[0]:
        raise UsageError(f"the tuple notation cannot say that {constraint.attribute!r} is any number but not NaN")
    return pairs + _ends(kind, low, high) + [("neq", spell_bound(kind, gap)) for gap in gaps]


def _ends(kind: Kind, low: Bound, high: Bound | None) -> list[tuple[str, str]]:
    if kind is Kind.STRING and (prefix := prefix_of((low, high))) is not None:
        return [("str-prefix", spell_value(prefix))]
    ends = (lower_end(kind, low), upper_end(kind, high))
    return [(end[0], spell_bound(kind, end[1])) for end in ends if end is not None]


def _text_pair(attribute: str, canonical: str) -> tuple[str, str]:
    pattern = parse_pattern(canonical)
    if len(pattern.runs) != 1 or None in pattern.runs[0] or not pattern.open_start:
        raise UsageError(f"the tuple notation cannot say like {spell_value(canonical)} for {attribute!r}")
    text = "".join(cast("tuple[str, ...]", pattern.runs[0]))
    return "str-contains" if pattern.open_end else "str-suffix", spell_value(text)
