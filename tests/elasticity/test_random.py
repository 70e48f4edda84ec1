"""Thousands of random schedules: every invariant of esilbops §4.5 holds, and every mutant of §4.4 is caught."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.elasticity.engine import Engine, named
from tidewire.elasticity.access_point import AccessPoint
from tidewire.elasticity.connection_point import ConnectionPoint
from tidewire.elasticity.exit_point import ExitPoint
from tidewire.elasticity.matcher_slice import Effect, MatcherSlice, SendParts
from tidewire.elasticity.messages import Begin, Result, StateChange, Tell
from tidewire.elasticity.views import SliceId, View
from tidewire.model.errors import Unavailable

RUNS = 300
"""Of each kind; a run takes some 40 ms."""


def story(seed: int, *, losses: bool = False, steps: int = 160, **made: Any) -> Engine:
    """Subscriptions, batches and changes of both layers, by chance; then all comes to an end."""
    random = Random(seed)
    engine = Engine(
        access=random.randint(1, 3),
        matchers=random.randint(1, 4),
        exits=random.randint(1, 3),
        selector=random.choice(["modulo", "jump", "rendezvous"]),
        random=random,
        **made,
    )
    stable = {number: _content(random) for number in range(12)}
    for number, wanted in stable.items():
        engine.subscribe(random.choice(engine.view.access), number, wanted)
    engine.run()
    owners: dict[int, SliceId] = {}
    for _ in range(steps):
        _act(engine, random, owners, losses=losses)
        for _ in range(random.choice([0, 1, 3, 8])):
            engine.step()
    if engine.controller is None:
        engine.restart_controller()
    engine.run()
    engine.check(stable)
    return engine


def _content(random: Random) -> tuple[int, ...]:
    """What a subscription wants: contents by their remainder."""
    size = random.choice([1, 2, 3])
    return tuple(range(size)) if size == 1 else tuple(random.sample(range(size), size - 1))


def _act(engine: Engine, random: Random, owners: dict[int, SliceId], *, losses: bool) -> None:
    dice = random.random()
    if dice < 0.55:
        access = random.choice(engine.view.access)
        at = engine.view.access.index(access)
        publishers = random.sample([at * 10 + i for i in range(4)], random.choice([1, 1, 2]))
        engine.publish(access, {one: [random.randrange(1000)] for one in publishers})
    elif dice < 0.8:
        number = random.randrange(100, 120)
        access = owners.setdefault(number, random.choice(engine.view.access))
        engine.subscribe(access, number, None if random.random() < 0.4 else _content(random))
    elif dice < 0.95 or not losses:
        _scale(engine, random)
    else:
        _lose(engine, random)


def _scale(engine: Engine, random: Random) -> None:
    if engine.controller is None:
        engine.restart_controller()
        return
    try:
        if random.random() < 0.6:
            engine.scale(matchers=random.randint(1, 5), without=_some(random, engine.controller.view.matchers))
        else:
            engine.scale(exits=random.randint(1, 3), without=_some(random, engine.controller.view.exits))
    except Unavailable:
        return


def _some(random: Random, slices: tuple[SliceId, ...]) -> tuple[SliceId, ...]:
    return (random.choice(slices),) if random.random() < 0.2 else ()


def _lose(engine: Engine, random: Random) -> None:
    if engine.controller is not None and random.random() < 0.3:
        engine.kill_controller()
    elif engine.controller is not None:
        engine.kill(random.choice([*engine.matchers, *engine.exits]))


@pytest.mark.parametrize("first", range(0, RUNS, 50))
def test_nothing_is_lost_doubled_or_out_of_order_while_it_scales(first: int) -> None:
    """esilbops I1–I9."""
    for seed in range(first, first + 50):
        story(seed)


@pytest.mark.parametrize("first", range(0, RUNS, 50))
def test_nor_when_slices_and_the_controller_are_lost_in_any_phase(first: int) -> None:
    """The paper leaves this undefined (esilbops §5)."""
    for seed in range(10_000 + first, 10_000 + first + 50):
        story(seed, losses=True)


# -- mutants -----------------------------------------------------------------------------------------------------------


class SwapsAtOnce(MatcherSlice):
    """esilbops §4.4: swap at the first CHANGE_MATCHER."""

    def _state_change(self, sender: SliceId, number: int) -> Iterator[Effect]:
        if self._next is not None:
            self._next.changed.update(dict.fromkeys(self._next.view.access))
        yield from super()._state_change(sender, number)


class SnapshotsAtOnce(MatcherSlice):
    """esilbops §4.4: snapshot at the first START."""

    def _begin(self, sender: SliceId, view: View) -> Iterator[Effect]:
        is_first = self._next is None or self._next.view.number < view.number or not self._next.begun
        for effect in super()._begin(sender, view):
            if not isinstance(effect, SendParts):
                yield effect
        if is_first:
            yield SendParts(view)


class CountsForAll(ExitPoint):
    """esilbops §4.4: the threshold is global at the first marker."""

    def _count(self, access: SliceId, number: int, matchers: int) -> list[Tell]:
        for source in self._sources.values():
            source.matchers = matchers
        return super()._count(access, number, matchers)


class CountsForPending(ExitPoint):
    """esilbops §4.4: the threshold is per access point, but applied to what is pending too."""

    def _count(self, access: SliceId, number: int, matchers: int) -> list[Tell]:
        told = super()._count(access, number, matchers)
        source = self._sources[access]
        for entry in source.pending.values():
            entry.threshold = matchers
        return [*told, *self._through(access, source)]


class HoldsNoBatches(AccessPoint):
    """esilbops §4.4: no notification is buffered on scale-out."""

    @property
    def _holds_batches(self) -> bool:
        return False


class WaitsForNobody(ConnectionPoint):
    """esilbops §3.2: results of publishers that moved to another exit point are not held."""

    def _must_wait(self, result: Result) -> bool:
        return False


MUTANTS: dict[str, dict[str, Any]] = {
    "swap at first CHANGE_MATCHER": {"make_matcher": SwapsAtOnce},
    "snapshot at first START": {"make_matcher": SnapshotsAtOnce},
    "EP threshold global at first marker": {"make_exit": CountsForAll},
    "EP threshold also applied to pending entries": {"make_exit": CountsForPending},
    "no notification buffering on scale-out": {"make_access": HoldsNoBatches},
    "no hold while exit points change": {"make_connection": WaitsForNobody},
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mutant_is_caught(mutant: str) -> None:
    """esilbops §4.4: of 200 schedules at least one shows it."""
    for seed in range(200):
        try:
            story(seed, **MUTANTS[mutant])
        except AssertionError:
            return
    pytest.fail(f"{mutant}: nothing was found")


def test_an_exit_point_chosen_by_the_batch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """esilbops §1.1: it reorders one publisher's events as soon as there are two exit points."""
    monkeypatch.setattr(View, "exit_of", lambda self, publisher: self.exits[(publisher + _turn()) % len(self.exits)])
    for seed in range(200):
        try:
            story(seed)
        except AssertionError:
            return
    pytest.fail("nothing was found")


_turns = [0]


def _turn() -> int:
    _turns[0] += 1
    return _turns[0] // 7


def test_messages_of_a_change_that_was_taken_back_change_nothing() -> None:
    """A part and a marker that come late are of no view that comes."""
    view = View(number=0, access=named("a", 1), matchers=named("m", 1), exits=named("e", 1))
    matcher = MatcherSlice(SliceId("m0"), view)
    taken_back = View(number=1, access=view.access, matchers=named("m", 2), exits=view.exits)
    coming = View(number=2, access=view.access, matchers=named("m", 3), exits=view.exits)
    matcher.heard(SliceId("a0"), Begin(coming))
    assert matcher.heard(SliceId("a0"), Begin(taken_back)) == []
    assert matcher.heard(SliceId("a0"), StateChange(1)) == []
