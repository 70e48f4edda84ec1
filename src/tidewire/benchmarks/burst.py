"""Who misses deadlines when some classes burst? The same bursts under each policy, in the simulator, seed by seed.

A head and edges; each edge has the classes of a region, and can send so many bytes a second (or match so many events).
Twice many of a region's classes send half as much again: that is more than its edge can do. An event that comes later
than its class allows is a miss; it is counted where it arrives. All begin with the same clients at the same edges. What
events may take is said by those who subscribe: they carry no deadline, and queues serve them as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random
from typing import Any, Final, Literal

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.benchmarks.measure import machine
from tidewire.benchmarks.progress import Tell, tell_nobody
from tidewire.model.errors import UsageError
from tidewire.papers.parallel import run_all
from tidewire.simulator.costs import Peer, Steady
from tidewire.simulator.world import World

POLICIES: Final = ("never", "peer", "drd", "peer-drd", "peer-lb")
BODY_BYTES: Final = (200, 1000)
"""epeer §1.1: of a sensor's message."""
FRAME_BYTES: Final = 85
"""What a delivery takes beside the body, about."""
FAST: Final = Peer(mhz=1e12)
LEAST_RATIO: Final = 10.0
"""Of misses among the tightest: so many times fewer."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is run."""

    policies: Sequence[str] = ("peer", "drd")
    seeds: int = 100
    first_seed: int = 0
    edges: int = 8
    classes_each: int = 8
    """Of a region, which begin at its edge."""
    subscribers_max: int = 3
    """Of a class, from one on."""
    metric: Literal["output", "matching"] = "output"
    """What edges have too little of."""
    deliveries_s: float = 60.0
    """What an edge can send, in deliveries of middle size."""
    matching_events_s: float = 40.0
    """What it can match, if it is that."""
    used: float = 0.75
    """Of that, before the first burst."""
    burst: float = 1.5
    delay_s: tuple[float, float] = (1.0, 50.0)
    calm_s: float = 10.0
    """Before the first burst, and from one to the next; the last ends as long after it began."""
    each_s: float = 30.0
    balance: BalancingConfig = BalancingConfig()

    def __post_init__(self) -> None:
        for name in self.policies:
            if name not in POLICIES:
                raise UsageError(f"there is no policy {name!r}: it is one of {', '.join(POLICIES)}")

    def shortened(self) -> Plan:
        """To look at."""
        return msgspec.structs.replace(self, seeds=3)


class Traffic(msgspec.Struct, frozen=True):
    """One class."""

    name: str
    region: int
    delay_s: float
    rate: float
    """Events a second, while it is calm."""
    subscribers: int
    body_bytes: int


class Burst(msgspec.Struct, frozen=True):
    """Classes that send more, from when to when."""

    begin_s: float
    end_s: float
    classes: tuple[str, ...]


