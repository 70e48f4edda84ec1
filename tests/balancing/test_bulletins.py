"""Which way bulletins go (peer PIE4, PIE5, M1)."""

from __future__ import annotations

import pytest

from tidewire.balancing.bulletins import EdgeWays, HeadWays
from tidewire.model.balance_messages import (
    GLOBAL_PIE,
    LB_CONTROL,
    LOCAL_PIE,
    Bulletin,
    ControlClass,
    GlobalPie,
    Help,
    Indices,
    LocalPie,
    Payload,
)
from tidewire.model.ids import BrokerId

X, Y, Z = BrokerId("X"), BrokerId("Y"), BrokerId("Z")
X1, X2, Y1 = BrokerId("X1"), BrokerId("X2"), BrokerId("Y1")
INDICES = Indices(0.0, 0.0, 0.0)
PAYLOADS: dict[ControlClass, Payload] = {
    LOCAL_PIE: LocalPie("OK", INDICES, []),
    GLOBAL_PIE: GlobalPie("OK", INDICES),
    LB_CONTROL: Help("input"),
}


def bulletin(
    traffic_class: ControlClass,
    sender: BrokerId,
    cluster: BrokerId,
    *,
    number: int = 1,
    toward: BrokerId | None = None,
    to: BrokerId | None = None,
    hops: int = 16,
) -> Bulletin:
    return Bulletin(
        traffic_class=traffic_class,
        sender=sender,
        life=1,
        number=number,
        cluster=cluster,
        toward=toward,
        to=to,
        hops=hops,
        payload=PAYLOADS[traffic_class],
    )


def head() -> HeadWays:
    """X, with two edges and two heads next to it."""
    ways = HeadWays(X)
    ways.edges = {X1: None, X2: None}
    ways.heads = {Y: None, Z: None}
    return ways


def heard(
    ways: HeadWays,
    one: Bulletin,
    came_from: BrokerId,
    *,
    partner: BrokerId | None = None,
    is_overloaded: bool = False,
) -> tuple[bool, list[BrokerId]]:
    way = ways.heard(one, came_from=came_from, partner=partner, is_overloaded=is_overloaded)
    return way.is_for_us, [one.neighbour for one in way.passes]


def test_local_pie_stays_in_its_cluster() -> None:
    """peer PIE4: the other edges hear it, and the head."""
    assert heard(head(), bulletin(LOCAL_PIE, X1, X), X1) == (True, [X2])


def test_local_pie_goes_to_the_partner_too() -> None:
    """peer §6.3, step 3, on either side; afterwards no longer."""
    ways = head()
    way = ways.heard(bulletin(LOCAL_PIE, X1, X), came_from=X1, partner=Y, is_overloaded=False)
    assert [(one.neighbour, one.bulletin.toward) for one in way.passes] == [(X2, None), (Y, Y)]
    theirs = bulletin(LOCAL_PIE, Y1, Y, toward=X)
    assert heard(head(), theirs, Y, partner=Y) == (True, [X1, X2])
    assert heard(head(), theirs, Y, partner=Z) == (False, [])
    assert heard(head(), theirs, Y) == (False, [])


def test_global_pie_goes_one_cluster_far() -> None:
    """peer PIE5: to the heads next to us, and no further."""
    ways = head()
    assert [one.neighbour for one in ways.own(bulletin(GLOBAL_PIE, X, X), partner=None)] == [Y, Z]
    assert heard(ways, bulletin(GLOBAL_PIE, Y, Y), Y) == (True, [])


def test_an_overloaded_cluster_hides_nobody_behind_it() -> None:
    """peer PIE5: it passes on, not back, not its own, and not twice."""
    ways = head()
    theirs = bulletin(GLOBAL_PIE, Y, Y)
    assert heard(ways, theirs, Y, is_overloaded=True) == (True, [Z])
    assert heard(ways, theirs, Z, is_overloaded=True) == (False, [])
    assert heard(ways, bulletin(GLOBAL_PIE, X, X), Z, is_overloaded=True) == (False, [])
    assert heard(ways, bulletin(GLOBAL_PIE, Y, Y, number=2), Y, is_overloaded=True) == (True, [Z])


def test_what_was_overtaken_is_not_believed() -> None:
    ways = head()
    assert heard(ways, bulletin(LOCAL_PIE, X1, X, number=5), X1) == (True, [X2])
    assert heard(ways, bulletin(LOCAL_PIE, X1, X, number=4), X1) == (False, [])


def test_control_goes_to_the_one_that_it_is_for() -> None:
    """peer M1."""
    ways = head()
    assert heard(ways, bulletin(LB_CONTROL, X1, X, toward=X, to=X), X1) == (True, [])
    assert heard(ways, bulletin(LB_CONTROL, X1, X, toward=X, to=X2), X1) == (False, [X2])
    assert heard(ways, bulletin(LB_CONTROL, X1, X, toward=Y, to=Y1), X1) == (False, [Y])
    assert heard(ways, bulletin(LB_CONTROL, Y1, Y, toward=X, to=X2), Y) == (False, [X2])
    assert heard(ways, bulletin(LB_CONTROL, Y1, Y, toward=X, to=BrokerId("nobody")), Y) == (False, [])
    assert [one.neighbour for one in ways.own(bulletin(LB_CONTROL, X, X), partner=None)] == [X1, X2]


def test_the_way_to_a_far_cluster_is_the_one_that_it_was_heard_by() -> None:
    """peer E2: a session with a cluster behind an overloaded one."""
    ways, far = head(), BrokerId("W")
    question = bulletin(LB_CONTROL, X, X, toward=far, to=far)
    assert ways.own(question, partner=None) == []
    heard(ways, bulletin(GLOBAL_PIE, far, far), Z)
    assert [one.neighbour for one in ways.own(question, partner=None)] == [Z]
    ways.gone(Z)
    assert ways.own(question, partner=None) == []


def test_nothing_goes_round_for_ever() -> None:
    """Ways may be out of date: what has been passed on too often ends."""
    ways, far = head(), BrokerId("W")
    heard(ways, bulletin(GLOBAL_PIE, far, far), Z)
    way = ways.heard(
        bulletin(LB_CONTROL, Y, Y, toward=far, to=far, hops=1), came_from=Y, partner=None, is_overloaded=False
    )
    assert [(one.neighbour, one.bulletin.hops) for one in way.passes] == [(Z, 0)]
    assert heard(ways, bulletin(LB_CONTROL, Y, Y, toward=far, to=far, hops=0), Y) == (False, [])
    assert heard(ways, bulletin(LB_CONTROL, Z, Z, toward=far, to=far), Z) == (False, [])  # not back either


@pytest.mark.parametrize(
    ("one", "came_from", "is_for_us"),
    [
        (bulletin(LOCAL_PIE, X2, X), X, True),
        (bulletin(LOCAL_PIE, X2, X), Y, False),
        (bulletin(LOCAL_PIE, X1, X), X, False),
        (bulletin(GLOBAL_PIE, Y, Y), X, False),
        (bulletin(LB_CONTROL, X2, X, to=X1), X, True),
        (bulletin(LB_CONTROL, X2, X, to=X2), X, False),
        (bulletin(LB_CONTROL, X, X), X, True),
    ],
)
def test_an_edge_hears_its_head_alone(one: Bulletin, came_from: BrokerId, is_for_us: bool) -> None:
    ways = EdgeWays(X1)
    assert ways.own(one) == []
    ways.head = X
    assert [passed.neighbour for passed in ways.own(one)] == [X]
    way = ways.heard(one, came_from=came_from)
    assert (way.is_for_us, way.passes) == (is_for_us, [])
