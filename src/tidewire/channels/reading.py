"""What does this ``select`` say? sqlglot's tree, in Spark's dialect, into a query of ours.

This module and ``reading_nodes.py`` are the only ones that know sqlglot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from tidewire.channels.expressions import BOOLEAN, OPERATIONS, Call, Constant, Field, Node, Parameter, is_aggregated
from tidewire.channels.queries import Output, Query, Source, conjuncts
from tidewire.channels.reading_nodes import NodeReader
from tidewire.channels.schemas import Catalog, Column, similar
from tidewire.model.errors import (
    ChannelMeaningless,
    ChannelSyntaxError,
    ChannelTooCostly,
    ChannelUnsupported,
    pointed_out,
)

SOURCES_MAX: Final = 4
NODES_MAX: Final = 2000
OUTPUTS_MAX: Final = 256

_PARTS: Final = {"this", "expression", "expressions", "table", "alias", "quoted", "is_string"}
_OWN_PARTS: Final[dict[type[exp.Expr], set[str]]] = {
    exp.Select: {"from_", "joins", "where", "group", "having"},
    exp.Join: {"on", "side", "kind", "using", "method"},
    exp.Between: {"low", "high"},
    exp.Like: {"negate"},
    exp.Cast: {"to"},
    exp.TryCast: {"to"},
    exp.Div: {"typed", "safe"},
    exp.Count: {"big_int"},
    exp.Concat: {"safe"},
    exp.DPipe: {"safe"},
    exp.In: {"query", "field"},
}
"""The parts of sqlglot's nodes that are looked at here. Any other would be dropped silently, so it is refused."""


def read_query(text: str, *, start: int, parameters: tuple[Column, ...], catalog: Catalog) -> Query:
    """The query that begins at this place of the text."""
    blanked = "".join(c if c == "\n" else " " for c in text[:start]) + text[start:]
    try:
        trees = _parsed(blanked)
        return _Reader(NodeReader(text, start, parameters), catalog).query(trees)
    except ParseError as problem:
        raise _syntax_error(problem, text) from None
    except TokenError as problem:
        reason = f"this cannot be read as SQL: {str(problem).splitlines()[0]}"
        raise ChannelSyntaxError(pointed_out(reason, text=text, position=start)) from None
    except RecursionError:
        raise ChannelTooCostly("the query is nested too deeply; write it with fewer parentheses") from None


def _parsed(text: str) -> list[exp.Expr | None]:
    """sqlglot stumbles over a few texts, such as ``map(1)``: its fault, but the text is no channel either way."""
    try:
        return sqlglot.parse(text, read="spark")
    except (AttributeError, LookupError, TypeError, ValueError) as problem:
        if isinstance(problem, ParseError | TokenError):
            raise
        raise ParseError("some function here is not given what it takes") from problem


def _syntax_error(problem: ParseError, text: str) -> ChannelSyntaxError:
    first = problem.errors[0] if problem.errors else {}
    description = str(first.get("description") or problem).split("<")[0].strip().rstrip(".")
    highlight = str(first.get("highlight") or "")
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    line_start = sum(len(one) + 1 for one in text.split("\n")[: line - 1])
    position = min(len(text), max(0, line_start + column - len(highlight)))
    return ChannelSyntaxError(pointed_out(f"this is not SQL: {description}", text=text, position=position))


