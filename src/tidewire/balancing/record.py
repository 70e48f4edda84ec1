"""What has come of balancing since a broker began: counts for people, which decide nothing."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidewire.balancing.indices import Reading
from tidewire.model.balance_messages import Indices

Outcome = Literal["moved", "nothing", "failed"]
"""Of a session, as its donor sees it: clients have moved; there was nobody to move; it was given up before."""


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """How far predictions of our own load were off, on average and whichever way: of sessions that moved clients, by us
    or to us."""

    compared: int
    """Sessions after which that was seen."""

    input_utilisation: float
    output_utilisation: float
    matching_delay_s: float


class Record:
    """Of one broker, over all its roles."""

    def __init__(self) -> None:
        self.sessions: dict[Outcome, int] = {"moved": 0, "nothing": 0, "failed": 0}
        """That we asked for and that began, by what came of them."""
        self.sessions_accepted = 0
        self.declined = 0
        """Requests of ours."""
        self.moved_away = 0
        self.moved_here = 0
        self.stayed = 0
        """Clients that were to move and did not."""
        self.calls_for_help = 0
        self.bulletins_sent: dict[str, int] = {}
        self.bulletins_heard: dict[str, int] = {}
        """By class. What a head passes on counts in both."""
        self._compared = 0
        self._off = [0.0, 0.0, 0.0]

    def gave(self, outcome: Outcome, *, moved: int, stayed: int) -> None:
        """A session of ours has ended."""
        self.sessions[outcome] += 1
        self.moved_away += moved
        self.stayed += stayed

    def compared(self, predicted: Indices, measured: Reading) -> None:
        """What was predicted of us, and what came."""
        self._compared += 1
        for place, name in enumerate(("input_utilisation", "output_utilisation", "matching_delay_s")):
            self._off[place] += abs(getattr(predicted, name) - getattr(measured, name))

    def errors(self) -> Errors | None:
        """None before anything could be compared."""
        if not self._compared:
            return None
        by_input, by_output, by_delay = (off / self._compared for off in self._off)
        return Errors(
            compared=self._compared,
            input_utilisation=by_input,
            output_utilisation=by_output,
            matching_delay_s=by_delay,
        )
