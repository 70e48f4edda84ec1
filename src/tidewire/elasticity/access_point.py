"""An access point: changes go to the one matcher that holds the subscription, batches to all (esilbops §4.2).

It keeps the batches that are not through, so that a matcher or exit point that is lost gets them again from its
successor's first moment on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec.structs import replace

from tidewire.elasticity.messages import (
    Abort,
    Batch,
    Begin,
    Change,
    CountChange,
    Epoch,
    ExitChange,
    Flush,
    Flushed,
    Lost,
    Over,
    Refill,
    Refilled,
    Renewed,
    Report,
    Resent,
    SliceMessage,
    StateChange,
    Step,
    Switch,
    Taken,
    Tell,
)
from tidewire.elasticity.views import CONTROLLER, SliceId, View, both

Phase = Literal["normal", "repartition", "switch"]
_NEVER: Final = -1


class AccessPoint:
    """One of them. What it answers is to be sent in that order."""

    def __init__(self, me: SliceId, view: View) -> None:
        self._me = me
        self.view = view
        self._next: View | None = None
        self._old: View | None = None
        """The view before the last switch, until that is over."""
        self.phase: Phase = "normal"
        self._number = 0
        self._changes: list[Change] = []
        self._batches: list[Batch] = []
        self._flushed = _NEVER
        self._epoch = 0
        self._unfinished: dict[int, Batch] = {}
        self._pending: dict[int, dict[tuple[SliceId, SliceId], None]] = {}
        """By batch: from which exit points it has not come, and where."""

    @property
    def held(self) -> tuple[int, int]:
        """How many changes and how many batches wait."""
        return len(self._changes), len(self._batches)

    @property
    def held_changes(self) -> list[Change]:
        """Those that wait: nobody else knows of them yet."""
        return list(self._changes)

    # -- traffic -------------------------------------------------------------------------------------------------------

    def change(self, change: Change) -> list[Tell]:
        """A client subscribes, or does no longer."""
        if self.phase == "repartition":
            self._changes.append(change)
            return []
        return [self._placed(change)]

    def publish(self, publishers: tuple[int, ...], events: Any) -> list[Tell]:
        """A batch has come."""
        self._number += 1
        batch = Batch(self._me, self._number, publishers, events, self._epoch)
        self._await(batch)
        if self._holds_batches:
            self._batches.append(batch)
            return []
        return self._spread(batch)

    def _placed(self, change: Change) -> Tell:
        return Tell(self.view.matcher_of(change.subscription), change)

    def _spread(self, batch: Batch) -> list[Tell]:
        return [Tell(matcher, batch) for matcher in self.view.matchers]

    @property
    def _holds_batches(self) -> bool:
        """A matcher that is new has sent no marker ahead of its answers: until all exit points know, batches wait."""
        old = self._old
        return self.phase == "switch" and old is not None and any(one not in old.matchers for one in self.view.matchers)

    # -- what others say -----------------------------------------------------------------------------------------------

    def heard(self, sender: SliceId, message: SliceMessage) -> Sequence[Step]:
        """The controller leads; connection points say what is through."""
        match message:
            case Begin(view) if view.number > self.view.number and self._next is None:
                return self._begin(view)
            case Switch(number) if self._next is not None and self._next.number == number:
                return self._switch(self._next)
            case Flush(number) if self.phase == "switch" and self.view.number == number:
                return self._flush()
            case Over(number) if self.view.number == number and self.phase == "normal":
                old, self._old = self._old or self.view, None
                return [Tell(matcher, message) for matcher in both(old.matchers, self.view.matchers)]
            case Abort(number) if self._next is not None and self._next.number <= number:
                return self._abort(self._next)
            case ExitChange(view) if view.number > self.view.number:
                self.view = view
                return [Tell(matcher, message) for matcher in view.matchers]
            case Report(number) if self._flushed == number:
                return [Tell(CONTROLLER, Flushed(number, self._me))]
            case Taken():
                self._is_through(sender, message)
            case Lost(_, epoch):
                again = self._send_again(message) if epoch > self._epoch else []
                return [*again, Tell(CONTROLLER, Renewed(epoch, self._me))]
        return []

    def _begin(self, view: View) -> list[Tell]:
        self._next, self.phase = view, "repartition"
        return [Tell(matcher, Begin(view)) for matcher in both(self.view.matchers, view.matchers)]

    def _switch(self, view: View) -> list[Tell]:
        old, self._old, self.view, self._next, self.phase = self.view, self.view, view, None, "switch"
        count = CountChange(view.number, self._me, len(view.matchers))
        told = [Tell(matcher, count) for matcher in old.matchers]
        told += [Tell(matcher, StateChange(view.number)) for matcher in both(old.matchers, view.matchers)]
        return told + self._go_on_with_changes()

    def _go_on_with_changes(self) -> list[Tell]:
        changes, self._changes = self._changes, []
        return [self._placed(change) for change in changes]

    def _flush(self) -> list[Tell]:
        self.phase = "normal"
        self._flushed = self.view.number
        batches, self._batches = self._batches, []
        told = [tell for batch in batches for tell in self._spread(batch)]
        return [*told, Tell(CONTROLLER, Flushed(self.view.number, self._me))]

    def _abort(self, view: View) -> list[Tell]:
        self._next, self.phase = None, "normal"
        told = [Tell(matcher, Abort(view.number)) for matcher in both(self.view.matchers, view.matchers)]
        return told + self._go_on_with_changes()

    # -- after a loss --------------------------------------------------------------------------------------------------

    def _is_through(self, connection: SliceId, taken: Taken) -> None:
        """What all connection points have got from all exit points need not be kept."""
        batch = self._unfinished.get(taken.number)
        if batch is None or batch.epoch != taken.epoch:
            return
        pending = self._pending[batch.number]
        pending.pop((taken.exit, connection), None)
        if not pending:
            del self._pending[batch.number], self._unfinished[batch.number]

    def _await(self, batch: Batch) -> None:
        exits = self.view.exits_of(batch.publishers)
        self._unfinished[batch.number] = batch
        self._pending[batch.number] = dict.fromkeys((one, to) for one in exits for to in self.view.connections)

    def _send_again(self, lost: Lost) -> list[Step]:
        """Under the present view: what was matched in part by one that is gone is matched anew, by all."""
        self._epoch = lost.epoch
        view = self.view
        steps: list[Step] = []
        if lost.slice in view.matchers:
            steps += [Refill(lost.slice, view), Tell(lost.slice, Refilled(lost.epoch))]
        begin = Epoch(lost.epoch, self._me, view.number, len(view.matchers))
        steps += [Tell(matcher, begin) for matcher in view.matchers]
        held = {batch.number for batch in self._batches}
        for number, batch in list(self._unfinished.items()):
            again = replace(batch, epoch=lost.epoch)
            self._await(again)
            if number not in held:
                steps += self._spread(again)
        self._batches = [self._unfinished[batch.number] for batch in self._batches]
        end = Resent(lost.epoch, self._me, self._me, view.exits, view.number, len(view.matchers))
        return [*steps, *(Tell(matcher, end) for matcher in view.matchers)]

    @property
    def unfinished(self) -> int:
        """How many batches are not known to be through."""
        return len(self._unfinished)
