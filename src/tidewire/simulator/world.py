"""A whole network in virtual time: brokers, clients, the ways between them, all from one seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tidewire.broker.config import BrokerConfig
from tidewire.channels.schemas import Catalog
from tidewire.client.config import ClientConfig
from tidewire.coordinator.config import Decides
from tidewire.dataplane.protocol import Engine
from tidewire.dataplane.reference_replay import StreamingReference
from tidewire.model.errors import UnknownName
from tidewire.model.ids import BrokerId
from tidewire.model.messages import Use
from tidewire.simulator.agenda import Agenda, in_ns
from tidewire.simulator.brokers import BrokerHost, EngineMaker
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.costs import Costs, Measured
from tidewire.simulator.data_cluster import DataClusterHost
from tidewire.simulator.hosts import LocalClock
from tidewire.simulator.network import CHUNK_BYTES, End, Network, Uplink
from tidewire.simulator.others import CoordinatorHost, Operator
from tidewire.simulator.records import EventKey, Publications, Windows
from tidewire.simulator.watch import POLL_NS, Seen, Watch

BACKLOG_BYTES: Final = 512
FLOW_CHUNK_BYTES: Final = 256 << 10
"""With flows, what is carried at once may be more: the cost is by chunk, not by byte."""


def _reference(config: BrokerConfig) -> Engine:
    return StreamingReference(
        frame_bytes_max=config.frame_bytes_max,
        cache_bytes_max=config.stream_cache_bytes,
        is_fair=config.fair_streams,
    )


def _kernel(config: BrokerConfig) -> Engine:
    from tidewire.dataplane.kernel import KernelEngine

    return KernelEngine(
        frame_bytes_max=config.frame_bytes_max,
        budget_ns=0,
        cache_bytes_max=config.stream_cache_bytes,
        is_fair=config.fair_streams,
    )


def _fluid(config: BrokerConfig) -> Engine:
    from tidewire.dataplane.fluid import FluidEngine

    return FluidEngine(frame_bytes_max=config.frame_bytes_max)


ENGINES: Final[dict[str, EngineMaker]] = {"reference": _reference, "kernel": _kernel, "fluid": _fluid}


class World:
    """What there is. ``check`` of ``checkers.py`` says whether all went well in it."""

    def __init__(
        self,
        seed: int | str = 0,
        *,
        engine: str = "reference",
        costs: Costs | None = None,
        wrong_clocks: bool = False,
        flight_s: float = 2.0,
    ) -> None:
        if engine not in ENGINES:
            raise UnknownName(engine, what="engine", known=ENGINES)
        self.seed = str(seed)
        self.chance = Random(f"{seed}/world")
        self.agenda = Agenda()
        self.has_flows = engine == "fluid"
        """Are equal events told at once?"""
        chunk_bytes_max = FLOW_CHUNK_BYTES if self.has_flows else CHUNK_BYTES
        self.network = Network(self.agenda, chunk_bytes_max=chunk_bytes_max)
        self.brokers: dict[str, BrokerHost] = {}
        self.clients: dict[str, ClientHost] = {}
        self.publications = Publications()
        self.watch = Watch(self.agenda, self.brokers, self.clients)
        self._is_looking = False
        self.slowed = Windows()
        """When some link was slower than it should be, or what had waited for it was not through."""
        self.flight_ns = in_ns(flight_s)
        """No event takes longer than this where nothing is out of order."""
        self.slow_readers: dict[str, None] = {}
        """Clients that are slower at present than they should be."""
        self.links: dict[tuple[str, str], None] = {}
        """Those that brokers were told of; a coordinator may know of others."""
        self.coordinator: CoordinatorHost | None = None
        self.data_cluster: DataClusterHost | None = None
        self.operator = Operator(self.agenda, self.network, "operator")
        self._engine = ENGINES[engine]
        self._costs = costs or Measured()
        self._wrong_clocks = wrong_clocks

    # -- building ------------------------------------------------------------------------------------------------------

    def add_broker(self, name: str, *, costs: Costs | None = None, mbps: float | None = None, **options: Any) -> None:
        """A broker begins; ``options`` are those of ``BrokerConfig``."""
        config = BrokerConfig(broker=BrokerId(name), address=name, **options)
        if mbps is not None:
            self.network.uplinks[name] = Uplink(mbps * 1e6 / 8)
        host = self.brokers[name] = BrokerHost(
            self.agenda,
            self.network,
            config,
            make_engine=self._engine,
            costs=costs or self._costs,
            clock=self._clock(),
            seed=self.seed,
        )
        host.on_connection_lost = self._lost
        host.on_blocked = self.look_for_backlog
        longest = max(one.config.frame_bytes_max for one in self.brokers.values())
        for one in self.brokers.values():  # whoever may publish it, wherever it goes
            one.event_bytes_max = longest
        host.start()

    def add_coordinator(self, name: str, *, heartbeat_s: float = 2.0, decides: Decides | None = None) -> None:
        """A coordinator begins: the brokers whose setting ``coordinator`` names it hear from it who is next to them."""
        clock = self._clock()
        self.coordinator = CoordinatorHost(
            self.agenda,
            self.network,
            name,
            clock=clock,
            chance=Random(f"{self.seed} {name}"),
            heartbeat_s=heartbeat_s,
            decides=decides,
        )

    def add_data_cluster(self, name: str, catalog: Catalog) -> DataClusterHost:
        """A data cluster begins: the brokers whose setting ``data_cluster`` names it offer its channels."""
        self.data_cluster = DataClusterHost(self.agenda, self.network, name, catalog, clock=self._clock())
        return self.data_cluster

    def link(self, a: str, b: str, *, latency_ms: float | None = None, mbps: float | None = None) -> None:
        """The first broker dials the second, now and whenever the link is lost."""
        self.network.path(a, b).set(latency_ms, mbps=mbps)
        self.links[(a, b) if a < b else (b, a)] = None
        self.brokers[a].want(b)

    def add_client(
        self, name: str, broker: str, *others: str, latency_ms: float | None = None, read_mbps: float | None = None
    ) -> ClientHost:
        """A client that knows these brokers."""
        config = ClientConfig(addresses=[broker, *others], name=name, publisher=len(self.clients) + 1)
        if latency_ms is not None:
            for there in self.brokers:
                self.network.path(name, there).set(latency_ms)
        client = self.clients[name] = ClientHost(
            self.agenda,
            self.network,
            config,
            publications=self.publications,
            clock=self._clock(),
            seed=self.seed,
            read_ns_per_byte=0.0 if read_mbps is None else 8e3 / read_mbps,
        )
        client.has_flows = self.has_flows
        client.on_connection_lost = self._lost
        client.on_advertised = self.watch.look_at_new
        return client

    def _lost(self, end: End) -> None:
        ends = (end.place, end.other.place)
        client = next((one for one in ends if isinstance(one, ClientHost)), None)
        if client is None:
            self.watch.look_soon()
        else:
            self.watch.look_at(client)

    def _clock(self) -> LocalClock:
        if not self._wrong_clocks:
            return LocalClock()
        return LocalClock(self.chance.randrange(-(10**10), 10**10), self.chance.uniform(-1e-4, 1e-4))

    def host(self, name: str) -> BrokerHost | ClientHost:
        """A broker or a client."""
        found: BrokerHost | ClientHost | None = self.brokers.get(name) or self.clients.get(name)
        if found is None:
            raise UnknownName(name, what="node", known=[*self.brokers, *self.clients])
        return found

    @property
    def refused(self) -> dict[EventKey, None]:
        """The events that brokers refused."""
        return {key: None for client in self.clients.values() for key in client.refused}

    # -- time ----------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        self.agenda.run(until_ns=self.agenda.now_ns + in_ns(seconds))

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Do this then."""
        self.agenda.at(in_ns(seconds), action)

    def look_for_backlog(self) -> None:
        """Note that links or readers are slow, until they are not and what waited for them is through."""
        is_good = not (self.network.is_any_slow() or self.slow_readers or self.has_backlog())
        self.slowed.note(is_good=is_good, now_ns=self.agenda.now_ns)
        if not is_good and not self._is_looking:
            self._is_looking = True
            self.agenda.after(POLL_NS, self._look_again)

    def keep_looking(self) -> None:
        """Look for a backlog now and then, more often than an event may take: much traffic alone makes one."""
        self.look_for_backlog()
        self.agenda.after(self.flight_ns // 4, self.keep_looking)

    def _look_again(self) -> None:
        self._is_looking = False
        self.look_for_backlog()

    def has_backlog(self) -> bool:
        """Does more wait in some queue than a link carries in a moment, or is somebody behind with reading?"""
        nodes = [host.node for host in self.brokers.values() if host.node is not None]
        if any(node.queued_bytes() > BACKLOG_BYTES for node in nodes):
            return True
        return any(host.is_behind() for hosts in (self.brokers, self.clients) for host in hosts.values())

    def drain(self, *, seconds_max: float = 120.0) -> None:
        """Go on until nothing waits in a queue any more."""
        end_s = self.agenda.now_s + seconds_max
        while self.has_backlog() and self.agenda.now_s < end_s:
            self.run(0.25)

    def settle(self, *, at_most_s: float = 120.0, step_s: float = 0.1) -> bool:
        """Let time pass until all is in order; false if it does not come to that."""
        end_ns = self.agenda.now_ns + in_ns(at_most_s)
        while self.agenda.now_ns < end_ns:
            self.run(step_s)
            if not self.unsettled():
                return True
        return False

    def unsettled(self) -> list[str]:
        """What is not in order at present."""
        links = self.all_links()
        found = [f"link {a} {b} is down" for a, b in links if not self._is_linked(a, b)]
        if self.coordinator is not None:
            known = {} if self.coordinator.core is None else self.coordinator.core.neighbours()
            alive = [host for host in self.brokers.values() if host.node is not None]
            found += [f"the coordinator does not know {host.name}" for host in alive if host.config.broker not in known]
        seen: Seen = {}
        sources = [host for host in self.brokers.values() if self.watch.is_source(host)]
        for source in sources:
            island = self.island(source.name)
            found += [
                f"{name} does not get what is published at {source.name}"
                for name in island
                if not self.watch.is_good(source.tree, name, seen, is_exact=True)
            ]
        for client in self.clients.values():
            uses: list[Use] = ["subscribe"] if client.spans else []
            uses += ["publish"] if client.has_advertised else []
            found += [f"{client.name} is not served: {use}" for use in uses if not self.watch.is_served(client, use)]
            idle = [conn for conn in client.ends if conn not in map(client.core.connection, uses)]
            found += [f"{client.name} keeps connection {conn}, which serves nothing" for conn in idle]
        return found

    def all_links(self) -> list[tuple[str, str]]:
        """The links that should be there now."""
        told = [] if self.coordinator is None else self.coordinator.links()
        return list(self.links | dict.fromkeys(told))

    def _is_linked(self, a: str, b: str) -> bool:
        one, other = self.brokers[a], self.brokers[b]
        if one.node is None or other.node is None or self.network.path(a, b).is_cut:
            return True  # it cannot be
        return any(n.broker == b for n in one.node.core.links.up()) and any(
            n.broker == a for n in other.node.core.links.up()
        )

    def island(self, name: str) -> list[str]:
        """The brokers that can be reached from this one, itself among them."""
        found = {name: None}
        waiting = [name]
        links = self.all_links()
        while waiting:
            at = waiting.pop()
            for a, b in links:
                there = b if a == at else a
                if at not in (a, b) or there in found or self.brokers[there].node is None:
                    continue
                if not self.network.path(a, b).is_cut:
                    found[there] = None
                    waiting.append(there)
        return list(found)
