"""Which tick does the next event get? One that no event had, in the order of the pubend: gryphon §1.1."""

from __future__ import annotations

from tidewire.model.ids import Tick
from tidewire.model.ticks import TICK_MAX, tick_at


class TickClock:
    """The ticks of one pubend. They follow its clock, and never go back, whatever the clock does.

    A pubend that starts again goes on after the last tick that it gave *or promised to be silent*: both must be durable
    before anybody hears of them.
    """

    def __init__(self, *, last: Tick) -> None:
        self.last = last
        """Every later tick is beyond this one."""

    def take(self, count: int = 1, *, unix_ms: int) -> Tick:
        """The first of ``count`` ticks in a row, for as many events.

        More than 2**20 of them in a millisecond run over into the next one: the stream is then ahead of the clock, and
        waits for it by counting on.
        """
        assert count > 0, "nobody takes no tick"
        first = max(self.last + 1, tick_at(unix_ms))
        assert first + count - 1 <= TICK_MAX, "the ticks are used up"
        self.last = Tick(first + count - 1)
        return Tick(first)

    def promise_silence(self, *, unix_ms: int) -> Tick:
        """Everything up to this tick that has no event stays silent: no later event gets a tick up to it."""
        self.last = Tick(max(self.last, tick_at(unix_ms) - 1))
        return self.last
