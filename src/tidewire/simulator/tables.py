"""Is every routing table what the subscriptions of the network demand, when all is quiet? Nothing less, nothing left.

Events do not show what is left behind: a route that nobody needs brings traffic that the next broker throws away.
"""

from __future__ import annotations

from collections import Counter

from tidewire.model.filters import encode_filter
from tidewire.model.ids import TreeId
from tidewire.routing.branch import Branch
from tidewire.simulator.brokers import BrokerHost
from tidewire.simulator.world import World

Filters = Counter[bytes]


def is_at_rest(world: World) -> bool:
    """Is all in order, and has nobody asked for anything for as long as an answer may take?

    Who was told that a request has failed may want something else than its session says: of that nothing is known.
    """
    quiet_ns = world.agenda.now_ns - world.flight_ns
    if any(client.failures for client in world.clients.values()):
        return False
    if any(client.is_waiting() or client.changed_ns > quiet_ns for client in world.clients.values()):
        return False
    return not world.has_backlog() and not world.unsettled()


def tables_are_exact(world: World) -> list[str]:
    """At rest, brokers hold the subscriptions of their clients, and the routes of their children: no others.

    A child's routes are filters that somebody behind it subscribed to. That a parent knows all that its child has told
    it, the watch looks at; that nothing is missing, the events show.
    """
    if not is_at_rest(world):
        return []
    local = _local(world)
    alive = [host for host in world.brokers.values() if host.node is not None]
    found: list[str] = []
    for host in alive:
        assert host.node is not None
        core = host.node.core
        known = Counter(wanted for conn in core.clients.conns() for wanted in core.router.subscriptions(conn).values())
        found += _differences(f"{host.name} has subscriptions", known, local[host.name])
        installed = host.node.engine.work().subscriptions
        routes = sum(len(routes) for branch in core.router.branches() for routes in branch.routes.values())
        if installed != known.total() + routes:
            found.append(f"{host.name} has installed {installed} filters, and should have {known.total() + routes}")
    trees = dict.fromkeys(branch.tree.id for host in alive if host.node for branch in host.node.core.router.branches())
    return found + [what for tree in trees for what in _tree(alive, tree, local)]


def _local(world: World) -> dict[str, Filters]:
    """What the clients of each broker want."""
    local = {name: Filters() for name in world.brokers}
    for client in world.clients.values():
        broker = client.core.broker("subscribe")
        if broker is not None and not client.is_down:
            local[broker].update(encode_filter(span.wanted) for span in client.wants().values())
            local[broker].update(encode_filter(record.wanted) for record in client.follows().values())
    return local


def _tree(alive: list[BrokerHost], tree: TreeId, local: dict[str, Filters]) -> list[str]:
    found: list[str] = []
    branches = {host.name: branch for host in alive if host.node and (branch := host.node.core.router.branch(tree))}
    parents = {host.name: _parent(host, branches[host.name]) for host in alive if host.name in branches}
    behind: dict[str, dict[bytes, None]] = {name: {} for name in branches}
    for name in branches:
        at: str | None = name
        while at is not None and at in behind:
            behind[at].update(dict.fromkeys(local[name]))
            at = parents[at]
    for host in alive:
        branch = branches.get(host.name)
        if branch is None:
            continue
        wanted = Filters(one for routes in branch.routes.values() for one in routes.values())
        if not branch.tree.is_own:
            source = next(iter(branch.tree.path), "somebody who is gone")
            uses, demanded = Filters(branch.upstream.uses()), wanted + local[host.name]
            found += _differences(f"{host.name} counts, in the tree of {source}", uses, demanded)
        for child, routes in branch.routes.items():
            there = host.ends[child].other.place.name
            needless = sum(one not in behind.get(there, {}) for one in routes.values())
            if needless:
                found.append(f"{host.name} has {needless} routes to {there} that nobody behind it wants")
    return found


def _parent(host: BrokerHost, branch: Branch) -> str | None:
    parent = branch.tree.parent
    return None if parent is None else host.ends[parent].other.place.name


def _differences(what: str, found: Filters, wanted: Filters) -> list[str]:
    extra, lacking = (found - wanted).total(), (wanted - found).total()
    return [f"{what}: {extra} that should not be there, {lacking} missing"] if extra or lacking else []
