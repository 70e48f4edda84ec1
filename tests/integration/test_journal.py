"""What a broker tells people, within a measure."""

from __future__ import annotations

from tidewire.broker.effects import Note
from tidewire.live.journal import NOTES_AT_ONCE, Journal
from tidewire.model.ids import Nanoseconds

SECOND = 10**9


def test_of_a_flood_some_are_told_and_the_rest_is_counted() -> None:
    told: list[Note] = []
    journal = Journal(told.append)
    first = Nanoseconds(5 * SECOND)
    for number in range(1_000):
        journal.add(Note("connection ended", {"code": "limit", "why": str(number)}), now_ns=first)
        journal.add(Note("goodbye", {"code": "limit"}), now_ns=first)
    slow = Note("connection ended", {"code": "slow-subscriber", "why": "you did not read"})
    journal.add(slow, now_ns=first)
    assert told[-1] == slow, "one of another kind is told all the same"
    assert len(told) == 2 * NOTES_AT_ONCE + 1
    told.clear()
    journal.look(Nanoseconds(first + SECOND - 1))
    assert told == []
    journal.look(Nanoseconds(first + SECOND))
    further = 1_000 - NOTES_AT_ONCE
    assert told == [
        Note("connection ended", {"code": "limit", "further": further}),
        Note("goodbye", {"code": "limit", "further": further}),
    ]
    told.clear()
    journal.add(slow, now_ns=Nanoseconds(first + SECOND))
    journal.look(Nanoseconds(first + 3 * SECOND))
    assert told == [slow]


def test_what_was_left_out_is_told_before_what_comes_next() -> None:
    told: list[Note] = []
    journal = Journal(told.append)
    for _ in range(NOTES_AT_ONCE + 3):
        journal.add(Note("role", {}), now_ns=Nanoseconds(SECOND))
    journal.add(Note("role", {"is": "head"}), now_ns=Nanoseconds(2 * SECOND))
    assert told[-2:] == [Note("role", {"further": 3}), Note("role", {"is": "head"})]
