"""A connection point: it hands results over to clients, those of each publisher in their order and once.

While exit points change, a result waits until those that came by another exit point are here (esilbops §3.2). After a
loss everything of an access point waits until all that it sent again is here, and what was handed over before is left
out: a batch is known by its number, a publisher by its bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tidewire.elasticity.messages import Lost, PreFlushed, Resent, Result, SliceMessage, Taken, Tell
from tidewire.elasticity.views import SliceId

FLUSHED_MAX: Final = 4096
"""What is remembered of exit points that have changed: of the last ones, which is more than can be on its way."""


class HandOver(msgspec.Struct, frozen=True):
    """To clients: of this result, what is of these publishers."""

    result: Result
    publishers: tuple[int, ...]


class _Source:
    """What comes from one access point."""

    def __init__(self) -> None:
        self.epoch = 0
        self.last: dict[int, int] = {}
        """By publisher, the last batch that was handed over."""
        self.queues: dict[SliceId, list[Result]] = {}
        """By exit point, what waits for others; behind it everything of the same one waits too."""
        self.mending: dict[int, Result] | None = None
        """After a loss: all that has come, by the order in which it arrived."""
        self.resent: dict[SliceId, None] = {}
        self.settled = -1
        """Nothing from before this view is still to come."""


class ConnectionPoint:
    """One of them."""

    def __init__(self, me: SliceId) -> None:
        self._me = me
        self._sources: dict[SliceId, _Source] = {}
        self._flushed: dict[tuple[SliceId, int, SliceId], None] = {}
        """Of an access point, by view: the exit points that have told all they had from before it."""
        self._epoch = 0
        self._arrivals = 0

    @property
    def waiting(self) -> int:
        """How many results wait."""
        return sum(
            len(source.mending or ()) + sum(map(len, source.queues.values())) for source in self._sources.values()
        )

    def heard(self, message: SliceMessage) -> list[HandOver | Tell]:
        """What an exit point says, or the controller."""
        match message:
            case Result():
                return list(self._result(message))
            case PreFlushed(number, access, exit_point):
                self._flushed[access, number, exit_point] = None
                if len(self._flushed) > FLUSHED_MAX:
                    del self._flushed[next(iter(self._flushed))]
                return list(self._let_go(self._source(access)))
            case Lost(_, epoch):
                self._epoch = max(epoch, self._epoch)
                for source in self._sources.values():
                    self._mend(source, epoch)
            case Resent():
                return list(self._all_resent(self._source(message.access), message))
        return []

    def _source(self, access: SliceId) -> _Source:
        if access not in self._sources:
            self._sources[access] = _Source()
            self._mend(self._sources[access], self._epoch)
        return self._sources[access]

    def _result(self, result: Result) -> Iterator[HandOver | Tell]:
        source = self._source(result.access)
        if result.epoch > source.epoch:
            self._mend(source, result.epoch)
        if source.mending is not None:
            self._arrivals += 1
            source.mending[self._arrivals] = result
            return
        yield from self._in_turn(source, result)

    def _in_turn(self, source: _Source, result: Result) -> Iterator[HandOver | Tell]:
        queue = source.queues.setdefault(result.exit, [])
        if queue or self._must_wait(result):
            queue.append(result)
        else:
            yield from self._hand_over(source, result)

    def _must_wait(self, result: Result) -> bool:
        settled = self._source(result.access).settled
        return any(wait[0] > settled and (result.access, *wait) not in self._flushed for wait in result.waits)

    def _hand_over(self, source: _Source, result: Result) -> Iterator[HandOver | Tell]:
        due = tuple(one for one in result.publishers if result.number > source.last.get(one, 0))
        for publisher in due:
            source.last[publisher] = result.number
        if due:
            yield HandOver(result, due)
        yield Tell(result.access, Taken(result.number, result.exit, result.epoch))

    def _let_go(self, source: _Source) -> Iterator[HandOver | Tell]:
        for queue in source.queues.values():
            while queue and not self._must_wait(queue[0]):
                yield from self._hand_over(source, queue.pop(0))

    # -- after a loss --------------------------------------------------------------------------------------------------

    def _mend(self, source: _Source, epoch: int) -> None:
        """From now on all waits; what waited for something already is complete, and waits with it."""
        if epoch <= source.epoch:
            return
        source.epoch, source.resent = epoch, {}
        waiting = [*(source.mending or {}).values(), *(one for queue in source.queues.values() for one in queue)]
        source.queues, source.mending = {}, {}
        for result in waiting:
            self._arrivals += 1
            source.mending[self._arrivals] = result

    def _all_resent(self, source: _Source, resent: Resent) -> Iterator[HandOver | Tell]:
        self._mend(source, resent.epoch)
        if resent.epoch != source.epoch or source.mending is None:
            return
        source.resent[resent.sender] = None
        if any(one not in source.resent for one in resent.exits):
            return
        source.settled = resent.number
        waiting, source.mending = list(source.mending.values()), None
        for result in sorted(waiting, key=lambda one: one.number):
            yield from self._in_turn(source, result)
