"""What can go wrong, each as one call; the watch begins to look at once."""

from __future__ import annotations

from tidewire.model.messages import Use
from tidewire.simulator.world import World


def cut(world: World, a: str, b: str, *, is_silent: bool = False) -> None:
    """Nothing passes between two nodes: with a reset at both ends, or in silence."""
    world.network.path(a, b).cut(is_silent=is_silent)
    world.watch.look()


def mend(world: World, a: str, b: str) -> None:
    """It passes again."""
    world.network.path(a, b).mend()


def slow(world: World, a: str, b: str, *, factor: float, latency_ms: float | None = None) -> None:
    """Between two nodes all takes so many times as long."""
    path = world.network.path(a, b)
    path.slowdown = factor
    world.look_for_backlog()
    if latency_ms is not None:
        path.latency_ns = int(latency_ms * 1e6)


def crash(world: World, broker: str) -> None:
    """A broker ends without a word."""
    if world.brokers[broker].node is not None:
        world.brokers[broker].crash()
        world.watch.look()


def stop(world: World, broker: str) -> None:
    """A broker ends as one should."""
    if world.brokers[broker].node is not None:
        world.brokers[broker].stop()
        world.watch.look()


def restart(world: World, broker: str) -> None:
    """It begins again, and knows nothing of its past but its name."""
    if world.brokers[broker].node is None:
        world.brokers[broker].start()


def migrate(world: World, client: str, broker: str, *, use: Use = "subscribe") -> bool:
    """Have a client's broker send it to another one, if it is connected. No fault: nothing may be lost by this."""
    host = world.clients[client]
    at = host.core.broker(use)
    conn = None if at is None else host.connection(at, use=use)
    if at is None or conn is None or at == broker or world.brokers[at].node is None:
        return False
    world.brokers[at].move_client(conn, use, broker)
    return True
