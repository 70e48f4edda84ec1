"""How many rows will there be? Guesses, in the manner of every planner: they choose between plans, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from tidewire.channels.expressions import Call, Field, Node, sources_of
from tidewire.channels.queries import conjuncts
from tidewire.channels.schemas import Dataset

Method = Literal["key", "equality", "area", "scan"]
_EQUAL: Final = 0.01
_SHARES: Final = {"<>": 0.99, "like": 0.1, "is null": 0.05, "within": 0.002}
_RANGE: Final = 0.3
_UNSURE: Final = 0.5
_FOUND: Final[dict[Method, float]] = {"equality": 0.01, "area": 0.01, "scan": 1.0}
"""The share of a dataset's rows that is looked at; the area of a grid's cells is larger than what is in the circle."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What one run has to do."""

    new_rows: int = 1000
    subscriptions: int = 10_000


class Estimates:
    """Guesses about one query, from what is known of its datasets."""

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self._datasets = datasets

    def share(self, conditions: Iterable[Node]) -> float:
        """The share of rows, or of pairs of them, for which all these conditions are true."""
        share = 1.0
        for node in conditions:
            share *= self._share(node)
        return share

    def visits(self, method: Method, source: int) -> float:
        """How many rows of a dataset are looked at for each row that it is joined to."""
        return 1.0 if method == "key" else max(1.0, self._datasets[source].rows * _FOUND[method])

    def fanout(self, source: int, on: Iterable[Node]) -> float:
        """How many rows come of each one that the dataset is joined to."""
        return self._datasets[source].rows * self.share(part for condition in on for part in conjuncts(condition))

    def _share(self, node: Node) -> float:
        if not isinstance(node, Call):
            return _UNSURE
        if node.operation == "and":
            return self.share(node.arguments)
        if node.operation == "or":
            return min(1.0, sum(self._share(one) for one in node.arguments))
        if node.operation == "not":
            return 1.0 - self._share(node.arguments[0])
        if node.operation in ("=", "in"):
            return min(1.0, self._equal(node) * (len(node.arguments) - 1))
        if node.operation in ("<", "<=", ">", ">="):
            return _RANGE
        return _SHARES.get(node.operation, _UNSURE)

    def _equal(self, node: Call) -> float:
        """A key has as many values as there are rows; of other columns nothing is known."""
        shares = [
            1.0 / max(1, self._datasets[one.source].rows)
            for one in node.arguments
            if isinstance(one, Field) and self._datasets[one.source].key == (one.name,)
        ]
        return min(shares, default=_EQUAL)


def method_of(source: int, on: Iterable[Node], dataset: Dataset) -> Method:
    """How the rows of a dataset are found that fulfil these conditions."""
    equal: dict[str, None] = {}
    has_area = False
    for node in (part for condition in on for part in conjuncts(condition)):
        if isinstance(node, Call) and node.operation == "=":
            equal.update(dict.fromkeys(_equated(node, source)))
        elif isinstance(node, Call) and node.operation == "within":
            has_area = has_area or _is_around(node, source)
    if dataset.key and all(name in equal for name in dataset.key):
        return "key"
    if equal:
        return "equality"
    return "area" if has_area else "scan"


def _equated(node: Call, source: int) -> list[str]:
    """The columns of the source that must equal something that is known without it."""
    left, right = node.arguments
    pairs = ((left, right), (right, left))
    return [
        one.name
        for one, other in pairs
        if isinstance(one, Field) and one.source == source and source not in sources_of(other)
    ]


def _is_around(node: Call, source: int) -> bool:
    """Is it an area of two columns of the source, with a centre that is known without it?"""
    ours, theirs, radius = node.arguments[:2], node.arguments[2:4], node.arguments[4]
    return any(
        all(isinstance(one, Field) and one.source == source for one in columns)
        and not any(source in sources_of(one) for one in (*known, radius))
        for columns, known in ((ours, theirs), (theirs, ours))
    )
