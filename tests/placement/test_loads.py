"""Load, and what a move does to it (bad §2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.parts import snapshot, snapshots, worked_example
from tidewire.model.errors import UsageError
from tidewire.model.ids import BrokerId
from tidewire.placement.loads import Balance, Loads, LoadSnapshot, Subscriber, lower_bound


def by_the_formulas(world: LoadSnapshot, where: list[int], j: int) -> tuple[float, float]:
    """Equations 1 to 4 as they stand."""
    incoming = outgoing = 0.0
    for k, rate in enumerate(world.rates):
        wanted = [k in one.wants for one in world.subscribers]
        none = 1
        for i, wants in enumerate(wanted):
            none *= 1 - (where[i] == j) * wants
        incoming += (1 - none) * rate
        outgoing += sum((where[i] == j) * wants for i, wants in enumerate(wanted)) * rate
    return incoming, outgoing


def test_loads_of_the_worked_example() -> None:
    """bad G1: subscribers' loads, what comes in and goes out, F, mean and cov."""
    loads = Loads(worked_example())
    assert loads.weights == [30, 15, 60, 5, 50, 25]
    assert [loads.incoming(j) for j in range(3)] == [75, 25, 5]
    assert [loads.outgoing(j) for j in range(3)] == [155, 25, 5]
    assert loads.loads == [230, 50, 10]
    assert loads.balance().mean == pytest.approx(96.6667, abs=1e-4)
    assert loads.balance().cov == pytest.approx(0.9898413858, abs=1e-10)
    assert lower_bound(worked_example()) == 120
    assert sum(len(wants) for wants in loads.wants) == 11


def test_cov_divides_by_the_number_of_brokers() -> None:
    """bad G2."""
    balance = Balance((200, 100, 100, 0))
    assert balance.mean == 100
    assert balance.cov * balance.mean == pytest.approx(70.7106781, abs=1e-7)
    assert balance.cov == pytest.approx(0.7071067812, abs=1e-10)
    assert Balance((7, 7, 7)).cov == 0


def test_cov_of_one_broker_and_of_no_load_is_zero() -> None:
    """bad §2.2."""
    assert Balance((5,)).cov == 0
    assert Balance((0, 0)).cov == 0
    assert Balance(()).cov == 0


def test_identical_subscriptions_come_in_once_for_each_broker() -> None:
    """bad G5: five front-end subscriptions, one back-end subscription, two brokers."""
    names = ["u1", "u2", "u3", "u4", "u5"]
    loads = Loads(snapshot({"A": 100}, dict.fromkeys(names, "A"), {"b1": names[:3], "b2": names[3:]}))
    assert loads.loads == [400, 300]
    assert [loads.incoming(0) / 100, loads.incoming(1) / 100] == [1, 1], "one pull each"
    assert (loads.outgoing(0) + loads.outgoing(1)) / 100 == 5, "five pushes"
    assert [loads.fan(j, 0) for j in range(2)] == [3, 2]


def test_a_snapshot_that_cannot_be_is_refused() -> None:
    brokers = (BrokerId("b1"),)
    for subscriber in (Subscriber("u", 1, (0,)), Subscriber("u", 0, (0, 0)), Subscriber("u", 0, (1,))):
        with pytest.raises(UsageError):
            LoadSnapshot(brokers=brokers, rates=(1.0,), subscribers=(subscriber,))


@given(snapshots())
def test_load_is_what_comes_in_and_what_goes_out(world: LoadSnapshot) -> None:
    """bad eq. (1) to (5)."""
    loads = Loads(world)
    for j in range(len(world.brokers)):
        incoming, outgoing = by_the_formulas(world, loads.where, j)
        assert (loads.incoming(j), loads.outgoing(j)) == (incoming, outgoing)
        assert loads.loads[j] == incoming + outgoing


@given(snapshots(), st.data())
def test_the_identities_equal_a_full_recount(world: LoadSnapshot, data: st.DataObject) -> None:
    """bad §2.2: whatever moves, what is kept is what the formulas give."""
    loads = Loads(world)
    if not world.subscribers:
        return
    for _ in range(data.draw(st.integers(1, 6))):
        i = data.draw(st.integers(0, len(world.subscribers) - 1))
        j = data.draw(st.integers(0, len(world.brokers) - 1))
        b = loads.where[i]
        before, fall = loads.loads[b], loads.fall(i)
        loads.remove(i)
        assert loads.loads[b] == before - fall
        rise = loads.rise(i, j)
        assert rise == 2 * loads.weights[i] - loads.similarity(i, j)
        elsewhere = loads.loads[j]
        loads.place(i, j)
        assert loads.loads[j] == elsewhere + rise
        assert loads.balance() == loads.measured()
