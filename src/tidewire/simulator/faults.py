"""What can go wrong, each as one call; the watch begins to look at once."""

from __future__ import annotations

from tidewire.model.messages import Use
from tidewire.simulator.disks import SYNC_S
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


def slow_reader(world: World, client: str, *, mbps: float | None) -> None:
    """A client reads only so many Mbit/s; None: as fast as it can again."""
    world.clients[client].read_ns_per_byte = 0.0 if mbps is None else 8e3 / mbps
    world.slow_readers.pop(client, None)
    if mbps is not None:
        world.slow_readers[client] = None
    world.look_for_backlog()


def crash(world: World, name: str) -> None:
    """A broker or a client ends without a word."""
    host = world.host(name)
    if not host.is_down:
        host.crash()
        world.watch.look()


def lose_power(world: World, broker: str) -> None:
    """A broker ends with the power: what its disk had not synced is gone, or some of it."""
    host = world.brokers[broker]
    if not host.is_down:
        host.crash(loses_power=True)
        world.watch.look()


def slow_disk(world: World, broker: str, *, sync_s: float = SYNC_S) -> None:
    """A sync takes so long from now on."""
    disk = world.brokers[broker].disk
    if disk is not None:
        disk.sync_s = sync_s


def fill_disk(world: World, broker: str, *, bytes_left: int) -> None:
    """Somebody else fills the disk, up to so many bytes."""
    disk = world.brokers[broker].disk
    if disk is not None:
        disk.fill(bytes_left=bytes_left)


def empty_disk(world: World, broker: str) -> None:
    """There is room again."""
    disk = world.brokers[broker].disk
    if disk is not None:
        disk.empty()


def stop(world: World, broker: str) -> None:
    """A broker ends as one should."""
    if not world.brokers[broker].is_down:
        world.brokers[broker].stop()
        world.watch.look()


def restart(world: World, name: str) -> None:
    """It begins again. A broker knows nothing of its past but its name, a client no more than what it is for."""
    host = world.host(name)
    if host.is_down:
        host.start()


def drain(world: World, broker: str) -> None:
    """An operator has a broker send its clients away, and stops it when they have gone. They lose nothing."""
    host = world.brokers[broker]
    life = host.incarnation

    def answered(is_done: bool) -> None:
        if is_done and host.incarnation == life:
            stop(world, broker)

    world.operator.drain(broker, answered)


def stop_coordinator(world: World) -> None:
    """The coordinator ends without a word; brokers go on without it."""
    assert world.coordinator is not None
    if world.coordinator.core is not None:
        world.coordinator.crash()


def restart_coordinator(world: World) -> None:
    """It begins again, with what it had saved."""
    assert world.coordinator is not None
    if world.coordinator.core is None:
        world.coordinator.start()


def stop_data_cluster(world: World) -> None:
    """The data cluster ends without a word; what it stored and kept is there when it begins again."""
    assert world.data_cluster is not None
    if world.data_cluster.core is not None:
        world.data_cluster.crash()


def restart_data_cluster(world: World) -> None:
    """It begins again."""
    assert world.data_cluster is not None
    if world.data_cluster.core is None:
        world.data_cluster.start()


def migrate(world: World, client: str, broker: str, *, use: Use = "subscribe") -> bool:
    """Have a client's broker send it to another one, if it is connected. No fault: nothing may be lost by this."""
    host = world.clients[client]
    at = host.core.broker(use)
    conn = None if at is None else host.connection(at, use=use)
    if at is None or conn is None or at == broker or world.brokers[at].node is None:
        return False
    world.brokers[at].move_client(conn, use, broker)
    return True
