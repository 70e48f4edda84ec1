"""One run of brokers, subscribers and a coordinator, cycle by cycle, by the placement and the plans that serve users.

The data cluster is what it produces: bytes of results by back-end subscription, when a channel is executed. A move
takes effect at once: what is compared are decisions, and the exact way to move a client has tests of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import msgspec

from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.placement.averages import Averages
from tidewire.placement.choices import Candidate, Location, placement
from tidewire.placement.config import StageConfig
from tidewire.placement.loads import Balance, LoadSnapshot, Subscriber
from tidewire.placement.stages import Staged


class Person(msgspec.Struct, frozen=True):
    """A subscriber: when it comes, where it is then, and when it makes which subscriptions."""

    login_s: float
    location: Location | None
    wants: tuple[tuple[float, int], ...]
    """When, and which back-end subscription; the earliest first."""


def name_of(person: int) -> str:
    """What a subscriber is called: by it a random placement is drawn, simulated and live."""
    return f"p{person}"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """All that happens, whoever balances it."""

    brokers: Mapping[BrokerId, Location | None]
    people: Sequence[Person]
    backends: int
    counted: Sequence[Mapping[int, float]]
    """For each cycle: the bytes of results of each back-end subscription whose channel was executed in it."""
    cycle_s: float
    average_s: float = 60.0
    """The longest period of a channel, at least a minute (bad §2.3)."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How it was at the end of a cycle, before and after what was decided then."""

    at_s: float
    before: Balance
    after: Balance
    subscribers: tuple[int, ...]
    """Of each broker."""
    moves: int
    stages: tuple[str, ...]


class Run:
    """One workload under one placement and one policy."""

    def __init__(self, work: Work, *, place: str, policy: str, config: StageConfig, seed: int) -> None:
        self._work = work
        self._config = config
        self._choice = placement(place, chance=Random(seed), seed=seed)
        self._staged = Staged(policy, config)
        self._rates = [0.0] * work.backends
        self._where: dict[int, int] = {}
        self._wants: dict[int, list[int]] = {}
        self._fans = [[0] * work.backends for _ in work.brokers]
        self._names = tuple(work.brokers)
        self.looks: list[Look] = []
        self._play()

    @property
    def moves(self) -> int:
        """In all."""
        return sum(look.moves for look in self.looks)

    @property
    def subscriptions(self) -> tuple[int, int]:
        """Back-end and front-end ones, at the end."""
        wanted = [k for wants in self._wants.values() for k in wants]
        return len(set(wanted)), len(wanted)

    def broker_of(self, person: int) -> BrokerId:
        """Where it is at the end."""
        return self._names[self._where[person]]

    def since(self, at_s: float) -> list[Look]:
        """From then on."""
        return [look for look in self.looks if look.at_s >= at_s]

    def _play(self) -> None:
        people = self._work.people
        logins = sorted(range(len(people)), key=lambda i: people[i].login_s)
        wishes = sorted((at_s, i, k) for i, one in enumerate(people) for at_s, k in one.wants)
        averages: Averages[int] = Averages(self._work.average_s)
        come = asked = 0
        for number, counted in enumerate(self._work.counted, 1):
            at_s = number * self._work.cycle_s
            while come < len(logins) and people[logins[come]].login_s < at_s:
                self._login(logins[come])
                come += 1
            while asked < len(wishes) and wishes[asked][0] < at_s:
                self._subscribe(*wishes[asked][1:])
                asked += 1
            now_ns = Nanoseconds(int(at_s * 1e9))
            averages.add(counted, seconds=self._work.cycle_s, now_ns=now_ns)
            self._rates = [0.0] * self._work.backends
            for k, rate in averages.rates().items():
                self._rates[k] = rate
            self._decide(at_s, now_ns)

    def _login(self, i: int) -> None:
        loads = self.looks[-1].after.loads if self.looks else [0.0] * len(self._names)
        candidates = [
            Candidate(broker=broker, location=location, load=load)
            for (broker, location), load in zip(self._work.brokers.items(), loads, strict=True)
        ]
        chosen = self._choice.choose(candidates, self._work.people[i].location, name_of(i))
        self._where[i] = self._names.index(chosen)
        self._wants[i] = []

    def _subscribe(self, i: int, k: int) -> None:
        self._wants[i].append(k)
        self._fans[self._where[i]][k] += 1

    def _balance(self) -> Balance:
        return Balance(
            tuple(
                sum([rate * (fan + 1) for rate, fan in zip(self._rates, fans, strict=True) if fan])
                for fans in self._fans
            )
        )

    def _decide(self, at_s: float, now_ns: Nanoseconds) -> None:
        before = after = self._balance()
        moves = 0
        stages: tuple[str, ...] = ()
        if self._staged.is_due(before, now_ns=now_ns):
            plan = self._staged.plan(self.snapshot(), now_ns=now_ns)
            for move in plan.moves:
                self._move(int(move.subscriber), self._names.index(move.to))
            moves, stages, after = len(plan.moves), plan.stages, plan.predicted
        counts = [0] * len(self._names)
        for j in self._where.values():
            counts[j] += 1
        self.looks.append(
            Look(at_s=at_s, before=before, after=after, subscribers=tuple(counts), moves=moves, stages=stages)
        )

    def snapshot(self) -> LoadSnapshot:
        """Who is where, and all rates, now."""
        placed = (Subscriber(str(i), self._where[i], tuple(wants)) for i, wants in self._wants.items())
        return LoadSnapshot(brokers=self._names, rates=tuple(self._rates), subscribers=tuple(placed))

    def _move(self, i: int, to: int) -> None:
        source = self._where[i]
        for k in self._wants[i]:
            self._fans[source][k] -= 1
            self._fans[to][k] += 1
        self._where[i] = to
