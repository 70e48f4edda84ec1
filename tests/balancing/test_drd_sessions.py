"""How sessions go where the head decides: who is asked, who is BUSY and how long, and that nobody waits for ever."""

from __future__ import annotations

from math import inf

import pytest

from tests.balancing.agents import ROOMY, Agents, at, bundle
from tidewire.balancing.drd.bundles import Bundle, Member
from tidewire.balancing.drd.config import DrdConfig
from tidewire.balancing.drd.loads import Load
from tidewire.model.ids import BrokerId
from tidewire.model.offload_messages import Amounts, Busy, Candidates, LoadUpdate, OffloadDone
from tidewire.model.traffic import ClassKey

H, H2 = BrokerId("H"), BrokerId("H2")
E1, E2, E3, F1 = (BrokerId(name) for name in ("E1", "E2", "E3", "F1"))


def capacity(events_s: float) -> Amounts:
    return Amounts(ROOMY, ROOMY, events_s)


def one_cluster(
    bundles: dict[BrokerId, list[Bundle]] | None = None, *, config: DrdConfig | None = None, name: str = "drd"
) -> Agents:
    """Three edges that can match 1000 events a second each; the first has too much to do. All have been heard once."""
    world = Agents({"H": ["E1", "E2", "E3"]}, config=config, name=name)
    for edge in (E1, E2, E3):
        world.capacity[edge] = capacity(1000)
    world.bundles |= bundles or {
        E1: [
            bundle("urgent", 1, 600, 2, first=10),
            bundle("soon", 10, 200, 2, first=20),
            bundle("whenever", 50, 200, 3, first=30),
        ],
        E2: [bundle("other", 5, 300, 1, first=40)],
    }
    world.second()
    assert not world.kinds()
    world.said.clear()
    return world


def names(world: Agents, broker: BrokerId) -> list[str]:
    return sorted(str(one.key) for one in world.bundles[broker])


def test_an_overloaded_edge_gives_what_can_wait_longest() -> None:
    """epeer §2.9: candidates from the head, a list from the edge, BUSY, moves, done; then nobody is overloaded."""
    world = one_cluster()
    for _ in range(5):
        world.second()
    assert world.kinds() == ["Candidates", "OffloadList", "Busy", "MoveNow", "OffloadDone", "OffloadDone"]
    assert (names(world, E1), names(world, E3)) == (["soon", "urgent"], ["whenever"])
    assert {agent.state for agent in world.edges.values()} == {"LOW"}
    measured = [note.facts for broker, note in world.notes if note.what == "measured after a session"]
    assert measured[0]["predicted matching utilisation"] == measured[0]["measured matching utilisation"] == 0.8


def test_every_edge_hears_of_the_others() -> None:
    """epeer §2.3, §2.6: every period each edge tells its load, and its classes when they change."""
    world = one_cluster({E1: [bundle("mine", 5, 300, 1)], E2: [bundle("other", 5, 300, 1, first=40)]})
    for _ in range(3):
        world.second()
    updates = [(sender, payload) for sender, to, payload in world.said if to == H and isinstance(payload, LoadUpdate)]
    assert len(updates) == 9
    of_e2 = [payload.classes for sender, payload in updates if sender == E2]
    assert of_e2 == [None, None, None]
    world.bundles[E2].append(bundle("new", 5, 1, 1, first=50))
    world.second()
    assert sorted(world.edges[E1].others) == [E2, E3]
    assert world.edges[E1].others[E2].classes == {"other", "new"}


def test_an_edge_that_gives_or_takes_is_busy_until_the_last_client_has_gone() -> None:
    """epeer G25, §2.12: BUSY ends at the last MIGRATED; who is BUSY is out of every other session."""
    world = one_cluster()
    world.is_instant = False
    world.second()
    assert world.edges[E1].state == world.edges[E3].state == "BUSY"
    assert world.edges[E2].state == "LOW"
    ((donor, order),) = world.moves
    assert (donor, order.to, order.address, order.clients) == (E1, E3, "E3:1", (30, 31, 32))
    for client in order.clients[:-1]:
        world.arrive(E1, client, E3)
    world.second()
    assert world.edges[E1].state == world.edges[E3].state == "BUSY"
    world.bundles[E2].append(bundle("more", 5, 690, 1, first=60))  # overloaded too, and nobody is free to help
    world.second()
    assert world.kinds().count("Candidates") == 1
    world.arrive(E1, order.clients[-1], E3)
    assert world.edges[E1].state != "BUSY"
    assert world.edges[E3].state != "BUSY"


