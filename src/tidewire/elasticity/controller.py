"""The controller of an engine: one change at a time, in phases that are remembered (esilbops §4, §5).

Whatever must be known after a restart is in its ``Record``, which is to be durable before what follows it is done.
Before the switch a change can always be taken back; behind it, it is brought to its end, whoever is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from tidewire.elasticity.messages import (
    Abort,
    Adopted,
    Begin,
    CountChanged,
    ExitChange,
    Flush,
    Flushed,
    Lost,
    Over,
    PreFlushed,
    Ready,
    Renewed,
    Report,
    SliceMessage,
    Swapped,
    Switch,
    Tell,
)
from tidewire.elasticity.views import SliceId, View, both
from tidewire.model.errors import Unavailable, UsageError
from tidewire.model.notes import Note

SLICES_MAX: Final = 64
"""In one layer."""

Phase = Literal["normal", "launch", "repartition", "switch", "flush", "exits"]
"""normal: nothing changes. launch: slices start. repartition: matchers send each other parts. switch: the new ones
take over. flush: what was held goes. exits: exit points change."""


class Record(msgspec.Struct, frozen=True):
    """What a controller must not forget."""

    view: View
    """In force; from the switch on it is the new one."""

    phase: Phase = "normal"
    coming: View | None = None
    """Before the switch."""

    before: View | None = None
    """Behind it, until it is over."""

    epoch: int = 0
    """How many slices have been lost."""

    gone: tuple[SliceId, ...] = ()
    """Those that were lost since this change began."""

    lost: tuple[tuple[SliceId, int], ...] = ()
    """Those of which not every access point is known to have heard, with their epochs."""

    named: int = 1000
    """The number in the name of the next slice: no name is used again, since the old one may still be there."""


class Persist(msgspec.Struct, frozen=True):
    """Make this durable before anything that follows is done."""

    record: Record


class Launch(msgspec.Struct, frozen=True):
    """Start this slice, with this view; ``epoch``: it takes the place of one that was lost."""

    slice: SliceId
    view: View
    epoch: int = 0


class Retire(msgspec.Struct, frozen=True):
    """This slice is not needed any more: it may end when it has sent all it has."""

    slice: SliceId


Effect = Persist | Launch | Retire | Tell | Note


class Controller:
    """One life of it."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._done: dict[tuple[str, SliceId, SliceId | None], None] = {}
        self._excuse(record.gone)

    @property
    def view(self) -> View:
        """The one in force."""
        return self.record.view

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def scale(
        self, *, matchers: int | None = None, exits: int | None = None, without: tuple[SliceId, ...] = ()
    ) -> list[Effect]:
        """Have so many matchers, or so many exit points: one layer at a time, and not these slices.

        Those that have been here longest stay, unless they are named in ``without``: so one slice can be replaced.
        Unavailable while something changes already.
        """
        record, view = self.record, self.record.view
        if record.phase != "normal":
            raise Unavailable(f"the engine is changing already ({record.phase}): try again when it is through")
        if record.lost:
            raise Unavailable(f"{record.lost[0][0]} was lost, and not everybody has heard of it: try again soon")
        wanted = matchers if matchers is not None else exits
        if wanted is None or (matchers is not None and exits is not None):
            raise UsageError("one layer changes at a time: say how many matchers or how many exit points")
        if not 1 <= wanted <= SLICES_MAX:
            raise UsageError(f"{wanted} slices: a layer has from 1 to {SLICES_MAX}")
        present = view.matchers if matchers is not None else view.exits
        if unknown := [one for one in without if one not in present]:
            raise UsageError(f"there is no slice {unknown[0]}; there are {', '.join(present)}")
        kept = [one for one in present if one not in without][:wanted]
        fresh = [
            SliceId(f"{'m' if matchers is not None else 'e'}{record.named + i}") for i in range(wanted - len(kept))
        ]
        slices, number = (*kept, *fresh), view.number + 1
        coming = (
            replace(view, number=number, matchers=slices)
            if matchers is not None
            else replace(view, number=number, exits=slices)
        )
        if slices == present:
            return [Note("the engine is so already", {"shape": view.shape})]
        self._done = {}
        effects = list(self._go("launch", coming=coming, named=record.named + len(fresh), gone=()))
        effects += [Launch(one, view if matchers is not None else coming) for one in fresh]
        effects.append(Note("the engine changes", {"from": view.shape, "to": coming.shape}))
        return effects if fresh else [*effects, *self._launched()]

    def _go(self, phase: Phase, **changed: object) -> Iterator[Effect]:
        self.record = replace(self.record, phase=phase, **changed)
        yield Persist(self.record)

    # -- what slices say -----------------------------------------------------------------------------------------------

    def launched(self, which: SliceId) -> list[Effect]:
        """A slice has started, and can be reached by all."""
        self._done["launched", which, None] = None
        return list(self._launched())

    def _launched(self) -> Iterator[Effect]:
        record, view, coming = self.record, self.record.view, self.record.coming
        if record.phase != "launch" or coming is None:
            return
        fresh = [one for one in (*coming.matchers, *coming.exits) if one not in (*view.matchers, *view.exits)]
        if not self._all("launched", fresh):
            return
        if coming.matchers != view.matchers:
            yield from self._go("repartition")
            yield from self._tell(view.access, Begin(coming))
        else:
            yield from self._go("exits", view=coming, coming=None, before=view)
            yield from self._tell(view.access, ExitChange(coming))

    def heard(self, message: SliceMessage) -> list[Effect]:
        """A slice says how far it is."""
        record = self.record
        match message:
            case Ready(number, matcher) if record.coming is not None and number == record.coming.number:
                return list(self._ready(matcher, record.coming))
            case CountChanged(number, exit_point) if number == record.view.number and record.phase == "switch":
                self._done["counted", exit_point, None] = None
                if self._all("counted", record.view.exits):
                    return [*self._go("flush"), *self._tell(record.view.access, Flush(number))]
            case Flushed(number, access) if number == record.view.number and record.phase == "flush":
                self._done["flushed", access, None] = None
                return list(self._matchers_through())
            case Swapped(number, matcher) if number == record.view.number:
                self._done["swapped", matcher, None] = None
                return list(self._matchers_through())
            case Renewed(epoch, access):
                return list(self._renewed(epoch, access))
            case Adopted(number, matcher) if number == record.view.number and record.phase == "exits":
                self._done["adopted", matcher, None] = None
                return list(self._exits_through())
            case PreFlushed(number, access, exit_point) if number == record.view.number and record.phase == "exits":
                self._done["ended", exit_point, access] = None
                return list(self._exits_through())
        return []

    def _ready(self, matcher: SliceId, coming: View) -> Iterator[Effect]:
        self._done["ready", matcher, None] = None
        if self.record.phase != "repartition" or not self._all("ready", coming.matchers):
            return
        yield from self._go("switch", view=coming, coming=None, before=self.record.view)
        yield from self._tell(coming.access, Switch(coming.number))

    def _matchers_through(self) -> Iterator[Effect]:
        record, before = self.record, self.record.before
        if record.phase != "flush" or before is None or not self._all("flushed", record.view.access):
            return
        if self._all("swapped", both(before.matchers, record.view.matchers)):
            yield from self._over()

    def _exits_through(self) -> Iterator[Effect]:
        record, before = self.record, self.record.before
        assert before is not None
        ended = all(("ended", one, access) in self._done for one in before.exits for access in before.access)
        if self._all("adopted", record.view.matchers) and (ended or record.gone):
            yield from self._over()

    def _over(self) -> Iterator[Effect]:
        record, before = self.record, self.record.before
        assert before is not None
        view = record.view
        yield from self._go("normal", before=None)
        yield from self._tell(view.access, Over(view.number))
        gone = [one for one in (*before.matchers, *before.exits) if one not in (*view.matchers, *view.exits)]
        yield from (Retire(one) for one in gone)
        yield Note("the engine has changed", {"from": before.shape, "to": view.shape})

    def _all(self, what: str, slices: Iterable[SliceId]) -> bool:
        return all((what, one, None) in self._done for one in slices)

    def _tell(self, slices: Iterable[SliceId], message: SliceMessage) -> Iterator[Effect]:
        yield from (Tell(one, message) for one in slices)

    # -- losses --------------------------------------------------------------------------------------------------------

    def abort(self, reason: str) -> list[Effect]:
        """Take the change back: always safe before the switch, and nothing happens behind it."""
        record, coming = self.record, self.record.coming
        if coming is None:
            return []
        fresh = [
            one for one in (*coming.matchers, *coming.exits) if one not in (*record.view.matchers, *record.view.exits)
        ]
        told = self._tell(record.view.access, Abort(coming.number))
        # A number is used once: whoever hears late of what was taken back does not take it for what comes next.
        kept = replace(record.view, number=coming.number)
        effects = [*told, *self._go("normal", coming=None, view=kept)]
        effects += [Retire(one) for one in fresh]
        return [*effects, Note("the change was taken back", {"reason": reason, "shape": record.view.shape})]

    def lost(self, which: SliceId) -> list[Effect]:
        """A slice is gone, with all it had. Another takes its place; what is not through is done again."""
        effects = self.abort(f"{which} is lost")
        record = self.record
        view = record.view
        is_needed = which in (*view.matchers, *view.exits)
        # Also of one that is not needed any more: what it had sent may not have arrived.
        epoch = record.epoch + 1
        effects += self._go(record.phase, epoch=epoch, lost=(*record.lost, (which, epoch)), gone=(*record.gone, which))
        effects += [Launch(which, view, epoch)] if is_needed else []
        effects += self._tell((*view.connections, *view.access), Lost(which, epoch))
        self._excuse([which])
        effects.append(Note("a slice was lost", {"slice": which, "phase": record.phase}))
        return [*effects, *self._matchers_through(), *(self._exits_through() if record.phase == "exits" else ())]

    def _excuse(self, slices: Iterable[SliceId]) -> None:
        """One that was lost is gone, or its successor knows nothing else: it need not say that it has changed."""
        for which in slices:
            self._done["adopted", which, None] = self._done["swapped", which, None] = None

    def _renewed(self, epoch: int, access: SliceId) -> Iterator[Effect]:
        self._done[f"renewed {epoch}", access, None] = None
        if self._all(f"renewed {epoch}", self.record.view.access):
            left = tuple(one for one in self.record.lost if one[1] != epoch)
            if left != self.record.lost:
                yield from self._go(self.record.phase, lost=left)

    def resume(self) -> list[Effect]:
        """A controller that begins anew with what is remembered: take back, or go on."""
        effects = self._resumed()
        view = self.record.view
        for which, epoch in self.record.lost:
            effects += self._tell((*view.connections, *view.access), Lost(which, epoch))
        return effects

    def _resumed(self) -> list[Effect]:
        record, view = self.record, self.record.view
        if record.coming is not None:
            return self.abort("the controller began anew")
        if record.phase == "normal":  # what was said last may not have been heard
            return [*self._tell(view.access, Abort(view.number)), *self._tell(view.access, Over(view.number))]
        before, number = record.before or view, view.number
        ask = Report(number)
        effects: list[Effect] = [*self._tell(view.access, Abort(before.number))]
        if record.phase == "switch":
            effects += self._tell(view.access, Switch(number))
        elif record.phase == "flush":
            effects += self._tell(view.access, Flush(number))
        elif record.phase == "exits":
            effects += self._tell(view.access, ExitChange(view))
        slices = both(both(before.matchers, view.matchers), both(before.exits, view.exits))
        return [*effects, *self._tell((*view.access, *slices), ask)]
