"""A matcher: it holds its part of the subscriptions, answers batches, and hands its part on (esilbops §4.2).

Subscriptions and batches themselves are the driver's: the machine says what is to be done with them, in which order.
There are two states of subscriptions: the present one, and during a change the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidewire.elasticity.messages import (
    Abort,
    Adopted,
    Batch,
    Begin,
    Change,
    CountChange,
    Epoch,
    ExitChange,
    Over,
    Part,
    PreEnd,
    Ready,
    Refilled,
    Report,
    Resent,
    SliceMessage,
    StateChange,
    Swapped,
    Tell,
    Wait,
)
from tidewire.elasticity.views import CONTROLLER, SliceId, View, both


class Store(msgspec.Struct, frozen=True):
    """Into the present state, or out of it."""

    change: Change


class SendParts(msgspec.Struct, frozen=True):
    """Split the present state by the view's selector, and send each of its matchers its part, ourselves included."""

    view: View


class TakePart(msgspec.Struct, frozen=True):
    """Into the next state."""

    part: Part


class Swap(msgspec.Struct, frozen=True):
    """The next state takes the place of the present one; ``is_empty``: nothing is in it, whatever came."""

    is_empty: bool


class DropNext(msgspec.Struct, frozen=True):
    """There will be no next state."""


class Match(msgspec.Struct, frozen=True):
    """Find who wants these events, and tell each of these exit points, by publisher, of its share (``Partial``)."""

    batch: Batch
    view: View
    waits: dict[SliceId, tuple[Wait, ...]]
    """By exit point: what must come first of its publishers."""


class Stop(msgspec.Struct, frozen=True):
    """This slice is no longer needed."""


Effect = Tell | Store | SendParts | TakePart | Swap | DropNext | Match | Stop


