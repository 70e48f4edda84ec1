"""What is an event worth, by an expression over its attributes? ``0.1 * magnitude if kind == 'QUAKE' else 0``.

Numbers, texts, names of attributes, arithmetic, comparisons, ``and``, ``or``, ``not``, ``in``, ``if … else``, ``min``,
``max`` and ``abs``. It is read once and walked for each event; nothing else of Python can be said in it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidewire.congestion.fdcc.utility import clamped
from tidewire.model.errors import UsageError
from tidewire.model.values import Value

TEXT_MAX: Final = 1000
NODES_MAX: Final = 200

_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {ast.USub: operator.neg, ast.Not: operator.not_}
_COMPARED: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_CALLED: Final[dict[str, Callable[..., Any]]] = {"min": min, "max": max, "abs": abs}


class Expression:
    """One of them, ready to be asked. UsageError if it is none."""

    def __init__(self, text: str) -> None:
        if len(text) > TEXT_MAX:
            raise UsageError(f"an expression of utility has at most {TEXT_MAX} characters, this one has {len(text)}")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = getattr(error, "msg", None) or str(error)
            raise UsageError(f"{text!r} is no expression of utility: {why}") from None
        count = sum(1 for _ in ast.walk(tree))
        if count > NODES_MAX:
            raise UsageError(f"an expression of utility has at most {NODES_MAX} parts, this one has {count}")
        self.text = text
        self._ask = _made(tree)

    def __call__(self, attributes: Mapping[str, Value]) -> float:
        """From 0 to 1. An event that lacks what is asked for, or has something else there, is worth nothing."""
        try:
            return clamped(float(self._ask(attributes)))
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return 0.0


_Asked = Callable[[Mapping[str, Value]], Any]


def _made(node: ast.expr) -> _Asked:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return lambda _: value
        case ast.Name(id=name):
            return lambda attributes: attributes[name]
        case ast.Attribute():
            dotted = _dotted(node)
            return lambda attributes: attributes[dotted]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _applied(_BINARY[type(op)], left, right)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _applied(_UNARY[type(op)], operand)
        case ast.BoolOp(op=op, values=values):
            return _all_or_any(op, [_made(value) for value in values])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _chosen(_made(test), _made(body), _made(orelse))
        case ast.Compare():
            return _compared(node)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return _applied(lambda *values: values, *parts)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _CALLED and arguments:
            return _applied(_CALLED[name], *arguments)
    raise UsageError(f"an expression of utility cannot say {ast.unparse(node)!r}")


def _dotted(node: ast.expr) -> str:
    """Nested attributes have dotted names."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise UsageError(f"an expression of utility cannot say {ast.unparse(node)!r}")


def _applied(function: Callable[..., Any], *parts: ast.expr) -> _Asked:
    made = [_made(part) for part in parts]
    return lambda attributes: function(*(one(attributes) for one in made))


def _all_or_any(op: ast.boolop, made: list[_Asked]) -> _Asked:
    if isinstance(op, ast.And):
        return lambda attributes: all(one(attributes) for one in made)
    return lambda attributes: any(one(attributes) for one in made)


def _chosen(test: _Asked, body: _Asked, other: _Asked) -> _Asked:
    return lambda attributes: body(attributes) if test(attributes) else other(attributes)


def _compared(node: ast.Compare) -> _Asked:
    made = [_made(part) for part in (node.left, *node.comparators)]
    for op in node.ops:
        if type(op) not in _COMPARED:
            raise UsageError(f"an expression of utility cannot say {ast.unparse(node)!r}")
    tests = [_COMPARED[type(op)] for op in node.ops]

    def ask(attributes: Mapping[str, Value]) -> bool:
        values = [one(attributes) for one in made]
        return all(test(values[at], values[at + 1]) for at, test in enumerate(tests))

    return ask
