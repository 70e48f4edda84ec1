"""Text into tokens, in linear time: one regular expression, whose repetitions are possessive and never tried again.

A token may be a whole simple comparison, ``name op literal``, with the ``and`` after it: most filters are little else,
and a step of the regular expression engine is much cheaper than one of ours. Tokens carry no positions; whoever needs
one, for an error or for ``explain``, has the text read once more.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Final, Literal

from tidewire.language.syntax import Operator
from tidewire.model.errors import FilterSyntaxError, FilterTooLong, UsageError, pointed_out

TEXT_CHARACTERS_MAX: Final = 16_384
BLANKS: Final = " \t\r\n"

Token = tuple[str, Operator | Literal[""], str, str, str, str, str, str]
"""Name, operator, string, integer and rest of the decimal, or name and phrase (all that follows a name in a predicate
of another simple form), and in both the ``and`` after it; or, alone, any other token. At the end all are empty."""

NAME, _OP, _STRING, _WHOLE, _REST, _PHRASE, JOINED, OTHER = range(8)

RESERVED: Final = frozenset(("and", "or", "not", "between", "in", "like", "escape", "is", "null", "true", "false"))
"""Words that name an attribute only in double quotes."""

_BLANK: Final = rf"[{BLANKS}]*+"
_GAP: Final = rf"[{BLANKS}]++"
_SIMPLE_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z_][A-Za-z0-9_]*+)*+"
_NAME: Final = r"[^\W\d]\w*+(?:\.[^\W\d]\w*+)*+"


def _any_case(word: str) -> str:
    """Not the flag for it, under which a few letters beyond ASCII pass for k, s and i."""
    return "".join(f"[{letter}{letter.upper()}]" for letter in word)


def _uncaptured(expression: str) -> str:
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", expression)


_OPERATOR: Final = r"[<>]=|<>|[=<>]"
_DECIMAL: Final = r"([+-]?+[0-9]++)((?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+)(?![\w.:-])"
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[0-9TtZz:.+-]*+"
_ITEM: Final = r"(?:'[^']*+'(?!')|[+-]?+[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+(?![\w.:-]))"
_UNRESERVED: Final = rf"(?!(?:{'|'.join(map(_any_case, sorted(RESERVED)))})(?![\w.])){_SIMPLE_NAME}"
_COMMA: Final = rf"{_BLANK},{_BLANK}"
_DEGREES: Final = r"(-?+[0-9]{1,3}+(?:\.[0-9]++)?+)"
CIRCLE: Final = (
    rf"\({_BLANK}({_UNRESERVED}){_COMMA}({_UNRESERVED}){_COMMA}{_DEGREES}{_COMMA}{_DEGREES}{_COMMA}"
    rf"([0-9]{{1,9}}+(?:\.[0-9]++)?+){_BLANK}(k?+m|mi|nmi){_BLANK}\)"
)
"""What follows ``within``, in its plainest form."""

_NEGATABLE: Final = "|".join(
    (
        rf"{_any_case('like')}{_BLANK}'[^']*+'(?!')(?!{_BLANK}{_any_case('escape')})",
        rf"{_any_case('in')}{_BLANK}\({_BLANK}{_ITEM}{_BLANK}(?:,{_BLANK}{_ITEM}{_BLANK})*+\)",
        rf"{_any_case('between')}{_BLANK}{_ITEM}{_BLANK}{_any_case('and')}{_BLANK}{_ITEM}",
    )
)
_PHRASES: Final = "|".join(
    (
        rf"(?:=|<>){_BLANK}(?:{_any_case('true')}|{_any_case('false')})\b",
        rf"(?:{_OPERATOR}){_BLANK}(?:{_DATE}|{_any_case('timestamp')}{_BLANK}'[^']*+'(?!'))",
        _NEGATABLE,
        rf"{_any_case('is')}{_GAP}(?:{_any_case('not')}{_GAP})?+{_any_case('null')}\b",
        rf"{_any_case('not')}{_GAP}(?:{_NEGATABLE})",
        rf"(?<=(?<![\w.]){_any_case('within')}){_uncaptured(CIRCLE)}",
    )
)
# The first lookahead: in ``"odd name" not like 'x'`` no attribute is called not.
_COMPARISON: Final = (
    rf"(?!{_any_case('not')}\b)({_SIMPLE_NAME}){_BLANK}(?:({_OPERATOR}){_BLANK}(?:'([^']*+)'(?!')|{_DECIMAL})|({_PHRASES}))"
    rf"{_BLANK}({_any_case('and')}\b)?+"
)
_OTHER: Final = "|".join(
    (
        r"[xX]'[^']*+'",
        _NAME,
        r"[(),]",
        rf"!=|==|{_OPERATOR}",
        r"'[^']*+(?:''[^']*+)*+'",
        r"'.*+",  # not closed: the rest of the text
        _DATE,
        r"[+-]?+\.?+[0-9](?:[eE][+-]|[\w.])*+",
        r'"[^"]*+(?:""[^"]*+)*+"',
        r'".*+',
        r".",
    )
)
_TOKEN: Final = re.compile(rf"{_BLANK}(?:{_COMPARISON}|({_OTHER})|\Z)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+")


def spellings(*words: str) -> frozenset[str]:
    """The words in any mix of cases: to look a token up as it stands is quicker than to lower it."""
    return frozenset("".join(letters) for word in words for letters in product(*zip(word, word.upper(), strict=True)))


RESERVED_SPELLINGS: Final = spellings(*RESERVED)

tokens_of = _TOKEN.findall
items_of = re.compile(r"'([^']*+)'|([+-]?+[0-9]++)([0-9.eE+-]*+)").findall
"""The literals of a phrase: string, or integer and rest of the decimal."""

is_plain_name = re.compile(_NAME).fullmatch
is_number = _NUMBER.fullmatch


def refuse_unreadable(text: str) -> None:
    """Raise what is wrong with a text as a whole: too long, or not text at all."""
    given: type = type(text)
    if not issubclass(given, str):
        hint = "; decode_text reads UTF-8" if issubclass(given, bytes | bytearray | memoryview) else ""
        raise UsageError(f"a filter's text is a str, not a {given.__name__}{hint}")
    if len(text) > TEXT_CHARACTERS_MAX:
        reason = f"the filter has {len(text)} characters; at most {TEXT_CHARACTERS_MAX} are allowed"
        beginning = text[: TEXT_CHARACTERS_MAX + 1]
        raise FilterTooLong(pointed_out(reason, text=beginning, position=TEXT_CHARACTERS_MAX))
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            raise FilterSyntaxError(
                "half of a surrogate pair is no character", text=text, position=problem.start
            ) from None


def decode_text(data: bytes) -> str:
    """A filter's text from UTF-8; FilterSyntaxError at the offending byte."""
    if len(data) > 4 * TEXT_CHARACTERS_MAX:
        raise FilterTooLong(f"the filter has {len(data)} bytes; at most {TEXT_CHARACTERS_MAX} characters are allowed")
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise FilterSyntaxError(
            f"byte {problem.start} (0x{data[problem.start]:02x}) is not UTF-8: {problem.reason}",
            text=data.decode(errors="replace"),
            position=len(data[: problem.start].decode()),
        ) from None


