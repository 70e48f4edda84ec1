"""Whatever bytes the kernel is given, it answers by code; nothing crashes and nothing else is affected."""

from __future__ import annotations

import random
import threading
from array import array
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.building import eq, ge, gt, where
from tests.matching.strategies import attribute_maps, normal_filters
from tidewire._kernel._native import Index, Poset, decode_event, encode_event, join_events, simd_paths
from tidewire._kernel.codec import decode, encode
from tidewire.matching.index import KernelMatcher
from tidewire.matching.protocol import Destination, SubscriptionNumber
from tidewire.model.errors import (
    DamagedEvent,
    DamagedFilter,
    DuplicateSubscription,
    FilterTooCostly,
    UnknownName,
    UnknownSubscription,
    UnsupportedType,
    UsageError,
    ValueOutOfRange,
)
from tidewire.model.events import Envelope, make_event
from tidewire.model.filters import ALL, Filter, encode_filter
from tidewire.model.values import Timestamp


def numbers(*values: int) -> array[int]:
    """Unsigned 32-bit, as the kernel takes them."""
    return array("I", values)


def refuses(index: Index, filter_bytes: bytes) -> bool:
    """Is this filter refused by code? Nothing may stay behind if so."""
    try:
        index.insert(numbers(0), numbers(0), [filter_bytes])
    except DamagedFilter:
        assert index.subscriptions == index.entries == 0
        return True
    index.remove(numbers(0), numbers(0))
    return False


@given(st.binary(max_size=200))
def test_random_bytes_are_no_filter_or_a_whole_one(data: bytes) -> None:
    refuses(Index(), data)


@given(normal_filters(), st.data())
def test_a_damaged_filter_is_refused_or_is_another_filter(wanted: Filter, data: st.DataObject) -> None:
    """Cut anywhere it is refused; with a byte changed it is refused or read as what it then says."""
    whole = encode_filter(wanted)
    index = Index()
    assert refuses(index, whole[: data.draw(st.integers(0, len(whole) - 1))])
    position = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[position] = data.draw(st.integers(0, 255))
    refuses(index, bytes(changed))
    poset = Poset()
    try:
        (node,) = poset.insert([bytes(changed)])
    except DamagedFilter:
        assert len(poset) == 0
    else:
        poset.remove(numbers(node))


def test_a_million_random_bytes() -> None:
    """As filters, as events and as batches, in pieces of every size."""
    chance = random.Random(20)
    index = Index()
    index.insert(numbers(1), numbers(1), [encode_filter(ALL)])
    left = 1_000_000
    while left > 0:
        piece = chance.randbytes(chance.randrange(1, 400))
        left -= len(piece)
        with pytest.raises(DamagedFilter):
            index.insert(numbers(0), numbers(0), [piece])
        with pytest.raises(DamagedEvent):
            decode_event(piece)
        assert len(index.match(join_events([piece])).damaged) == 1
        try:
            index.match(piece)
        except DamagedEvent:
            continue


@given(attribute_maps(), st.data())
def test_a_damaged_event_is_named_and_the_others_pass(attributes: dict[str, object], data: st.DataObject) -> None:
    """One bad event of a batch is reported with its place; its neighbours are delivered."""
    good = encode(make_event({"a": 1}))
    whole = encode(make_event(attributes))
    index = Index()
    index.insert(numbers(3), numbers(4), [encode_filter(ALL)])
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    found = index.match(join_events([good, cut, good]))
    assert [place for place, _ in found.damaged] == [1]
    assert list(found.event_first) == [0, 1, 1, 2]
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found = index.match(join_events([bytes(changed), good]))
    assert list(found.event_first)[-2:] == [len(found.destination) - 1, len(found.destination)]
    with suppress(DamagedEvent):
        decode_event(bytes(changed))


