"""Why is it done this way? A channel's plan in words, with what each step is expected to cost."""

from __future__ import annotations

from collections.abc import Iterator

from tidewire.channels.expressions import Constant, Field, Node, Parameter
from tidewire.channels.kinds import Member
from tidewire.channels.plans import Join, Plan
from tidewire.channels.queries import Declaration
from tidewire.channels.spelling import spell, spell_constant, spell_name

_FOUND_BY = {
    "key": "by its key",
    "equality": "by equal values",
    "area": "by area",
    "scan": "by looking at all rows",
}


def explain_plan(declaration: Declaration, member: Member, plan: Plan) -> str:
    """The plan of a channel, one step a line."""
    return "\n".join(_Explanation(declaration, member, plan).lines())


class _Explanation:
    def __init__(self, declaration: Declaration, member: Member, plan: Plan) -> None:
        self._declaration = declaration
        self._member = member
        self._plan = plan

    def lines(self) -> Iterator[str]:
        plan, cost = self._plan, self._plan.cost
        names = ", ".join(f"{one.name} {one.type}" for one in self._declaration.parameters)
        yield f"channel {self._declaration.name}({names}), {self._rhythm()}, of kind {plan.kind}"
        yield f"each new row of {self._dataset(0)}"
        yield from self._asked(plan.new_conditions, "  only if")
        yield from self._joins(plan.new_joins, "  joined")
        yield "each subscription"
        yield from self._asked(plan.subscription_conditions, "  only if")
        yield from self._joins(plan.subscription_joins, "  joined")
        if plan.indexed:
            yield f"matched by the index ({_count(cost.match)} looked at)"
            yield from self._asked(plan.indexed, "  by")
        else:
            yield f"every new row with every subscription ({_count(cost.match)} looked at)"
        yield from self._asked(plan.rest, "  then only if")
        yield from self._joins(plan.match_joins, "each match joined")
        if plan.query.is_grouped:
            grouped = ", ".join(self._spell(node) for node in plan.query.group_by)
            yield f"grouped by {grouped}" if grouped else "all in one group"
        if plan.query.having is not None:
            yield f"  only if {self._spell(plan.query.having)}"
        yield f"{_count(cost.results)} results a run; {_count(cost.total)} rows looked at in all"

    def _rhythm(self) -> str:
        period_ms = self._declaration.period_ms
        return "continuous" if period_ms is None else f"every {period_ms / 1000:g} s"

    def _asked(self, conditions: tuple[Node, ...], word: str) -> Iterator[str]:
        for node in conditions:
            yield f"{word} {self._spell(node)}"

    def _joins(self, joins: tuple[Join, ...], word: str) -> Iterator[str]:
        for join in joins:
            kind = " if there is one" if join.is_optional else ""
            conditions = " and ".join(self._spell(node) for node in join.on)
            on = f" on {conditions}" if conditions else ""
            yield f"{word} with {self._dataset(join.source)} {_FOUND_BY[join.method]}{kind}{on}"
            yield from self._asked(join.then, "  then only if")

    def _dataset(self, source: int) -> str:
        return self._plan.query.sources[source].dataset

    def _spell(self, node: Node) -> str:
        return spell(node, self._leaf)

    def _leaf(self, leaf: Field | Parameter) -> str:
        if isinstance(leaf, Field):
            return f"{spell_name(self._dataset(leaf.source))}.{spell_name(leaf.name)}"
        argument = self._member.arguments[leaf.number]
        if isinstance(argument, Constant):
            return spell_constant(argument.value)
        return f":{self._declaration.parameters[argument.number].name}"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 1 or number == 0 else "less than 1"
