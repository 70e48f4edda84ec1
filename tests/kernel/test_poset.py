"""The covering order against brute force: who covers whom, before and after every change."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.building import eq, gt, where
from tests.matching.strategies import normal_filters
from tidewire.language import compile_filter, read_tuples
from tidewire.matching.covering import covers
from tidewire.matching.index import KernelMatcher
from tidewire.matching.poset import Node, Poset
from tidewire.matching.protocol import Destination, SubscriptionNumber
from tidewire.model.events import make_event
from tidewire.model.filters import Filter


def has_patterns(wanted: Filter) -> bool:
    """Does it need more than intervals to be compared?"""
    return any(c.areas or any(k.allowed.like or k.allowed.unlike for k in c.constraints) for c in wanted.conjunctions)


def check(poset: Poset, live: dict[Node, Filter]) -> None:
    """The forest is one of covering; the roots are the filters that no other one covers."""
    roots = poset.covering_set()
    assert len(set(roots)) == len(roots)
    for node, wanted in live.items():
        parent = poset.parent(node)
        assert all(poset.parent(child) == node for child in poset.children(node))
        if parent is not None:
            assert covers(live[parent], wanted)
            assert node not in roots
            assert node in poset.children(parent)
        elif wanted.conjunctions:
            assert node in roots
            others = (other for other in live.values() if other.conjunctions and not has_patterns(other))
            if not has_patterns(wanted):
                assert not any(covers(other, wanted) and not covers(wanted, other) for other in others)


@given(st.lists(st.tuples(normal_filters(), st.booleans()), min_size=1, max_size=40))
def test_the_covering_set_is_exact(steps: list[tuple[Filter, bool]]) -> None:
    """peer L5, peer L6: insertions and removals in random order."""
    poset = Poset()
    uses: list[Node] = []
    live: dict[Node, Filter] = {}
    for wanted, stays in steps:
        (node,) = poset.insert([wanted])
        uses.append(node)
        live[node] = wanted
        assert poset.filter_of(node) == wanted
        if not stays:
            gone = uses.pop(len(uses) // 2)
            poset.remove([gone])
            if gone not in uses:
                del live[gone]
        check(poset, live)
    assert len(poset) == len(live)


def test_golden_covering_set() -> None:
    """peer G1: the covering set of five subscriptions, and what hangs from it."""
    texts = {
        "stock": "[class,eq,'STOCK']",
        "yahoo": "[class,eq,'STOCK'],[symbol,eq,'YHOO']",
        "volume": "[class,eq,'STOCK'],[volume,>,1000]",
        "sports": "[class,eq,'SPORTS']",
        "racing": "[class,eq,'SPORTS'],[type,eq,'RACING']",
    }
    for seed in range(20):
        order = random.Random(seed).sample(list(texts), len(texts))
        poset = Poset()
        nodes = dict(zip(order, poset.insert(read_tuples(texts[name]) for name in order), strict=True))
        assert set(poset.covering_set()) == {nodes["stock"], nodes["sports"]}
        assert set(poset.children(nodes["stock"])) == {nodes["yahoo"], nodes["volume"]}
        assert poset.children(nodes["sports"]) == [nodes["racing"]]


def test_golden_vectors() -> None:
    """peer G3: which of six publications each subscription matched, the first one right-most."""
    published: list[dict[str, object]] = [
        {"class": "STOCK", "v": 0},
        {"class": "STOCK", "v": 10},
        {"class": "STOCK", "v": 20},
        {"class": "SPORTS", "type": "racing"},
        {"class": "STOCK", "v": 100},
        {"class": "STOCK", "v": 500},
    ]
    expected = {
        "class = 'STOCK'": "110111",
        "class = 'STOCK' and v > 15": "110100",
        "class = 'STOCK' and v > 150": "100000",
        "class = 'SPORTS'": "001000",
        "class = 'STOCK' and v > 50": "110000",
        "class = 'STOCK' and v < 5": "000001",
        "class = 'MOVIES'": "000000",
    }
    matcher = KernelMatcher()
    matcher.insert((Destination(0), SubscriptionNumber(i), compile_filter(text)) for i, text in enumerate(expected))
    bits = dict.fromkeys(range(len(expected)), "")
    for found in matcher.match([make_event(attributes) for attributes in published]):
        matched = set(found[0].numbers)
        for i in bits:
            bits[i] = ("1" if i in matched else "0") + bits[i]
    assert list(bits.values()) == list(expected.values())


def test_a_chain_hangs_link_by_link() -> None:
    """Whatever the order of arrival, v > 1 covers v > 2 covers v > 3 ..., and the middle may go."""
    for seed in range(10):
        chance = random.Random(seed)
        bounds = list(range(200))
        chance.shuffle(bounds)
        poset = Poset()
        nodes = dict(zip(bounds, poset.insert(where(v=gt(bound)) for bound in bounds), strict=True))
        assert poset.covering_set() == [nodes[0]]
        depth = {0: 0}
        for bound in range(1, 200):
            parent = poset.parent(nodes[bound])
            depth[bound] = 1 + depth[next(b for b in range(bound) if nodes[b] == parent)]
        assert max(depth.values()) > 20
        for bound in chance.sample(bounds, 150):
            poset.remove([nodes.pop(bound)])
            assert poset.covering_set() == [nodes[min(nodes)]]


@pytest.mark.parametrize("count", [20_000])
def test_one_that_covers_all_comes_and_goes(count: int) -> None:
    """The most general filter takes over every root when it comes, and they rise again when it goes."""
    poset = Poset()
    poset.insert(where(a=eq(i), b=gt(i)) for i in range(count))
    assert len(poset.covering_set()) == count
    (whole,) = poset.insert([compile_filter("a is number")])
    assert poset.covering_set() == [whole]
    poset.remove([whole])
    assert len(poset.covering_set()) == count


def _random_filter(rng: random.Random) -> str:
    """Of forms that have no order: lists, gaps, patterns; few values, so that many cover one another."""

    def one(letters: str = "abcdef") -> str:
        return rng.choice(letters)

    def some(most: int) -> str:
        return ", ".join(f"'{one()}'" for _ in range(rng.randint(1, most)))

    forms = (
        f"s in ({some(4)})",
        f"s not in ({some(3)})",
        f"s <> '{one()}' and s > '{one('abc')}'",
        f"s like '%{one('abc')}%{one('abc')}' and s not like '%{one('abc')}'",
        f"s like '{one('ab')}%{one('abc')}'",
        f"s = '{one()}'",
    )
    return rng.choice(forms) + (f" and t in ({some(3)})" if rng.random() < 0.3 else "") + f" and y > {rng.randrange(4)}"


@pytest.mark.parametrize("seed", range(4))
def test_lists_gaps_and_patterns_are_found(seed: int) -> None:
    """Through removals too; what is compared with care apart, the covering set is exact."""
    rng = random.Random(seed)
    poset = Poset(seed=seed)
    live: dict[Node, Filter] = {}
    for step in range(150):
        wanted = compile_filter(_random_filter(rng))
        (node,) = poset.insert([wanted])
        if node in live:
            poset.remove([node])
        live[node] = wanted
        if rng.random() < 0.3:
            gone = rng.choice(list(live))
            poset.remove([gone])
            del live[gone]
        if step % 5 == 0:
            check(poset, live)


def test_a_set_is_found_among_very_many() -> None:
    """More of them share a value than are looked at one by one."""
    poset = Poset()
    poset.insert([compile_filter(f"s in ('a', 'b', 'x{i}') and y > {i}") for i in range(2000)])
    texts = ("s = 'x7' and y > 9", "s = 'q' and y > 9", "s in ('a', 'b', 'x7') and y > 6")
    narrow, nobody, wide = poset.insert([compile_filter(text) for text in texts])
    assert poset.parent(nobody) is None
    assert wide in poset.covering_set()
    assert poset.filter_of(poset.children(wide)[0]) == compile_filter("s in ('a', 'b', 'x7') and y > 7")
    poset.remove([wide])
    parent = poset.parent(narrow)
    assert parent is not None
    assert poset.filter_of(parent) == compile_filter("s in ('a', 'b', 'x7') and y > 7")


@pytest.mark.parametrize("order", ["rising", "falling", "shuffled"])
def test_very_many_of_one_pattern_in_any_order(order: str) -> None:
    """The tree of points is built anew when it leans, on insertion and on removal: nothing is lost in it."""
    bounds = list(range(6000))
    if order == "falling":
        bounds.reverse()
    elif order == "shuffled":
        random.Random(4).shuffle(bounds)
    poset = Poset()
    (wide,) = poset.insert([compile_filter("a > -1")])
    nodes = poset.insert([compile_filter(f"a > {bound} and b < {bound}") for bound in bounds])
    assert poset.covering_set() == [wide]
    poset.remove([wide])
    assert len(poset.covering_set()) == len(nodes)
    poset.remove(nodes[:5900])
    assert sorted(poset.covering_set()) == sorted(nodes[5900:])
    again = poset.insert([compile_filter(f"a > {bound} and b < {bound}") for bound in bounds[:5900]])
    assert len(poset.covering_set()) == len(nodes)
    poset.remove([*again, *nodes[5900:]])
    assert len(poset) == 0
