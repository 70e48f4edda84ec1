"""What is out of order, and since when? Of every way from a source to a broker, and of every session.

A way is in order when each link on it stands, each broker on it lives and has joined the tree, and each parent knows exactly
the routes and each child the advertisements that the other has told. It is looked at when something has ended or was
broken, and from then on, again and again, until all is well; so nothing counts as repaired before it is.
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

POLL_NS: Final = 20 * MILLISECOND_NS


class Watch:
    """Looks at brokers and clients; they are the world's, and may grow."""

    def __init__(self, agenda: Agenda, brokers: dict[str, BrokerHost], clients: dict[str, ClientHost]) -> None:
        self._agenda = agenda
        self._brokers = brokers
        self._clients = clients
        self.ways: dict[tuple[TreeId, str], Windows] = {}
        self._is_polling = False

    def look(self) -> None:
        """Something may be out of order."""
        now_ns = self._agenda.now_ns
        is_good = self._look_at_ways(now_ns)
        is_good &= self._look_at_clients(now_ns)
        if not is_good and not self._is_polling:
            self._is_polling = True
            self._agenda.after(POLL_NS, self._again)

    def look_soon(self) -> None:
        """When what is done now is through."""
        self._agenda.at(self._agenda.now_ns, self.look)

    def _again(self) -> None:
        self._is_polling = False
        self.look()

    def _look_at_ways(self, now_ns: int) -> bool:
        all_good = True
        seen: dict[tuple[TreeId, str], bool] = {}
        sources = [host.tree for host in self._brokers.values() if self.is_source(host)]
        for tree in sources:
            for name in self._brokers:
                is_good = self.is_good(tree, name, seen)
                all_good &= is_good
                key = tree, name
                if key in self.ways or not is_good:
                    self.ways.setdefault(key, Windows()).note(is_good=is_good, now_ns=now_ns)
        for (tree, _), windows in self.ways.items():
            if tree not in sources:
                windows.note(is_good=False, now_ns=now_ns)
        return all_good

    @staticmethod
    def is_source(host: BrokerHost) -> bool:
        """Has somebody published there in this life?"""
        return host.node is not None and host.node.core.router.branch(host.tree) is not None

    def _look_at_clients(self, now_ns: int) -> bool:
        all_good = True
        for client in self._clients.values():
            if client.spans:
                is_good = self.is_served(client, "subscribe")
                client.subscribing.note(is_good=is_good, now_ns=now_ns)
                all_good &= is_good
            if client.has_advertised:
                is_good = self.is_served(client, "publish")
                client.publishing.note(is_good=is_good, now_ns=now_ns)
                all_good &= is_good
        return all_good

    @staticmethod
    def is_served(client: ClientHost, use: Use) -> bool:
        """Does the session stand, on both sides, with all that it said confirmed?"""
        conn = client.core.connection(use)
        end = None if conn is None else client.ends.get(conn)
        if end is None or end.is_closed or end.other.is_closed or end.path.is_cut:
            return False
        return client.core.is_confirmed(use)

    def is_good(self, tree: TreeId, name: str, seen: dict[tuple[TreeId, str], bool]) -> bool:
        """Do the events of this tree reach this broker?"""
        key = tree, name
        if key not in seen:
            seen[key] = False  # a way that comes back to itself is none
            seen[key] = self._is_good(tree, name, seen)
        return seen[key]

    def _is_good(self, tree: TreeId, name: str, seen: dict[tuple[TreeId, str], bool]) -> bool:
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
        known = sorted(above.routes.get(end.other.conn, {}).values())
        is_known = known == sorted(branch.upstream.told())
        is_advertised = branch.upstream.advertised.filters == above.upstream.advertised.filters
        return is_known and is_advertised and self.is_good(tree, there.name, seen)

    @staticmethod
    def _branch(host: BrokerHost | None, tree: TreeId) -> Branch | None:
        return None if host is None or host.node is None else host.node.core.router.branch(tree)
