"""What the tests of balancing are made of."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, Protocol

from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.load import Load
from tidewire.balancing.pie import Entry
from tidewire.balancing.plans import Move, Plan, Predicted
from tidewire.balancing.reports import info_of
from tidewire.model.balance_messages import (
    ClusterCondition,
    Condition,
    GlobalPie,
    Indices,
    LoadReport,
    LocalPie,
)
from tidewire.model.ids import BrokerId, Conn, Nanoseconds

CONFIG = BalancingConfig()
HEAD = BrokerId("H")


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(int(seconds * 1e9))


class Conditioned(Protocol):
    """Anything that has a condition."""

    @property
    def condition(self) -> str:
        """What it may do now."""


def condition_of(one: Conditioned) -> str:
    """As it is now: it changes, and the type checker believes in the last look."""
    return one.condition


class Half:
    """A chance that always lies in the middle."""

    def random(self) -> float:
        return 0.5

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """As it is."""


def load(
    input_utilisation: float = 0.0,
    output_utilisation: float = 0.0,
    *,
    cpu: float = 0.0,
    memory: float = 0.0,
    delay_s: float = 0.0,
) -> Load:
    return Load(
        input_rate=1.0,
        input_bytes_s=200.0,
        output_bytes_s=500.0,
        matching_delay_s=delay_s,
        matching_slope_s=0.0,
        input_utilisation=input_utilisation,
        output_utilisation=output_utilisation,
        cpu_utilisation=cpu,
        memory_utilisation=memory,
        subscriptions=10,
    )


def edge(
    name: str,
    condition: Condition = "OK",
    *,
    indices: tuple[float, float, float] = (0.0, 0.0, 0.0),
    cluster: BrokerId = HEAD,
    is_pressing: bool = False,
) -> Entry[LocalPie]:
    """What an edge has told; its indices are input, output, delay."""
    return Entry(BrokerId(name), cluster, LocalPie(condition, Indices(*indices), [BrokerId(name)], is_pressing), 0)


def cluster(
    name: str, condition: ClusterCondition = "OK", *, indices: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> Entry[GlobalPie]:
    return Entry(BrokerId(name), BrokerId(name), GlobalPie(condition, Indices(*indices)), 0)


def report(**values: Any) -> LoadReport:
    usual: dict[str, Any] = {
        "covering_set": [],
        "subscriptions": 10,
        "input_rate": 1.0,
        "input_bytes_s": 200.0,
        "output_bytes_s": 500.0,
        "matching_delay_s": 0.01,
        "matching_slope_s": 0.0,
        "cpu_utilisation": 0.1,
        "queued_in_bytes": 0.0,
        "queued_out_bytes": 0.0,
        "engine_bytes": 0.0,
        "output_bytes_s_max": 1000.0,
        "memory_bytes_max": 1e6,
        "event_bytes": 200.0,
    }
    return LoadReport(**{**usual, **values})


def plan(*clients: int, to: str = "B", donor: float = 0.4) -> Plan:
    """Who moves, with what it makes of the donor's input utilisation."""
    info = info_of(report(input_rate=donor, matching_delay_s=1.0))
    moves = tuple(Move(Conn(client), BrokerId(to)) for client in clients)
    both = Predicted(donor=info, acceptor=info)
    return Plan(moves=moves, reason="even", before=both, predicted=both, made_ns=at(0))
