"""How fast do brokers balance, and at what cost? In the simulator, by numbers of subscribers and of edges; and what one
decision takes with very many subscriptions.

All subscribers come to the first edge, the weakest: the second has twice as much, and so on; together they have twice
what is needed. It is output that is balanced: the time that this machine takes must not matter.
"""

from __future__ import annotations

from random import Random
from time import process_time
from typing import Any, Final

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.balance_decision import measure_decisions
from tidewire.benchmarks.crowd import draw, event
from tidewire.benchmarks.measure import machine
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.benchmarks.workloads import make_workload
from tidewire.broker.node import BrokerNode
from tidewire.model.notes import Note
from tidewire.simulator.world import World

STREAMS: Final = 20
EVENT_BYTES: Final = 160
"""About what a delivery takes."""
STEP_S: Final = 0.5
AT_REST_S: Final = 60.0
"""With loads within the threshold for so long, it is over."""

BALANCE: Final = BalancingConfig(
    local_pie_s=2.0,
    local_detect_s_min=1.0,
    local_detect_s_max=2.0,
    stabilise_s=12.0,
    stable_window_s=4.0,
    press_s=10.0,
    delay_norm_s=1000.0,
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is run."""

    subscribers: tuple[int, ...] = (200,)
    edges: tuple[int, ...] = (2, 4)
    events_s: float = 40.0
    seconds_max: float = 600.0
    """Of simulated time, for each."""
    decision: int = 100_000
    """Subscriptions in the decision."""
    seed: int = 1


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One network."""

    subscribers: int
    edges: int
    converged_s: float | None
    """From when on the loads were within the threshold of each other; None: not in time."""
    spread: float
    """The greatest difference of output utilisations at the end."""
    sessions: int
    moved: int
    overhead: float
    """The share of messages in all that brokers took or sent, beyond those that they exchange when all is at rest."""
    estimation_error: float | None
    """Of the output utilisation of those who gave clients away: the mean difference from what was predicted."""
    cpu_s: float


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """PRESS, and the dearest decision, in CPU time."""

    subscriptions: int
    press_s: float
    decision_s: float
    moves: int

    @property
    def total_s(self) -> float:
        """Both."""
        return self.press_s + self.decision_s


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    benchmark: str
    machine: str
    runs: list[Run]
    decision: Decision
    decision_total_s: float


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """Each number of subscribers with each number of edges."""
    sizes = [(subscribers, edges) for subscribers in plan.subscribers for edges in plan.edges]
    runs = []
    for step, (subscribers, edges) in enumerate(sizes):
        tell(f"{subscribers:,} subscribers, {edges} edges", step, len(sizes))
        runs.append(_Network(plan, subscribers, edges).run())
    tell("a decision")
    decision = decide(plan)
    return Report(
        benchmark="balance", machine=machine(), runs=runs, decision=decision, decision_total_s=decision.total_s
    )


def decide(plan: Plan) -> Decision:
    """Of the stock workload."""
    size = plan.decision
    work = make_workload("stock", filters=size, events=50, seed=plan.seed, destinations=size)
    found = measure_decisions(work, BalancingConfig())
    dearest = max(found.decisions_s, key=lambda action: found.decisions_s[action])
    return Decision(
        subscriptions=found.subscriptions,
        press_s=found.press_s,
        decision_s=found.decisions_s[dearest],
        moves=found.moves[dearest],
    )


class _Network:
    def __init__(self, plan: Plan, subscribers: int, edges: int) -> None:
        self._plan, self._subscribers = plan, subscribers
        chance = Random(plan.seed)
        self._wanted = [draw(chance, streams=STREAMS) for _ in range(subscribers)]
        self._edges = [f"edge{number}" for number in range(1, edges + 1)]
        self._world = World(plan.seed, engine="kernel")
        self._numbers = [0] * STREAMS
        self._next = self._messages_then = 0

    def run(self) -> Run:
        began_s = process_time()
        self._build()
        start_s = self._world.agenda.now_s
        within_s = start_s
        while self._now_s - within_s < AT_REST_S and self._now_s - start_s < self._plan.seconds_max:
            self._publish()
            if self._now_s - start_s < BALANCE.load_window_s or self._spread() > BALANCE.local_ratio:
                within_s = self._now_s
                self._messages_then = self._messages()
        ended = [note for note in self._notes("session ended") if "acceptor" in note.facts]
        is_converged = self._now_s - within_s >= AT_REST_S
        return Run(
            subscribers=self._subscribers,
            edges=len(self._edges),
            converged_s=within_s - start_s if is_converged else None,
            spread=self._spread(),
            sessions=len(ended),
            moved=sum(int(note.facts["moved"]) for note in ended),
            overhead=self._overhead(self._now_s - start_s, rest_s=self._now_s - within_s),
            estimation_error=self._error(),
            cpu_s=process_time() - began_s,
        )

    @property
    def _now_s(self) -> float:
        return self._world.agenda.now_s

    def _build(self) -> None:
        world, weight = self._world, len(self._edges) * (len(self._edges) + 1) / 2
        options: dict[str, Any] = {"balancing": "peer", "balance": BALANCE}
        world.add_broker("head", role="head", **options)
        for number, name in enumerate(self._edges, start=1):
            capacity = 2 * self._needed_bytes_s() * number / weight
            world.add_broker(name, role="edge", output_bytes_s=capacity, **options)
            world.link(name, "head")
        world.run(1)
        for number, wanted in enumerate(self._wanted):
            world.add_client(f"s{number}", self._edges[0]).subscribe(1, wanted.text)
        world.add_client("publisher", "head").advertise(1)
        world.run(5)

    def _needed_bytes_s(self) -> float:
        """What all subscribers want, by the first events of each stream."""
        events = [(stream, number) for stream in range(STREAMS) for number in range(1, 11)]
        wanted = sum(one.accepts(*which) for one in self._wanted for which in events)
        return max(1.0, wanted / len(events) * self._plan.events_s * EVENT_BYTES)

    def _publish(self) -> None:
        for _ in range(int(self._plan.events_s * STEP_S)):
            stream = self._next % STREAMS
            self._next += 1
            self._numbers[stream] += 1
            self._world.clients["publisher"].publish(event(stream, self._numbers[stream]))
        self._world.run(STEP_S)

    def _notes(self, what: str) -> list[Note]:
        return [note for name in self._edges for _, note in self._world.brokers[name].notes if note.what == what]

    def _nodes(self) -> list[BrokerNode]:
        return [host.node for host in self._world.brokers.values() if host.node is not None]

    def _spread(self) -> float:
        """Between the edges, now."""
        loads = [node.meter.load() for node in self._nodes() if node.core.config.role == "edge"]
        values = [load.output_utilisation for load in loads if load is not None]
        return max(values, default=0.0) - min(values, default=0.0)

    def _messages(self) -> int:
        return sum(node.messages for node in self._nodes())

    def _overhead(self, seconds: float, *, rest_s: float) -> float:
        messages = self._messages()
        at_rest = (messages - self._messages_then) / rest_s if rest_s else 0.0
        works = [node.engine.work() for node in self._nodes()]
        events = sum(work.events + work.deliveries + work.forwards for work in works)
        beyond = max(0.0, messages - at_rest * seconds)
        return beyond / (beyond + events)

    def _error(self) -> float | None:
        facts = [note.facts for note in self._notes("measured after a session")]
        errors = [abs(float(one["measured output"]) - float(one["predicted output"])) for one in facts]
        return sum(errors) / len(errors) if errors else None
