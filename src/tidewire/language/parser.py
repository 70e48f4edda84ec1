"""Text into a syntax tree: SQL-92 selectors in the manner of JMS and CESQL, by recursive descent.

filter      = conjunction { "or" conjunction }
conjunction = operand { "and" operand }
operand     = { "not" } ( "(" filter ")" | predicate )
predicate   = attribute [ op literal | ["not"] between | ["not"] in | ["not"] like | "is" ["not"] what ]
            | literal op attribute | "true" | "false" | within | inside
"""

from __future__ import annotations

from typing import Final, cast

from tidewire.language.areas import AREAS, area_ahead, simple_circle
from tidewire.language.cursor import OPERATORS, SAFE_DIGITS, Cursor, simple_number
from tidewire.language.lexer import (
    BLANKS,
    NAME,
    OTHER,
    RESERVED,
    RESERVED_SPELLINGS,
    items_of,
    operand_start,
    spans_of,
    spellings,
)
from tidewire.language.syntax import (
    MIRRORED,
    TYPE_NAMES,
    And,
    Between,
    Compare,
    Expression,
    In,
    InArea,
    IsNull,
    IsType,
    Like,
    Not,
    Operator,
    Or,
    Truth,
    leaves,
)
from tidewire.model.errors import (
    BadAttributeName,
    FilterMeaningless,
    FilterTooDeep,
    FilterTooLong,
    ValueOutOfRange,
    pointed_out,
)
from tidewire.model.names import NAME_BYTES_MAX, refuse_bad_name
from tidewire.model.patterns import PATTERN_CHARACTERS_MAX, canonical_pattern
from tidewire.model.values import Timestamp, Value, kind_of

DEPTH_MAX: Final = 64
PREDICATES_MAX: Final = 1024
IN_VALUES_MAX: Final = 1024
_AND, _OR, _NOT = spellings("and"), spellings("or"), spellings("not")
_OPENING: Final = _NOT | {"("}
_CLOSING: Final = _AND | _OR | {")", ""}
_VERBS: Final = frozenset(("like", "in", "between", "is"))
_SPECIAL: Final = RESERVED_SPELLINGS | spellings("timestamp", *AREAS)
_AFTER_PREDICATE: Final = ("and", "or")
_AFTER_ATTRIBUTE: Final = ("a comparison (=, <>, <, <=, >, >=)", "between", "in", "like", "is", "not")


def parse(text: str) -> Expression:
    """The syntax tree of a filter's text."""
    return _parsed(text)[0]


def locate(text: str) -> list[tuple[int, int]]:
    """Start and end in the text of each predicate of ``leaves(parse(text))``."""
    places = spans_of(text)
    return [(places[first][0], places[last][1]) for first, last in _parsed(text)[1].leaves]


def _parsed(text: str) -> tuple[Expression, _Parser]:
    parser = _Parser(text)
    if not any(parser.tokens[0]):
        parser.fail("the filter is empty; the one that matches everything is: true", expected=("a predicate",))
    try:
        expression = parser.disjunction()
    except (FilterMeaningless, FilterTooDeep, FilterTooLong, ValueOutOfRange) as problem:
        position = operand_start(text, parser.at if parser.blamed < 0 else parser.blamed)
        raise type(problem)(pointed_out(problem.message, text=text, position=position)) from None
    if any(parser.tokens[parser.at]):
        parser.fail_after_predicate("end of the filter")
    if len(parser.leaves) > PREDICATES_MAX:
        reason = f"the filter has {len(parser.leaves)} predicates; at most {PREDICATES_MAX} are allowed"
        position = spans_of(text)[parser.leaves[PREDICATES_MAX][0]][0]
        raise FilterTooLong(pointed_out(reason, text=text, position=position))
    if not text.isascii() or (len(text) > NAME_BYTES_MAX and _may_have_long_names(text)):
        _refuse_bad_names(expression, parser)
    return expression, parser


def _may_have_long_names(text: str) -> bool:
    """False of most texts, quickly: only names in quotes have blanks."""
    return '"' in text or max(map(len, text.split())) > NAME_BYTES_MAX


def _refuse_bad_names(expression: Expression, parser: _Parser) -> None:
    for leaf, (first, _) in zip(leaves(expression), parser.leaves, strict=True):
        if isinstance(leaf, Truth):
            continue
        named = (leaf.area.latitude, leaf.area.longitude) if isinstance(leaf, InArea) else (leaf.attribute,)
        try:
            for name in named:
                refuse_bad_name(name)
        except BadAttributeName as problem:
            position = spans_of(parser.text)[first][0]
            raise BadAttributeName(pointed_out(problem.message, text=parser.text, position=position)) from None


