"""A world of agents without brokers: what they say is handed over at once, and clients move when they are let."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from math import inf

from tidewire.balancing.drd.answers import Answer, MoveClients, NothingFound, Say, Tell, WantProfile
from tidewire.balancing.drd.bundles import Bundle, Member
from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.edge_agent import EdgeAgent
from tidewire.balancing.drd.head_agent import HeadAgent
from tidewire.balancing.drd.loads import Load
from tidewire.balancing.drd.policies import policy
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.notes import Note
from tidewire.model.offload_messages import Amounts, OffloadPayload
from tidewire.model.traffic import ClassKey

SECOND = 1_000_000_000
ROOMY = 1e12


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(int(seconds * SECOND))


def matching(events_s: float, *, output: float = 0.0) -> Amounts:
    return Amounts(0.0, output, events_s)


def bundle(key: str, delay_s: float, events_s: float, clients: int, *, first: int = 0) -> Bundle:
    """A class that takes nothing but matching."""
    members = tuple(Member(first + number, 0.0) for number in range(clients))
    return Bundle(key=ClassKey(key), delay_s=delay_s, load=matching(events_s), members=members)


class Agents:
    """Clusters of agents, and the bundles that each broker has."""

    def __init__(self, clusters: dict[str, list[str]], *, name: str = "drd", config: DrdConfig | None = None) -> None:
        self.config = config or DrdConfig()
        self.now = 0.0
        self.edges: dict[BrokerId, EdgeAgent] = {}
        self.heads: dict[BrokerId, HeadAgent] = {}
        self.head_of: dict[BrokerId, BrokerId] = {}
        self.bundles: dict[BrokerId, list[Bundle]] = {}
        self.capacity: dict[BrokerId, Amounts] = {}
        self.moves: list[tuple[BrokerId, MoveClients]] = []
        self.said: list[tuple[BrokerId, BrokerId, OffloadPayload]] = []
        self.notes: list[tuple[BrokerId, Note]] = []
        self.nothing: list[NothingFound] = []
        self.dead: set[BrokerId] = set()
        self.is_instant = True
        self._queue: deque[tuple[BrokerId, Answer]] = deque()
        chance = random.Random(1)
        for head, edges in clusters.items():
            made = policy(name, self.config, chance=chance)
            self.heads[BrokerId(head)] = HeadAgent(BrokerId(head), made, address=f"{head}:1", life=1)
            for edge in edges:
                made = policy(name, self.config, chance=chance)
                self.edges[BrokerId(edge)] = EdgeAgent(BrokerId(edge), made)
                self.head_of[BrokerId(edge)] = BrokerId(head)
        for broker in (*self.edges, *self.heads):
            self.bundles[broker] = []
            self.capacity[broker] = Amounts(ROOMY, ROOMY, inf)
        for head in self.heads:
            self.connect(head)

    def connect(self, head: BrokerId) -> None:
        edges = {edge: f"{edge}:1" for edge, its in self.head_of.items() if its == head and edge not in self.dead}
        others = [other for other in self.heads if other != head]
        for edge in edges:
            self._put(edge, self.edges[edge].connected(head, now_ns=at(self.now)))
        self._put(head, self.heads[head].connected(edges, others, now_ns=at(self.now)))
        self._run()

    def used(self, broker: BrokerId) -> Amounts:
        return sum((one.load for one in self.bundles[broker]), Amounts())

    def load(self, broker: BrokerId) -> Load:
        return Load(self.used(broker), self.capacity[broker])

    def second(self) -> None:
        """One period: all measure, and what follows from it."""
        self.now += 1
        for broker in [one for one in (*self.edges, *self.heads) if one not in self.dead]:
            self.measure(broker)

    def measure(self, broker: BrokerId) -> None:
        since_ns, now_ns = at(self.now - 1), at(self.now)
        if broker in self.heads:
            answers = self.heads[broker].tick(now_ns)
            answers += self.heads[broker].measured(self.load(broker), since_ns=since_ns, now_ns=now_ns)
        else:
            classes = [one.key for one in self.bundles[broker]]
            answers = self.edges[broker].tick(now_ns)
            answers += self.edges[broker].measured(self.load(broker), classes=classes, since_ns=since_ns)
        self._put(broker, answers)
        self._run()

    def _put(self, broker: BrokerId, answers: Sequence[Answer]) -> None:
        self._queue.extend((broker, one) for one in answers)

    def _run(self) -> None:
        while self._queue:
            broker, answer = self._queue.popleft()
            self._perform(broker, answer)

    def _perform(self, broker: BrokerId, answer: Answer) -> None:
        now_ns = at(self.now)
        match answer:
            case Say(to, _, payload):
                self._say(broker, to, payload)
            case Tell(payload):
                if broker in self.heads:
                    for other in [other for other in self.heads if other != broker]:
                        self._say(broker, other, payload)
                else:
                    self._say(broker, self.head_of[broker], payload)
                    others = [one for one in self.edges if self.head_of[one] == self.head_of[broker] and one != broker]
                    for other in others:
                        self._say(broker, other, payload)
            case WantProfile(session):
                agent = self.heads.get(broker) or self.edges[broker]
                self._put(broker, agent.profiled(session, self.bundles[broker], now_ns=now_ns))
            case MoveClients():
                self.moves.append((broker, answer))
                if self.is_instant:
                    for client in answer.clients:
                        self.arrive(broker, client, answer.to)
            case NothingFound():
                self.nothing.append(answer)
            case Note():
                self.notes.append((broker, answer))

    def _say(self, broker: BrokerId, to: BrokerId, payload: OffloadPayload) -> None:
        self.said.append((broker, to, payload))
        if to in self.dead or broker in self.dead:
            return
        agent = self.heads.get(to) or self.edges[to]
        self._put(to, agent.heard(payload, broker, now_ns=at(self.now)))

    def arrive(self, donor: BrokerId, client: int, to: BrokerId, *, is_moved: bool = True) -> None:
        """A client has gone there; with the last of them its bundle has."""
        if is_moved:
            gone = [one for one in self.bundles[donor] if one.members[-1].client == client]
            self.bundles[donor] = [one for one in self.bundles[donor] if one not in gone]
            self.bundles[to] += gone
        agent = self.heads.get(donor) or self.edges[donor]
        self._put(donor, agent.moved(client, is_moved=is_moved, now_ns=at(self.now)))
        self._run()

    def kinds(self) -> list[str]:
        """What was said, without what is said all the time."""
        return [
            type(payload).__name__
            for _, _, payload in self.said
            if type(payload).__name__ not in ("LoadUpdate", "ClusterStatus")
        ]
