"""Who wants what at an edge, and what covers what, is always up to date."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.balancing.market import encoded
from tidewire._kernel._native import Poset
from tidewire.balancing.clientele import Clientele, Wanted
from tidewire.model.ids import Conn

TEXTS = ["x > 1", "x > 2", "x > 3 and y = 1", "x > 4", "y = 1", "y = 2 and x > 2"]
WANTS = [encoded([]), *(encoded([text]) for text in TEXTS), encoded(TEXTS[:2]), encoded([TEXTS[0], TEXTS[0]])]
CHANGES = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(WANTS), st.booleans()), max_size=30)


def roots(wanted: dict[Conn, Wanted]) -> set[bytes]:
    order = Poset(0)
    order.insert([one for filters in wanted.values() for one in filters])
    return {order.filter(node) for node in order.roots()}


@given(CHANGES)
def test_it_follows_every_change(changes: list[tuple[int, Wanted, bool]]) -> None:
    """peer L5, L6: clients come, want something else, and go; against an order that is made anew."""
    clientele, wanted = Clientele(), dict[Conn, Wanted]()
    for number, filters, is_looked_at in changes:
        clientele.wants(Conn(number), filters)
        wanted[Conn(number)] = filters
        if is_looked_at:
            assert set(clientele.covering()) == roots(wanted)
    assert set(clientele.covering()) == roots(wanted)
    found = {client: filters for filters, clients in clientele.alike() for client in clients}
    assert found == {client: filters for client, filters in wanted.items() if filters}
    assert all(clientele.wanted_by(client) == filters for client, filters in wanted.items())


def test_those_who_stay_are_left_out() -> None:
    """peer M7: who wants the same and may move is still there."""
    clientele = Clientele({Conn(number): WANTS[1 + number // 3] for number in range(6)})
    assert list(clientele.alike(without=[Conn(0), Conn(3), Conn(4), Conn(5), Conn(9)])) == [
        (WANTS[1], (Conn(1), Conn(2)))
    ]


def test_a_copy_changes_on_its_own() -> None:
    """A decision takes filters out of the order that it was given, and nobody else notices."""
    clientele = Clientele({Conn(number): wanted for number, wanted in enumerate(WANTS[1:7])})
    before = set(clientele.covering())
    order = clientele.order()
    order.changes()
    order.forget([one for wanted in WANTS[1:3] for one in wanted])
    risen, sunk = order.changes()
    assert (set(risen), sunk) == ({*WANTS[4], *WANTS[6]}, [*WANTS[1]])
    assert set(clientele.covering()) == before
    clientele.wants(Conn(7), encoded(["z = 1"]))
    clientele.settle()
    assert len(order) == 4


@given(st.lists(st.sampled_from(TEXTS)), st.sampled_from(TEXTS))
def test_what_is_covered_is_so_before_it_is_there(there: list[str], asked: str) -> None:
    """peer O7: the order says of a filter that is not in it what it would say if it were."""
    order, (wanted,) = Poset(0), encoded([asked])
    order.insert([one for text in there for one in encoded([text])])
    (is_covered,) = order.are_covered([wanted])
    count = len(order)
    (node,) = order.insert([wanted])
    assert is_covered == (len(order) == count or order.parent(node) != 0)
