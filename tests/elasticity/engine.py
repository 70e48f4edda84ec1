"""An engine of slices on one desk: ways that keep their order, messages that arrive whenever chance will have it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from tidewire.elasticity.access_point import AccessPoint
from tidewire.elasticity.connection_point import ConnectionPoint, HandOver
from tidewire.elasticity.controller import Controller, Launch, Persist, Record, Retire
from tidewire.elasticity.controller import Effect as ControllerEffect
from tidewire.elasticity.exit_point import ExitPoint
from tidewire.elasticity.matcher_slice import (
    DropNext,
    Match,
    MatcherSlice,
    SendParts,
    Stop,
    Store,
    Swap,
    TakePart,
)
from tidewire.elasticity.matcher_slice import Effect as MatcherEffect
from tidewire.elasticity.messages import Change, Lost, Part, Partial, Refill, SliceMessage, Step, Tell
from tidewire.elasticity.views import CONTROLLER, SliceId, View


def named(kind: str, count: int) -> tuple[SliceId, ...]:
    """The first so many slices of a kind."""
    return tuple(SliceId(f"{kind}{i}") for i in range(count))


class Matcher:
    """A matcher with its subscriptions: by id, the content that it wants."""

    def __init__(self, machine: MatcherSlice) -> None:
        self.machine = machine
        self.present: dict[int, Any] = {}
        self.next: dict[int, Any] = {}

    def keep(self, effect: MatcherEffect) -> None:
        """What it holds changes."""
        match effect:
            case Store(Change(subscription, None)):
                self.present.pop(subscription, None)
            case Store(Change(subscription, wanted)):
                self.present[subscription] = wanted
            case TakePart(part):
                assert not self.next.keys() & part.subscriptions.keys(), "held twice (I2)"
                self.next.update(part.subscriptions)
            case Swap(is_empty):
                self.present, self.next = {} if is_empty else self.next, {}
            case DropNext():
                self.next = {}


def _parts(present: dict[int, Any], view: View) -> dict[SliceId, dict[int, Any]]:
    """What each matcher of a view is to hold of these."""
    parts: dict[SliceId, dict[int, Any]] = {one: {} for one in view.matchers}
    for subscription, wanted in present.items():
        parts[view.matcher_of(subscription)][subscription] = wanted
    return parts


class Engine:
    """All slices of it, and who subscribed to what by which access point."""

    def __init__(
        self,
        *,
        access: int,
        matchers: int,
        exits: int,
        selector: str = "rendezvous",
        random: Random,
        make_matcher: Callable[..., MatcherSlice] = MatcherSlice,
        make_access: Callable[..., AccessPoint] = AccessPoint,
        make_exit: Callable[..., ExitPoint] = ExitPoint,
        make_connection: Callable[..., ConnectionPoint] = ConnectionPoint,
    ) -> None:
        self.view = View(
            number=0,
            access=named("a", access),
            matchers=named("m", matchers),
            exits=named("e", exits),
            selector=selector,
        )
        self.random = random
        self._make_matcher, self._make_exit = make_matcher, make_exit
        self.access = {one: make_access(one, self.view) for one in self.view.access}
        self.matchers = {one: Matcher(make_matcher(one, self.view)) for one in self.view.matchers}
        self.exits = {one: make_exit(one, self.view) for one in self.view.exits}
        self.connections = {one: make_connection(one) for one in self.view.connections}
        self.controller: Controller | None = Controller(Record(self.view))
        self.remembered = Record(self.view)
        self.ways: dict[tuple[SliceId, SliceId], deque[tuple[int, SliceMessage]]] = {}
        self.lives: dict[SliceId, int] = {}
        self.known_lives: dict[tuple[SliceId, SliceId], int] = {}
        self.sent: list[tuple[SliceId, SliceId, SliceMessage]] = []
        self.wanted: dict[SliceId, dict[int, Any]] = {one: {} for one in self.view.access}
        self.delivered: list[tuple[SliceId, int, int, int, int]] = []
        """Access point, batch, publisher, event, subscription."""
        self.handed: list[tuple[SliceId, int, int]] = []
        """Access point, publisher, batch: in the order in which they were handed over."""
        self.published: list[tuple[SliceId, int, dict[int, list[int]]]] = []
        self.launching: list[tuple[SliceId, View, int]] = []

    # -- from outside --------------------------------------------------------------------------------------------------

    def subscribe(self, access: SliceId, subscription: int, wanted: Any) -> None:
        """A client of this access point wants this content; None: no longer."""
        if wanted is None:
            self.wanted[access].pop(subscription, None)
        else:
            self.wanted[access][subscription] = wanted
        self._perform_access(access, self.access[access].change(Change(subscription, wanted)))

    def publish(self, access: SliceId, events: dict[int, list[int]]) -> None:
        """A batch: by publisher, the contents of its events."""
        number = sum(1 for one, _, _ in self.published if one == access) + 1
        self.published.append((access, number, events))
        self._perform_access(access, self.access[access].publish(tuple(events), events))

    def scale(self, **layers: Any) -> None:
        """Have so many slices."""
        assert self.controller is not None
        self._perform_controller(self.controller.scale(**layers))

    def kill(self, which: SliceId) -> None:
        """A slice ends at once, with all that was on its way to or from it."""
        self.lives[which] = -1
        for way in [way for way in self.ways if which in way]:
            del self.ways[way]
        self.launching = [one for one in self.launching if one[0] != which]
        self.matchers.pop(which, None)
        self.exits.pop(which, None)
        if self.controller is not None:
            self._perform_controller(self.controller.lost(which))

    def kill_controller(self) -> None:
        """It ends, and what was on its way to or from it."""
        self.controller = None
        for way in [way for way in self.ways if CONTROLLER in way]:
            del self.ways[way]

    def restart_controller(self) -> None:
        """It begins anew with what it had made durable."""
        self.controller = Controller(self.remembered)
        self._perform_controller(self.controller.resume())

    # -- what happens --------------------------------------------------------------------------------------------------

    def choices(self) -> list[Callable[[], None]]:
        """All that may happen next."""
        steps: list[Callable[[], None]] = [
            lambda way=way: self._deliver(way)  # type: ignore[misc]
            for way, queue in self.ways.items()
            if queue and (way[1] != CONTROLLER or self.controller is not None)
        ]
        if self.controller is not None:
            steps += [lambda one=one: self._launched(one) for one in self.launching]  # type: ignore[misc]
        return steps

    def step(self) -> bool:
        """One of them, by chance; false if there is nothing to do."""
        choices = self.choices()
        if choices:
            self.random.choice(choices)()
        return bool(choices)

    def run(self, *, steps_max: int = 200_000) -> None:
        """Until nothing is on its way."""
        for _ in range(steps_max):
            if not self.step():
                return
        raise AssertionError("it does not come to an end")

    def _send(self, sender: SliceId, to: SliceId, message: SliceMessage) -> None:
        self.sent.append((sender, to, message))
        life = self.lives.get(to, 0)
        if sender in self.access and self.known_lives.get((sender, to), 0) != life:
            return  # it speaks to one that is gone
        self.ways.setdefault((sender, to), deque()).append((life, message))

    def _deliver(self, way: tuple[SliceId, SliceId]) -> None:
        (sender, to), (life, message) = way, self.ways[way].popleft()
        if not self.ways[way]:
            del self.ways[way]
        if life != self.lives.get(to, 0) and to != CONTROLLER:
            return
        if to == CONTROLLER:
            assert self.controller is not None
            self._perform_controller(self.controller.heard(message))
        elif to in self.access:
            if isinstance(message, Lost):
                known = self.known_lives.get((to, message.slice), 0)
                self.known_lives[to, message.slice] = max(known, message.epoch)
            self._perform_access(to, self.access[to].heard(sender, message))
        elif to in self.matchers:
            self._perform_matcher(to, self.matchers[to].machine.heard(sender, message))
        elif to in self.exits:
            self._tell(to, self.exits[to].heard(message))
        elif to in self.connections:
            for effect in self.connections[to].heard(message):
                if isinstance(effect, HandOver):
                    self._hand_over(effect)
                else:
                    self._send(to, effect.to, effect.message)

    def _launched(self, launch: tuple[SliceId, View, int]) -> None:
        self.launching.remove(launch)
        which, view, epoch = launch
        self._make(which, view, epoch)
        assert self.controller is not None
        self._perform_controller(self.controller.launched(which))

    def _make(self, which: SliceId, view: View, epoch: int) -> None:
        self.lives[which] = epoch
        if which.startswith("m"):
            self.matchers[which] = Matcher(self._make_matcher(which, view, is_refilled=not epoch))
        else:
            self.exits[which] = self._make_exit(which, view, epoch=epoch)

    # -- what is to be done --------------------------------------------------------------------------------------------

    def _tell(self, sender: SliceId, tells: Sequence[Tell]) -> None:
        for tell in tells:
            self._send(sender, tell.to, tell.message)

    def _perform_access(self, access: SliceId, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Refill):
                held = {change.subscription for change in self.access[access].held_changes}
                for subscription, wanted in self.wanted[access].items():
                    if step.view.matcher_of(subscription) == step.to and subscription not in held:
                        self._send(access, step.to, Change(subscription, wanted))
            else:
                self._send(access, step.to, step.message)

    def _perform_controller(self, effects: Sequence[ControllerEffect]) -> None:
        for effect in effects:
            match effect:
                case Persist(record):
                    self.remembered = record
                case Launch(which, view, epoch) if epoch:
                    self._make(which, view, epoch)  # a successor is there before others hear of the loss
                case Launch(which, view, epoch):
                    self.launching.append((which, view, epoch))
                case Retire(which):
                    self.launching = [one for one in self.launching if one[0] != which]
                    if which in self.exits:
                        assert not self.exits[which].pending or self.remembered.epoch, "it has not sent all it has"
                case Tell(to, message):
                    self._send(CONTROLLER, to, message)

    def _perform_matcher(self, me: SliceId, effects: Sequence[MatcherEffect]) -> None:
        for effect in effects:
            match effect:
                case Match():
                    self._tell(me, list(self._matched(me, self.matchers[me], effect)))
                case Tell(to, message):
                    self._send(me, to, message)
                case SendParts(view):
                    for to, part in _parts(self.matchers[me].present, view).items():
                        self._send(me, to, Part(view, me, part))
                case Stop():
                    pass
                case _:
                    self.matchers[me].keep(effect)

    def _matched(self, me: SliceId, matcher: Matcher, match: Match) -> Iterator[Tell]:
        batch, view = match.batch, match.view
        for to in view.exits_of(batch.publishers):
            publishers = tuple(one for one in batch.publishers if view.exit_of(one) == to)
            found = [
                (publisher, event, subscription)
                for publisher in publishers
                for event in batch.events[publisher]
                for subscription, wanted in matcher.present.items()
                if event % len(wanted) in wanted
            ]
            waits = match.waits.get(to, ())
            yield Tell(to, Partial(batch.access, batch.number, me, publishers, found, batch.epoch, waits))

    def _hand_over(self, handover: HandOver) -> None:
        result = handover.result
        for publisher in handover.publishers:
            self.handed.append((result.access, publisher, result.number))
        for part in result.found:
            for publisher, event, subscription in part:
                if publisher in handover.publishers:
                    self.delivered.append((result.access, result.number, publisher, event, subscription))

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self, stable: dict[int, Any]) -> None:
        """esilbops §4.5, of subscriptions that never change; and where all of them are held."""
        expected = sorted(
            (access, number, publisher, event, subscription)
            for access, number, events in self.published
            for publisher, contents in events.items()
            for event in contents
            for subscription, wanted in stable.items()
            if event % len(wanted) in wanted
        )
        found = sorted(one for one in self.delivered if one[4] in stable)
        assert found == expected, "each exactly once (I1), by one state (I4)"
        others = [one for one in self.delivered if one[4] not in stable]
        assert len(set(others)) == len(others), "nothing twice"
        last: dict[tuple[SliceId, int], int] = {}
        for access, publisher, number in self.handed:
            assert number > last.get((access, publisher), 0), "the order of each publisher (I9)"
            last[access, publisher] = number
        view = self.remembered.view
        held = [(subscription, one) for one in view.matchers for subscription in self.matchers[one].present]
        wanted_now = {subscription for wanted in self.wanted.values() for subscription in wanted}
        assert sorted(subscription for subscription, _ in held) == sorted(wanted_now), "none lost, none twice (I2)"
        assert all(view.matcher_of(subscription) == one for subscription, one in held), "each where it belongs (I2)"
        assert self.remembered.phase == "normal", "it ends (I7)"
        assert all(one.held == (0, 0) and not one.unfinished for one in self.access.values()), "nothing is held (I7)"
        assert all(not one.waiting for one in self.connections.values()), "nothing waits (I7)"