def test_a_session_ends_when_its_time_is_up() -> None:
    """epeer §2.9 c, §3: after the migration timeout all are free again, whoever has not come."""
    world = one_cluster()
    world.is_instant = False
    world.second()
    world.arrive(E1, 30, E3)
    for _ in range(31):
        world.second()
    done = [payload for _, to, payload in world.said if isinstance(payload, OffloadDone) and to == H]
    assert [(one.moved, one.stayed) for one in done[:1]] == [(1, 2)]
    again = world.edges[E3].session
    assert again is None or again.number > 1


@pytest.mark.parametrize("dies", [E1, E3])
def test_nobody_stays_busy_when_somebody_dies(dies: BrokerId) -> None:
    world = one_cluster()
    world.is_instant = False
    world.second()
    other = E3 if dies == E1 else E1
    assert world.edges[other].state == "BUSY"
    world.dead.add(dies)
    world.connect(H)
    for _ in range(40):
        world.second()
    if dies == E1:
        assert world.edges[E3].state == "LOW"
    else:
        assert world.kinds().count("Candidates") >= 2  # the donor is free to try again, with another one
        assert world.moves[-1][1].to == E2


def test_nobody_stays_busy_when_the_head_dies() -> None:
    world = one_cluster()
    world.is_instant = False
    world.second()
    assert world.edges[E3].state == "BUSY"
    world.dead.add(H)
    for _ in range(40):
        world.second()
    assert world.edges[E1].session is None
    assert world.edges[E3].session is None
    assert world.edges[E3].state == "LOW"


def test_while_one_edge_chooses_no_other_one_does() -> None:
    """Two that are overloaded do not choose the same room."""
    world = one_cluster(
        {
            E1: [bundle("a", 1, 790, 2, first=10), bundle("b", 50, 200, 3, first=30)],
            E2: [bundle("x", 3, 700, 1, first=70), bundle("y", 30, 290, 1, first=80)],
        }
    )
    world.is_instant = False
    world.second()
    first = [payload for _, _, payload in world.said if isinstance(payload, Candidates)]
    assert len(first) == 1
    for _ in range(3):
        world.second()
    busy = [payload for _, _, payload in world.said if isinstance(payload, Busy)]
    assert len(busy) == 1  # E3 is the only one that takes, and is BUSY
    for client in (30, 31, 32):
        world.arrive(E1, client, E3)
    for _ in range(3):
        world.second()
    assert [(donor, order.to) for donor, order in world.moves] == [(E1, E3), (E2, E3)]


CROWDED = {
    E1: [bundle("big", 1, 990, 1, first=10), bundle("small", 50, 20, 1, first=20)],
    E2: [bundle("other", 5, 880, 1, first=40)],
    E3: [bundle("third", 5, 870, 1, first=50)],
}


def test_without_room_anywhere_nothing_moves_and_it_is_said() -> None:
    """epeer G7, §2.9, §2.10: INTER_CLUSTER_REQUEST, no neighbour that could: nothing is found, and nothing migrates."""
    world = one_cluster(CROWDED)
    world.second()
    assert "InterClusterRequest" in world.kinds()
    assert world.moves == []
    assert [(one.broker, one.metric) for one in world.nothing] == [(E1, "matching")]
    assert world.nothing[0].needed == pytest.approx(1010 - 950 - 20)
    assert world.edges[E1].state == "OVERLOAD"


def test_part_of_it_may_go_if_so_set() -> None:
    """epeer §2.9 b: ``partial_intra``."""
    world = one_cluster(CROWDED, config=DrdConfig(partial_intra=True))
    world.second()
    assert names(world, E3) == ["small", "third"]


def two_clusters() -> Agents:
    world = Agents({"H": ["E1"], "H2": ["F1"]})
    world.capacity[E1] = world.capacity[F1] = capacity(1000)
    return world


def test_between_clusters() -> None:
    """epeer §2.9: no LOW edge here; the neighbour says what it has, its edge is BUSY, clients go to that edge."""
    world = two_clusters()
    world.bundles[E1] = [bundle("near", 9, 700, 1, first=10), bundle("far", 5, 290, 2, first=20)]
    world.bundles[E1][1] = Bundle(
        key=ClassKey("far"),
        delay_s=5,
        load=world.bundles[E1][1].load,
        members=world.bundles[E1][1].members,
        locality="remote",
    )
    world.second()  # the clusters hear of each other
    world.second()
    assert names(world, F1) == ["far"]  # though "near" can wait longer: its publishers are here
    assert (world.moves[0][1].to, world.moves[0][1].address) == (F1, "F1:1")
    assert "CapacityRequest" in world.kinds()
    assert world.edges[F1].state == "LOW"
    assert not world.heads[H].sessions()