class _Reader:
    """Reads the parts of one select."""

    def __init__(self, names: NodeReader, catalog: Catalog) -> None:
        self._names = names
        self._catalog = catalog

    def query(self, trees: list[exp.Expr | None]) -> Query:
        """The one query of the text."""
        tree = trees[0] if len(trees) == 1 else None
        if not isinstance(tree, exp.Select):
            self._names.fail(ChannelUnsupported, "a channel is one select, and nothing else", tree)
        if sum(1 for _ in tree.walk()) > NODES_MAX:
            raise ChannelTooCostly(f"the query has more than {NODES_MAX} parts; make several channels of it")
        self._refuse_extras(tree)
        where, sources = self._from(tree)
        outputs = self._outputs(tree)
        group = tree.args.get("group")
        group_by = self._group_by(group) if group else ()
        having = tree.args.get("having")
        having_node = self._names.condition(having.this) if having else None
        is_grouped = bool(group) or having_node is not None or any(is_aggregated(one.node) for one in outputs)
        query = Query(
            sources=sources,
            where=where,
            outputs=outputs,
            group_by=group_by,
            having=having_node,
            is_grouped=is_grouped,
        )
        if is_grouped:
            self._check_groups(query, tree)
        return query

    def _refuse_extras(self, tree: exp.Select) -> None:
        for node in tree.walk():
            for name, part in node.args.items():
                if part and name not in _PARTS and name not in _OWN_PARTS.get(type(node), ()):
                    word = name.strip("_").replace("laterals", "lateral view")
                    place = part if isinstance(part, exp.Expr | list) else node
                    self._names.fail(ChannelUnsupported, f"{word!r} is not possible in a channel", place)

    def _from(self, tree: exp.Select) -> tuple[tuple[Node, ...], tuple[Source, ...]]:
        """The conditions that must hold, and the sources."""
        first = tree.args.get("from_")
        if first is None:
            self._names.fail(ChannelMeaningless, "a channel reads datasets: say from which, with from", tree)
        self._table(first.this)
        where: list[Node] = []
        optional: dict[int, Node] = {}
        for join in tree.args.get("joins") or ():
            number = len(self._names.sources)
            self._table(join.this)
            condition = self._join_condition(join)
            if (join.args.get("side") or "").upper() == "LEFT":
                optional[number] = condition or Constant(True, BOOLEAN)
            elif condition is not None:
                where += conjuncts(condition)
        if tree.args.get("where"):
            where += conjuncts(self._names.condition(tree.args["where"].this))
        for node in (*where, *optional.values()):
            if is_aggregated(node):
                self._names.fail(ChannelMeaningless, "an aggregate cannot decide about single rows; use having", tree)
        names = [dataset.name for dataset in self._names.sources.values()]
        return tuple(where), tuple(Source(name, optional.get(number)) for number, name in enumerate(names))

    def _table(self, tree: exp.Expr) -> None:
        if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
            self._names.fail(
                ChannelUnsupported, "a channel reads datasets by their names, not subqueries or functions", tree
            )
        if len(self._names.sources) == SOURCES_MAX:
            raise ChannelTooCostly(f"a channel joins at most {SOURCES_MAX} datasets")
        dataset = self._catalog.dataset(tree.name)
        alias = tree.alias or tree.name
        if alias in self._names.sources:
            self._names.fail(
                ChannelMeaningless, f"two sources are called {alias!r}; give one another name: {alias} b", tree
            )
        self._names.sources[alias] = dataset

    def _join_condition(self, join: exp.Join) -> Node | None:
        side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
        if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER") or join.args.get("method"):
            what = " ".join(word for word in (join.args.get("method"), side, kind) if word).lower()
            self._names.fail(ChannelUnsupported, f"a {what} join is not possible: only inner, left and cross", join)
        if join.args.get("using"):
            self._names.fail(ChannelUnsupported, "write the condition of a join with on", join)
        on = join.args.get("on")
        return None if on is None else self._names.condition(on)

    def _outputs(self, tree: exp.Select) -> tuple[Output, ...]:
        found: dict[str, Output] = {}
        for item in tree.expressions:
            for output in self._output(item):
                if output.name in found:
                    self._names.fail(
                        ChannelMeaningless, f"two results are called {output.name!r}; rename one with as", item
                    )
                found[output.name] = output
        if not found:
            self._names.fail(ChannelMeaningless, "the select names nothing to tell", tree)
        if len(found) > OUTPUTS_MAX:
            raise ChannelTooCostly(f"a result has {len(found)} columns; at most {OUTPUTS_MAX} are allowed")
        return tuple(found.values())

    def _output(self, item: exp.Expr) -> Iterator[Output]:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            wanted = item.table if isinstance(item, exp.Column) else ""
            if wanted and wanted not in self._names.sources:
                self._names.fail(
                    ChannelMeaningless, f"no source is called {wanted!r}{similar(wanted, self._names.sources)}", item
                )
            for number, (alias, dataset) in enumerate(self._names.sources.items()):
                if wanted in ("", alias):
                    yield from (Output(one.name, Field(number, one.name, one.type)) for one in dataset.columns)
        elif isinstance(item, exp.Alias):
            yield Output(item.alias, self._names.node(item.this))
        elif isinstance(item, exp.Column):
            yield Output(item.name, self._names.node(item))
        else:
            self._names.fail(ChannelMeaningless, "a result that is calculated needs a name, with as", item)

    def _group_by(self, group: exp.Group) -> tuple[Node, ...]:
        nodes = tuple(self._names.node(one) for one in group.expressions)
        if any(is_aggregated(node) or isinstance(node, Constant) for node in nodes):
            self._names.fail(ChannelMeaningless, "group by takes columns, not aggregates or numbers of columns", group)
        return tuple(dict.fromkeys(nodes))

    def _check_groups(self, query: Query, tree: exp.Select) -> None:
        nodes = [output.node for output in query.outputs] + ([] if query.having is None else [query.having])
        for node in nodes:
            loose = _outside_groups(node, query.group_by)
            if loose is not None:
                reason = f"{loose.name!r} is not the same in the whole group; add it to group by, or aggregate it"
                self._names.fail(ChannelMeaningless, reason, tree)


def _outside_groups(node: Node, group_by: tuple[Node, ...]) -> Field | None:
    """A column that is neither grouped by nor aggregated, if there is one."""
    if node in group_by or isinstance(node, Parameter | Constant):
        return None
    if isinstance(node, Field):
        return node
    assert isinstance(node, Call)
    if OPERATIONS[node.operation].is_aggregate:
        return None
    found = (_outside_groups(argument, group_by) for argument in node.arguments)
    return next((one for one in found if one is not None), None)