class _Parser(Cursor):
    __slots__ = ("depth", "joined", "leaves")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.joined = ""
        self.leaves: list[tuple[int, int]] = []

    def disjunction(self) -> Expression:
        first = self._conjunction()
        if self.tokens[self.at][OTHER] not in _OR:
            return first
        operands = [first]
        while self.tokens[self.at][OTHER] in _OR:
            self.at += 1
            operands.append(self._conjunction())
        return Or(tuple(operands))

    def _conjunction(self) -> Expression:
        operands = []
        while True:
            operands.append(self._operand())
            if self.joined:
                self.joined = ""
            elif self.tokens[self.at][OTHER] in _AND:
                self.at += 1
            else:
                return operands[0] if len(operands) == 1 else And(tuple(operands))

    def _operand(self) -> Expression:
        at = self.at
        name, op, text, whole, rest, phrase, joined, other = self.tokens[at]
        if name:
            if name in RESERVED_SPELLINGS:
                self.refuse_reserved(name)
            found: Expression
            if not op:
                found = _phrase(name, phrase)
            elif not whole:
                found = Compare(name, op, text)
            else:
                is_short = not rest and len(whole) <= SAFE_DIGITS
                found = Compare(name, op, int(whole) if is_short else simple_number(whole, rest))
            self.at = at + 1
            self.joined = joined
            self.leaves.append((at, at))
            return found
        if other in _OPENING:
            return self._group() if other == "(" else self._negation()
        predicate = self._predicate(other)
        self.blamed = -1
        self.leaves.append((at, self.at - 1))
        return predicate

    def _negation(self) -> Expression:
        count = 0
        while self.tokens[self.at][OTHER] in _NOT:
            self.at += 1
            count += 1
        self._deepen(count)
        expression = self._operand()
        self.depth -= count
        for _ in range(count):
            expression = Not(expression)
        return expression

    def _group(self) -> Expression:
        self.at += 1
        self._deepen(1)
        expression = self.disjunction()
        if self.tokens[self.at][OTHER] != ")":
            self.fail_after_predicate(")")
        self.at += 1
        self.depth -= 1
        return expression

    def _deepen(self, levels: int) -> None:
        self.depth += levels
        if self.depth > DEPTH_MAX:
            self.blamed = self.at - 1
            raise FilterTooDeep(f"parentheses and negations are nested more than {DEPTH_MAX} deep")

    def _predicate(self, spelling: str) -> Expression:
        lead = spelling[:1]
        is_word = (lead.isalpha() or lead == "_") and spelling[-1] != "'"
        if is_word and spelling not in _SPECIAL:
            self.at += 1
            return self._about(spelling)
        if lead == '"':
            return self._about(self.attribute())
        return self._special(spelling.lower())

    def _special(self, word: str) -> Expression:
        """A predicate that begins with a literal or with a word that may be more than a name."""
        if word in AREAS:
            area = area_ahead(self, word)
            return self._about(self.attribute()) if area is None else InArea(area)
        if not self.is_literal():
            if word[:1].isalpha():
                return self._about(self.attribute())
            self.fail(self.unexpected(), expected=("an attribute", "a literal", "not", "("))
        if word in ("true", "false") and self.word(1) not in OPERATORS:
            self.at += 1
            return Truth(word == "true")
        value = self.literal()
        if self.word() not in OPERATORS:
            self.fail("a literal alone is no condition: compare it with an attribute", expected=tuple(MIRRORED))
        op = self._operator()
        if self.is_literal():
            self.fail("a literal is compared with an attribute, not with a literal", expected=("an attribute",))
        return _compare(self.attribute(), MIRRORED[op], value)

    def _about(self, attribute: str) -> Expression:
        spelling = self.tokens[self.at][OTHER]
        if spelling in _CLOSING and not self.tokens[self.at][NAME]:
            return Compare(attribute, "=", True)
        word = spelling.lower()
        if word in OPERATORS:
            return _compare(attribute, self._operator(), self.literal())
        if word == "==":
            self.fail(self.unexpected(), expected=("=",))
        negated = word == "not"
        if negated:
            self.at += 1
            word = self.word()
        if word not in _VERBS:
            if negated:
                self.fail(self.unexpected(), expected=("between", "in", "like"))
            return Compare(attribute, "=", True)
        self.at += 1
        if word == "is":
            return self._is(attribute)
        if word == "in":
            return In(attribute, self._list(), negated)
        if word == "like":
            return Like(attribute, self._pattern(), negated)
        low = self.literal()
        self.take("and")
        return _between(attribute, low, self.literal(), negated=negated)

    def _operator(self) -> Operator:
        op = OPERATORS[self.word()]
        self.at += 1
        return cast(Operator, op)

    def _is(self, attribute: str) -> Expression:
        negated = self.word() == "not"
        if negated:
            self.at += 1
        what = self.take("null", *TYPE_NAMES)
        return IsNull(attribute, negated) if what == "null" else IsType(attribute, TYPE_NAMES[what], negated)

    def _list(self) -> tuple[Value, ...]:
        self.take("(")
        values = [self.literal()]
        while self.take(",", ")") == ",":
            values.append(self.literal())
        return _bounded(values)

    def _pattern(self) -> str:
        start = self.at
        pattern = self.string()
        escape = None
        if self.word() == "escape":
            self.at += 1
            escape = self.string()
            if len(escape) != 1:
                raise FilterMeaningless(f"the escape of a LIKE pattern must be one character, not {escape[:40]!r}")
        self.blamed = start
        return canonical_pattern(pattern, escape=escape)

    def fail_after_predicate(self, also: str) -> None:
        """Raise that something else than what stands here may follow a predicate."""
        first, last = self.leaves[-1] if self.leaves else (0, 0)
        is_bare = first == last == self.at - 1 and not self.tokens[last][1] and self.word(-1) not in RESERVED
        self.fail(self.unexpected(), expected=(*(_AFTER_ATTRIBUTE if is_bare else ()), *_AFTER_PREDICATE, also))


