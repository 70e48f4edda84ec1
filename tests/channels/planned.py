"""A plan carried out step by step, as a data cluster does: to be compared with the evaluator, which knows no plans."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tidewire.channels.evaluator import FedRow
from tidewire.channels.expressions import Node
from tidewire.channels.indexing import attributes_of, filter_of
from tidewire.channels.meaning import Surroundings, holds, value_of
from tidewire.channels.plans import Join, Plan
from tidewire.channels.schemas import Cell, Row
from tidewire.model.values import Value

Rows = dict[int, Row | None]


class _Runner:
    def __init__(self, plan: Plan, others: Sequence[Sequence[Row]], values: Sequence[Value]) -> None:
        self.plan = plan
        self.others = others
        self.values = values

    def around(self, rows: Rows) -> Surroundings:
        return Surroundings(self.values, [rows.get(number) for number in range(len(self.plan.query.sources))])

    def hold(self, conditions: Sequence[Node], rows: Rows) -> bool:
        return all(holds(node, self.around(rows)) for node in conditions)

    def joined(self, rows: Rows, joins: Sequence[Join]) -> Iterator[Rows]:
        if not joins:
            yield rows
            return
        join = joins[0]
        candidates = self.others[join.source - 1]
        fitting: list[Row | None] = [row for row in candidates if self.hold(join.on, {**rows, join.source: row})]
        for row in fitting or ([None] if join.is_optional else []):
            after = {**rows, join.source: row}
            if self.hold(join.then, after):
                yield from self.joined(after, joins[1:])

    def matches(self, new: Sequence[FedRow], known: Rows) -> Iterator[Rows]:
        """Conditions of a new row, and joins to it, see no subscription; the index sees both."""
        wanted = filter_of(self.plan.indexed, new=self.plan.new_sources, around=self.around(known))
        for fed in new:
            if self.hold(self.plan.new_conditions, {0: fed.row}):
                for event in self.joined({0: fed.row}, self.plan.new_joins):
                    attributes = attributes_of((source, row) for source, row in event.items() if row is not None)
                    if wanted.accepts(attributes):
                        yield {**known, **event}


def carried_out(
    plan: Plan, new: Sequence[FedRow], others: Sequence[Sequence[Row]], values: Sequence[Value]
) -> Counter[tuple[Cell, ...]]:
    """The results of one subscription, without their order; for plans that do not group."""
    runner = _Runner(plan, others, values)
    found: Counter[tuple[Cell, ...]] = Counter()
    if not runner.hold(plan.subscription_conditions, {}):
        return found
    for known in runner.joined({}, plan.subscription_joins):
        for match in runner.matches(new, known):
            if runner.hold(plan.rest, match):
                for rows in runner.joined(match, plan.match_joins):
                    found[tuple(value_of(output.node, runner.around(rows)) for output in plan.query.outputs)] += 1
    return found
