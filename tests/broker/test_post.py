"""What agents say gets to whom it is for, by bulletins (epeer §2.11)."""

from __future__ import annotations

from math import inf

from tidewire.broker.post import Letter, Post
from tidewire.model.balance_fields import SessionId
from tidewire.model.balance_messages import Bulletin
from tidewire.model.ids import BrokerId
from tidewire.model.offload_messages import (
    Amounts,
    Candidates,
    CapacityRequest,
    ClusterStatus,
    LoadUpdate,
    MoveNow,
    Offer,
    OffloadPayload,
)
from tidewire.wire.frames import HEAD, decode_message, message_frame

H, G, E1, E2 = (BrokerId(name) for name in ("H", "G", "E1", "E2"))
SESSION = SessionId(H, 1, 1)
UPDATE = LoadUpdate("LOW", Amounts(1.0, 2.0, 3.0), Amounts(1.0, 2.0, inf), 4.0, ["a"], (38.0, -9.0))


class Neighbours:
    """A cluster of two edges, and another head."""

    def __init__(self) -> None:
        self.posts = {name: Post(name, life=1) for name in (H, G, E1, E2)}
        self.posts[H].as_head([E1, E2], [G])
        self.posts[G].as_head([], [H])
        self.posts[E1].as_edge(H)
        self.posts[E2].as_edge(H)
        self.got: list[tuple[BrokerId, OffloadPayload]] = []

    def say(
        self, who: BrokerId, payload: OffloadPayload, to: BrokerId | None = None, cluster: BrokerId | None = None
    ) -> None:
        waiting = [(who, one) for one in self.posts[who].say(payload, to=to, cluster=cluster)]
        while waiting:
            sender, passed = waiting.pop(0)
            again = decode_message(message_frame(passed.bulletin)[HEAD.size :])
            assert isinstance(again, Bulletin)
            letter, further = self.posts[passed.neighbour].heard(again, came_from=sender)
            if letter is not None:
                self.got.append((passed.neighbour, letter.payload))
            waiting += [(passed.neighbour, one) for one in further]


def test_an_edges_load_comes_to_its_head_and_to_the_other_edges() -> None:
    """epeer §2.3: relayed by the head, and no further; what it said comes whole."""
    there = Neighbours()
    there.say(E1, UPDATE)
    assert there.got == [(H, UPDATE), (E2, UPDATE)]


def test_a_clusters_status_comes_to_the_heads_next_to_it() -> None:
    there = Neighbours()
    there.say(H, ClusterStatus("LOW", inf, 2.0))
    assert there.got == [(G, ClusterStatus("LOW", inf, 2.0))]


def test_what_is_for_one_comes_to_that_one() -> None:
    there = Neighbours()
    offer = Offer(E2, H, "e2:1", Amounts(), Amounts(1.0, 1.0, 1.0), ["a", "b"])
    there.say(H, Candidates(SESSION, False, [offer]), E1, H)
    there.say(E1, MoveNow(SESSION), H, H)
    there.say(H, CapacityRequest(SESSION, "publishers"), G, G)
    assert [who for who, _ in there.got] == [E1, H, G]
    assert there.got[0][1] == Candidates(SESSION, False, [offer])


def test_what_an_earlier_life_said_is_no_longer_so() -> None:
    before, now = Post(E1, life=1), Post(E1, life=2)
    for post in (before, now):
        post.as_edge(H)
    head = Post(H, life=1)
    head.as_head([E1], [])
    (old,), (new,) = before.say(UPDATE), now.say(MoveNow(SESSION), to=H, cluster=H)
    assert head.heard(new.bulletin, came_from=E1)[0] == Letter(E1, MoveNow(SESSION))
    assert head.heard(old.bulletin, came_from=E1)[0] is None
