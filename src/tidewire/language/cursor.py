"""A place among the tokens of a text: what stands there, taken as the name or the literal that is due."""

from __future__ import annotations

import math
import re
from typing import Final, NoReturn, cast

from tidewire.language.lexer import (
    OTHER,
    RESERVED,
    Token,
    number_of,
    refuse_unreadable,
    spans_of,
    tokens_of,
)
from tidewire.model.errors import FilterSyntaxError, ValueOutOfRange
from tidewire.model.values import INT64_MAX, INT64_MIN, Timestamp, Value

OPERATORS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
SAFE_DIGITS: Final = 18
_NOTHING_EQUALS_NULL: Final = "nothing equals null; write: is null, or is not null"
_HEXADECIMAL: Final = re.compile(r"(?:[0-9a-fA-F]{2})*+")
_LIKE_A_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*+")
_TYPOGRAPHIC: Final = "‘’“”´`"


class Cursor:
    """The tokens of a filter's text and the number of the one to be read next."""

    __slots__ = ("at", "blamed", "text", "tokens")

    def __init__(self, text: str) -> None:
        refuse_unreadable(text)
        self.text = text
        self.tokens = cast("list[Token]", tokens_of(text))
        self.at = 0
        self.blamed = -1
        """The token that an error of meaning is about, if it is not the one to be read next."""

    def word(self, ahead: int = 0) -> str:
        """The token in lower case; empty at the end and before a whole comparison."""
        return self.tokens[self.at + ahead][OTHER].lower() if self.at + ahead < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        """Step over one of these words or signs, which must stand here."""
        found = self.word()
        if found not in wanted:
            self.fail(self.unexpected(), expected=wanted)
        self.at += 1
        return found

    def unexpected(self) -> str:
        """What is wrong with the token here, if nothing else is known."""
        spelling = self.tokens[self.at][OTHER]
        if not any(self.tokens[self.at]):
            return "the filter ends here"
        if not spelling:
            return "a comparison cannot stand here"
        if spelling[0] in "'\"" and spelling.count(spelling[0]) % 2:
            return f"the quote {spelling[0]} is not closed"
        if spelling in _TYPOGRAPHIC:
            return f"{spelling!r} is not a quote here: strings stand in '...', odd names in \"...\""
        if spelling == "==":
            return "equality is written ="
        return f"{_shortened(spelling)} cannot stand here"

    def fail(self, reason: str, *, at: int | None = None, expected: tuple[str, ...] = ()) -> NoReturn:
        """Raise a syntax error at a token, this one unless said."""
        start, _ = spans_of(self.text)[self.at if at is None else at]
        raise FilterSyntaxError(reason, text=self.text, position=start, expected=expected)

    def attribute(self) -> str:
        """Step over an attribute's name."""
        self.blamed = self.at
        spelling = self.tokens[self.at][OTHER]
        if spelling[:1] == '"' and spelling.count('"') % 2 == 0:
            name = spelling[1:-1].replace('""', '"')
            if not name:
                self.fail("an attribute's name cannot be empty")
        elif spelling[:1].isalpha() or spelling[:1] == "_":
            name = spelling
            self.refuse_reserved(name)
            if name.endswith("'"):  # x'..'
                self.fail(self.unexpected(), expected=("an attribute",))
        else:
            self.fail(self.unexpected(), expected=("an attribute",))
        self.at += 1
        return name

    def refuse_reserved(self, name: str) -> None:
        """Raise if the name is a word of the language."""
        if name.lower() in RESERVED:
            self.fail(
                f"{name!r} is a word of the language; as an attribute write it in double quotes",
                expected=("an attribute", "a literal"),
            )

    def is_literal(self) -> bool:
        """Does a literal, well formed or not, stand here?"""
        spelling = self.tokens[self.at][OTHER]
        if not spelling or (spelling in "+-." and len(spelling) == 1):
            return False
        word = spelling.lower()
        return (
            spelling[0] in "'+-.0123456789"
            or word.startswith("x'")
            or word in ("true", "false")
            or (word == "timestamp" and self.word(1)[:1] == "'")
        )

    def literal(self) -> Value:
        """Step over a literal."""
        self.blamed = self.at
        spelling = self.tokens[self.at][OTHER]
        if is_short_integer(spelling):
            self.at += 1
            return int(spelling)
        value: Value
        word = spelling.lower()
        if spelling[:1] == "'":
            value = self._string()
        elif not self.is_literal():
            self._refuse_operand()
        elif word in ("true", "false"):
            value = word == "true"
        elif word.startswith("x'"):
            value = self._bytes()
        elif word == "timestamp":
            self.at += 1
            value = Timestamp.parse(self._string())
        elif _LIKE_A_DATE.fullmatch(spelling):
            value = Timestamp.parse(spelling)
        else:
            return self.number()
        self.at += 1
        return value

    def _refuse_operand(self) -> NoReturn:
        word = self.word()
        if word == "null":
            self.fail(_NOTHING_EQUALS_NULL, expected=("a literal",))
        if (word[:1].isalpha() and word not in RESERVED) or word[:1] == '"':
            self.fail(
                f"an attribute is compared with a literal, not with another attribute;"
                f" a string needs single quotes: {_quoted(self.tokens[self.at][OTHER])}",
                expected=("a literal",),
            )
        self.fail(self.unexpected(), expected=("a literal",))

    def string(self) -> str:
        """Step over a string literal."""
        if self.word()[:1] != "'":
            self.fail(self.unexpected(), expected=("a string in '...'",))
        self.blamed = self.at
        text = self._string()
        self.at += 1
        return text

    def _string(self) -> str:
        spelling = self.tokens[self.at][OTHER]
        if spelling.count("'") % 2:
            self.fail(self.unexpected(), expected=("'",))
        return spelling[1:-1].replace("''", "'")

    def _bytes(self) -> bytes:
        digits = self.tokens[self.at][OTHER][2:-1]
        if not _HEXADECIMAL.fullmatch(digits):
            self.fail("bytes are written as pairs of hexadecimal digits", expected=("x'DEADBEEF'",))
        return bytes.fromhex(digits)

    def number(self) -> int | float:
        """Step over a number, with a sign or without."""
        self.blamed = self.at
        value = number_of(self.tokens[self.at][OTHER])
        if value is None:
            spelling = self.tokens[self.at][OTHER]
            what = f"{_shortened(spelling)} is not a number" if self.is_literal() else self.unexpected()
            self.fail(what, expected=("a number",))
        self.at += 1
        return in_range(value, self.tokens[self.at - 1][OTHER])


def is_short_integer(spelling: str) -> bool:
    """True of digits that ``int`` reads and int64 holds."""
    return spelling.isdigit() and len(spelling) <= SAFE_DIGITS and spelling.isascii()


def simple_number(whole: str, rest: str) -> int | float:
    """The number of a comparison token."""
    if rest:
        number = float(whole + rest)
        return number if -1e308 < number < 1e308 else in_range(number, whole + rest)
    value = int(whole) if len(whole) <= SAFE_DIGITS else number_of(whole)
    assert value is not None
    return in_range(value, whole)


def in_range(value: float, spelling: str) -> int | float:
    """The number, if an event could hold it."""
    if isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
        raise ValueOutOfRange(
            f"{_shortened(spelling)} is beyond the 64-bit integers; as a decimal number write it like 1e20"
        )
    if math.isinf(value):
        raise ValueOutOfRange(f"{_shortened(spelling)} is beyond the largest number, 1.7976931348623157e308")
    return value


def _shortened(spelling: str) -> str:
    return repr(spelling if len(spelling) <= 40 else spelling[:37] + "...")


def _quoted(name: str) -> str:
    return "'" + name.strip('"')[:37].replace("'", "''") + "'"