class Story(msgspec.Struct, frozen=True):
    """What happens, whatever the policy."""

    classes: tuple[Traffic, ...]
    bursts: tuple[Burst, ...]
    seconds: float

    @property
    def tightest(self) -> list[str]:
        """The tenth of the classes that can wait least."""
        ordered = sorted(self.classes, key=lambda one: (one.delay_s, one.name))
        return [one.name for one in ordered[: max(1, len(ordered) // 10)]]

    def rate(self, one: Traffic, at_s: float, factor: float) -> float:
        """How much it sends then."""
        is_bursting = any(one.name in burst.classes and burst.begin_s <= at_s < burst.end_s for burst in self.bursts)
        return one.rate * (factor if is_bursting else 1.0)


def story_of(plan: Plan, seed: int) -> Story:
    """Drawn from the seed."""
    chance = Random(f"{seed}/burst")
    classes: list[Traffic] = []
    for region in range(plan.edges):
        drawn = [
            Traffic(
                f"r{region}c{number}",
                region,
                chance.uniform(*plan.delay_s),
                chance.uniform(0.5, 1.5),
                chance.randint(1, plan.subscribers_max),
                chance.randint(*BODY_BYTES),
            )
            for number in range(plan.classes_each)
        ]
        classes += _scaled(plan, drawn)
    end_s = plan.calm_s + 2 * plan.each_s
    bursts = []
    for number, region in enumerate(chance.sample(range(plan.edges), 2)):
        theirs = [one.name for one in classes if one.region == region]
        many = chance.randint(ceil(0.10 * len(classes)), int(0.15 * len(classes)))
        chosen = chance.sample(theirs, min(many, len(theirs)))
        bursts.append(Burst(plan.calm_s + number * plan.each_s, end_s, tuple(sorted(chosen))))
    return Story(tuple(classes), tuple(bursts), end_s + plan.calm_s)


def capacity_of(plan: Plan) -> float:
    """In bytes a second, of an edge."""
    return plan.deliveries_s * (sum(BODY_BYTES) / 2 + FRAME_BYTES)


def _scaled(plan: Plan, drawn: list[Traffic]) -> list[Traffic]:
    """So that together they use the planned share of an edge."""
    if plan.metric == "matching":
        factor = plan.matching_events_s * plan.used / sum(one.rate for one in drawn)
    else:
        sent = sum(one.rate * one.subscribers * (one.body_bytes + FRAME_BYTES) for one in drawn)
        factor = capacity_of(plan) * plan.used / sent
    return [msgspec.structs.replace(one, rate=one.rate * factor) for one in drawn]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run under one policy."""

    policy: str
    seed: int
    deliveries: int
    misses: int
    tight_deliveries: int
    """Of the tenth of the classes that can wait least."""
    tight_misses: int
    sessions: int
    moved: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    benchmark: str
    machine: str
    seeds: int
    outcomes: dict[str, list[Outcome]]
    """By policy."""
    tight_misses: dict[str, int]
    misses: dict[str, int]
    deliveries: dict[str, int]
    ratio: float | None
    """Misses among the tightest: those of ``peer`` over those of ``drd``; None: one of them was not run."""
    worse: list[int]
    """Seeds in which ``drd`` had more of them."""
    holds: bool | None
    """Ten times fewer in all, and more in no seed."""


class Run:
    """One story under one policy."""

    def __init__(self, plan: Plan, policy: str, seed: int) -> None:
        self._plan, self._policy, self._seed = plan, policy, seed
        self.story = story_of(plan, seed)
        self.world = World(seed, engine="kernel")
        self._sent: dict[str, int] = {}

    def play(self) -> Outcome:
        """From the first to the last."""
        self._build()
        self._start_publishing()
        world = self.world
        world.run(self.story.seconds)
        world.drain(seconds_max=600.0)
        world.run(2)
        return self._outcome()

    def _build(self) -> None:
        world, plan = self.world, self._plan
        options: dict[str, Any] = {
            "balancing": self._policy,
            "balance": plan.balance,
            "heartbeat_s": 1000.0,
        }
        world.add_broker("head", role="head", costs=FAST, **options)
        for number in range(plan.edges):
            if plan.metric == "matching":
                world.add_broker(f"edge{number}", role="edge", costs=Steady(events_s=plan.matching_events_s), **options)
            else:
                output = capacity_of(plan)
                world.add_broker(
                    f"edge{number}", role="edge", costs=FAST, mbps=output * 8e-6, output_bytes_s=output, **options
                )
            world.link(f"edge{number}", "head")
        world.run(2)
        for region in range(plan.edges):
            world.add_client(f"p{region}", "head").advertise(1)
        for one in self.story.classes:
            for number in range(one.subscribers):
                client = world.add_client(f"{one.name}s{number}", f"edge{one.region}")
                client.subscribe(1, f"class = '{one.name}'", delay_s=one.delay_s)
        world.run(3)

    def _start_publishing(self) -> None:
        """Each class sends evenly, from some moment of its first interval on."""
        chance, began_s = Random(f"{self._seed}/phases"), self.world.agenda.now_s

        def send(one: Traffic) -> None:
            now_s = self.world.agenda.now_s - began_s
            if now_s >= self.story.seconds:
                return
            self._sent[one.name] = self._sent.get(one.name, 0) + 1
            self.world.clients[f"p{one.region}"].publish({"class": one.name, "body": "x" * one.body_bytes})
            pause_s = 1 / self.story.rate(one, now_s, self._plan.burst)
            self.world.at(self.world.agenda.now_s + pause_s, lambda: send(one))

        for one in self.story.classes:
            self.world.at(began_s + chance.random() / one.rate, lambda one=one: send(one))  # type: ignore[misc]

    def _outcome(self) -> Outcome:
        tightest = dict.fromkeys(self.story.tightest)
        deliveries = misses = tight_deliveries = tight_misses = 0
        for one in self.story.classes:
            for number in range(one.subscribers):
                receipts = self.world.clients[f"{one.name}s{number}"].receipts
                late = sum(receipt.delay_ns > one.delay_s * 1e9 for receipt in receipts)
                late += self._sent[one.name] - len(receipts)
                deliveries, misses = deliveries + self._sent[one.name], misses + late
                if one.name in tightest:
                    tight_deliveries, tight_misses = tight_deliveries + self._sent[one.name], tight_misses + late
        notes = [note for host in self.world.brokers.values() for _, note in host.notes]
        ended = [note for note in notes if note.what in ("session ended", "gave clients away")]
        ended = [note for note in ended if note.what != "session ended" or "acceptor" in note.facts]
        return Outcome(
            policy=self._policy,
            seed=self._seed,
            deliveries=deliveries,
            misses=misses,
            tight_deliveries=tight_deliveries,
            tight_misses=tight_misses,
            sessions=len(ended),
            moved=sum(int(note.facts["moved"]) for note in ended),
        )


def run(plan: Plan, *, tell: Tell = tell_nobody, at_once: int | None = None) -> Report:
    """Every seed under every policy; ``at_once``: in so many processes, else in as many as there are cores."""
    seeds = range(plan.first_seed, plan.first_seed + plan.seeds)
    runs = [(plan, name, seed) for seed in seeds for name in plan.policies]
    found = run_all(_play, runs, tell, stage="bursts", at_once=at_once)
    return report_of(plan, {name: [one for one in found if one.policy == name] for name in plan.policies})


def _play(given: tuple[Plan, str, int]) -> Outcome:
    return Run(*given).play()


def report_of(plan: Plan, outcomes: dict[str, list[Outcome]]) -> Report:
    """What they say together."""
    tight = {name: sum(one.tight_misses for one in them) for name, them in outcomes.items()}
    ratio: float | None = None
    worse: list[int] = []
    if "peer" in outcomes and "drd" in outcomes:
        ratio = tight["peer"] / max(1, tight["drd"])
        pairs = zip(outcomes["peer"], outcomes["drd"], strict=True)
        worse = [ours.seed for theirs, ours in pairs if ours.tight_misses > theirs.tight_misses]
    return Report(
        benchmark="burst",
        machine=machine(),
        seeds=plan.seeds,
        outcomes=outcomes,
        tight_misses=tight,
        misses={name: sum(one.misses for one in them) for name, them in outcomes.items()},
        deliveries={name: sum(one.deliveries for one in them) for name, them in outcomes.items()},
        ratio=ratio,
        worse=worse,
        holds=None if ratio is None else ratio >= LEAST_RATIO and not worse,
    )
