"""The kernel's index against the scan: the same deliveries, whatever the filters, the events and the churn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matching.building import both, eq, ge, gt, lt, where
from tests.matching.strategies import attribute_maps, events_near, normal_filters, places
from tidewire._kernel._native import simd_paths
from tidewire.matching.index import KernelMatcher
from tidewire.matching.protocol import Destination, SubscriptionNumber
from tidewire.matching.scan import ScanMatcher
from tidewire.model.events import Event, make_event
from tidewire.model.filters import ALL, NOTHING, Conjunction, Constraint, Filter
from tidewire.model.values import Kind
from tidewire.model.valuesets import members

Item = tuple[Destination, SubscriptionNumber, Filter]


PATHS = simd_paths()
LIST_MAX = 1024
"""Entries that a cluster keeps in a list; emptying it is the most that one insertion does."""


def items(filters: Sequence[Filter], *, destinations: int = 3) -> list[Item]:
    """The filters as subscriptions of a few destinations."""
    return [
        (Destination(i % destinations), SubscriptionNumber(i // destinations), wanted)
        for i, wanted in enumerate(filters)
    ]


def same_answers(filters: Sequence[Filter], events: Sequence[Event], *, gone: Sequence[int] = ()) -> None:
    """Every path of the kernel and the scan agree, before and after some subscriptions have gone."""
    rows = items(filters)
    left = [(rows[i][0], rows[i][1]) for i in gone]
    scan = ScanMatcher()
    scan.insert(rows)
    before = scan.match(events)
    scan.remove(left)
    after = scan.match(events)
    for path in PATHS:
        kernel = KernelMatcher(simd=path)
        kernel.insert(rows)
        assert kernel.match(events) == before
        kernel.remove(left)
        assert kernel.match(events) == after
        assert len(kernel) == len(scan)


@settings(max_examples=5 * settings().max_examples)
@given(st.data())
def test_the_index_gives_the_answers_of_the_scan(data: st.DataObject) -> None:
    """peer L2: all value types, ties, NaN, infinities, huge integers; before and after removals."""
    filters = data.draw(st.lists(normal_filters(), min_size=1, max_size=30))
    drawn = data.draw(st.lists(attribute_maps() | places(), max_size=4))
    near = data.draw(events_near(*filters, count=6))
    gone = data.draw(st.lists(st.sampled_from(range(len(filters))), unique=True))
    same_answers(filters, [make_event(attributes) for attributes in [*drawn, *near]], gone=gone)


def crossed(chance: random.Random, count: int) -> list[Filter]:
    """Filters that crowd a few keys and ranges, so that lists grow into segments and segments split into blocks."""
    found = []
    for _ in range(count):
        constraints = []
        if chance.random() < 0.9:
            constraints.append(Constraint("class", members(Kind.STRING, [chance.choice(["STOCK", "BOND"])])))
        low = round(chance.uniform(-50, 50), 1)
        kind = chance.randrange(4)
        if kind == 0:
            constraints.append(Constraint("price", ge(low)))
        elif kind == 1:
            constraints.append(Constraint("price", lt(low)))
        elif kind == 2:
            constraints.append(Constraint("price", both(ge(low), lt(low + 20))))
        if chance.random() < 0.3:
            constraints.append(
                Constraint("size", members(Kind.NUMBER, chance.sample(range(60), chance.randrange(1, 5))))
            )
        if chance.random() < 0.2:
            constraints.append(Constraint("venue", members(Kind.STRING, [f"venue-{chance.randrange(700)}"])))
        found.append(Filter((Conjunction(tuple(sorted(constraints, key=lambda c: c.attribute))),)))
    return found


def quotes(chance: random.Random, count: int) -> list[Event]:
    """Events that hit those filters."""
    return [
        make_event(
            {
                "class": chance.choice(["STOCK", "BOND", "NOTE"]),
                "price": chance.choice([round(chance.uniform(-60, 60), 1), chance.randrange(-60, 60)]),
                "size": chance.randrange(60),
                "venue": f"venue-{chance.randrange(700)}",
            }
        )
        for _ in range(count)
    ]


BOUNDS = (-(2**53) - 1, -1, 0, 0.5, 1, 3, 2**53 + 1)


def bound_twice(chance: random.Random, count: int) -> list[Filter]:
    """Under a few keys, with bounds for none, one, two or three more attributes, as a permission adds them."""
    found = []
    for _ in range(count):
        allowed = {"class_": eq(f"class {chance.randrange(4)}")}
        for name in chance.sample(["price", "size", "venue"], chance.choice([0, 1, 2, 2, 2, 3])):
            low = chance.choice(BOUNDS)
            allowed[name] = chance.choice([ge(low), gt(low), lt(low), both(ge(low), lt(low + 2)), eq(low)])
        found.append(where(**allowed))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_entries_with_two_bounds_stay_right_under_churn(seed: int) -> None:
    """Where both are scanned, where both hold for all entries of a list, and where there is more to verify."""
    chance = random.Random(seed)
    kernel, scan = KernelMatcher(simd=PATHS[seed % len(PATHS)]), ScanMatcher()
    live: list[Item] = []
    for size in (1, 3, 40, 5, 300, 20):
        gone = [live.pop(chance.randrange(len(live))) for _ in range(max(0, len(live) - size))]
        number = max((row[1] for row in live), default=0)
        fresh = items(bound_twice(chance, size))
        fresh = [
            (where_to, SubscriptionNumber(number + 1 + i), wanted) for i, (where_to, _, wanted) in enumerate(fresh)
        ]
        for matcher in (kernel, scan):
            matcher.remove([(row[0], row[1]) for row in gone])
            matcher.insert(fresh)
        live += fresh
        events = [
            make_event(
                {"class": f"class {chance.randrange(5)}"}
                | {
                    n: chance.choice(BOUNDS) + chance.choice([-1, 0, 1])
                    for n in chance.sample(["price", "size", "venue"], chance.choice([1, 2, 3, 3]))
                }
            )
            for _ in range(200)
        ]
        assert kernel.match(events) == scan.match(events)


@pytest.mark.parametrize("seed", range(4))
def test_large_clusters_stay_right_under_churn(seed: int) -> None:
    """Lists become segments and segments are rebuilt: thousands of subscriptions come and go in random order."""
    chance = random.Random(seed)
    kernel, scan = KernelMatcher(simd=PATHS[seed % len(PATHS)]), ScanMatcher()
    live: dict[tuple[Destination, SubscriptionNumber], None] = {}
    for _ in range(6):
        fresh: list[Item] = []
        for wanted in crossed(chance, 1200):
            name = (Destination(chance.randrange(40)), SubscriptionNumber(chance.randrange(100_000)))
            if name not in live:
                live[name] = None
                fresh.append((*name, wanted))
        kernel.insert(fresh)
        scan.insert(fresh)
        leaving = chance.sample(list(live), int(len(live) * chance.choice([0.1, 0.5, 0.95])))
        kernel.remove(leaving)
        scan.remove(leaving)
        for name in leaving:
            del live[name]
        events = quotes(chance, 24)
        assert kernel.match(events) == scan.match(events)
    kernel.remove(list(live))
    assert kernel.native.entries == 0
    assert kernel.match(quotes(chance, 3)) == [[], [], []]


def edges_of(kind: int, chance: random.Random) -> tuple[Any, Any]:
    """Two values of a kind, ascending: fractions, integers that no double can say, texts with and without a key."""
    if kind == 0:
        low, high = sorted([chance.random(), chance.random()])
        return low, high
    if kind == 1:
        start = 2**53 + chance.randrange(400)
        return start, start + chance.randrange(1, 50)
    first, second = sorted("".join(chance.choices("ab", k=chance.randrange(1, 14))) for _ in range(2))
    return first, second + "b"


@pytest.mark.parametrize("path", PATHS)
def test_values_on_the_edges_of_ranges_are_told_apart(path: str) -> None:
    """Segments tell most entries by steps of a byte; what lies on an edge, or beside it, is verified all the same."""
    chance = random.Random(11)
    filters, values = [], []
    for _ in range(1500):
        bound = [edges_of(kind, chance) for kind in range(3)]
        constraints = [
            Constraint(name, both(ge(low), lt(high))) for name, (low, high) in zip("abc", bound, strict=True)
        ]
        filters.append(Filter((Conjunction(tuple(constraints[chance.randrange(2) :])),)))
        values.append(bound)
    kernel, scan = KernelMatcher(simd=path), ScanMatcher()
    for matcher in (kernel, scan):
        matcher.insert(items(filters))
    events = [
        make_event({name: chance.choice(values)[kind][chance.randrange(2)] for kind, name in enumerate("abc")})
        for _ in range(60)
    ]
    events += [make_event({"a": 0.5, "b": 2**53 + 17}), make_event({"a": "x", "b": 2.0**53, "c": "ab"})]
    assert kernel.match(events) == scan.match(events)


def boxes(chance: random.Random, count: int) -> list[Filter]:
    """Ranges over two or three of four attributes: ten shapes."""
    found = []
    for _ in range(count):
        names = sorted(chance.sample("abcd", chance.choice([2, 3])))
        lows = [chance.uniform(0, 70) for _ in names]
        constraints = (Constraint(name, both(ge(low), lt(low + 40))) for name, low in zip(names, lows, strict=True))
        found.append(Filter((Conjunction(tuple(constraints)),)))
    return found


@pytest.mark.parametrize("keep", [0.02, 0.2])
def test_one_change_moves_few_entries(keep: float) -> None:
    """No insertion or removal waits for a whole segment: what is to be moved is moved a little with each change."""
    chance = random.Random(5)
    kernel, scan = KernelMatcher(), ScanMatcher()
    rows = items(boxes(chance, 12_000))
    moved, most = 0, 0

    def note() -> None:
        nonlocal moved, most
        most, moved = max(most, kernel.native.placements - moved), kernel.native.placements

    def check() -> None:
        events = [make_event({name: chance.uniform(0, 110) for name in "abcd"}) for _ in range(3)]
        assert kernel.match(events) == scan.match(events)

    for at in range(0, len(rows), 3_000):
        for row in rows[at : at + 3_000]:
            kernel.insert([row])
            note()
        scan.insert(rows[at : at + 3_000])
        check()
    assert moved > 2 * len(rows)  # from the list to a segment, and most of them to one of their shape
    leaving = chance.sample(rows, int(len(rows) * (1 - keep)))
    for destination, number, _ in leaving:
        kernel.remove([(destination, number)])
        note()
    scan.remove([(destination, number) for destination, number, _ in leaving])
    check()
    assert most <= 2 * LIST_MAX


def test_many_equal_filters_share_one_entry() -> None:
    """Identical filters are one entry; a crowd of them comes and goes."""
    wanted = Filter((Conjunction((Constraint("a", members(Kind.STRING, ["x"])),)),))
    kernel, scan = KernelMatcher(), ScanMatcher()
    rows: list[Item] = [(Destination(i % 7), SubscriptionNumber(i // 7), wanted) for i in range(700)]
    events = [make_event({"a": "x"}), make_event({"a": "y"})]
    for matcher in (kernel, scan):
        matcher.insert(rows)
    assert kernel.native.entries == 1
    assert kernel.match(events) == scan.match(events)
    for start in range(0, 690, 30):
        leaving = [(d, n) for d, n, _ in rows[start : start + 30]]
        kernel.remove(leaving)
        scan.remove(leaving)
        assert kernel.match(events) == scan.match(events)


def test_a_crowd_settles_an_event_only_if_it_satisfies_everyone() -> None:
    """One destination wants the event through the segments alone; a crowd satisfies all the others."""
    crowd = where(a=eq("x"))
    rows: list[Item] = [(Destination(i % 7), SubscriptionNumber(i // 7), crowd) for i in range(7 * 40)]
    rows += [(Destination(7), SubscriptionNumber(i), where(a=eq("x"), v=gt(i))) for i in range(2000)]
    kernel, scan = KernelMatcher(), ScanMatcher()
    events = [make_event({"a": "x", "v": v}) for v in (0, 5, 1000, 3000)]
    for matcher in (kernel, scan):
        matcher.insert(rows)
    assert kernel.match(events) == scan.match(events)
    assert [len(found) for found in kernel.match(events)] == [7, 8, 8, 8]


def test_a_disjunction_is_delivered_once() -> None:
    """A subscription whose conjunctions all match is named once, in both modes."""
    either = Filter(
        (
            Conjunction((Constraint("a", gt(1)),)),
            Conjunction((Constraint("b", gt(1)),)),
        )
    )
    same_answers([either, ALL, NOTHING, either], [make_event({"a": 2, "b": 2}), make_event({"b": 2}), make_event({})])


def test_early_bad_choices_of_an_access_key_are_mended() -> None:
    """Filters that came while little was known of the keys move once their list is long; the answers stay."""
    chance = random.Random(7)
    filters = [
        Filter(
            (
                Conjunction(
                    (
                        Constraint("class", members(Kind.STRING, ["STOCK"])),
                        Constraint("symbol", members(Kind.STRING, [f"S{chance.randrange(3000)}"])),
                    )
                ),
            )
        )
        for _ in range(3000)
    ]
    same_answers(filters, [make_event({"class": "STOCK", "symbol": f"S{i}"}) for i in range(0, 3000, 100)])