def test_a_cut_batch_is_refused() -> None:
    batch = join_events([encode(make_event({"a": 1}))] * 3)
    for size in range(1, len(batch)):
        if size % (len(batch) // 3):
            with pytest.raises(DamagedEvent):
                Index().match(batch[:size])


def test_a_refused_call_changes_nothing() -> None:
    """All or nothing: a duplicate, an unknown name or a damaged filter in the middle undoes the call."""
    index, good = Index(), encode_filter(ALL)
    index.insert(numbers(1, 1), numbers(1, 2), [good, good])
    with pytest.raises(DuplicateSubscription):
        index.insert(numbers(2, 1), numbers(1, 2), [good, good])
    with pytest.raises(DamagedFilter):
        index.insert(numbers(2, 3), numbers(1, 2), [good, good[:-1]])
    with pytest.raises(UnknownSubscription):
        index.remove(numbers(1, 9), numbers(1, 9))
    with pytest.raises(UnknownSubscription):
        index.remove(numbers(1, 1), numbers(1, 1))
    with pytest.raises(ValueOutOfRange):
        index.insert(numbers(1 << 20), numbers(0), [good])
    with pytest.raises(ValueOutOfRange):
        index.insert(numbers(0), numbers(1 << 24), [good])
    with pytest.raises(UsageError):
        index.insert(numbers(1, 2), numbers(1), [good])
    assert (index.subscriptions, index.entries) == (2, 1)
    poset = Poset()
    with pytest.raises(DamagedFilter):
        poset.insert([good, b"\x00"])
    with pytest.raises(UnknownSubscription):
        poset.remove(numbers(1))
    assert len(poset) == 0


def test_a_refused_call_leaves_the_others_of_it_out() -> None:
    """Filters are worked on a few at a time: wherever among them the bad one is, nothing of the call stays."""
    wanted = [encode_filter(where(**{f"name{i}": eq(f"value{i}"), "size": ge(i)})) for i in range(40)]
    who = numbers(*range(40))
    for bad in range(40):
        index = Index()
        index.insert(numbers(99), numbers(0), [encode_filter(where(name3=eq("value3")))])
        with pytest.raises(DamagedFilter):
            index.insert(who, who, [*wanted[:bad], wanted[bad][:-1], *wanted[bad + 1 :]])
        with pytest.raises(DuplicateSubscription):
            index.insert(numbers(*who, bad), numbers(*who, bad), [*wanted, wanted[0]])
        assert (index.subscriptions, index.entries) == (1, 1)
        index.insert(who, who, wanted)
        found = index.match(
            join_events([encode(make_event({"name3": "value3", f"name{bad}": f"value{bad}", "size": bad}))])
        )
        assert set(found.destination.tolist()) == {99, bad} | ({3} if bad >= 3 else set())


def test_a_refused_call_leaves_no_names_behind() -> None:
    """An index has room for 32,766 names; those of refused calls do not count."""
    index, good = Index(), encode_filter(where(known=eq(1)))
    index.insert(numbers(0), numbers(0), [good])
    for call in range(2_200):
        new = [encode_filter(where(**{f"name{call}.{i}": eq(i)})) for i in range(15)]
        with pytest.raises(DuplicateSubscription):
            index.insert(numbers(0, *range(1, 16)), numbers(*[0] * 16), [good, *new])
    index.insert(numbers(1), numbers(0), [encode_filter(where(new=eq(1)))])
    assert (index.subscriptions, index.entries) == (2, 2)


@pytest.mark.parametrize("path", simd_paths())
def test_a_limit_that_no_array_could_hold_is_refused(path: str) -> None:
    index, batch = Index(simd=path), join_events([encode_event({"a": 1})])
    index.insert(numbers(7, 7), numbers(3, 4), [encode_filter(where(a=eq(1))), encode_filter(where(a=ge(0)))])
    for limit in (4_001, 2**31, 2**32 - 2, 2**32 - 1):
        with pytest.raises(ValueOutOfRange, match="at most 4000; 0 names all"):
            index.match(batch, limit=limit)
    for limit in (0, 4_000):
        assert sorted(index.match(batch, limit=limit).numbers) == [3, 4]


def test_unknown_simd_paths_are_named() -> None:
    with pytest.raises(UnknownName, match="scalar"):
        KernelMatcher(simd="neon")


@pytest.mark.parametrize(
    "arguments",
    [
        ({"a": 1}, (-1, *[None] * 10)),
        ({"a": 1}, [None] * 11),
        ({"a": 1}, (None,) * 10),
        ({"a": 1}, (*[None] * 10, b"short")),
        ({"a": Timestamp(2**70)},),
        ({"a": 1}, None, b"x", 5),
        ({"a": 1}, None, None, "text/plain"),
        ({"a": 1}, None, "text"),
        ({1: 1},),
        ({"": 1},),
        ({"a": "\ud800"},),
    ],
)
def test_what_is_no_event_is_refused_by_code(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError):
        encode_event(*arguments)
    with pytest.raises(UsageError):
        join_events([1])  # type: ignore[list-item]


def test_one_subscription_per_destination_is_cheap() -> None:
    """Many connections with one subscription each are the usual case (peer A8); far numbers cost only themselves."""
    index, count = Index(), 20_000
    index.insert(array("I", range(count)), array("I", [1] * count), [encode_filter(ALL)] * count)
    assert index.memory_bytes / count < 200
    index.insert(numbers(5), numbers((1 << 24) - 1), [encode_filter(ALL)])
    assert index.memory_bytes / count < 200
    index.remove(numbers(5), numbers((1 << 24) - 1))
    index.remove(array("I", range(count)), array("I", [1] * count))
    assert index.subscriptions == index.entries == 0


def test_a_filter_beyond_the_bound_of_names_leaves_none_behind() -> None:
    """An index has 32,766 attribute names; what was refused for them does not use any up."""

    def named(prefix: str, count: int) -> Filter:
        return where(**{f"{prefix}{i}": gt(0) for i in range(count)})

    def take(number: int, wanted: Filter) -> None:
        index.insert(numbers(0), numbers(number), [encode_filter(wanted)])

    index = Index()
    for number in range(128):
        take(number, named(f"a{number}_", 255))
    for attempt in range(3):
        with pytest.raises(FilterTooCostly):
            take(200, named(f"refused{attempt}_", 255))
    take(201, named("b", 32_766 - 128 * 255))
    with pytest.raises(FilterTooCostly):
        take(202, named("c", 1))
    index.remove(numbers(0), numbers(0))
    take(202, named("d", 255))


def test_a_far_number_is_known_when_the_near_ones_reach_it() -> None:
    """Numbers far beyond the others are kept apart until the others have grown up to them."""
    index, whole = Index(), encode_filter(ALL)
    for number in (300, *range(300), *range(301, 400)):
        index.insert(numbers(0), numbers(number), [whole])
    with pytest.raises(DuplicateSubscription):
        index.insert(numbers(0), numbers(300), [whole])
    index.remove(array("I", [0] * 400), array("I", range(400)))
    assert index.subscriptions == index.entries == 0


def test_a_second_thread_is_told_so() -> None:
    """Readers too: one thread works, the other gets a UsageError or an answer, and nothing breaks."""
    filters = [encode_filter(where(a=eq(i))) for i in range(3000)]
    poset, index, stop = Poset(), Index(), threading.Event()

    def read() -> None:
        while not stop.is_set():
            with suppress(UsageError):
                poset.roots()
            with suppress(UsageError):
                assert index.memory_bytes >= 0

    reader = threading.Thread(target=read)
    reader.start()
    done = 0
    try:
        while done < 20:
            with suppress(UsageError):
                poset.remove(array("I", poset.insert(filters)))
                done += 1
            with suppress(UsageError):
                index.insert(array("I", range(3000)), array("I", [done] * 3000), filters)
    finally:
        stop.set()
        reader.join()
    assert done == 20


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_larger_integers_are_refused(value: int) -> None:
    with pytest.raises(ValueOutOfRange):
        encode_event({"a": value})


@pytest.mark.parametrize("value", [None, [1], {"b": 1}, 1j, object()])
def test_unknown_types_are_refused(value: object) -> None:
    with pytest.raises(UnsupportedType):
        encode_event({"a": value})


@given(attribute_maps(), st.none() | st.binary(max_size=50), st.booleans())
def test_events_come_back_as_they_went(attributes: dict[str, object], body: bytes | None, with_envelope: bool) -> None:
    envelope = Envelope(publisher=2**64 - 1, tick=0, published_ns=-5, value=0.5, tenant=7, trace=bytes(25))
    event = make_event(
        attributes,
        body=body,
        content_type="application/json" if body is not None else None,
        envelope=envelope if with_envelope else Envelope(),
    )
    assert decode(encode(event)) == event


def test_an_absent_envelope_field_costs_one_bit() -> None:
    """Design §3.9: the header has the bits anyway."""
    bare = len(encode(make_event({"a": 1})))
    assert len(encode(make_event({"a": 1}, envelope=Envelope(tick=1)))) == bare + 8


def test_a_time_budget_stops_between_events() -> None:
    """The kernel says where it stopped, and going on from there gives the rest."""
    matcher = KernelMatcher()
    matcher.insert([(Destination(0), SubscriptionNumber(0), ALL)])
    batch = join_events([encode(make_event({"a": i})) for i in range(50_000)])
    first = matcher.native.match(batch, budget_us=1)
    assert 0 < first.next < 100
    rest = matcher.native.match(batch, first=first.next)
    assert rest.next == 50_000
    assert len(first.destination) + len(rest.destination) == 50_000
