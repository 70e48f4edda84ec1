"""A subscriber on its way from one broker to another: every event once, in order (peer M3–M5a).

It is served by both for a while. What the new broker brings is held until the old one has said that it has sent all
that the new one may lack. What both brought is known by its position in its source tree, which only grows: the old
one's last position of a tree is where the new one's part begins, also when the new one lags behind.
"""

from __future__ import annotations

from tidewire.model.ids import Conn
from tidewire.wire.frames import Delivered


class Handover:
    """The events of one move."""

    def __init__(self, *, session: int, old: Conn, floors: dict[int, int]) -> None:
        self.session = session
        self.old = old
        self.new: Conn | None = None
        self.is_said = False
        """Has the new broker been told all that is wanted?"""
        self.is_served = False
        """Does the new broker serve us, and does the old one know?"""
        self.floors = floors
        """The last position that came, by tree: of the old broker, and of the one before if it is not passed yet."""
        self._held: list[tuple[int, Delivered]] = []

    def from_old(self, tree: int, delivered: Delivered) -> None:
        """The old broker brought an event; the application gets it at once."""
        self.floors[tree] = delivered.position

    def from_new(self, tree: int, delivered: Delivered) -> None:
        """The new broker brought an event."""
        self._held.append((tree, delivered))

    def released(self) -> list[Delivered]:
        """All that the old broker did not bring, in order."""
        held, self._held = self._held, []
        return [delivered for tree, delivered in held if is_beyond(self.floors, tree, delivered)]


def is_beyond(floors: dict[int, int], tree: int, delivered: Delivered) -> bool:
    """Has this event not come before? The first one beyond a floor ends it."""
    if delivered.position <= floors.get(tree, 0):
        return False
    floors.pop(tree, None)
    return True