class _Next:
    """A change of matchers that is under way."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.begun: dict[SliceId, None] = {}
        self.parts: dict[SliceId, None] = {}
        self.changed: dict[SliceId, None] = {}
        self.is_ready = False


class MatcherSlice:
    """One of them. ``is_refilled``: it takes the place of one that was lost, and waits for what that one had."""

    def __init__(self, me: SliceId, view: View, *, is_refilled: bool = True) -> None:
        self._me = me
        self.view = view
        self._next: _Next | None = None
        self._before: tuple[int, View] | None = None
        """While exit points change: since which view, and the one before it."""
        self._adopting: dict[SliceId, None] | None = None
        self._adopted = self._swapped = -1
        self._held: dict[SliceId, list[SliceMessage]] = {}
        self._unfilled: dict[SliceId, None] = {} if is_refilled else dict.fromkeys(view.access)

    def heard(self, sender: SliceId, message: SliceMessage) -> list[Effect]:
        """What an access point, a matcher or the controller says."""
        if sender in self._held and not isinstance(message, Abort):
            self._held[sender].append(message)
            return []
        return list(self._handle(sender, message))

    def _handle(self, sender: SliceId, message: SliceMessage) -> Iterator[Effect]:
        match message:
            case Change():
                yield Store(message)
            case Batch():
                yield from self._batch(sender, message)
            case Begin(view):
                yield from self._begin(sender, view)
            case Part():
                yield from self._part(message)
            case CountChange():
                yield from self._to_exits(message)
            case StateChange(number):
                yield from self._state_change(sender, number)
            case ExitChange(view):
                yield from self._exit_change(sender, view)
            case _:
                yield from self._led(sender, message)

    def _led(self, sender: SliceId, message: SliceMessage) -> Iterator[Effect]:
        match message:
            case Over(number):
                if self.view.number >= number and self._me not in self.view.matchers:
                    yield Stop()
                self._before = None
            case Abort(number):
                yield from self._abort(number)
            case Report(number):
                yield from self._report(number)
            case Refilled() | Epoch() | Resent():
                yield from self._after_loss(sender, message)

    # -- traffic -------------------------------------------------------------------------------------------------------

    def _batch(self, sender: SliceId, batch: Batch) -> Iterator[Effect]:
        if self._unfilled:
            self._held.setdefault(sender, []).append(batch)
            return
        yield Match(batch, self.view, self._waits(batch))

    def _waits(self, batch: Batch) -> dict[SliceId, tuple[Wait, ...]]:
        """While exit points change: where results of each publisher that has moved came from."""
        if self._before is None:
            return {}
        found: dict[SliceId, dict[Wait, None]] = {}
        since, view = self._before
        for publisher in batch.publishers:
            before, now = view.exit_of(publisher), self.view.exit_of(publisher)
            if before != now:
                found.setdefault(now, {})[since, before] = None
        return {exit_point: tuple(waits) for exit_point, waits in found.items()}

    def _to_exits(self, message: SliceMessage) -> Iterator[Effect]:
        yield from (Tell(exit_point, message) for exit_point in self.view.exits)

    # -- another number of matchers ------------------------------------------------------------------------------------

    def _expect(self, view: View) -> Iterator[Effect]:
        """This view comes next. Whatever came of one that was taken back is void."""
        if self._next is not None and self._next.view.number < view.number:
            self._next = None
            yield DropNext()
        if self._next is None:
            self._next = _Next(view)

    def _is_stale(self, view: View) -> bool:
        return view.number <= self.view.number or (self._next is not None and view.number < self._next.view.number)

    def _begin(self, sender: SliceId, view: View) -> Iterator[Effect]:
        if self._is_stale(view):
            return
        yield from self._expect(view)
        assert self._next is not None
        self._next.begun[sender] = None
        if len(self._next.begun) == len(view.access):  # nobody will change anything any more (4.3 #1)
            yield SendParts(view)

    def _part(self, part: Part) -> Iterator[Effect]:
        if self._is_stale(part.view):
            return
        yield from self._expect(part.view)
        assert self._next is not None
        self._next.parts[part.sender] = None
        yield TakePart(part)
        if len(self._next.parts) == len(both(self.view.matchers, part.view.matchers)):
            self._next.is_ready = True
            yield Tell(CONTROLLER, Ready(part.view.number, self._me))

    def _state_change(self, sender: SliceId, number: int) -> Iterator[Effect]:
        coming = self._next
        if coming is None or coming.view.number != number:
            return
        coming.changed[sender] = None
        if len(coming.changed) < len(coming.view.access):
            self._held[sender] = []
            return
        self.view, self._next = coming.view, None
        yield Swap(is_empty=self._me not in coming.view.matchers)
        self._swapped = number
        yield Tell(CONTROLLER, Swapped(number, self._me))
        yield from self._let_go()

    def _let_go(self) -> Iterator[Effect]:
        """What was held comes now, each access point's in its order. It may end in another hold."""
        held, self._held = self._held, {}
        for sender, messages in held.items():
            for message in messages:
                yield from self.heard(sender, message)

    def _abort(self, number: int) -> Iterator[Effect]:
        if self._next is not None and self._next.view.number <= number:
            self._next = None
            yield DropNext()
            if self._me not in self.view.matchers:
                yield Stop()

    # -- another number of exit points ---------------------------------------------------------------------------------

    def _exit_change(self, sender: SliceId, view: View) -> Iterator[Effect]:
        if view.number <= self.view.number:
            return
        if self._adopting is None:
            self._adopting = {}
        self._adopting[sender] = None
        yield from self._to_exits(PreEnd(view.number, sender, self._me, len(view.matchers)))
        if len(self._adopting) < len(view.access):
            self._held[sender] = []
            return
        self._before = view.number, self.view
        self.view, self._adopting, self._adopted = view, None, view.number
        yield Tell(CONTROLLER, Adopted(view.number, self._me))
        yield from self._let_go()

    # -- after a loss --------------------------------------------------------------------------------------------------

    def _report(self, number: int) -> Iterator[Effect]:
        if self._next is not None and self._next.view.number == number and self._next.is_ready:
            yield Tell(CONTROLLER, Ready(number, self._me))
        if self._adopted == number:
            yield Tell(CONTROLLER, Adopted(number, self._me))
        if self._swapped == number:
            yield Tell(CONTROLLER, Swapped(number, self._me))

    def _after_loss(self, sender: SliceId, message: Refilled | Epoch | Resent) -> Iterator[Effect]:
        if isinstance(message, Refilled):
            self._unfilled.pop(sender, None)
            if not self._unfilled:
                yield from self._let_go()
            return
        if self._unfilled:
            self._held.setdefault(sender, []).append(message)
            return
        if isinstance(message, Epoch):
            yield from self._to_exits(message)
        else:
            resent = msgspec.structs.replace(message, sender=self._me)
            yield from (Tell(exit_point, resent) for exit_point in message.exits)
