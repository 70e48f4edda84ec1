"""Each checker sees what it is for: the machines are broken on purpose, one at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tidewire.broker.clients import Clients
from tidewire.client.moving import Handover
from tidewire.client.order import Order
from tidewire.dataplane.reference import ReferenceEngine
from tidewire.dataplane.state import Connection
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import Left
from tidewire.model.values import Value
from tidewire.routing.answers import Answer
from tidewire.routing.barriers import Syncs
from tidewire.routing.branch import Branch
from tidewire.routing.router import Router
from tidewire.routing.upstream import Upstream
from tidewire.simulator import faults
from tidewire.simulator.checkers import check
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.scenario import Scenario
from tidewire.simulator.tables import is_at_rest
from tidewire.simulator.world import World
from tidewire.wire.connections import Send
from tidewire.wire.frames import DELIVER, FORWARD


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
    """Nobody looks at sequences while a subscriber moves (peer M5, M5a)."""
    monkeypatch.setattr(Order, "is_next", lambda *_: True)
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


CYCLES = Path(__file__).parent.parent / "scenarios" / "cycles.txt"


def _twice(monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    """Every event that brokers send in frames of this kind, they send twice."""
    put = ReferenceEngine._put

    def puts_twice(self: ReferenceEngine, conn: Conn, data: bytes) -> bool:
        if data[4] == kind:
            put(self, conn, data)
        return put(self, conn, data)

    monkeypatch.setattr(ReferenceEngine, "_put", puts_twice)


def test_brokers_that_bring_everything_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session keeps it from the application, and yet it is seen."""
    _twice(monkeypatch, DELIVER)
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    world.run(1)
    _publish(world, bob, seconds=0.1)
    said = _said(world)
    assert "C brought ann bob's event 1 (price=5; 5.000 s at A) again" in said
    assert "no duplicates" not in said
    assert len(ann.receipts) == 20
    found = Scenario(CYCLES.read_text()).play()
    assert "line 14: ann is brought 50 events: ann was brought 100" in found


def test_brokers_that_take_everything_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Around a ring each event comes once because it is taken from the parent alone, which brings it once."""
    assert Scenario(CYCLES.read_text()).play() == []
    _twice(monkeypatch, FORWARD)
    assert any(what.startswith("brought once: ") for what in Scenario(CYCLES.read_text()).play())


def test_an_event_that_gets_two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its source takes it twice from its publisher, each time under the next position."""
    publish = ReferenceEngine._publish

    def takes_twice(self: ReferenceEngine, conn: Conn, payload: bytes, now_ns: Nanoseconds) -> None:
        publish(self, conn, payload, now_ns)
        source: Connection[Any] = self._connections[conn]
        source.next_sequence -= 1
        publish(self, conn, payload, now_ns)

    monkeypatch.setattr(ReferenceEngine, "_publish", takes_twice)
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    world.run(1)
    _publish(world, bob, seconds=0.1)
    said = _said(world)
    assert "brought once: at 5.102 s C brought ann bob's event 1 (price=5; 5.000 s at A) in another place" in said


def test_a_broker_that_goes_on_when_the_session_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It publishes there still, and takes its subscription back; the broker does not hear of it."""
    monkeypatch.setattr(Router, "unsubscribe", lambda *_: [])
    world, ann, bob = _world()
    ann.subscribe(1, "price < 10")
    ann.advertise(1)
    world.run(1)
    assert faults.migrate(world, "ann", "B")
    _publish(world, bob, seconds=4)
    said = _said(world)
    assert ann.core.broker("subscribe") == "B"
    assert "brought where awaited: at " in said
    assert "tables exact: C has subscriptions: 1 that should not be there, 0 missing" in said


def _publisher_moves() -> tuple[World, ClientHost]:
    """The old broker is blocked by a slow reader while the new one gets ready; from the old one the way is longer."""
    world = World(0)
    for name in "ABS":
        world.add_broker(name, role="both", slow_subscriber="wait", queue_bytes_max=4096)
    world.link("A", "S", latency_ms=400)
    world.link("B", "S", latency_ms=1)
    world.network.window_bytes = 4096
    ann, bob, zoe = world.add_client("ann", "S"), world.add_client("bob", "A"), world.add_client("zoe", "A")
    world.run(2)
    bob.advertise(1)
    ann.subscribe(1, "price < 10")
    zoe.subscribe(1, "price < 10")
    world.run(3)
    faults.slow_reader(world, "zoe", mbps=0.01)
    for _ in range(300):
        bob.publish({"price": 5})
    world.run(0.1)
    assert faults.migrate(world, "bob", "B", use="publish")
    _publish(world, bob, seconds=2)
    assert bob.core.broker("publish") == "A"
    faults.slow_reader(world, "zoe", mbps=None)
    _publish(world, bob, seconds=10)
    assert bob.core.broker("publish") == "B"
    world.run(20)
    return world, ann


def test_a_publisher_is_let_go_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says at the new broker overtakes what is under way from the old one (peer M5a).

    It takes an old broker that does not read, and a wave that does not wait for syncs: else the wave that confirms the
    advertisement at the new broker passes behind all that was published at the old one, and flushes it as well.
    """
    world, ann = _publisher_moves()
    assert _said(world) == ""
    assert len(ann.receipts) == len(world.publications)
    leave = Clients._leave

    def lets_go(self: Clients, conn: Conn, session: int) -> Any:
        is_publisher = self._clients[conn].moves[session] == "publish"
        return [Send(conn, Left(session))] if is_publisher else leave(self, conn, session)

    monkeypatch.setattr(Clients, "_leave", lets_go)
    monkeypatch.setattr(Syncs, "awaited", lambda _: None)
    world, ann = _publisher_moves()
    said = _said(world)
    assert "brought in order: at " in said
    assert "no loss: ann lacks bob's event" in said
    assert len(ann.receipts) < len(world.publications)


def test_routes_of_a_lost_child_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event shows it, but the tables do when all is quiet."""

    def keeps(self: Branch, child: Conn) -> list[Answer]:
        self.syncs.forget(child)
        self.routes.pop(child, None)
        return []

    monkeypatch.setattr(Branch, "child_gone", keeps)
    world, ann, _ = _world()
    ann.subscribe(1, "price < 10")
    world.run(3)
    assert is_at_rest(world)
    assert _said(world) == ""
    faults.cut(world, "B", "C")
    world.run(5)
    assert "tables exact: A has 1 routes to B that nobody behind it wants" in _said(world)
    faults.mend(world, "B", "C")
    world.settle()
    assert "tables exact: B counts, in the tree of A: 1 that should not be there, 0 missing" in _said(world)
