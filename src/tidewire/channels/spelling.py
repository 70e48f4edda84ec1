"""How is a query written? The one spelling of each expression, as SQL that people can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidewire.channels.expressions import COMPARISONS, Call, Constant, Field, Node, Parameter
from tidewire.channels.queries import Query
from tidewire.model.values import Timestamp, Value

Leaf = Callable[[Field | Parameter], str]
_INFIX: Final = (*COMPARISONS, "and", "or", "+", "-", "*", "/")


def spell_constant(value: Value) -> str:
    """A literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, Timestamp):
        return f"timestamp '{value}'"
    return f"x'{value.hex()}'" if isinstance(value, bytes) else repr(value)


def spell(node: Node, leaf: Leaf) -> str:
    """An expression; ``leaf`` names its columns and parameters. What could be read in two ways is in parentheses."""
    if isinstance(node, Constant):
        return spell_constant(node.value)
    if not isinstance(node, Call):
        return leaf(node)
    parts = [_inner(argument, leaf) for argument in node.arguments]
    name = node.operation
    if name in _INFIX:
        return f" {name} ".join(parts)
    if name == "is null":
        return f"{parts[0]} is null"
    if name == "not":
        return f"not {parts[0]}"
    if name == "negative":
        return f"- {parts[0]}"
    if name == "in":
        return f"{parts[0]} in ({', '.join(parts[1:])})"
    if name == "like":
        return f"{parts[0]} like {parts[1]}" + ("" if parts[2] == r"'\\'" else f" escape {parts[2]}")
    plain = [spell(argument, leaf) for argument in node.arguments]
    return f"{name}({', '.join(plain) or '*'})"


def _inner(node: Node, leaf: Leaf) -> str:
    text = spell(node, leaf)
    is_simple = not isinstance(node, Call) or not (
        node.operation in _INFIX or node.operation in ("is null", "not", "negative", "in", "like")
    )
    return text if is_simple else f"({text})"


def numbered(leaf: Field | Parameter) -> str:
    """Sources as t0, t1, …, parameters as :p1, :p2, …."""
    if isinstance(leaf, Parameter):
        return f":p{leaf.number + 1}"
    return f"t{leaf.source}.{spell_name(leaf.name)}"


def spell_name(name: str) -> str:
    """A name, quoted if it is odd."""
    is_plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if is_plain else "`" + name.replace("`", "``") + "`"


def spell_query(query: Query, leaf: Leaf = numbered) -> str:
    """A whole query."""
    text = "select " + ", ".join(f"{spell(one.node, leaf)} as {spell_name(one.name)}" for one in query.outputs)
    for number, source in enumerate(query.sources):
        table = f"{spell_name(source.dataset)} t{number}"
        if source.optional_on is not None:
            text += f" left join {table} on {spell(source.optional_on, leaf)}"
        else:
            text += f" {'cross join' if number else 'from'} {table}"
    if query.where:
        text += " where " + " and ".join(_inner(node, leaf) for node in query.where)
    if query.group_by:
        text += " group by " + ", ".join(spell(node, leaf) for node in query.group_by)
    return text + ("" if query.having is None else f" having {spell(query.having, leaf)}")
