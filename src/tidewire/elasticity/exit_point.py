"""An exit point: it waits until all matchers have answered a batch, and hands the answers over as one (esilbops §4.2).

What comes of one access point leaves in the order in which it came there: of a batch that is answered by fewer
matchers than the one before it, the answers may be complete earlier.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tidewire.elasticity.messages import (
    CountChange,
    CountChanged,
    Epoch,
    Partial,
    PreEnd,
    PreFlushed,
    Report,
    Resent,
    Result,
    SliceMessage,
    Tell,
    Wait,
)
from tidewire.elasticity.views import CONTROLLER, SliceId, View


class _Entry:
    """A batch that is not through."""

    __slots__ = ("found", "publishers", "threshold", "waits")

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.found: dict[SliceId, Any] = {}
        self.waits: tuple[Wait, ...] = ()
        self.publishers: tuple[int, ...] = ()

    @property
    def is_complete(self) -> bool:
        return len(self.found) >= self.threshold


class _Source:
    """What comes from one access point."""

    def __init__(self, matchers: int, epoch: int) -> None:
        self.matchers = matchers
        """How many answer a batch that is new."""
        self.epoch = epoch
        self.begun = 0
        """The last epoch that was announced."""
        self.pending: dict[int, _Entry] = {}
        self.counted = -1
        """The view whose number of matchers is in force."""


class ExitPoint:
    """One of them. ``epoch``: it takes the place of one that was lost, and what is older is not for it."""

    def __init__(self, me: SliceId, view: View, *, epoch: int = 0) -> None:
        self._me = me
        self._view = view
        self._sources = {access: _Source(len(view.matchers), epoch) for access in view.access}
        self._changed = -1
        """The view of which it was last said that all sources count by it."""
        self._ended: dict[tuple[int, SliceId], dict[SliceId, None]] = {}
        self._flushed: dict[tuple[int, SliceId], None] = {}
        self._resent: dict[tuple[int, SliceId], dict[SliceId, None]] = {}

    @property
    def pending(self) -> int:
        """How many batches wait for answers."""
        return sum(len(source.pending) for source in self._sources.values())

    def heard(self, message: SliceMessage) -> list[Tell]:
        """What a matcher says, or the controller."""
        match message:
            case Partial():
                return self._partial(message)
            case CountChange(number, access, matchers):
                return self._count(access, number, matchers)
            case Epoch(epoch, access, number, matchers):
                return self._epoch(access, epoch, number, matchers)
            case PreEnd():
                return self._pre_end(message)
            case Resent():
                return self._all_resent(message)
            case Report(number):
                return self._report(number)
        return []

    def _partial(self, partial: Partial) -> list[Tell]:
        source = self._sources[partial.access]
        if partial.epoch < source.epoch:
            return []  # of before a loss: it comes again
        if partial.epoch > source.epoch:  # losses of before our time
            source.epoch, source.pending = partial.epoch, {}
        entry = source.pending.get(partial.number)
        if entry is None:
            entry = source.pending[partial.number] = self._entry(source)
        entry.found[partial.matcher] = partial.found
        entry.waits, entry.publishers = partial.waits, partial.publishers
        return self._through(partial.access, source)

    def _entry(self, source: _Source) -> _Entry:
        """What is first seen now waits for as many as answer from now on; what is pending, for as many as it did."""
        return _Entry(source.matchers)

    def _through(self, access: SliceId, source: _Source) -> list[Tell]:
        told: list[Tell] = []
        while source.pending:
            number, entry = next(iter(source.pending.items()))
            if not entry.is_complete:
                break
            del source.pending[number]
            found = tuple(entry.found.values())
            result = Result(access, number, self._me, entry.publishers, found, source.epoch, entry.waits)
            told += [Tell(connection, result) for connection in self._view.connections]
        return told

    # -- another number of matchers ------------------------------------------------------------------------------------

    def _count(self, access: SliceId, number: int, matchers: int) -> list[Tell]:
        source = self._sources[access]
        if number <= source.counted:
            return []  # the first of them says it
        source.counted, source.matchers = number, matchers
        return self._all_changed(number)

    def _all_changed(self, number: int) -> list[Tell]:
        if number <= self._changed or any(source.counted < number for source in self._sources.values()):
            return []
        self._changed = number
        return [Tell(CONTROLLER, CountChanged(number, self._me))]

    # -- another number of exit points ---------------------------------------------------------------------------------

    def _pre_end(self, end: PreEnd) -> list[Tell]:
        number, access = end.number, end.access
        ended = self._ended.setdefault((number, access), {})
        ended[end.matcher] = None
        if len(ended) < end.matchers:
            return []
        # Every way keeps its order: all answers to what came before the change are here, and have left.
        del self._ended[number, access]
        self._flushed[number, access] = None
        return self._say_flushed(number, access)

    def _say_flushed(self, number: int, access: SliceId) -> list[Tell]:
        flushed = PreFlushed(number, access, self._me)
        return [Tell(to, flushed) for to in (*self._view.connections, CONTROLLER)]

    # -- after a loss --------------------------------------------------------------------------------------------------

    def _epoch(self, access: SliceId, epoch: int, number: int, matchers: int) -> list[Tell]:
        source = self._sources[access]
        if epoch >= source.epoch and source.begun < epoch:
            source.begun = source.epoch = epoch
            source.pending, source.matchers = {}, matchers
            source.counted = max(source.counted, number)
        return self._all_changed(number)

    def _all_resent(self, resent: Resent) -> list[Tell]:
        source = self._sources[resent.access]
        said = self._resent.setdefault((resent.epoch, resent.access), {})
        said[resent.sender] = None
        if resent.epoch != source.epoch or len(said) < resent.matchers:
            return []
        self._resent = {key: value for key, value in self._resent.items() if key[1] != resent.access}
        told = replace(resent, sender=self._me)
        return [Tell(connection, told) for connection in self._view.connections]

    def _report(self, number: int) -> list[Tell]:
        told = [Tell(CONTROLLER, CountChanged(number, self._me))] if self._changed == number else []
        for each, access in self._flushed:
            if each == number:
                told.append(Tell(CONTROLLER, PreFlushed(number, access, self._me)))
        return told
