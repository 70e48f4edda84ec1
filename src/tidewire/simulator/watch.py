"""What is out of order, and since when? Of every way from a source to a broker, and of every session.

A way stands when each link on it does and each broker on it lives and has joined the tree. When it does not, it is out
of order until it stands again and, besides, each parent on it knows exactly the routes and each child the
advertisements that the other has told: so nothing counts as repaired before it is, and subscriptions that come and go
break nothing.
It is looked at when something has ended or was broken, and from then on until all is well.
"""

from __future__ import annotations

from typing import Final

from tidewire.model.ids import TreeId
from tidewire.model.messages import Use
from tidewire.routing.branch import Branch
from tidewire.simulator.agenda import MILLISECOND_NS, Agenda
from tidewire.simulator.brokers import BrokerHost
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.records import Windows

Seen = dict[tuple[TreeId, str], bool]
POLL_NS: Final = 20 * MILLISECOND_NS


class Watch:
    """Looks at brokers and clients; they are the world's, and may grow."""

    def __init__(self, agenda: Agenda, brokers: dict[str, BrokerHost], clients: dict[str, ClientHost]) -> None:
        self._agenda = agenda
        self._brokers = brokers
        self._clients = clients
        self.ways: dict[tuple[TreeId, str], Windows] = {}
        self._is_polling = False
        self._trees: dict[TreeId, None] = {}
        """Those that have been looked at."""

    def look(self) -> None:
        """Something has ended or was broken: what is out of order by it?"""
        self._look(self._sources())

    def look_soon(self) -> None:
        """When what is done now is through."""
        self._agenda.at(self._agenda.now_ns, self.look)

    def look_at_new(self) -> None:
        """Somebody has said what will be published: a tree may begin while something is out of order already."""
        self._poll(is_good=self._look_at_ways([tree for tree in self._sources() if tree not in self._trees]))

    def look_at(self, client: ClientHost) -> None:
        """A session has lost a connection."""
        self._agenda.at(self._agenda.now_ns, lambda: self._poll(is_good=self._look_at_client(client)))

    def _again(self) -> None:
        """Look at what is out of order, and at trees that have come in the meantime."""
        self._is_polling = False
        unsound = {tree for (tree, _), way in self.ways.items() if way.is_open}
        self._look([tree for tree in self._sources() if tree in unsound or tree not in self._trees])

    def _poll(self, *, is_good: bool) -> None:
        if not is_good and not self._is_polling:
            self._is_polling = True
            self._agenda.after(POLL_NS, self._again)

    def _look(self, trees: list[TreeId]) -> None:
        is_good = self._look_at_ways(trees)
        for client in self._clients.values():
            is_good &= self._look_at_client(client)
        self._poll(is_good=is_good)

    def _sources(self) -> list[TreeId]:
        return [host.tree for host in self._brokers.values() if self.is_source(host)]

    def _look_at_ways(self, trees: list[TreeId]) -> bool:
        now_ns = self._agenda.now_ns
        all_good = True
        standing: Seen = {}
        repaired: Seen = {}
        for tree in trees:
            self._trees[tree] = None
            for name in self._brokers:
                way = self.ways.get((tree, name))
                if way is not None and way.is_open:
                    is_good = self.is_good(tree, name, repaired, is_exact=True)
                else:
                    is_good = self.is_good(tree, name, standing, is_exact=False)
                all_good &= is_good
                if way is not None or not is_good:
                    self.ways.setdefault((tree, name), Windows()).note(is_good=is_good, now_ns=now_ns)
        return all_good

    def _look_at_client(self, client: ClientHost) -> bool:
        now_ns = self._agenda.now_ns
        all_good = True
        if client.spans:
            all_good = self.is_served(client, "subscribe")
            client.subscribing.note(is_good=all_good, now_ns=now_ns)
        if client.has_advertised:
            is_good = self.is_served(client, "publish")
            client.publishing.note(is_good=is_good, now_ns=now_ns)
            all_good &= is_good
        return all_good

    @staticmethod
    def is_source(host: BrokerHost) -> bool:
        """Has somebody published there in this life?"""
        return host.node is not None and host.node.core.router.branch(host.tree) is not None

    @staticmethod
    def is_served(client: ClientHost, use: Use) -> bool:
        """Does the session stand, on both sides, with all that it said confirmed?"""
        conn = client.core.connection(use)
        end = None if conn is None else client.ends.get(conn)
        if end is None or end.is_closed or end.other.is_closed or end.path.is_cut:
            return False
        return client.core.is_confirmed(use)

    def is_good(self, tree: TreeId, name: str, seen: Seen, *, is_exact: bool) -> bool:
        """Do the events of this tree reach this broker? If exact: and does everybody on the way know all routes?"""
        key = tree, name
        if key not in seen:
            seen[key] = False  # a way that comes back to itself is none
            seen[key] = self._is_good(tree, name, seen, is_exact=is_exact)
        return seen[key]

    def _is_good(self, tree: TreeId, name: str, seen: Seen, *, is_exact: bool) -> bool:
        host = self._brokers.get(name)
        branch = self._branch(host, tree)
        if host is None or branch is None:
            return False
        if branch.tree.is_own:
            return True
        parent = branch.tree.parent
        if parent is None or not branch.is_settled or parent not in host.ends:
            return False
        end = host.ends[parent]
        if end.is_closed or end.other.is_closed or end.path.is_cut:
            return False
        there = self._brokers.get(end.other.place.name)
        above = self._branch(there, tree)
        if there is None or above is None or end.other.conn not in above.tree.children:
            return False
        if is_exact:
            known = sorted(above.routes.get(end.other.conn, {}).values())
            if known != sorted(branch.upstream.told()):
                return False
            if branch.upstream.advertised.filters != above.upstream.advertised.filters:
                return False
        return self.is_good(tree, there.name, seen, is_exact=is_exact)

    @staticmethod
    def _branch(host: BrokerHost | None, tree: TreeId) -> Branch | None:
        return None if host is None or host.node is None else host.node.core.router.branch(tree)