def test_a_cluster_that_falls_silent_is_not_waited_for() -> None:
    world = two_clusters()
    world.bundles[E1] = [bundle("a", 9, 700, 1, first=10), bundle("b", 5, 290, 2, first=20)]
    world.measure(H2)
    world.dead.add(H2)
    world.second()
    assert [one[2] for one in world.heads[H].sessions()] == ["asking clusters"]
    for _ in range(6):
        world.second()
    assert world.nothing


def test_an_overloaded_head_gives_publishers_to_another_one() -> None:
    """epeer §2.9: inter-cluster alone; those whom nobody here listens to go first; by input, single ones if need be."""
    world = two_clusters()
    world.capacity[H] = world.capacity[H2] = Amounts(1000.0, ROOMY, inf)
    heard_here = Bundle(key=ClassKey("here"), load=Amounts(600.0, 0.0, 0.0), members=(Member(1, 600.0),), delay_s=50)
    heard_there = Bundle(
        key=ClassKey("there"),
        load=Amounts(400.0, 0.0, 0.0),
        members=(Member(2, 100.0), Member(3, 300.0)),
        delay_s=1,
        locality="remote",
    )
    world.bundles[H] = [heard_here, heard_there]
    world.second()
    world.second()
    ((donor, order),) = world.moves
    assert (donor, order.side, order.to, order.address, order.clients) == (H, "publishers", H2, "H2:1", (2, 3))
    world.second()
    assert world.heads[H].state == "LOW"
    assert not world.heads[H2].sessions()


def test_what_is_offered_to_one_cluster_is_not_offered_to_another() -> None:
    world = Agents({"H": ["E1"], "H2": ["E2"], "H3": ["F1"]})
    for edge in (E1, E2, F1):
        world.capacity[edge] = capacity(1000)
    world.second()
    world.is_instant = False
    world.bundles[E1] = [bundle("a", 9, 500, 1, first=10), bundle("b", 5, 490, 2, first=20)]
    world.bundles[E2] = [bundle("c", 9, 500, 1, first=30), bundle("d", 5, 490, 2, first=40)]
    for _ in range(4):
        world.second()
    assert len([order for _, order in world.moves if order.to == F1]) == 1


def test_newcomers_are_placed_by_what_the_edges_said() -> None:
    """epeer G23, §2.7: at the head, by class and by what is left; who was just moved is followed."""
    world = one_cluster({E1: [bundle("mine", 1, 800, 1)], E2: [bundle("other", 5, 300, 1, first=40)]})
    head = world.heads[H]
    assert head.place([ClassKey("mine")], {}, now_ns=at(1)) == E1
    assert head.place([ClassKey("new")], {}, now_ns=at(1)) == E3
    assert head.place([ClassKey("new")], {}, now_ns=at(1)) == E3
    assert head.place([ClassKey("other")], {}, now_ns=at(1)) == E2


def test_the_baseline_balances_what_is_not_overloaded() -> None:
    """epeer §4.2: two edges differ by more than a tenth; only within the cluster; peer-drd leaves the urgent alone."""
    for policy in ("peer-lb", "peer-drd"):
        classes = [bundle(f"t{number}", number + 1, 50, 1, first=10 * number) for number in range(12)]
        world = one_cluster({E1: classes}, name=policy)
        for _ in range(12):
            world.second()
        loads = [world.load(edge).highest for edge in (E1, E2, E3)]
        assert max(loads) - min(loads) <= 0.1 * max(loads) + 0.05
        if policy == "peer-drd":
            assert "t0" in names(world, E1)
        assert world.nothing == []


def test_what_cannot_be_believed_is_not_counted_on() -> None:
    world = Agents({"H": ["E1"]})
    head = world.heads[H]
    nonsense = LoadUpdate("LOW", Amounts(float("nan"), 0.0, 0.0), capacity(10), 1.0, [])
    assert head.heard(nonsense, E1, now_ns=at(0)) == []
    assert head.cluster.edges(at(0)) == {}
    assert head.heard(LoadUpdate("LOW", Amounts(), capacity(10), 1.0, []), BrokerId("stranger"), now_ns=at(0)) == []
    assert head.cluster.edges(at(0)) == {}


def test_a_dry_run_says_who_would_go() -> None:
    world = one_cluster()
    edge = world.edges[E1]
    plan = edge.rehearse(world.bundles[E1], now_ns=at(1))
    assert plan is not None
    assert [(move.bundle.key, move.to) for move in plan.moves] == [("whenever", E3)]
    assert edge.state == "OVERLOAD"
    assert Load(plan.predicted.used, plan.predicted.capacity).highest == pytest.approx(0.8)
