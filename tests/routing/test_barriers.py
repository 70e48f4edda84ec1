"""Syncs: each sets out at once, and says what stands when it is back."""

from __future__ import annotations

from tidewire.model.ids import Conn, TreeId
from tidewire.model.routing_messages import Sync, Synced
from tidewire.routing.answers import Answer, Reached, Tell
from tidewire.routing.barriers import SYNCS_MAX, Syncs, synced

PARENT = Conn(1)


def tokens(answers: list[Answer]) -> list[int]:
    messages = [answer.message for answer in answers if isinstance(answer, Tell)]
    return [message.token for message in messages if isinstance(message, Sync)]


def test_a_sync_does_not_wait_for_the_one_before() -> None:
    """Behind a long queue it would take two passages."""
    syncs = Syncs(TreeId(7))
    assert tokens(syncs.ask(10, parent=PARENT)) == [1]
    assert tokens(syncs.ask(11, parent=PARENT)) == [2]
    assert syncs.came_back(1, parent=PARENT) == ([10], [], True)
    assert syncs.came_back(2, parent=PARENT) == ([11], [], True)
    assert syncs.came_back(2, parent=PARENT) is None


def test_beyond_the_bound_the_next_is_shared() -> None:
    syncs = Syncs(TreeId(7))
    for asker in range(SYNCS_MAX):
        assert tokens(syncs.ask(asker, parent=PARENT)) == [asker + 1]
    assert syncs.ask(1000, parent=PARENT) == syncs.ask(1001, parent=PARENT) == []
    back = syncs.came_back(1, parent=PARENT)
    assert back is not None
    assert tokens(back[1]) == [SYNCS_MAX + 1]
    assert syncs.came_back(SYNCS_MAX + 1, parent=PARENT) == ([*range(1, SYNCS_MAX), 1000, 1001], [], True)


def test_what_was_told_stands_when_a_sync_behind_it_is_back() -> None:
    syncs = Syncs(TreeId(7))
    syncs.ask(10, parent=PARENT)
    syncs.told_more()
    syncs.ask(11, parent=PARENT)
    assert syncs.came_back(1, parent=PARENT) == ([10], [], False)
    assert not syncs.is_proven
    assert syncs.came_back(2, parent=PARENT) == ([11], [], True)
    assert syncs.is_proven


def test_a_neighbour_that_has_asked_often_hears_of_the_last_one() -> None:
    """All that set out before are back with it, there as well."""
    one, other = Conn(4), Conn(5)
    told = synced(TreeId(7), [(one, 3), 10, (other, 1), (one, 5), 11, (one, 4)])
    assert told == [Reached(10), Reached(11), Tell(one, Synced(TreeId(7), 5)), Tell(other, Synced(TreeId(7), 1))]
    child = Syncs(TreeId(7))
    for asker in range(5):
        child.ask(asker, parent=PARENT)
    assert child.came_back(5, parent=PARENT) == ([0, 1, 2, 3, 4], [], True)
