"""The gate in front of the application: everything once, the events of each publisher in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidewire.client import order
from tidewire.client.order import Order

PUBLISHERS = range(1, 5)


def test_what_has_come_does_not_come_again_and_nothing_comes_late() -> None:
    gate = Order()
    assert [gate.is_next(7, sequence) for sequence in (1, 3, 3, 2, 4)] == [True, True, False, False, True]
    assert gate.is_next(8, 1)


@given(st.data())
def test_two_brokers_of_a_move_together_bring_everything_once(data: st.DataObject) -> None:
    """peer M5a: each keeps the order of a publisher and no other, since urgent events overtake (decision 0021).

    The old one brings each publisher's events up to some place, the new one from some earlier place on, each in an
    order of its own.
    """
    counts = {publisher: data.draw(st.integers(0, 6)) for publisher in PUBLISHERS}
    old: dict[int, list[int]] = {}
    new: dict[int, list[int]] = {}
    for publisher, count in counts.items():
        until = data.draw(st.integers(0, count))
        begin = data.draw(st.integers(0, until))
        old[publisher], new[publisher] = list(range(1, until + 1)), list(range(begin + 1, count + 1))
    gate, got = Order(), []
    for line in (old, new):
        left = {publisher: list(sequences) for publisher, sequences in line.items()}
        while some := [publisher for publisher, sequences in left.items() if sequences]:
            publisher = data.draw(st.sampled_from(some))
            sequence = left[publisher].pop(0)
            if gate.is_next(publisher, sequence):
                got.append((publisher, sequence))
    for publisher, count in counts.items():
        assert [sequence for who, sequence in got if who == publisher] == list(range(1, count + 1))


def test_those_who_spoke_last_are_remembered() -> None:
    """However many there are, and however long ago they began."""
    gate, many = Order(), order.PUBLISHERS_REMEMBERED
    for sequence, publisher in enumerate(range(3 * many), start=1):
        assert gate.is_next(publisher, 1)
        if publisher % 1000 == 0:
            assert gate.is_next(10**9, sequence)
    assert not gate.is_next(10**9, 1)
    assert not any(gate.is_next(publisher, 1) for publisher in range(2 * many, 3 * many))
