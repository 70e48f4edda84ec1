"""Balancing that heads decide, over rates: the agents of ``balancing/drd/``, each told what its broker would measure.

What they say is heard at once, and who moves takes the time that a client needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from tidewire.balancing.drd.answers import Answer, MoveClients, NothingFound, Say, Tell, WantProfile
from tidewire.balancing.drd.bundles import Bundle, Member
from tidewire.balancing.drd.edge_agent import EdgeAgent
from tidewire.balancing.drd.head_agent import HeadAgent
from tidewire.balancing.drd.loads import Load
from tidewire.balancing.drd.policies import Policy
from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.model.offload_messages import Amounts, LoadUpdate, OffloadPayload
from tidewire.model.traffic import ClassKey
from tidewire.simulator.rate_moves import Moves
from tidewire.simulator.rates import Rates

SECOND_NS: Final = 1_000_000_000

Said = deque[tuple[BrokerId, BrokerId, OffloadPayload]]
"""From whom, to whom."""


class RateDrd:
    """A cluster whose head decides who moves."""

    def __init__(self, rates: Rates, moves: Moves, policy: Policy) -> None:
        self._rates, self._moves = rates, moves
        head = self._head_name = BrokerId(rates.head)
        self.head = HeadAgent(head, policy, address=rates.head, life=1)
        self.edges = {BrokerId(name): EdgeAgent(BrokerId(name), policy) for name in rates.edges}
        self._keys = [ClassKey(one.key) for one in rates.traffic]
        self._numbers = moves.numbers()
        self.is_short = False
        """Has nobody been found in this second who could take what is too much?"""
        start = Nanoseconds(0)
        self._take(head, self.head.connected({name: str(name) for name in self.edges}, [], now_ns=start), start)
        for name, edge in self.edges.items():
            self._take(name, edge.connected(head, now_ns=start), start)

    def place(self, traffic_class: int, *, now_ns: Nanoseconds) -> str:
        """Where does a class begin? As the head says."""
        chosen = self.head.place([self._keys[traffic_class]], {}, now_ns=now_ns)
        assert chosen is not None
        return chosen

    def second(self, now_ns: Nanoseconds) -> None:
        """A second has passed: they measure, tell and decide."""
        rates = self._rates
        self.is_short = False
        hosted: dict[str, list[ClassKey]] = {name: [] for name in rates.machines}
        for key, hosts in zip(self._keys, rates.hosts, strict=True):
            for edge in hosts:
                hosted[edge].append(key)
        since_ns = Nanoseconds(now_ns - SECOND_NS)
        told = {}
        for name, agent in self.edges.items():
            self._take(name, agent.tick(now_ns), now_ns)
            told[name] = agent.measured(self._load(name), classes=hosted[name], since_ns=since_ns)
            for answer in told[name]:
                # All speak in one second: the head knows them all when it decides, and offers no room that is gone.
                if isinstance(answer, Tell) and isinstance(answer.payload, LoadUpdate):
                    self.head.cluster.edge_said(name, answer.payload, now_ns)
        for name, answers in told.items():
            self._take(name, answers, now_ns)
        head = self._head_name
        self._take(head, self.head.measured(self._load(head), since_ns=since_ns, now_ns=now_ns), now_ns)
        self._take(head, self.head.tick(now_ns), now_ns)

    def _load(self, name: str) -> Load:
        machine, is_head = self._rates.machines[name], name == self._rates.head
        used, events = Amounts(*self._rates.totals()[name]), machine.matches_s
        # To a head matching is no metric (epeer §2.6).
        return Load(used, Amounts(machine.input_bytes_s, machine.output_bytes_s, float("inf") if is_head else events))

    # -- what is said --------------------------------------------------------------------------------------------------

    def _take(self, sender: BrokerId, answers: Iterable[Answer], now_ns: Nanoseconds) -> None:
        """What an agent wants done; what it says is heard at once."""
        said: Said = deque()
        self._perform(sender, answers, said, now_ns)
        while said:
            came_from, to, payload = said.popleft()
            agent = self.head if to == self._head_name else self.edges[to]
            self._perform(to, agent.heard(payload, came_from, now_ns=now_ns), said, now_ns)

    def _perform(self, sender: BrokerId, answers: Iterable[Answer], said: Said, now_ns: Nanoseconds) -> None:
        orders: list[tuple[str, tuple[int, ...]]] = []
        for answer in answers:
            match answer:
                case Say(to, _, payload):
                    said.append((sender, to, payload))
                case Tell(payload):
                    said.append((sender, self._head_name, payload))
                    said.extend((sender, other, payload) for other in self.edges if other != sender)
                case WantProfile(session):
                    edge = self.edges[sender]
                    self._perform(sender, edge.profiled(session, self._bundles(sender), now_ns=now_ns), said, now_ns)
                case MoveClients(to=to, clients=clients):
                    orders.append((to, clients))
                case NothingFound():
                    self.is_short = True
        if orders:
            self._move(sender, orders, now_ns)

    def _bundles(self, edge: BrokerId) -> list[Bundle]:
        """Who is there, by class, and what this second says of it."""
        rates, found = self._rates, []
        for number, need in rates.demand(edge).items():
            there = rates.hosts[number][edge]
            each = need.input_bytes_s
            members = tuple(Member(self._numbers[name], each) for name in there)
            found.append(
                Bundle(
                    key=self._keys[number],
                    delay_s=rates.traffic[number].delay_s,
                    load=Amounts(need.input_bytes_s, need.output_bytes_s, need.matches_s),
                    members=members,
                )
            )
        return found

    def _move(self, donor: BrokerId, orders: list[tuple[str, tuple[int, ...]]], now_ns: Nanoseconds) -> None:
        def moved(client: int, at_ns: Nanoseconds) -> None:
            self._take(donor, self.edges[donor].moved(client, is_moved=True, now_ns=at_ns), at_ns)

        self._moves.send(donor, orders, now_ns=now_ns, on_moved=moved)
