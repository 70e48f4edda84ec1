"""Who has left, and which stores have heard how far they were: what ``left.py`` promises."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidewire.broker.left import LEFT_MAX, Left
from tidewire.model.ids import PubendId, Tick, TreeId
from tidewire.model.stream_messages import Holding

ONE, TWO = TreeId(1), TreeId(2)


def left(name: str, tick: int = 1) -> Holding:
    return Holding(name, 7, -1, [(PubendId(1), Tick(tick))], kind="left")


def names(holdings: list[Holding]) -> list[str]:
    return [one.name for one in holdings]


def test_who_was_out_of_reach_hears_of_all_since_then_and_once() -> None:
    known = Left()
    known.add([left("a")], [ONE, TWO])
    known.add([left("b")], [ONE])
    known.add([left("c")], [ONE, TWO])  # TWO is back, and has not heard of b
    assert names(known.untold(ONE)) == []
    assert names(known.untold(TWO)) == ["b", "c"]
    assert names(known.untold(TWO)) == []


def test_a_broker_that_starts_anew_hears_of_all() -> None:
    known = Left()
    known.add([left("a"), left("b")], [ONE])
    assert names(known.untold(TWO)) == ["a", "b"]


def test_the_last_that_had_a_name_counts() -> None:
    known = Left()
    known.add([left("a", 1)], [])
    known.add([left("a", 2)], [])
    assert (len(known), known.untold(ONE)) == (1, [left("a", 2)])


def test_what_did_not_come_there_is_told_again() -> None:
    known = Left()
    known.add([left("a")], [])
    assert names(known.untold(ONE)) == ["a"]
    known.unheard(ONE)
    assert names(known.untold(ONE)) == ["a"]


def test_those_who_left_first_are_forgotten_first() -> None:
    known = Left()
    known.add([left(str(n)) for n in range(LEFT_MAX + 2)], [])
    assert (len(known), known.untold(ONE)[0].name) == (LEFT_MAX, "2")


def test_who_has_left_again_is_not_the_first_to_be_forgotten() -> None:
    known = Left()
    known.add([left(str(n)) for n in range(LEFT_MAX)], [])
    known.add([left("0", 2), left("new")], [])
    found = known.untold(ONE)
    assert (len(found), found[0].name, found[-2]) == (LEFT_MAX, "2", left("0", 2))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sets(st.sampled_from([ONE, TWO]))), max_size=20))
def test_nobody_is_missed(done: list[tuple[str, set[TreeId]]]) -> None:
    """Of each it is told wherever it was not heard of when it left; what was heard may be told again."""
    known = Left()
    unheard: dict[TreeId, dict[str, None]] = {ONE: {}, TWO: {}}
    for name, told in done:
        known.add([left(name)], told)
        for tree, missed in unheard.items():
            missed.pop(name, None)
            missed.update({} if tree in told else {name: None})
    for tree, missed in unheard.items():
        assert set(missed) <= set(names(known.untold(tree)))
