"""Balancers of two clusters and what lies between them: bulletins that are late or lost, clients that move or do not,
brokers that die. It checks what must hold at every moment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from tests.balancing.parts import at, load, plan, report
from tidewire.balancing.answers import Answer, BeginSampling, EndSampling, MoveClients
from tidewire.balancing.bulletins import Pass
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.edge_balancer import EdgeBalancer
from tidewire.balancing.head_balancer import HeadBalancer
from tidewire.balancing.mediator import Ourselves
from tidewire.model.balance_messages import Bulletin, Reply, SessionId
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.notes import Note

MIGRATION_TIMEOUT_S = 10.0
WEIGHT = 0.02
"""What one client adds to the utilisation of its broker."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """How bad the network is."""

    loss: float = 0.0
    """The share of bulletins that do not arrive."""

    delay_s: float = 0.1
    """At most."""

    deaths: tuple[tuple[float, int, float], ...] = ()
    """When, whom, and for how long."""

    stubborn: float = 0.0
    """The share of clients that do not move, and of those nobody hears of again."""

    unplanned: float = 0.0
    """The share of sessions in which it is never decided what moves."""


class Broker:
    """One that may die, and live again."""

    def __init__(self, name: BrokerId, cluster: BrokerId) -> None:
        self.name = name
        self.cluster = cluster
        self.life = 0
        self.balancer: EdgeBalancer | HeadBalancer | None = None
        self.clients: dict[Conn, None] = {}
        self.busy_since_ns: int | None = None
        self.sampling: SessionId | None = None


class Network:
    """Two heads next to each other, and their edges. ``clients``: how many each edge has, by its name."""

    def __init__(
        self, clusters: dict[str, dict[str, int]], config: BalancingConfig, trouble: Trouble, *, seed: int
    ) -> None:
        self.config = config
        self.trouble = trouble
        self._is_bad = bool(trouble.loss or trouble.deaths or trouble.delay_s > 1)
        """May one side of a session know of its end before the other can hear of it?"""
        self.chance = Random(seed)
        self.is_loaded = True
        self.now_ns = at(0)
        self.brokers: dict[BrokerId, Broker] = {}
        self.heads: list[BrokerId] = []
        self.notes: list[tuple[BrokerId, Note]] = []
        self.accepted: dict[SessionId, BrokerId] = {}
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._last_arrival: dict[tuple[BrokerId, BrokerId], int] = {}
        clients = 0
        for head, edges in clusters.items():
            self.heads.append(BrokerId(head))
            self.brokers[BrokerId(head)] = Broker(BrokerId(head), BrokerId(head))
            for name, count in edges.items():
                edge = self.brokers[BrokerId(name)] = Broker(BrokerId(name), BrokerId(head))
                edge.clients = dict.fromkeys(Conn(clients + one) for one in range(count))
                clients += count
        self.clients = clients
        for broker in self.brokers.values():
            self._be_born(broker)
        names = list(self.brokers)
        for when_s, who, for_s in trouble.deaths:
            self._at(when_s, partial(self._die, self.brokers[names[who % len(names)]], for_s))
        for second in range(5000):
            self._at(float(second), self._measure)

    # -- life and death ------------------------------------------------------------------------------------------------

    def _be_born(self, broker: Broker) -> None:
        broker.life += 1
        if broker.name in self.heads:
            broker.balancer = HeadBalancer(
                broker.name, self.config, life=broker.life, chance=self.chance, now_ns=self.now_ns
            )
        else:
            ourselves = Ourselves(
                broker=broker.name,
                life=broker.life,
                address=f"{broker.name}:1",
                migration_timeout_s=MIGRATION_TIMEOUT_S,
            )
            broker.balancer = EdgeBalancer(
                ourselves, self.config, chance=self.chance, report=report, now_ns=self.now_ns
            )
        self._connect()

    def _die(self, broker: Broker, for_s: float) -> None:
        if broker.balancer is None or not self.is_loaded:
            return
        broker.balancer = None
        broker.busy_since_ns = None
        broker.sampling = None
        self._connect()
        self._at(self.now_ns / 1e9 + for_s, lambda: self._be_born(broker))

    def _connect(self) -> None:
        alive = [broker for broker in self.brokers.values() if broker.balancer is not None]
        for broker in alive:
            match broker.balancer:
                case EdgeBalancer() as edge:
                    head = broker.cluster if self.brokers[broker.cluster].balancer is not None else None
                    self._perform(broker, edge.connected(head, now_ns=self.now_ns))
                case HeadBalancer() as one:
                    edges = [o.name for o in alive if o.cluster == broker.name and o.name not in self.heads]
                    heads = [o.name for o in alive if o.name in self.heads and o is not broker]
                    self._perform(broker, one.connected(edges=edges, heads=heads, now_ns=self.now_ns))

    # -- time ----------------------------------------------------------------------------------------------------------

    def _at(self, when_s: float, act: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._agenda, (max(at(when_s), self.now_ns), self._order, act))

    def _after(self, pause_s: float, act: Callable[[], None]) -> None:
        self._at(self.now_ns / 1e9 + pause_s, act)

    def run(self, until_s: float) -> None:
        """Let time pass."""
        while True:
            due = [(self._agenda[0][0], "")] if self._agenda else []
            for broker in self.brokers.values():
                deadline = None if broker.balancer is None else broker.balancer.next_deadline_ns()
                if deadline is not None:
                    due.append((deadline, broker.name))
            when_ns, name = min(due)
            if when_ns > at(until_s):
                self.now_ns = at(until_s)
                return
            self.now_ns = max(self.now_ns, Nanoseconds(when_ns))
            if name == "":
                heapq.heappop(self._agenda)[2]()
            else:
                self._tick(self.brokers[BrokerId(name)])
            self._check()

    def _tick(self, broker: Broker) -> None:
        assert broker.balancer is not None
        self._perform(broker, broker.balancer.tick(self.now_ns))
        deadline = broker.balancer.next_deadline_ns()
        assert deadline is None or deadline > self.now_ns, f"{broker.name} is not done after its tick"

    def _measure(self) -> None:
        for broker in self.brokers.values():
            if isinstance(broker.balancer, EdgeBalancer):
                broker.balancer.measured(load(WEIGHT * len(broker.clients) if self.is_loaded else 0.3))

    # -- what balancers want -------------------------------------------------------------------------------------------

    def _perform(self, broker: Broker, answers: list[Answer]) -> None:
        for answer in answers:
            match answer:
                case Pass(neighbour, bulletin):
                    self._send(broker.name, neighbour, bulletin)
                case Note():
                    self.notes.append((broker.name, answer))
                case BeginSampling():
                    assert broker.sampling is None
                    broker.sampling = answer.session
                    if self.chance.random() >= self.trouble.unplanned:
                        pause_s = self.chance.random() * self.config.press_s
                        self._after(pause_s, self._plan_of(broker, broker.life, answer))
                case EndSampling(session):
                    assert broker.sampling == session
                    broker.sampling = None
                case MoveClients():
                    self._move(broker, answer)

    def _plan_of(self, broker: Broker, life: int, sampling: BeginSampling) -> Callable[[], None]:
        def decide() -> None:
            balancer = broker.balancer
            if not isinstance(balancer, EdgeBalancer) or broker.life != life or broker.sampling != sampling.session:
                return
            surplus = (len(broker.clients) - len(self.brokers[sampling.acceptor].clients)) // 2
            free = [client for client in broker.clients if client not in balancer.on_their_way(now_ns=self.now_ns)]
            clients = free[: max(surplus, 0)]
            answers = balancer.planned(sampling.session, plan(*clients, to=sampling.acceptor), now_ns=self.now_ns)
            if clients:
                broker.sampling = None
            self._perform(broker, answers)

        return decide

    def _move(self, donor: Broker, move: MoveClients) -> None:
        assert self.accepted.get(move.session) == move.to, "clients are sent to one who did not accept"
        assert move.address == f"{move.to}:1"
        for client in move.clients:
            if self.chance.random() < self.trouble.stubborn:
                continue
            self._after(self.chance.random() * 8.0, self._arrival_of(client, donor, donor.life, move))

    def _arrival_of(self, client: Conn, donor: Broker, life: int, move: MoveClients) -> Callable[[], None]:
        def arrive() -> None:
            acceptor = self.brokers[move.to]
            is_moved = client in donor.clients and acceptor.balancer is not None and self.chance.random() < 0.95
            if is_moved:
                del donor.clients[client]
                acceptor.clients[client] = None
            if donor.life == life and isinstance(donor.balancer, EdgeBalancer):
                self._perform(donor, donor.balancer.moved(client, is_moved=is_moved, now_ns=self.now_ns))

        return arrive

    def _send(self, sender: BrokerId, to: BrokerId, bulletin: Bulletin) -> None:
        if bulletin.sender == sender and isinstance(bulletin.payload, Reply) and bulletin.payload.report is not None:
            self.accepted[bulletin.payload.session] = sender
        if self.chance.random() < self.trouble.loss:
            return
        arrival = self.now_ns + at(self.chance.random() * self.trouble.delay_s)
        arrival = max(arrival, self._last_arrival.get((sender, to), 0))  # one link keeps its order
        self._last_arrival[sender, to] = arrival
        lives = self.brokers[sender].life, self.brokers[to].life

        def come() -> None:
            broker = self.brokers[to]
            if broker.balancer is None or (self.brokers[sender].life, broker.life) != lives:
                return  # the connection has ended with one of them
            self._perform(broker, broker.balancer.heard(bulletin, came_from=sender, now_ns=self.now_ns))

        self._at(arrival / 1e9, come)

    def calm(self) -> None:
        """From now on nothing is lost, nobody dies, and there is nothing to balance any more."""
        self.trouble = Trouble()
        self.is_loaded = False

    # -- what must hold ------------------------------------------------------------------------------------------------

    @property
    def busy_bound_s(self) -> float:
        """How long an edge may be in one session: until clients are sent, and then as long as they may take."""
        config = self.config
        ahead_s = 2 * config.reply_s + config.press_s + config.done_s
        return ahead_s + self.clients * MIGRATION_TIMEOUT_S + config.done_s

    def _check(self) -> None:
        donors: dict[BrokerId, BrokerId] = {}
        for broker in self.brokers.values():
            if not isinstance(broker.balancer, EdgeBalancer):
                continue
            is_busy = broker.balancer.condition == "BUSY"
            assert is_busy == (broker.balancer.partner is not None), f"{broker.name}: a session and BUSY are one"
            if not is_busy:
                broker.busy_since_ns = None
                assert broker.sampling is None, f"{broker.name} samples for nobody"
            elif broker.busy_since_ns is None:
                broker.busy_since_ns = self.now_ns
            else:
                lasted_s = (self.now_ns - broker.busy_since_ns) / 1e9
                assert lasted_s <= self.busy_bound_s, f"{broker.name} is BUSY for {lasted_s} s"
            if broker.balancer.is_donor and broker.balancer.partner is not None:
                assert broker.balancer.partner not in donors or self._is_bad, "two donors have one acceptor"
                donors[broker.balancer.partner] = broker.name
        assert sum(len(broker.clients) for broker in self.brokers.values()) == self.clients

    def conditions(self) -> dict[BrokerId, str]:
        """Of all that live."""
        return {name: one.balancer.condition for name, one in self.brokers.items() if one.balancer is not None}

    def counts(self) -> dict[BrokerId, int]:
        """The clients of each edge."""
        return {name: len(one.clients) for name, one in self.brokers.items() if name not in self.heads}

    def said(self, what: str) -> list[Note]:
        """All notes of a kind."""
        return [note for _, note in self.notes if note.what == what]
