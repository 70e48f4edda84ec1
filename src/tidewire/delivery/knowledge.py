"""What is known of the ticks of a stream? For each: nothing, data, silence, or that it is no longer needed.

Kept as runs of ticks with one state, for one filter: what was silence for it may be data for a wider one. Gryphon §1.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum

from tidewire.model.errors import ContradictoryTick
from tidewire.model.ids import Tick


class State(IntEnum):
    """Of a tick. It leaves UNKNOWN for any other, DATA and SILENCE for FINAL, and FINAL never."""

    UNKNOWN = 0
    DATA = 1
    SILENCE = 2
    FINAL = 3


UNKNOWN, DATA, SILENCE, FINAL = State

Run = tuple[Tick, Tick]
"""From the first tick on, up to and without the second."""


class Knowledge:
    """The states of all ticks from ``start`` on. Below it, and below what is forgotten later, all are final."""

    def __init__(self, *, start: Tick) -> None:
        # Run i goes from _starts[i] to _starts[i + 1] and has _states[i]; neighbours differ; the last run has no end,
        # and is unknown.
        self._starts: list[int] = [start]
        self._states: list[State] = [UNKNOWN]
        self.horizon = start
        """The doubt horizon: the first tick of which nothing is known."""

    @property
    def start(self) -> Tick:
        """Nothing below is remembered."""
        return Tick(self._starts[0])

    @property
    def head(self) -> Tick:
        """From here on, nothing is known."""
        return Tick(self._starts[-1])

    @property
    def runs_kept(self) -> int:
        """How much memory it takes."""
        return len(self._starts)

    def state_of(self, tick: Tick) -> State:
        """Of one tick."""
        return self._states[self._run_of(tick)] if tick >= self._starts[0] else FINAL

    def tell(self, start: Tick, end: Tick, state: State) -> list[Run]:
        """These ticks have this state. Which of them was nothing known of before?

        What is known already, or final, is ignored. Data where silence is known, or the reverse, is refused with
        ContradictoryTick, and then nothing changes.
        """
        assert state is not UNKNOWN, "what is known is not unlearned"
        start = max(start, Tick(self._starts[0]))
        if start >= end:
            return []
        news = self._append(start, end, state) if start >= self._starts[-1] else self._insert(start, end, state)
        if news and news[0][0] == self.horizon:
            self.horizon = self._first_unknown(self._run_of(self.horizon))
        return news

    def unknown(self, start: Tick, end: Tick) -> Iterator[Run]:
        """The runs within these bounds of which nothing is known, in order."""
        return ((first, last) for first, last, state in self.runs(start, end) if state is UNKNOWN)

    def runs(self, start: Tick, end: Tick) -> Iterator[tuple[Tick, Tick, State]]:
        """All runs within these bounds, in order."""
        if start < min(end, self._starts[0]):
            yield start, Tick(min(end, self._starts[0])), FINAL
            start = Tick(self._starts[0])
        run = self._run_of(start)
        while start < end:
            run_end = self._starts[run + 1] if run + 1 < len(self._starts) else end
            yield start, Tick(min(end, run_end)), self._states[run]
            start, run = Tick(run_end), run + 1

    def forget(self, *, below: Tick) -> None:
        """All below is final, and takes no memory."""
        if below <= self._starts[0]:
            return
        run = self._run_of(below)
        del self._starts[:run], self._states[:run]
        self._starts[0] = below
        if self.horizon < below:
            self.horizon = self._first_unknown(0)

    def _first_unknown(self, run: int) -> Tick:
        """The start of the first unknown run from this one on; the last run is one."""
        while self._states[run] is not UNKNOWN:
            run += 1
        return Tick(self._starts[run])

    def _run_of(self, tick: int) -> int:
        return bisect_right(self._starts, tick) - 1

    def _append(self, start: Tick, end: Tick, state: State) -> list[Run]:
        """Beyond all that is known, which is where most news are."""
        starts, states = self._starts, self._states
        if start > starts[-1]:
            starts.append(start)
            states.append(state)
        elif len(states) > 1 and states[-2] is state:
            del starts[-1], states[-1]
        else:
            states[-1] = state
        starts.append(end)
        states.append(UNKNOWN)
        return [(start, end)]

    def _insert(self, start: Tick, end: Tick, state: State) -> list[Run]:
        old = list(self.runs(start, end))
        for first, last, known in old:
            if known is not state and known is not UNKNOWN and FINAL not in (known, state):
                raise ContradictoryTick(
                    f"ticks {first} to {last - 1} are known as {known.name}, and now told as {state.name}"
                )
        low, high = self._run_of(start), self._run_of(end)
        if self._starts[low] == start and low > 0:
            low -= 1
        # These runs are written anew; with the one to the left, since equal neighbours become one.
        new = [(self._starts[low], self._states[low])] if self._starts[low] < start else []
        new += [(first, FINAL if known is FINAL else state) for first, _, known in old]
        new.append((end, self._states[high]))
        new = [one for at, one in enumerate(new) if at == 0 or one[1] is not new[at - 1][1]]
        self._starts[low : high + 1] = [at for at, _ in new]
        self._states[low : high + 1] = [one for _, one in new]
        return [(first, last) for first, last, known in old if known is UNKNOWN]
