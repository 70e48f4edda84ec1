"""What the application is done with, and the broker has not heard of yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tidewire.client.followings import Followings
from tidewire.model.ids import PubendId, Tick
from tidewire.wire.frames import taken_frame

TAKEN_S: Final = 0.05
"""How long the broker does not hear of what was taken, so that it hears of more at once."""


class Taken:
    """Of all that a session follows."""

    def __init__(self, followings: Followings, *, tell_soon: Callable[[], object]) -> None:
        self._followings = followings
        self._tell_soon = tell_soon
        self._untold: dict[tuple[int, PubendId], None] = {}

    def done(self, number: int, pubend: PubendId, tick: Tick) -> None:
        """The application is done with this event."""
        self._followings.done(number, pubend, tick)
        self._add(number, [pubend])

    def begun(self, number: int) -> None:
        """A broker tells these streams from now on: more may have been done meanwhile than it has heard of."""
        following = self._followings.get(number)
        if following is not None and following.places:
            self._add(number, following.places)

    def _add(self, number: int, pubends: Iterable[PubendId]) -> None:
        if not self._untold:
            self._tell_soon()
        self._untold.update(dict.fromkeys((number, pubend) for pubend in pubends))

    def frames(self) -> bytes:
        """What to tell the broker. It is told by this."""
        untold, self._untold = self._untold, {}
        found = [(number, pubend, self._followings.get(number)) for number, pubend in untold]
        settled = [(number, pubend, one.settled(pubend)) for number, pubend, one in found if one is not None]
        return b"".join(taken_frame(number, pubend, tick - 1) for number, pubend, tick in settled if tick)
