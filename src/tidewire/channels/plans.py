"""How is a kind of channel carried out? Which dataset is joined where, what the index takes, and what that costs.

A dataset is joined in one of three places: to each *new* row before it is matched, to each *subscription* before
anything comes (the place of the user who subscribed), or to each *match*. A condition is asked as soon as all that is
in it is known: of the new row alone, of the subscription alone, of both, which is the index's part if it can take it,
or of a match with what was joined to it. All ways are tried, and the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations, product
from typing import Final

import msgspec

from tidewire.channels.estimates import Estimates, Method, Workload, method_of
from tidewire.channels.expressions import Node, parameters_of, sources_of
from tidewire.channels.indexing import is_indexable
from tidewire.channels.queries import Kind, Query
from tidewire.channels.schemas import Catalog, Dataset
from tidewire.model.errors import ChannelTooCostly

VISITS_MAX: Final = 1e9
"""Rows that a channel may look at in one run, by estimate."""


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset that is joined, and how its rows are found."""

    source: int
    method: Method
    on: tuple[Node, ...]
    """Conditions between its rows and what is there already."""

    is_optional: bool = False
    """Of a left join: where there is no row, its columns are null."""

    then: tuple[Node, ...] = ()
    """Conditions that can be asked once it is joined, though they do not decide about the join."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one run takes, by estimate, in rows that are looked at."""

    new: float
    """To join to the new rows."""

    subscriptions: float
    """To join to the subscriptions."""

    match: float
    joins: float
    """To join to the matches."""

    results: float
    """How many results there are."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.new + self.subscriptions + self.match + self.joins + self.results


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one run of all channels of a kind."""

    kind: str
    query: Query
    new_joins: tuple[Join, ...]
    new_conditions: tuple[Node, ...]
    """Asked of each new row, with what was joined to it: no subscription is needed."""

    subscription_joins: tuple[Join, ...]
    subscription_conditions: tuple[Node, ...]
    indexed: tuple[Node, ...]
    """What the index asks: of each subscription, one filter."""

    rest: tuple[Node, ...]
    """Asked of each match before anything is joined to it."""

    match_joins: tuple[Join, ...]
    cost: Cost

    @property
    def new_sources(self) -> frozenset[int]:
        """The sources whose columns a row has when it comes to the index."""
        return frozenset((0, *(join.source for join in self.new_joins)))


def choose_plan(kind: Kind, catalog: Catalog, workload: Workload | None = None) -> Plan:
    """The cheapest plan; ChannelTooCostly if even that would not come to an end in its time."""
    load = workload or Workload()
    plan = min(all_plans(kind, catalog, load), key=lambda one: one.cost.total)
    if plan.cost.total > VISITS_MAX:
        costly = _costliest(plan, catalog)
        raise ChannelTooCostly(
            f"one run would look at about {plan.cost.total:.2g} rows, and {VISITS_MAX:.0e} are allowed; {costly}"
        )
    return plan


def _costliest(plan: Plan, catalog: Catalog) -> str:
    """What to do about it."""
    joins = [*plan.new_joins, *plan.subscription_joins, *plan.match_joins]
    scans = [plan.query.sources[join.source].dataset for join in joins if join.method == "scan"]
    if scans:
        worst = max(scans, key=lambda name: catalog.dataset(name).rows)
        rows = catalog.dataset(worst).rows
        return f"nothing says which of the {rows} rows of {worst} belong to a row: join it on a column or an area"
    return "compare a column of the feed with a parameter, by =, a range or within"


def all_plans(kind: Kind, catalog: Catalog, load: Workload) -> Iterator[Plan]:
    """Every way to carry it out, the same order each time."""
    query = kind.query
    datasets = [catalog.dataset(source.dataset) for source in query.sources]
    inner = [n for n, source in enumerate(query.sources) if n and source.optional_on is None]
    for order in permutations(inner):
        for places in product(("match", "new", "subscription"), repeat=len(inner)):
            where = dict(zip(order, places, strict=True))
            yield _Planner(kind, datasets, load).plan(order, where)


