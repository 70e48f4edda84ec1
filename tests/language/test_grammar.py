"""What each form of the language parses to, and how tightly its words bind."""

from __future__ import annotations

import pytest

from tidewire.language import parse
from tidewire.language.syntax import (
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
    Or,
    Truth,
)
from tidewire.model.geography import Circle, Polygon
from tidewire.model.values import Kind, Timestamp

A, B, C = Compare("a", "=", 1), Compare("b", "=", 2), Compare("c", "=", 3)
QUAKE = Timestamp.parse("2010-02-27T06:34:11Z")

PREDICATES: list[tuple[str, Expression]] = [
    ("a = 1", A),
    ("a=1", A),
    ("  a\n=\t1 ", A),
    ("a <> 1", Compare("a", "<>", 1)),
    ("a != 1", Compare("a", "<>", 1)),
    ("a < 1", Compare("a", "<", 1)),
    ("a <= 1", Compare("a", "<=", 1)),
    ("a > 1", Compare("a", ">", 1)),
    ("a >= 1", Compare("a", ">=", 1)),
    ("1 < a", Compare("a", ">", 1)),
    ("1 >= a", Compare("a", "<=", 1)),
    ("'x' <> a", Compare("a", "<>", "x")),
    ("true = a", Compare("a", "=", True)),
    ("2010-02-27T06:34:11Z <= a", Compare("a", ">=", QUAKE)),
    ("a", Compare("a", "=", True)),
    ("a = true", Compare("a", "=", True)),
    ("a <> FALSE", Compare("a", "<>", False)),
    ("true", Truth(True)),
    ("False", Truth(False)),
    ("a between 1 and 2", Between("a", 1, 2)),
    ("a NOT BETWEEN 1 AND 2.5", Between("a", 1, 2.5, True)),
    ("a between'a'and'b'", Between("a", "a", "b")),
    ("a between 2010-02-27T06:34:11Z and timestamp '2010-02-27T06:34:11Z'", Between("a", QUAKE, QUAKE)),
    ("a in (1)", In("a", (1,))),
    ("a in(1,'x' , true, 2.5,x'00')", In("a", (1, "x", True, 2.5, b"\0"))),
    ("a not  In ( 'x', 'it''s' )", In("a", ("x", "it's"), True)),
    ("a like 'x%'", Like("a", "x%")),
    ("a not like '_%'", Like("a", "_%", True)),
    ("a like '10!%%' escape '!'", Like("a", "10\\%%")),
    ("a like '\\%' escape '\\'", Like("a", "\\%")),
    ("a like 'back\\slash%%'", Like("a", "back\\\\slash%")),
    ("a is null", IsNull("a")),
    ("a IS NOT NULL", IsNull("a", True)),
    ("a is number", IsType("a", Kind.ANY_NUMBER)),
    ("a is not string", IsType("a", Kind.STRING, True)),
    ("a is boolean", IsType("a", Kind.BOOL)),
    ("a is timestamp", IsType("a", Kind.TIMESTAMP)),
    ("a is bytes", IsType("a", Kind.BYTES)),
    ("within(lat, lon, 38.3, 142.4, 300 km)", InArea(Circle("lat", "lon", True, 38.3, 142.4, 300_000.0))),
    ("within(lat,lon,-38,+142,5)", InArea(Circle("lat", "lon", True, -38.0, 142.0, 5.0))),
    ('WITHIN(p.lat, "p lon", 1, 2, 3nmi)', InArea(Circle("p.lat", "p lon", True, 1.0, 2.0, 5556.0))),
    ("within(lat, lon, 1, 2, 2 mi)", InArea(Circle("lat", "lon", True, 1.0, 2.0, 3218.688))),
    (
        "inside(lat, lon, polygon(38 140, 39.5 -141, 37 143, 38 140))",
        InArea(Polygon("lat", "lon", True, ((38.0, 140.0), (39.5, -141.0), (37.0, 143.0)))),
    ),
]


@pytest.mark.parametrize(("text", "tree"), PREDICATES)
def test_a_predicate_parses_to_its_tree_alone_and_among_others(text: str, tree: Expression) -> None:
    assert parse(text) == tree
    assert parse(f"({text})and a = 1") == And((tree, A))
    assert parse(f"a = 1 and {text} and b=2 or not {text}\nor c = 3") == Or((And((A, tree, B)), Not(tree), C))


