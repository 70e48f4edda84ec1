"""A subscriber on its way from one broker to another: every event once, in order (peer M3–M5a).

It is served by both for a while. What the new broker brings is held until the old one has said that it has sent all that the
new one may lack. What both brought is known by its position in its source tree, which only grows: the old one's last
position of a tree is where the new one's part begins.
"""

from __future__ import annotations

from tidewire.model.ids import Conn
from tidewire.wire.frames import Delivered


class Handover:
    """The events of one move."""

    def __init__(self, *, session: int, old: Conn) -> None:
        self.session = session
        self.old = old
        self.new: Conn | None = None
        self.request = 0
        """The one that subscribes at the new broker; 0 before it is made."""
        self.is_served = False
        """Does the new broker serve us, and does the old one know?"""
        self._last: dict[int, int] = {}
        self._held: list[tuple[int, Delivered]] = []

    def from_old(self, tree: int, delivered: Delivered) -> None:
        """The old broker brought an event; the application gets it at once."""
        self._last[tree] = delivered.position

    def from_new(self, tree: int, delivered: Delivered) -> None:
        """The new broker brought an event."""
        self._held.append((tree, delivered))

    def released(self) -> list[Delivered]:
        """All that the old broker did not bring, in order."""
        held, self._held = self._held, []
        return [delivered for tree, delivered in held if delivered.position > self._last.get(tree, 0)]
