"""PEER over rates: the balancers that brokers run, each told what its broker would have measured.

What they want sampled is drawn by the rates of the classes; who is to move is decided by the offload algorithms of
``balancing/``, and moves in the time that a client needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from tidewire.balancing.answers import Answer, BeginSampling, EndSampling, MoveClients
from tidewire.balancing.bulletins import Pass
from tidewire.balancing.clientele import Clientele
from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.edge_balancer import EdgeBalancer
from tidewire.balancing.head_balancer import HeadBalancer
from tidewire.balancing.load import CHANGED_SHARE, Capacity, Load, LoadMeter, Sample
from tidewire.balancing.mediator import Ourselves
from tidewire.balancing.offload import OFFLOADS
from tidewire.balancing.plans import OffloadSnapshot, Plan
from tidewire.balancing.press import Press
from tidewire.balancing.reports import info_of, report_of
from tidewire.language import compile_filter
from tidewire.model.balance_messages import Bulletin, LoadReport
from tidewire.model.filters import encode_filter
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.simulator.rate_moves import Moves
from tidewire.simulator.rates import Rates

MEMORY_BYTES: Final = float(1 << 40)
"""Queues show in delays here, not in memory."""


class _Edge:
    """One edge: its balancer, and what that is told."""

    def __init__(self, name: str, rates: Rates, config: BalancingConfig, chance: Random) -> None:
        self.name = BrokerId(name)
        self._rates = rates
        self.clientele = Clientele()
        machine = rates.machines[name]
        self.capacity = Capacity(machine.output_bytes_s, MEMORY_BYTES)
        self._meter = LoadMeter(self.capacity, window_s=config.load_window_s)
        self._sample = Sample(
            at_ns=Nanoseconds(0),
            events_in=0,
            bytes_in=0,
            events_out=0,
            bytes_out=0,
            busy_ns=0,
            events_done=0,
            subscriptions=0,
            queued_in_bytes=0,
            queued_out_bytes=0,
            engine_bytes=0,
        )
        self._settled: Load | None = None
        self.sampling: BeginSampling | None = None
        self.let_go_ns: Nanoseconds | None = None
        self.clients = 0
        ourselves = Ourselves(broker=self.name, life=1, address=name, migration_timeout_s=30.0)
        self.balancer = EdgeBalancer(ourselves, config, chance=chance, report=self.report, now_ns=Nanoseconds(0))

    def measure(self, total: tuple[float, float, float], now_ns: Nanoseconds) -> None:
        """A second has passed."""
        last, machine = self._sample, self._rates.machines[self.name]
        size, out, events = total
        self._sample = msgspec.structs.replace(
            last,
            at_ns=now_ns,
            events_in=last.events_in + round(events),
            bytes_in=last.bytes_in + round(size),
            events_out=last.events_out + (round(events * out / size) if size else 0),
            bytes_out=last.bytes_out + round(out),
            busy_ns=last.busy_ns + int(min(1.0, events / machine.matches_s) * 1e9),
            events_done=last.events_done + round(min(events, machine.matches_s)),
            subscriptions=self.clients,
        )
        self._meter.add(self._sample)
        load = self._load(None)
        if load is not None:
            self._settled = self._load(self.balancer.changed_ns) or load
            self.balancer.measured(load, let_go_ns=self.let_go_ns)

    def _load(self, changed_ns: Nanoseconds | None) -> Load | None:
        """To match takes the same here however many subscribe: what a broker can match is a number of events."""
        load = self._meter.load(changed_ns=changed_ns)
        return None if load is None else msgspec.structs.replace(load, matching_slope_s=0.0)

    def report(self) -> LoadReport:
        """What an acceptor tells its donor."""
        assert self._settled is not None
        return report_of(self._settled, self._sample, self.capacity, list(self.clientele.covering()))

    @property
    def is_measured(self) -> bool:
        """Is there a load to speak of?"""
        return self._settled is not None


class RatePeer:
    """A cluster that balances as ``peer`` does."""

    def __init__(self, rates: Rates, moves: Moves, config: BalancingConfig, chance: Random) -> None:
        self._rates, self._moves, self._config, self._chance = rates, moves, config, chance
        self._head = HeadBalancer(BrokerId(rates.head), config, life=1, chance=chance, now_ns=Nanoseconds(0))
        self._edges = {BrokerId(name): _Edge(name, rates, config, chance) for name in rates.edges}
        self._filters = [encode_filter(compile_filter(f"class = '{one.key}'")) for one in rates.traffic]
        self._numbers = moves.numbers()
        names, head, start = list(self._edges), BrokerId(rates.head), Nanoseconds(0)
        self._take(head, self._head.connected(edges=names, heads=[], now_ns=start), start)
        for name, edge in self._edges.items():
            self._take(name, edge.balancer.connected(head, now_ns=start), start)

    def place(self, traffic_class: int, *, now_ns: Nanoseconds) -> str:  # noqa: ARG002
        """Where does a class begin? Anywhere: all its subscribers at one edge."""
        edge = self._rates.edges[int(self._chance.random() * len(self._rates.edges))]
        for subscriber in self._rates.traffic[traffic_class].subscribers:
            self._comes(self._edges[BrokerId(edge)], self._numbers[subscriber], traffic_class)
        return edge

    def second(self, now_ns: Nanoseconds) -> None:
        """A second has passed: they measure, look and tell."""
        totals = self._rates.totals()
        for name, edge in self._edges.items():
            edge.measure(totals[name], now_ns)
        for name, edge in self._edges.items():
            self._take(name, edge.balancer.tick(now_ns), now_ns)
            if edge.sampling is not None:
                self._plan(edge, edge.sampling, now_ns)
        self._take(BrokerId(self._rates.head), self._head.tick(now_ns), now_ns)

    # -- what is said --------------------------------------------------------------------------------------------------

    def _take(self, sender: BrokerId, answers: Iterable[Answer], now_ns: Nanoseconds) -> None:
        """What a balancer wants done; what it says is heard at once."""
        said = deque[tuple[BrokerId, BrokerId, Bulletin]]()
        self._perform(sender, answers, said, now_ns)
        while said:
            came_from, to, bulletin = said.popleft()
            if to == self._rates.head:
                heard = self._head.heard(bulletin, came_from=came_from, now_ns=now_ns)
            elif self._edges[to].is_measured:
                heard = self._edges[to].balancer.heard(bulletin, came_from=came_from, now_ns=now_ns)
            else:
                continue
            self._perform(to, heard, said, now_ns)

    def _perform(
        self,
        sender: BrokerId,
        answers: Iterable[Answer],
        said: deque[tuple[BrokerId, BrokerId, Bulletin]],
        now_ns: Nanoseconds,
    ) -> None:
        for answer in answers:
            match answer:
                case Pass(neighbour, bulletin):
                    said.append((sender, neighbour, bulletin))
                case BeginSampling():
                    self._edges[sender].sampling = answer
                case EndSampling():
                    self._edges[sender].sampling = None
                case MoveClients(to=to, clients=clients):
                    self._move(self._edges[sender], to, clients, now_ns)

    # -- who moves -----------------------------------------------------------------------------------------------------

    def _plan(self, edge: _Edge, sampling: BeginSampling, now_ns: Nanoseconds) -> None:
        least_ns = int(self._config.load_window_s * CHANGED_SHARE * 1e9)
        if edge.let_go_ns is not None and now_ns < edge.let_go_ns + least_ns:
            return  # clients have just gone, who are still in what was measured
        edge.sampling = None
        planned = edge.balancer.planned(sampling.session, self._planned(edge, sampling, now_ns), now_ns=now_ns)
        self._take(edge.name, planned, now_ns)

    def _planned(self, edge: _Edge, sampling: BeginSampling, now_ns: Nanoseconds) -> Plan:
        donor = edge.report()
        press = Press(samples_max=self._config.press_samples, until_ns=now_ns)
        self._sample(press, edge, sampling)
        staying = edge.balancer.on_their_way(now_ns=now_ns)
        profile = press.profile(
            edge.clientele, staying=staying, input_rate=donor.input_rate, event_bytes=donor.event_bytes
        )
        snapshot = OffloadSnapshot(
            is_overloaded=sampling.is_overloaded,
            to=sampling.acceptor,
            donor=info_of(donor).after(profile.leaving),
            acceptor=info_of(sampling.report),
            acceptor_filters=tuple(sampling.report.covering_set),
            profile=profile,
        )
        return OFFLOADS[sampling.action](self._config).plan(snapshot, now_ns=now_ns)

    def _sample(self, press: Press, edge: _Edge, sampling: BeginSampling) -> None:
        """The next events: of which classes, is by their rates."""
        rates, here = self._rates, self._rates.classes_at(edge.name)
        weights = [rates.events[number] for number in here]
        if not any(weights):
            return
        has = set(sampling.report.covering_set)
        for number in self._chance.choices(here, weights, k=self._config.press_samples):
            clients = [Conn(self._numbers[name]) for name in rates.hosts[number][edge.name]]
            press.take(clients, acceptor=self._filters[number] in has)

    def _move(self, edge: _Edge, to: BrokerId, clients: Iterable[Conn], now_ns: Nanoseconds) -> None:
        def moved(client: int, at_ns: Nanoseconds) -> None:
            edge.clientele.wants(Conn(client), ())
            edge.clients -= 1
            edge.let_go_ns = at_ns
            self._comes(self._edges[to], client, self._moves.clients[client][1])
            self._take(edge.name, edge.balancer.moved(Conn(client), is_moved=True, now_ns=at_ns), at_ns)

        self._moves.send(edge.name, [(to, list(clients))], now_ns=now_ns, on_moved=moved)

    def _comes(self, edge: _Edge, client: int, traffic_class: int) -> None:
        edge.clientele.wants(Conn(client), (self._filters[traffic_class],))
        edge.clients += 1