LITERALS: list[tuple[str, object]] = [
    ("'it''s'", "it's"),
    ("''", ""),
    ("''''", "'"),
    ("'a''''b'", "a''b"),
    ("'line\nbreak'", "line\nbreak"),
    ("'größe 𝔘'", "größe 𝔘"),
    ("'\0'", "\0"),
    ("0", 0),
    ("-7", -7),
    ("+7", 7),
    ("007", 7),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    ("9007199254740993", 2**53 + 1),
    ("2.5", 2.5),
    ("-2.5e3", -2500.0),
    ("1E-2", 0.01),
    ("1e20", 1e20),
    ("5.", 5.0),
    (".5", 0.5),
    ("-.5e1", -5.0),
    ("x'DEADbeef'", b"\xde\xad\xbe\xef"),
    ("X''", b""),
    ("timestamp '2010-02-27T06:34:11Z'", QUAKE),
    ("TIMESTAMP'2010-02-27 06:34:11Z'", QUAKE),
    ("2010-02-27T06:34:11Z", QUAKE),
    ("2010-02-27t03:34:11.000000001-03:00", Timestamp(QUAKE.ns + 1)),
]


@pytest.mark.parametrize(("text", "value"), LITERALS)
def test_a_literal_is_its_value(text: str, value: object) -> None:
    for filter_text in (f"a = {text}", f"a in ({text})", f"{text} = a", f'"a"={text} or false', f"a={text} and true"):
        tree = parse(filter_text)
        leaf = tree.operands[0] if isinstance(tree, And | Or) else tree
        found = leaf.values[0] if isinstance(leaf, In) else leaf.value  # type: ignore[union-attr]
        assert (found, type(found)) == (value, type(value))


NAMES = [
    ("price", "price"),
    ("_", "_"),
    ("p2.x_y.Z", "p2.x_y.Z"),
    ("größe", "größe"),
    ("日付.年", "日付.年"),
    ('"odd name"', "odd name"),
    ('"say ""hi"""', 'say "hi"'),
    ('"and"', "and"),
    ("x", "x"),
    ("timestamp", "timestamp"),
    ("within", "within"),
    ("inside", "inside"),
    ("polygon", "polygon"),
    ("number", "number"),
    ("android", "android"),
    ("notify", "notify"),
    ("nullable", "nullable"),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_a_name_is_an_attribute_in_every_place(text: str, name: str) -> None:
    is_one = Compare(name, "=", 1)
    assert parse(f"{text} = 1") == parse(f"1 = {text}") == is_one
    assert parse(f"not {text}") == Not(Compare(name, "=", True))
    assert parse(f"{text} is null or {text} not in (1)") == Or((IsNull(name), In(name, (1,), True)))
    assert parse(f"{text} not like 'x' and {text} between 1 and 2") == And((Like(name, "x", True), Between(name, 1, 2)))
    assert parse(f"{text} and {text} > 2010-02-27T06:34:11Z") == And(
        (Compare(name, "=", True), Compare(name, ">", QUAKE))
    )


PRECEDENCE: list[tuple[str, Expression]] = [
    ("a=1 or b=2 and c=3", Or((A, And((B, C))))),
    ("a=1 and b=2 or c=3", Or((And((A, B)), C))),
    ("(a=1 or b=2) and c=3", And((Or((A, B)), C))),
    ("not a=1 and b=2", And((Not(A), B))),
    ("not (a=1 and b=2)", Not(And((A, B)))),
    ("not a=1 or b=2", Or((Not(A), B))),
    ("not not a=1", Not(Not(A))),
    ("a=1 and not b=2 and c=3", And((A, Not(B), C))),
    ("a=1 and b=2 and c=3", And((A, B, C))),
    ("a=1 and (b=2 and c=3)", And((A, And((B, C))))),
    ("((a=1))", A),
    ("a between 1 and 2 and b=2", And((Between("a", 1, 2), B))),
    ("not a between 1 and 2 or b=2", Or((Not(Between("a", 1, 2)), B))),
    ("a AND b oR NOT c", Or((And((Compare("a", "=", True), Compare("b", "=", True))), Not(Compare("c", "=", True))))),
    ("a='x'and b=2", And((Compare("a", "=", "x"), B))),
    ("a = ' and ' and b=2", And((Compare("a", "=", " and "), B))),
    ("a = 'or' or b=2", Or((Compare("a", "=", "or"), B))),
]


@pytest.mark.parametrize(("text", "tree"), PRECEDENCE)
def test_not_binds_tighter_than_and_and_and_than_or(text: str, tree: Expression) -> None:
    assert parse(text) == tree
