"""How fast do brokers balance, and at what cost? In the simulator, by numbers of subscribers and of edges; and what one
decision takes with very many subscriptions.

All subscribers come to the first edge, one of the weakest: edges have one to four times as much, in turn, and together
twice what is needed. It is output that is balanced: matching costs next to nothing, and nothing is measured by a clock.
"""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from statistics import fmean
from time import process_time
from typing import Any, Final

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.balance_decision import SCATTERED, Decisions, case_of
from tidewire.benchmarks.crowd import Wanted, draw, event
from tidewire.benchmarks.measure import machine
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.benchmarks.workloads import WORKLOADS
from tidewire.broker.node import BrokerNode
from tidewire.language import compile_filter
from tidewire.model.errors import UnknownName
from tidewire.model.filters import encode_filter
from tidewire.model.notes import Note
from tidewire.simulator.agenda import in_ns
from tidewire.simulator.costs import Peer
from tidewire.simulator.listeners import Counts, Listener
from tidewire.simulator.world import World

PARTS: Final = ("networks", "decisions")
STREAMS: Final = 20
EVENT_BYTES: Final = 130
"""About what a delivery takes."""
SIZES: Final = 4
"""The strongest edges have so many times what the weakest have."""
STEP_S: Final = 1.0
JOINS_S: Final = 4000
"""So many subscribers come in a second."""
AT_REST_S: Final = 60.0
"""With loads within the threshold for so long, it is over."""
AVERAGED_S: Final = 30.0
"""Loads are compared by their means over this: of one moment they are within the threshold by chance, or beyond it."""
HEARTBEAT_S: Final = 20_000.0
"""Nothing fails here, and those of a hundred thousand clients would take longer than everything else."""
FAST: Final = Peer(mhz=1e12)

BALANCE: Final = BalancingConfig(
    load_window_s=6.0,
    local_pie_s=2.0,
    local_detect_s_min=1.0,
    local_detect_s_max=2.0,
    stabilise_s=12.0,
    stable_window_s=4.0,
    press_s=10.0,
)
"""Shorter than the thesis's. Rates are measured over three rounds of the streams, and no more than a session takes: a
donor that still sees what it has sent away sends as much again."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is run."""

    parts: Sequence[str] = PARTS
    subscribers: tuple[int, ...] = (2000, 20_000, 100_000)
    edges: tuple[int, ...] = (2, 4, 16)
    events_s: float = 10.0
    seconds_max: float = 1200.0
    """Of simulated time, for each."""
    decision: int = 100_000
    """Subscriptions in the decisions."""
    repeats: int = 10
    """Of each decision."""
    seed: int = 1

    def __post_init__(self) -> None:
        for name in self.parts:
            if name not in PARTS:
                raise UnknownName(name, what="part", known=PARTS)

    def shortened(self) -> Plan:
        """To look at."""
        return msgspec.structs.replace(self, subscribers=(200, 2000), edges=(2, 4), decision=10_000, repeats=6)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One network."""

    subscribers: int
    edges: int
    converged_s: float | None
    """From when on the loads were within the threshold of each other, on average; None: not in time."""
    spread: float
    """The greatest difference of output utilisations at the end."""
    sessions: int
    moved: int
    overhead: float
    """The share of messages in all that brokers took or sent, beyond those that they exchange when all is at rest."""
    estimation_error: float | None
    """Of the output utilisation of those who gave clients away: the mean difference from what was predicted."""
    deliveries: int
    cpu_s: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    benchmark: str
    machine: str
    runs: list[Run]
    decisions: list[Decisions]
    decision_s: float | None
    """PRESS and one decision: the median of the dearest kind."""


def run(plan: Plan, *, tell: Tell = tell_nobody) -> Report:
    """Each number of subscribers with each number of edges, each is told when it ends; and the decisions."""
    sizes = [(subscribers, edges) for subscribers in plan.subscribers for edges in plan.edges]
    sizes = sizes if "networks" in plan.parts else []
    runs = []
    for step, (subscribers, edges) in enumerate(sizes):
        tell(f"{subscribers:,} subscribers, {edges} edges", step, len(sizes))
        with _without_sweeps():
            runs.append(_Network(plan, subscribers, edges).run())
        tell(_told(runs[-1]), step + 1, len(sizes))
    decisions = list(decide(plan, tell=tell)) if "decisions" in plan.parts else []
    return Report(
        benchmark="balance",
        machine=machine(),
        runs=runs,
        decisions=decisions,
        decision_s=max((one.session_s.median for one in decisions), default=None),
    )


@contextmanager
def _without_sweeps() -> Iterator[None]:
    """Python looks again and again for cycles in what a hundred thousand clients are made of, which all stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def _told(run: Run) -> str:
    when = "not balanced" if run.converged_s is None else f"balanced after {run.converged_s:.0f} s"
    return f"  {when}: {run.sessions} sessions, {run.moved:,} moves, {run.cpu_s:.0f} s of CPU"


