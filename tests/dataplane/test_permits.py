"""Who may publish what: the kernel's quick answer is that of the filters, for few conjunctions and for many."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataplane.world import receive
from tests.matching.building import either, eq, ge, lt, where
from tests.matching.strategies import attribute_maps, events_near, normal_filters, places
from tidewire._kernel._native import simd_paths
from tidewire._kernel.codec import decode, encode
from tidewire.dataplane.kernel import KernelEngine
from tidewire.dataplane.protocol import REFUSED_LISTED_MAX
from tidewire.matching.covering import allows
from tidewire.model.errors import TidewireError
from tidewire.model.events import make_event
from tidewire.model.filters import ALL, NOTHING, Filter, encode_filter
from tidewire.model.ids import Conn, TreeId
from tidewire.wire.frames import publish_frame

ANN = Conn(0)
FEW = 16
"""Conjunctions that the kernel asks one by one; an index is asked about more."""

Filters = Sequence[Filter] | None


def asked(permitted: Filters, advertised: Filters, events: Sequence[bytes], *, simd: str = "") -> dict[int, str]:
    """The events that the kernel refuses, with the code; so few at once that each is named."""
    engine = KernelEngine(budget_ns=0, simd=simd)
    engine.own_tree(TreeId(1))
    engine.open(ANN, is_link=False, when_full="drop")
    engine.may_publish(ANN, publisher=1, next_sequence=0)
    engine.permit(ANN, None if permitted is None else [encode_filter(one) for one in permitted])
    engine.allow(ANN, None if advertised is None else [encode_filter(one) for one in advertised])
    found: dict[int, str] = {}
    for first in range(0, len(events), REFUSED_LISTED_MAX):
        some = events[first : first + REFUSED_LISTED_MAX]
        said = receive(engine, ANN, b"".join(publish_frame(event, born_ns=0) for event in some))
        found |= {sequence: code for code, (sequences, _) in said.refused.items() for sequence in sequences}
    return found


def expected(permitted: Filters, advertised: Filters, events: Sequence[bytes]) -> dict[int, str]:
    """By the filters themselves."""
    found: dict[int, str] = {}
    for sequence, event in enumerate(events):
        try:
            attributes = decode(event).attributes
        except TidewireError:
            found[sequence] = "event-damaged"
            continue
        if permitted is not None and not any(one.accepts(attributes) for one in permitted):
            found[sequence] = "not-permitted"
        elif advertised is not None and not any(allows(one, attributes) for one in advertised):
            found[sequence] = "event-not-advertised"
    return found


def damaged(event: bytes) -> st.SearchStrategy[bytes]:
    """Behind the envelope, whose fields a client may not write: one byte is another, or the end is missing."""
    places_of = st.integers(16, max(16, len(event) - 1))
    changed = st.builds(lambda at, byte: event[:at] + bytes([byte]) + event[at + 1 :], places_of, st.integers(0, 255))
    return changed | st.integers(0, len(event)).map(lambda size: event[:size])


permissions = st.none() | st.lists(normal_filters(), max_size=4) | st.lists(normal_filters(), min_size=12, max_size=24)


@settings(max_examples=3 * settings().max_examples)
@given(st.data(), permissions, permissions, st.sampled_from(simd_paths()))
def test_an_event_is_refused_exactly_if_no_filter_accepts_it(
    data: st.DataObject, permitted: Filters, advertised: Filters, simd: str
) -> None:
    """peer L4: negation, disjunction, null, geography and strings; shapes that come again; damaged events."""
    near = data.draw(events_near(*(permitted or ()), *(advertised or ()), count=8))
    drawn = data.draw(st.lists(attribute_maps() | places(), max_size=4))
    whole = [encode(make_event(attributes)) for attributes in [*near, *drawn]]
    again = data.draw(st.lists(st.sampled_from(whole), max_size=4))
    broken = data.draw(st.lists(st.sampled_from(whole).flatmap(damaged), max_size=4))
    events = data.draw(st.permutations([*whole, *again, *broken]))
    assert asked(permitted, advertised, events, simd=simd) == expected(permitted, advertised, events)


def numbered(count: int) -> Filter:
    """So many conjunctions, each with a number of its own."""
    return either(*(where(n=eq(i), other=ge(i)) for i in range(count)))


@pytest.mark.parametrize("count", [1, FEW - 1, FEW, FEW + 1, 100])
@pytest.mark.parametrize("simd", simd_paths())
def test_few_and_many_conjunctions(count: int, simd: str) -> None:
    """As one filter and as many; also a type that no filter has in mind."""
    events = [
        encode(make_event(attributes))
        for i in (0, 1, count - 1, count, 2.5)
        for attributes in ({"n": i, "other": i}, {"n": i, "other": i - 1}, {"n": i}, {"n": str(i), "other": i})
    ]
    for given_filters in ([numbered(count)], [Filter((one,)) for one in numbered(count).conjunctions]):
        for permitted, advertised in ((given_filters, None), (None, given_filters), (given_filters, given_filters)):
            found = asked(permitted, advertised, events, simd=simd)
            assert found == expected(permitted, advertised, events)
            assert 0 < len(found) < len(events)


@pytest.mark.parametrize("many", [False, True])
def test_the_error_names_the_permission_before_the_advertisement(many: bool) -> None:
    """Whichever of the two is asked in which way."""
    one, other = [where(n=lt(3))], [numbered(FEW + 1)]
    events = [encode(make_event({"n": 50, "more": 1}))]
    permitted, advertised = (other, one) if many else (one, other)
    assert asked(permitted, advertised, events) == {0: "not-permitted"}


def test_more_shapes_than_are_remembered() -> None:
    """The oldest are forgotten, the answers stay."""
    permitted = [either(where(n=lt(5)), where(text=eq("a")))]
    events = [encode(make_event({"n": i % 10, f"x{i % 1500}": i})) for i in range(3200)]
    assert asked(permitted, None, events) == expected(permitted, None, events)


@pytest.mark.parametrize(("permitted", "passes"), [([ALL], True), ([NOTHING], False), ([], False), (None, True)])
def test_everything_and_nothing(permitted: Filters, passes: bool) -> None:
    events = [encode(make_event({})), encode(make_event({"n": 1}))]
    assert asked(permitted, None, events) == ({} if passes else {0: "not-permitted", 1: "not-permitted"})
