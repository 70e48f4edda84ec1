"""Clients that only listen, at a broker with little bandwidth."""

from __future__ import annotations

from tidewire.language import compile_filter
from tidewire.model.filters import encode_filter
from tidewire.simulator.listeners import Counts, Listener
from tidewire.simulator.world import World


def test_an_order_to_move_goes_ahead_of_the_events_that_wait() -> None:
    """peer M2, M4: it is served elsewhere at once, and lets go when all that waited has come."""
    world = World(1, engine="kernel")
    for name, role in (("head", "head"), ("slow", "edge"), ("fast", "edge")):
        world.add_broker(name, role=role, mbps=0.02 if name == "slow" else 10.0, heartbeat_s=1000.0)
    for edge in ("slow", "fast"):
        world.link(edge, "head")
    world.run(1)
    counts = {name: Counts() for name in world.brokers}
    listener = Listener(world.agenda, world.network, "ann", "slow", seed=world.seed, counts=counts)
    listener.subscribe(encode_filter(compile_filter("n >= 0")))
    publisher = world.add_client("publisher", "head")
    publisher.advertise(1)
    world.run(2)
    for number in range(200):
        publisher.publish({"n": number, "text": "x" * 200})
    world.run(1)
    node = world.brokers["slow"].node
    assert node is not None
    [conn] = node.core.clients.using("subscribe")
    world.brokers["slow"].move_client(conn, "subscribe", "fast")
    world.run(2)
    there = world.brokers["fast"].node
    assert there is not None
    assert len(there.core.clients.using("subscribe")) == 1
    assert listener.broker == "slow"
    world.run(60)
    assert listener.broker == "fast"
    assert counts["slow"].events == 200