def decide(plan: Plan, *, tell: Tell = tell_nobody) -> Iterator[Decisions]:
    """Of every workload, and where nothing is alike; overloaded and not."""
    for name in (*WORKLOADS, *SCATTERED):
        tell(f"decisions: {name}")
        case = case_of(name, plan.decision, BalancingConfig(), seed=plan.seed)
        for is_overloaded in (False, True):
            yield case.measure(BalancingConfig(), is_overloaded=is_overloaded, repeats=plan.repeats)


class _Network:
    def __init__(self, plan: Plan, subscribers: int, edges: int) -> None:
        self._plan, self._subscribers = plan, subscribers
        chance = Random(plan.seed)
        self._wanted = [draw(chance, streams=STREAMS) for _ in range(subscribers)]
        self._edges = [f"edge{number}" for number in range(1, edges + 1)]
        self._world = World(plan.seed, engine="kernel")
        self._counts = {name: Counts() for name in self._edges}
        self._listeners: list[Listener] = []
        self._numbers = [0] * STREAMS
        self._next = self._messages_then = 0
        self._steady_s = 0.0
        recent = int(AVERAGED_S / STEP_S)
        self._recent = {name: deque[float](maxlen=recent) for name in self._edges}
        """Output utilisations, one for each step."""

    def run(self) -> Run:
        began_s = process_time()
        self._build()
        start_s = self._now_s
        self._join()
        within_s = self._now_s
        self._steady_s = within_s + BALANCE.load_window_s
        while self._now_s - within_s < AT_REST_S and self._now_s - start_s < self._plan.seconds_max:
            self._publish()
            self._look()
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
            deliveries=sum(one.events for one in self._counts.values()),
            cpu_s=process_time() - began_s,
        )

    @property
    def _now_s(self) -> float:
        return self._world.agenda.now_s

    def _build(self) -> None:
        world, sizes = self._world, [1 + number % SIZES for number in range(len(self._edges))]
        options: dict[str, Any] = {
            "costs": FAST,
            "balancing": "peer",
            "balance": BALANCE,
            "heartbeat_s": HEARTBEAT_S,
            "connections_max": self._subscribers + 100,
        }
        world.add_broker("head", role="head", **options)
        needed = self._needed_bytes_s()
        for size, name in zip(sizes, self._edges, strict=True):
            capacity = 2 * needed * size / sum(sizes)
            world.add_broker(name, role="edge", output_bytes_s=capacity, **options)
            world.link(name, "head")
        for host in world.brokers.values():  # nobody asks here who is served when
            host.on_connection_lost = lambda _end: None
            host.on_blocked = lambda: None
        world.run(1)
        world.add_client("publisher", "head").advertise(1)
        world.run(1)

    def _join(self) -> None:
        """All subscribers, at the first edge, while events flow."""
        world = self._world
        filters = {one: encode_filter(compile_filter(one.text)) for one in dict.fromkeys(self._wanted)}
        at_once = max(1, int(JOINS_S * STEP_S))
        for first in range(0, self._subscribers, at_once):
            for number, wanted in enumerate(self._wanted[first : first + at_once], start=first):
                name, edge = f"s{number}", self._edges[0]
                one = Listener(world.agenda, world.network, name, edge, seed=world.seed, counts=self._counts)
                one.subscribe(filters[wanted])
                self._listeners.append(one)
            self._publish()

    def _needed_bytes_s(self) -> float:
        """What all subscribers want, by the first events of each stream."""
        events = [(stream, number) for stream in range(STREAMS) for number in range(1, 11)]
        wanted = sum(times * _share(one, events) for one, times in Counter(self._wanted).items())
        return max(1.0, wanted * self._plan.events_s * EVENT_BYTES)

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

    def _look(self) -> None:
        for name, seen in self._recent.items():
            node = self._world.brokers[name].node
            load = None if node is None else node.meter.load()
            seen.append(0.0 if load is None else load.output_utilisation)

    def _spread(self) -> float:
        """Between the edges, of late."""
        means = [fmean(seen) for seen in self._recent.values()]
        return max(means) - min(means)

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
        """Of sessions that were planned when all had joined, and rates were measured since (peer E1i)."""
        errors: list[float] = []
        for name in self._edges:
            planned_ns = 0
            for at_ns, note in self._world.brokers[name].notes:
                if note.what == "clients are to move":
                    planned_ns = at_ns
                elif note.what == "measured after a session" and planned_ns >= in_ns(self._steady_s):
                    facts = note.facts
                    if "acceptor" not in facts:
                        continue
                    errors.append(abs(float(facts["measured output"]) - float(facts["predicted output"])))
        return sum(errors) / len(errors) if errors else None


def _share(wanted: Wanted, events: list[tuple[int, int]]) -> float:
    """Of these events, the share that it wants."""
    return sum(wanted.accepts(*which) for which in events) / len(events)
