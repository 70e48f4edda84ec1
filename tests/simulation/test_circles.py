"""A link between brokers waits for room. In a circle everybody may come to wait for everybody (decision 0006)."""

import pytest

from tidewire.simulator.checkers import check
from tidewire.simulator.world import World

RING = "ABCDE"


def _saturated(*, link_patience_s: float, engine: str) -> World:
    """A ring in which every event goes two links on, by the shorter way, and more of them than the links carry."""
    world = World(0, engine=engine)
    for name in RING:
        world.add_broker(
            name, role="both", link_queue_bytes_max=4096, link_patience_s=link_patience_s, reconnect_s_max=0.5
        )
    for at, name in enumerate(RING):
        world.link(name, RING[(at + 1) % len(RING)], mbps=0.2)
    world.network.window_bytes = 1024
    world.run(2)
    for at, name in enumerate(RING):
        world.add_client(f"{name}-subscriber", name).subscribe(1, f"source <> {at}")
        world.add_client(f"{name}-publisher", name).advertise(1)
    world.run(3)
    for at, name in enumerate(RING):
        for number in range(400):
            world.clients[f"{name}-publisher"].publish({"source": at, "number": number})
    return world


@pytest.mark.parametrize("engine", ["reference", "kernel"])
def test_a_circle_of_full_links_waits_for_ever(engine: str) -> None:
    """Without an end to patience nothing moves any more: the danger is real."""
    world = _saturated(link_patience_s=86_400.0, engine=engine)
    world.run(60)
    before = world.network.bytes_carried
    assert all(host.node is not None and host.node.blocked for host in world.brokers.values())
    got = sum(len(client.receipts) for client in world.clients.values())
    world.run(60)
    assert sum(len(client.receipts) for client in world.clients.values()) == got
    assert world.network.bytes_carried > before  # heartbeats: they have a lane of their own
    assert world.has_backlog()


@pytest.mark.parametrize("engine", ["reference", "kernel"])
def test_a_link_that_is_stuck_ends_and_the_others_go_on(engine: str) -> None:
    """Who waits for too long lets one link go; what was in its queue is lost, as by any link that ends."""
    world = _saturated(link_patience_s=2.0, engine=engine)
    world.run(60)
    ended = [note for host in world.brokers.values() for _, note in host.notes if note.what == "link stuck"]
    assert ended
    assert sum(host.node.core.links.stuck for host in world.brokers.values() if host.node is not None) == len(ended)
    assert world.settle()
    world.drain()
    assert not world.has_backlog()
    assert check(world) == []
    for at, name in enumerate(RING):
        world.clients[f"{name}-publisher"].publish({"source": at, "number": 400})
    world.run(3)
    last = [
        [r.attributes["source"] for r in c.receipts if r.attributes["number"] == 400] for c in world.clients.values()
    ]
    assert [len(one) for one in last] == [4, 0] * len(RING)