def _phrase(name: str, phrase: str) -> Expression:
    """The predicate of a token that the lexer found to be well formed: only its parts are looked for."""
    lead = phrase[0]
    if lead in "<=>":
        return _compare_word(name, phrase)
    if lead == "(":
        return InArea(simple_circle(phrase))
    negated = lead in "nN"
    if negated:
        phrase = phrase[3:].lstrip(BLANKS)
        lead = phrase[0]
    if lead in "lL":
        return Like(name, _canonical(phrase[phrase.index("'") + 1 : -1]), negated)
    if phrase[1] in "sS":
        return IsNull(name, len(phrase.split()) == len(("is", "not", "null")))
    values: list[Value] = [
        text if not whole else int(whole) if not rest and len(whole) <= SAFE_DIGITS else simple_number(whole, rest)
        for text, whole, rest in items_of(phrase)
    ]
    if lead in "iI":
        return In(name, _bounded(values), negated)
    low, high = values
    if type(low) is type(high):
        return Between(name, low, high, negated)
    return _between(name, low, high, negated=negated)


def _canonical(pattern: str) -> str:
    is_canonical = "%%" not in pattern and "\\" not in pattern and "_" not in pattern
    if is_canonical and len(pattern) <= PATTERN_CHARACTERS_MAX:
        return pattern
    return canonical_pattern(pattern, escape=None)


def _compare_word(name: str, phrase: str) -> Expression:
    op = phrase[:2] if phrase[1] in "=>" else phrase[0]
    word = phrase[len(op) :].lstrip(BLANKS)
    if word[0].isdigit():
        return Compare(name, cast(Operator, op), Timestamp.parse(word))
    if word[-1] == "'":
        return Compare(name, cast(Operator, op), Timestamp.parse(word[word.index("'") + 1 : -1]))
    return Compare(name, cast(Operator, op), word.lower() == "true")


def _between(attribute: str, low: Value, high: Value, *, negated: bool) -> Expression:
    if type(low) is not type(high) and kind_of(low) is not kind_of(high):
        raise FilterMeaningless(f"the two ends of between, for {attribute!r}, must be of one type")
    _refuse_order_of_booleans(attribute, low)
    return Between(attribute, low, high, negated)


def _bounded(values: list[Value]) -> tuple[Value, ...]:
    if len(values) > IN_VALUES_MAX:
        raise FilterTooLong(f"a list after in has {len(values)} values; at most {IN_VALUES_MAX} are allowed")
    return tuple(values)


def _compare(attribute: str, op: Operator, value: Value) -> Compare:
    if op not in ("=", "<>"):
        _refuse_order_of_booleans(attribute, value)
    return Compare(attribute, op, value)


def _refuse_order_of_booleans(attribute: str, value: Value) -> None:
    if isinstance(value, bool):
        raise FilterMeaningless(f"booleans have no order: compare {attribute!r} with = or <>")
