"""What sessions and nodes do that no checker of deliveries sees."""

from random import Random

import pytest

from tidewire.client.config import ClientConfig
from tidewire.client.core import ClientCore
from tidewire.client.events import AdvertiseThat, ClientEffect, ClientEvent, Connect, SubscribeTo, Tell
from tidewire.client.order import Order
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import Done, Leave, Move, Subscribe, Use, Welcome
from tidewire.simulator import faults
from tidewire.simulator.hosts import LocalClock
from tidewire.simulator.world import World
from tidewire.wire.connections import Closed, Dial, Heard, Opened, Send


def test_a_redirected_client_keeps_one_connection() -> None:
    """The broker that only showed the way is left (peer A4)."""
    world = World(0)
    for name in "ABC":
        world.add_broker(name)
    world.link("A", "B")
    world.link("C", "B")
    world.run(1)
    bob = world.add_client("bob", "A")
    bob.advertise(1)
    world.run(1)
    assert bob.core.broker("publish") == "B"
    assert len(bob.ends) == 1
    assert world.unsettled() == []


@pytest.mark.parametrize("uses", [["publish"], ["subscribe"], ["subscribe", "publish"], ["publish", "subscribe"]])
def test_a_client_that_knows_the_way_takes_it(uses: list[Use], monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker that it has reached says who hosts what: nobody is dialled again, and who serves nothing is left."""
    world = World(0)
    for name in "ABC":
        world.add_broker(name)
    world.link("A", "B")
    world.link("C", "B")
    world.run(1)
    handle = ClientCore.handle
    dialled: list[str] = []
    connected: list[bool] = []

    def watched(self: ClientCore, event: ClientEvent, *, now_ns: Nanoseconds) -> list[ClientEffect]:
        effects = handle(self, event, now_ns=now_ns)
        dialled.extend(effect.address for effect in effects if isinstance(effect, Dial))
        return effects

    monkeypatch.setattr(ClientCore, "handle", watched)
    bob = world.add_client("bob", "B" if uses == ["subscribe"] else "A")
    bob._ask(Connect, lambda: connected.append(True))
    world.run(1)
    assert connected
    for use in uses:
        if use == "publish":
            bob.advertise(1)
        else:
            bob.subscribe(1, "price > 0")
    world.run(1)
    assert len(dialled) == len(set(dialled)) == 2
    served = {bob.core.connection(use) for use in uses}
    assert set(bob.ends) == served
    assert world.unsettled() == []


def test_delays_are_right_by_wrong_clocks() -> None:
    """Every clock is off by seconds and drifts; the delay of an event is known within its stated error."""
    world = World(4, wrong_clocks=True)
    world.add_broker("A", role="both", heartbeat_s=0.5)
    world.add_broker("B", role="both", heartbeat_s=0.5)
    world.link("A", "B", latency_ms=20)
    ann, bob = world.add_client("ann", "B"), world.add_client("bob", "A")
    ann.subscribe(1, "price > 0")
    bob.advertise(1)
    world.run(5)
    for _ in range(20):
        bob.publish({"price": 1})
        world.run(0.1)
    for receipt in ann.receipts:
        true_ns = receipt.time_ns - world.publications[receipt.key].time_ns
        drift_ns = 2e-4 * 5e9  # at most, since the clocks were compared
        assert abs(receipt.delay_ns - true_ns) <= receipt.error_us * 1000 + drift_ns
    assert len(ann.receipts) == 20


def test_a_clock_shows_what_it_was_asked_for() -> None:
    """The time at which it shows something is never too early."""
    for clock in (LocalClock(), LocalClock(-5, 1e-4), LocalClock(10**10, -1e-4)):
        for time_ns in (0, 1, 10**9, 123_456_789_012):
            assert clock.shows(clock.when(clock.shows(time_ns))) >= clock.shows(time_ns)


def test_order_lets_every_event_pass_once() -> None:
    """And nothing behind a later one of its publisher; other publishers are others."""
    order = Order()
    found = [
        order.is_next(publisher, sequence) for publisher, sequence in ((1, 1), (1, 3), (2, 1), (1, 2), (1, 3), (1, 4))
    ]
    assert found == [True, True, True, False, False, True]


def test_a_subscriber_that_also_publishes_leaves_nothing_behind() -> None:
    """It moves with one of its two uses: the old broker keeps the other one, and sends no more events."""
    world = World(0)
    world.add_broker("A", role="both")
    world.add_broker("B", role="both")
    world.link("A", "B")
    ann = world.add_client("ann", "A")
    ann.subscribe(1, "price > 0")
    ann.advertise(1)
    world.run(2)
    node = world.brokers["A"].node
    assert node is not None
    conn = ann.connection("A", use="publish")
    assert conn is not None
    assert faults.migrate(world, "ann", "B")
    world.run(2)
    assert (ann.core.broker("publish"), ann.core.broker("subscribe")) == ("A", "B")
    assert node.core.router.subscriptions(conn) == {}
    ann.publish({"price": 1})
    world.run(1)
    assert [receipt.via for receipt in ann.receipts] == [("A", "B")]


def test_a_client_that_is_slow_to_move_is_let_go_all_the_same() -> None:
    """The old broker has given the move up; the client comes to the end of it later, and must not wait for ever."""
    world = World(0)
    for name in "AB":
        world.add_broker(name, role="both", migration_timeout_s=0.1, heartbeat_s=0.1)
    world.link("A", "B")
    ann = world.add_client("ann", "A")
    ann.subscribe(1, "price > 0")
    world.run(2)
    world.network.path("ann", "B").latency_ns = 200_000_000
    assert faults.migrate(world, "ann", "B")
    world.run(5)
    assert ann.core.broker("subscribe") == "B"
    assert any(note.what == "a client did not move in time" for _, note in world.brokers["A"].notes)
    assert world.unsettled() == []


def test_a_move_is_not_misled_by_a_number_that_is_used_again() -> None:
    """The old connection ends in the middle of a move, and another one gets its number: nobody waits for that one."""
    core = ClientCore(ClientConfig(addresses=["A"]), chance=Random(0))

    def happens(event: ClientEvent) -> list[ClientEffect]:
        return core.handle(event, now_ns=Nanoseconds(0))

    def welcome(broker: str, publish_at: list[str]) -> Welcome:
        return Welcome(
            version=1,
            broker=BrokerId(broker),
            incarnation=1,
            address=broker,
            heartbeat_s=1.0,
            frame_bytes_max=1 << 20,
            subscriptions_max=100,
            publish_at=publish_at,
            subscribe_at=[],
        )

    def arrives(conn: Conn, effects: list[ClientEffect], broker: str, publish_at: list[str]) -> list[ClientEffect]:
        (dial,) = [effect for effect in effects if isinstance(effect, Dial)]
        happens(Opened(conn, dial.order))
        return happens(Heard(conn, welcome(broker, publish_at)))

    def request(effects: list[ClientEffect]) -> int:
        (said,) = [effect.message for effect in effects if isinstance(effect, Send)]
        assert isinstance(said, Subscribe)
        return said.request

    asked = arrives(Conn(1), happens(SubscribeTo(1, [1], [b"\x90"])), "A", ["C"])
    happens(Heard(Conn(1), Done(request(asked))))
    said_again = arrives(Conn(2), happens(Heard(Conn(1), Move(1, "subscribe", BrokerId("B"), "B"))), "B", ["C"])
    happens(Closed(Conn(1), "gone"))
    arrives(Conn(1), happens(AdvertiseThat(2, [1], [b""])), "C", [])
    effects = happens(Heard(Conn(2), Done(request(said_again))))
    assert [effect.what for effect in effects if isinstance(effect, Tell)] == ["moved"]
    assert not any(isinstance(effect, Send) and isinstance(effect.message, Leave) for effect in effects)
    assert core.broker("subscribe") == "B"
    assert core.connection("publish") == Conn(1)
