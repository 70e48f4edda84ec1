"""What does this expression say? sqlglot's tree, in Spark's dialect, into ours; what ours cannot say is refused.

A name is resolved, and its type checked, where it stands: so an error can point there.
"""

from __future__ import annotations

from typing import Final, NoReturn

from sqlglot import exp

from tidewire.channels.expressions import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    OPERATIONS,
    STRING,
    Call,
    Constant,
    Field,
    Node,
    Parameter,
    are_comparable,
    is_aggregated,
)
from tidewire.channels.schemas import Column, ColumnType, Dataset, similar
from tidewire.model.errors import ChannelMeaningless, ChannelUnsupported, UsageError, ValueOutOfRange, pointed_out
from tidewire.model.patterns import canonical_pattern
from tidewire.model.values import INT64_MAX, INT64_MIN, Timestamp

_BINARY: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
}
_CALLS: Final[dict[type[exp.Expr], str]] = {
    exp.Abs: "abs",
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.ArgMin: "min_by",
    exp.ArgMax: "max_by",
}
_OWN_CALLS: Final = ("within", "distance_m")
FUNCTIONS: Final = sorted({*_CALLS.values(), *_OWN_CALLS, "coalesce", "concat"})


class NodeReader:
    """Resolves the names of one query."""

    def __init__(self, text: str, start: int, parameters: tuple[Column, ...]) -> None:
        self._text = text
        self._start = start
        self._parameters = {column.name: number for number, column in enumerate(parameters)}
        self._types = [column.type for column in parameters]
        self.sources: dict[str, Dataset] = {}
        """By alias, in the order of the query."""

    def condition(self, tree: exp.Expr) -> Node:
        """One expression that is true or false."""
        node = self.node(tree)
        if node.type is not BOOLEAN:
            self.fail(ChannelMeaningless, f"a condition is true or false; this is a {node.type}", tree)
        return node

    def node(self, tree: exp.Expr) -> Node:
        """One expression."""
        if isinstance(tree, exp.Paren):
            return self.node(tree.this)
        if isinstance(tree, exp.And | exp.Or):
            parts = tuple(self.condition(part) for part in tree.flatten())
            return Call("and" if isinstance(tree, exp.And) else "or", parts, BOOLEAN)
        if isinstance(tree, exp.Column):
            return self._field(tree)
        if isinstance(tree, exp.Placeholder):
            return self._parameter(tree)
        if isinstance(tree, exp.Literal | exp.Boolean | exp.Cast | exp.Null | exp.HexString):
            return self._constant(tree)
        return self._special(tree)

    def _special(self, tree: exp.Expr) -> Node:
        """What is written in a way of its own."""
        if isinstance(tree, exp.Neg):
            return self._negative(tree)
        if isinstance(tree, exp.Is):
            if not isinstance(tree.expression, exp.Null):
                self.fail(ChannelUnsupported, "after is stands null, or not null", tree)
            return Call("is null", (self.node(tree.this),), BOOLEAN)
        if isinstance(tree, exp.Not):
            return self._call("not", [tree.this], tree)
        if isinstance(tree, exp.Between):
            low = self._call(">=", [tree.this, tree.args["low"]], tree)
            return Call("and", (low, self._call("<=", [tree.this, tree.args["high"]], tree)), BOOLEAN)
        if isinstance(tree, exp.In):
            if tree.args.get("query") or not tree.expressions:
                self.fail(ChannelUnsupported, "after in stands a list of values; for a dataset use a join", tree)
            return self._call("in", [tree.this, *tree.expressions], tree)
        if isinstance(tree, exp.Like | exp.Escape):
            return self._like(tree)
        return self._function(tree)

    def _function(self, tree: exp.Expr) -> Node:
        if type(tree) in _BINARY:
            return self._call(_BINARY[type(tree)], [tree.this, tree.expression], tree)
        if isinstance(tree, exp.Coalesce):
            return self._call("coalesce", [tree.this, *tree.expressions], tree)
        if isinstance(tree, exp.Concat) and "safe" not in tree.args:
            self.fail(ChannelMeaningless, "two strings stand side by side; a quote in a string is written \\'", tree)
        if isinstance(tree, exp.Concat | exp.DPipe):
            parts = tree.expressions if isinstance(tree, exp.Concat) else [tree.this, tree.expression]
            return self._call("concat", parts, tree)
        if isinstance(tree, exp.Count) and isinstance(tree.this, exp.Star):
            return Call("count", (), BIGINT)
        if type(tree) in _CALLS and not isinstance(tree.this, exp.Distinct):
            arguments = [part for part in (tree.this, tree.args.get("expression")) if part is not None]
            return self._call(_CALLS[type(tree)], arguments + list(tree.expressions), tree)
        name = tree.name if isinstance(tree, exp.Anonymous) else tree.key
        if name.lower() not in _OWN_CALLS:
            reason = f"{name!r} is not possible in a channel; its functions are {', '.join(FUNCTIONS)}"
            self.fail(ChannelUnsupported, reason, tree)
        return self._call(name.lower(), tree.expressions, tree)

    def _call(self, name: str, arguments: list[exp.Expr], tree: exp.Expr) -> Node:
        nodes = self._agreed(tuple(self.node(one) for one in arguments))
        operation = OPERATIONS[name]
        result = operation.result(tuple(node.type for node in nodes))
        if result is None:
            given = ", ".join(node.type for node in nodes) or "nothing"
            self.fail(ChannelMeaningless, f"{name} takes {operation.takes}; here it is given {given}", tree)
        if operation.is_aggregate and any(is_aggregated(node) for node in nodes):
            self.fail(ChannelMeaningless, f"{name} of an aggregate: aggregates cannot be nested", tree)
        return Call(name, nodes, result)

    @staticmethod
    def _agreed(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """A whole number beside a double is a double: so ``> 6`` and ``> 6.5`` are of one kind."""
        types = tuple(node.type for node in nodes)
        if DOUBLE not in types or not are_comparable(types):
            return nodes
        return tuple(_as_double(node) if isinstance(node, Constant) else node for node in nodes)

    def _like(self, tree: exp.Like | exp.Escape) -> Node:
        escape = "\\"
        if isinstance(tree, exp.Escape):
            escape, tree = tree.expression.name, tree.this
        if not isinstance(tree, exp.Like) or len(escape) != 1:
            self.fail(ChannelUnsupported, "escape stands behind like, with one character", tree)
        text, pattern = self.node(tree.this), self.node(tree.expression)
        if text.type is not STRING or pattern.type is not STRING:
            self.fail(ChannelMeaningless, f"like takes two strings; here it is given {text.type}, {pattern.type}", tree)
        if isinstance(pattern, Constant):
            try:
                canonical_pattern(str(pattern.value), escape=escape)
            except UsageError as problem:
                self.fail(ChannelMeaningless, problem.message, tree)
        like = Call("like", (text, pattern, Constant(escape, STRING)), BOOLEAN)
        return Call("not", (like,), BOOLEAN) if tree.args.get("negate") else like

    def _negative(self, tree: exp.Neg) -> Node:
        if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
            return self._number("-" + tree.this.name, tree)
        return self._call("negative", [tree.this], tree)

    def _constant(self, tree: exp.Expr) -> Node:
        if isinstance(tree, exp.Boolean):
            return Constant(bool(tree.this), BOOLEAN)
        if isinstance(tree, exp.Null):
            self.fail(ChannelMeaningless, "nothing equals null; write: is null, or is not null", tree)
        if isinstance(tree, exp.HexString):
            if len(tree.name) % 2:
                self.fail(ChannelMeaningless, f"x'{tree.name}' has half a byte; two digits are one", tree)
            return Constant(bytes.fromhex(tree.name), ColumnType.BINARY)
        if isinstance(tree, exp.Cast):
            is_time = isinstance(tree.this, exp.Literal) and tree.this.is_string and tree.to.is_type("timestamptz")
            if not is_time:
                self.fail(ChannelUnsupported, "a cast is not possible in a channel; compare values of one type", tree)
            return self._timestamp(tree)
        return Constant(tree.name, STRING) if tree.is_string else self._number(tree.name, tree)

    def _timestamp(self, tree: exp.Cast) -> Node:
        try:
            return Constant(Timestamp.parse(tree.this.name), ColumnType.TIMESTAMP)
        except ValueOutOfRange as problem:
            self.fail(ChannelMeaningless, problem.message, tree)

    def _number(self, spelling: str, tree: exp.Expr) -> Node:
        try:
            number = int(spelling)
        except ValueError:
            value = float(spelling)
            if value in (float("inf"), float("-inf")):
                self.fail(ChannelMeaningless, f"{spelling[:40]} is beyond the range of a double", tree)
            return Constant(value + 0.0, DOUBLE)
        if not INT64_MIN <= number <= INT64_MAX:
            self.fail(ChannelMeaningless, f"{spelling[:40]} is beyond 64 bits", tree)
        return Constant(number, BIGINT)

    def _field(self, tree: exp.Column) -> Node:
        if tree.args.get("db") or isinstance(tree.this, exp.Star):
            self.fail(ChannelUnsupported, "a column is named by its source and its name; odd names stand in `…`", tree)
        if tree.table and tree.table not in self.sources:
            reason = f"no source is called {tree.table!r}{similar(tree.table, self.sources)}"
            self.fail(ChannelMeaningless, reason, tree)
        found: list[Field] = []
        for number, (alias, dataset) in enumerate(self.sources.items()):
            column = dataset.column(tree.name) if tree.table in ("", alias) else None
            if column is not None:
                found.append(Field(number, column.name, column.type))
        if not found:
            datasets = [self.sources[tree.table]] if tree.table else list(self.sources.values())
            known = [column.name for dataset in datasets for column in dataset.columns]
            owner = f" in {datasets[0].name}" if len(datasets) == 1 else ""
            hint = (
                f"; a parameter is written :{tree.name}" if tree.name in self._parameters else similar(tree.name, known)
            )
            self.fail(ChannelMeaningless, f"there is no column {tree.name!r}{owner}{hint}", tree)
        if len(found) > 1:
            names = " or ".join(f"{list(self.sources)[one.source]}.{one.name}" for one in found)
            self.fail(ChannelMeaningless, f"{tree.name!r} may be {names}; say which", tree)
        return found[0]

    def _parameter(self, tree: exp.Expr) -> Node:
        number = self._parameters.get(tree.name)
        if number is None:
            self.fail(
                ChannelMeaningless,
                f"there is no parameter :{tree.name}{similar(tree.name, self._parameters)}",
                tree,
            )
        return Parameter(number, self._types[number])

    # -- errors ------------------------------------------------------------------------------------------------------

    def fail(
        self,
        error: type[ChannelMeaningless | ChannelUnsupported],
        reason: str,
        tree: exp.Expr | list[exp.Expr] | None,
    ) -> NoReturn:
        """Raise the error, with the place of this in the text."""
        raise error(pointed_out(reason, text=self._text, position=self._place(tree)))

    def _place(self, tree: object) -> int:
        """Where this stands in the text; the start of the query if sqlglot does not know."""
        if isinstance(tree, list) and tree:
            tree = tree[0]
        if not isinstance(tree, exp.Expr):
            return self._start
        if isinstance(tree, exp.Placeholder):
            at = self._text.find(f":{tree.name}", self._start)
            return max(at, self._start)
        places = [one.meta["start"] for one in tree.walk() if one.meta.get("start", -1) >= self._start]
        return min(places, default=self._start)


def _as_double(constant: Constant) -> Constant:
    """A whole number as a double, if that is the same number."""
    if constant.type is not BIGINT or not isinstance(constant.value, int):
        return constant
    double = float(constant.value)
    return Constant(double, DOUBLE) if double == constant.value else constant