class _Planner:
    """Puts every condition where it can be asked first."""

    def __init__(self, kind: Kind, datasets: list[Dataset], load: Workload) -> None:
        self._kind = kind
        self._datasets = datasets
        self._load = load
        self._estimates = Estimates(datasets)
        self._left = dict.fromkeys(kind.query.where)

    def plan(self, order: tuple[int, ...], where: dict[int, str]) -> Plan:
        """The plan with these sources joined there, in this order."""
        query = self._kind.query
        has_new = {0}
        new_conditions = self._take(has_new, has_parameters=False)
        new_joins = self._joins([n for n in order if where[n] == "new"], has_new, has_parameters=False)
        known: set[int] = set()
        first_of_subscription = self._take(known, has_parameters=True)
        subscription_joins = self._joins([n for n in order if where[n] == "subscription"], known, has_parameters=True)
        both = self._take(has_new | known, has_parameters=True)
        new = frozenset(has_new)
        indexed = tuple(node for node in both if is_indexable(node, new=new))
        rest = tuple(node for node in both if node not in indexed)
        matched = has_new | known
        match_joins = self._joins([n for n in order if where[n] == "match"], matched, has_parameters=True)
        match_joins += self._optional_joins(matched)
        assert not self._left, "every condition is asked somewhere"
        draft = Plan(
            kind=self._kind.id,
            query=query,
            new_joins=new_joins,
            new_conditions=new_conditions,
            subscription_joins=subscription_joins,
            subscription_conditions=first_of_subscription,
            indexed=indexed,
            rest=rest,
            match_joins=match_joins,
            cost=Cost(new=0, subscriptions=0, match=0, joins=0, results=0),
        )
        return msgspec.structs.replace(draft, cost=self._cost(draft))

    def _take(self, available: Iterable[int], *, has_parameters: bool) -> tuple[Node, ...]:
        """The conditions that can be asked now, and have not been."""
        there = frozenset(available)
        found = [
            node for node in self._left if sources_of(node) <= there and (has_parameters or not parameters_of(node))
        ]
        for node in found:
            del self._left[node]
        return tuple(found)

    def _joins(self, sources: list[int], available: set[int], *, has_parameters: bool) -> tuple[Join, ...]:
        joins: list[Join] = []
        for source in sources:
            available.add(source)
            on = self._take(available, has_parameters=has_parameters)
            joins.append(Join(source=source, method=method_of(source, on, self._datasets[source]), on=on))
        return tuple(joins)

    def _optional_joins(self, available: set[int]) -> tuple[Join, ...]:
        joins: list[Join] = []
        for number, source in enumerate(self._kind.query.sources):
            if source.optional_on is None:
                continue
            available.add(number)
            on = (source.optional_on,)
            then = self._take(available, has_parameters=True)
            method = method_of(number, on, self._datasets[number])
            joins.append(Join(source=number, method=method, on=on, is_optional=True, then=then))
        return tuple(joins)

    def _cost(self, plan: Plan) -> Cost:
        share = self._estimates.share
        new, new_cost = self._joined(self._load.new_rows * share(plan.new_conditions), plan.new_joins)
        subscriptions, subscription_cost = self._joined(
            self._load.subscriptions * share(plan.subscription_conditions), plan.subscription_joins
        )
        matches = new * subscriptions * share(plan.indexed)
        matched, join_cost = self._joined(matches * share(plan.rest), plan.match_joins)
        return Cost(
            new=new_cost,
            subscriptions=subscription_cost,
            match=new + matches if plan.indexed else new * subscriptions,
            joins=join_cost,
            results=matched,
        )

    def _joined(self, rows: float, joins: tuple[Join, ...]) -> tuple[float, float]:
        """How many rows there are after these joins, and how many were looked at."""
        cost = rows if joins else 0.0
        for join in joins:
            cost += rows * self._estimates.visits(join.method, join.source)
            fanout = self._estimates.fanout(join.source, join.on)
            rows *= (max(1.0, fanout) if join.is_optional else fanout) * self._estimates.share(join.then)
        return rows, cost