def spans_of(text: str) -> list[tuple[int, int]]:
    """Where each token stands."""
    return [_edges(found) for found in _TOKEN.finditer(text)]


def operand_start(text: str, number: int) -> int:
    """Where, in the token of this number, its literal begins, or the phrase that has it; else the token itself."""
    found = list(_TOKEN.finditer(text))[number]
    for group in (_STRING + 1, _WHOLE + 1, _PHRASE + 1):
        spelling = found.group(group)
        if spelling:
            return found.end(group) - len(spelling.lstrip("<=>" + BLANKS if group == _PHRASE + 1 else ""))
    return _edges(found)[0]


def _edges(found: re.Match[str]) -> tuple[int, int]:
    if found.group(NAME + 1):
        end = found.start(JOINED + 1) if found.group(JOINED + 1) else found.end()
        return found.start(NAME + 1), len(found.string[:end].rstrip(BLANKS))
    if found.group(OTHER + 1):
        return found.span(OTHER + 1)
    end = len(found.string.rstrip(BLANKS))
    return end, end


def number_of(spelling: str) -> int | float | None:
    """The number that this spells; None if it spells none. May be infinite, or an integer beyond int64."""
    if not is_number(spelling):
        return None
    digits = spelling.lstrip("+-0")
    if not spelling.lstrip("+-").isdigit():
        return float(spelling)
    # int() refuses thousands of digits, and beyond int64 only the sign matters.
    size = int(digits or "0") if len(digits) < 20 else 10**20
    return -size if spelling.startswith("-") else size
