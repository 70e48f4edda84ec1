"""Each checker sees what it is for: the machines are broken on purpose, one at a time."""

from collections.abc import Mapping
from typing import Any

import pytest

from tidewire.broker.clients import Clients
from tidewire.client.moving import Handover
from tidewire.client.order import Order
from tidewire.dataplane.reference import ReferenceEngine
from tidewire.model.values import Value
from tidewire.routing.upstream import Upstream
from tidewire.simulator import faults
from tidewire.simulator.checkers import check
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.world import World
from tidewire.wire.connections import Send


def _world() -> tuple[World, ClientHost, ClientHost]:
    """A chain with long ways, a subscriber at one end and a publisher at the other."""
    world = World(0)
    for name in "ABC":
        world.add_broker(name, role="both")
    world.link("A", "B", latency_ms=50)
    world.link("B", "C", latency_ms=50)
    ann, bob = world.add_client("ann", "C", "B"), world.add_client("bob", "A")
    world.run(2)
    bob.advertise(1)
    world.run(2)
    return world, ann, bob


def _publish(world: World, client: ClientHost, *, seconds: float, price: int = 5) -> None:
    for _ in range(int(seconds / 0.005)):
        client.publish({"price": price})
        world.run(0.005)


def _said(world: World) -> str:
    world.run(5)
    return "\n".join(check(world))


def test_nothing_is_said_of_sound_machines() -> None:
    """The stories of the other tests, without what they break."""
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    _publish(world, bob, seconds=0.5)
    ann.subscribe(2, "price = 5")
    _publish(world, bob, seconds=0.5)
    faults.migrate(world, "ann", "B")
    _publish(world, bob, seconds=1)
    ann.unsubscribe(1)
    _publish(world, bob, seconds=1)
    assert _said(world) == ""
    assert ann.core.broker("subscribe") == "B"


def test_a_confirmation_that_comes_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The subscription has not found its way yet."""
    monkeypatch.setattr(Clients, "_when_synced", lambda _self, conn, message: [Send(conn, message)])
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    _publish(world, bob, seconds=0.5)
    assert "no loss: ann lacks bob's event" in _said(world)


def test_a_subscriber_is_let_go_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new broker's events are thrown away, and the old one's have all come (peer M4)."""
    monkeypatch.setattr(Handover, "released", lambda _self: [])
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    world.run(1)
    faults.migrate(world, "ann", "B")
    _publish(world, bob, seconds=1)
    assert "no loss: ann lacks bob's event" in _said(world)


def test_a_covered_filter_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The covering one leaves, and what it hid is forgotten (peer L11)."""
    count = Upstream._count

    def forgets(self: Upstream, come: list[bytes], gone: list[bytes]) -> Any:
        change = count(self, come, gone)
        if not come:
            change.filters, change.numbers = [], []
        return change

    monkeypatch.setattr(Upstream, "_count", forgets)
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    ann.subscribe(2, "price < 6")
    world.run(1)
    ann.unsubscribe(1)
    world.run(1)
    _publish(world, bob, seconds=0.1)
    assert "no loss: ann lacks bob's event" in _said(world)


def test_repetition_and_disorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at positions and sequences while a subscriber moves (peer M5, M5a)."""
    monkeypatch.setattr(Order, "is_next", lambda *_: True)
    monkeypatch.setattr(Handover, "released", lambda self: [delivered for _, delivered in self._held])
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    world.run(1)
    faults.migrate(world, "ann", "B")
    _publish(world, bob, seconds=1)
    said = _said(world)
    assert "no duplicates: ann got bob's event" in said
    assert "in order: ann got bob's event" in said


def test_false_positives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route is never taken back, and brings what nobody wants any more."""
    monkeypatch.setattr(ReferenceEngine, "remove_routes", lambda *_args, **_options: None)
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    world.run(1)
    ann.unsubscribe(1)
    world.run(3)
    _publish(world, bob, seconds=0.1)
    assert "no false positives: ann got bob's event" in _said(world)


def test_an_event_under_a_wrong_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The publisher counts otherwise than its broker."""
    publish = ClientHost.publish

    def skips(self: ClientHost, attributes: Mapping[str, Value]) -> None:
        publish(self, attributes)
        if self._sequence == 5:
            self._sequence += 1

    monkeypatch.setattr(ClientHost, "publish", skips)
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    world.run(1)
    for price in range(9):
        bob.publish({"price": price})
    said = _said(world)
    assert "in place of bob's event 7" in said
    assert "nothing unknown: ann got" in said


def test_a_loss_in_a_break_is_none_and_one_behind_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published while the link is down may be missing; what is published when all is well again may not."""
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    world.run(1)
    faults.cut(world, "A", "B")
    _publish(world, bob, seconds=0.2)
    faults.mend(world, "A", "B")
    assert world.settle()
    world.run(3)
    got = len(ann.receipts)
    _publish(world, bob, seconds=0.1)
    assert _said(world) == ""
    assert len(ann.receipts) == got + 20 < len(world.publications)
    ann.receipts.pop()
    assert "no loss: ann lacks bob's event" in _said(world)
