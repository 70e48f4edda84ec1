"""A network of routers without time: messages wait in a queue per link and direction, and are handed over singly."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import Random

from tidewire.language import compile_filter, render
from tidewire.model.filters import decode_filter, encode_filter
from tidewire.model.ids import BrokerId, Conn, TreeId
from tidewire.model.messages import ANYTHING, Message
from tidewire.model.values import Value
from tidewire.routing.answers import Answer, Install, Reached, SetParent, Tell, Uninstall
from tidewire.routing.router import Router

Attributes = Mapping[str, Value]


def encoded(text: str) -> bytes:
    """A filter's text as the wire has it."""
    return encode_filter(compile_filter(text))


class Node:
    """A router, and a data plane that is obviously right."""

    def __init__(self, name: str, number: int, *, covering: bool) -> None:
        self.name = name
        self.tree = TreeId(number + 1)
        self.router = Router(BrokerId(name), self.tree, covering=covering)
        self.links: dict[Conn, str] = {}
        self.parents: dict[TreeId, Conn | None] = {}
        self.tables: dict[tuple[Conn, TreeId | None], dict[int, bytes]] = {}
        self.reached: list[int] = []
        self.conns = 0

    def conn(self) -> Conn:
        """A number that nobody has."""
        self.conns += 1
        return Conn(self.conns)

    def wants(self, conn: Conn, tree: TreeId | None, event: Attributes) -> bool:
        """Is there a matching route to this connection?"""
        return any(decode_filter(wanted).accepts(event) for wanted in self.tables.get((conn, tree), {}).values())


class Network:
    """Brokers by name; ``sent`` is all that was ever sent."""

    def __init__(self, names: str | list[str], *, covering: bool = True) -> None:
        listed = names.split() if isinstance(names, str) else names
        self.nodes = {name: Node(name, at, covering=covering) for at, name in enumerate(listed)}
        self.queues: dict[tuple[str, Conn], deque[tuple[str, Conn, Message]]] = {}
        self.ends: dict[tuple[str, Conn], tuple[str, Conn]] = {}
        self.sent: list[tuple[str, str, Message]] = []
        self.clients: dict[str, tuple[str, Conn]] = {}

    def link(self, a: str, b: str) -> None:
        """Connect two brokers."""
        one, other = self.nodes[a].conn(), self.nodes[b].conn()
        self.ends[a, one], self.ends[b, other] = (b, other), (a, one)
        self.nodes[a].links[one], self.nodes[b].links[other] = b, a
        self._perform(a, self.nodes[a].router.link_up(one))
        self._perform(b, self.nodes[b].router.link_up(other))

    def cut(self, a: str, b: str) -> None:
        """End their connection; what was under way is lost."""
        conn = next(conn for conn, name in self.nodes[a].links.items() if name == b)
        other = self.ends[a, conn][1]
        for name, end in ((a, conn), (b, other)):
            self.queues.pop((name, end), None)
            del self.ends[name, end]
            del self.nodes[name].links[end]
            for key in [key for key in self.nodes[name].tables if key[0] == end]:
                del self.nodes[name].tables[key]
        self._perform(a, self.nodes[a].router.link_down(conn))
        self._perform(b, self.nodes[b].router.link_down(other))

    def subscribe(self, client: str, broker: str, *texts: str) -> None:
        """A client subscribes to these; its numbers count from 0."""
        node = self.nodes[broker]
        _, conn = self.clients.setdefault(client, (broker, node.conn()))
        start = len(node.router.subscriptions(conn))
        self._perform(
            broker,
            node.router.subscribe(conn, list(range(start, start + len(texts))), [encoded(text) for text in texts]),
        )

    def leave(self, client: str) -> None:
        """A client goes."""
        broker, conn = self.clients.pop(client)
        self.nodes[broker].tables.pop((conn, None), None)
        self._perform(broker, self.nodes[broker].router.client_gone(conn))

    def advertise(self, client: str, broker: str, text: str | None = None) -> None:
        """A client will publish this; without a text, anything."""
        node = self.nodes[broker]
        _, conn = self.clients.setdefault(client, (broker, node.conn()))
        number = len(node.router.advertisements(conn))
        filters = [ANYTHING if text is None else encoded(text)]
        self._perform(broker, node.router.advertise(conn, [number], filters))

    def sync(self, broker: str) -> int:
        """Ask for a sync here."""
        barrier, answers = self.nodes[broker].router.sync()
        self._perform(broker, answers)
        return barrier

    def wave(self, broker: str) -> int:
        """Ask for a wave here."""
        barrier, answers = self.nodes[broker].router.wave()
        self._perform(broker, answers)
        return barrier

    def settle(self, random: Random | None = None) -> None:
        """Hand over messages until none is left; in which order among the links, chance decides if it is given."""
        for _ in range(1_000_000):
            waiting = [key for key, queue in self.queues.items() if queue]
            if not waiting:
                return
            self.step(random.choice(waiting) if random else waiting[0])
        raise AssertionError("the network does not come to rest")

    def step(self, key: tuple[str, Conn]) -> None:
        """Hand over the first message of a queue."""
        name, conn, message = self.queues[key].popleft()
        self._perform(name, self.nodes[name].router.heard(conn, message))  # type: ignore[arg-type]

    def publish(self, broker: str, event: Attributes) -> list[str]:
        """Who gets an event that is published here, at once? Clients by name, sorted; one who gets it twice, twice."""
        tree = self.nodes[broker].tree
        got: list[str] = []
        waiting: deque[tuple[str, Conn | None]] = deque([(broker, None)])
        while waiting:
            name, came_from = waiting.popleft()
            node = self.nodes[name]
            if came_from is not None and node.parents.get(tree) != came_from:
                continue
            got += [
                client for client, (at, conn) in self.clients.items() if at == name and node.wants(conn, None, event)
            ]
            waiting += [
                self.ends[name, link] for link in node.links if link != came_from and node.wants(link, tree, event)
            ]
        return sorted(got)

    def table(self, broker: str, source: str) -> dict[str, list[str]]:
        """The routes at a broker: who (a neighbour in the source's tree, or a client) wants what, rendered."""
        node = self.nodes[broker]
        names = dict(node.links) | {conn: client for client, (at, conn) in self.clients.items() if at == broker}
        tree = self.nodes[source].tree
        return {
            names[conn]: sorted(render(decode_filter(wanted)) for wanted in table.values())
            for (conn, of), table in node.tables.items()
            if table and of in (None, tree)
        }

    def _perform(self, name: str, answers: list[Answer]) -> None:
        node = self.nodes[name]
        for answer in answers:
            match answer:
                case Tell(link, message):
                    to, end = self.ends[name, link]
                    self.sent.append((name, to, message))
                    self.queues.setdefault((to, end), deque()).append((to, end, message))
                case Install(conn, tree, numbers, filters):
                    node.tables.setdefault((conn, tree), {}).update(zip(numbers, filters, strict=True))
                case Uninstall(conn, tree, numbers):
                    for number in numbers:
                        del node.tables[conn, tree][number]
                case SetParent(tree, parent):
                    node.parents[tree] = parent
                case Reached(barrier):
                    node.reached.append(barrier)
