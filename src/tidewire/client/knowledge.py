"""What others may know of a session: where it is served, and what it waits for."""

from __future__ import annotations

from tidewire.client.lines import Lines
from tidewire.client.moving import Moving
from tidewire.client.promised import Promised
from tidewire.client.requests import Requests
from tidewire.client.tunings import Tunings
from tidewire.model.ids import Conn, Tick
from tidewire.model.messages import Use


class Knowledge:
    """The questions that a session answers. Nothing changes by them."""

    _lines: Lines
    _requests: Requests
    _moving: Moving
    _promised: Promised
    _tunings: Tunings

    def is_plain(self, conn: Conn) -> bool:
        """May events from this connection go to the application without asking?"""
        return self._moving.is_plain() and self._lines.serving("subscribe") == conn

    def is_awaited(self, conn: Conn) -> bool:
        """May events come on this connection: does it serve the subscriptions, or do they move there?"""
        return self._lines.serving("subscribe") == conn or self._moving.is_new(conn)

    def broker(self, use: Use) -> str | None:
        """The broker that serves this use now."""
        return self._lines.broker(use)

    def connection(self, use: Use) -> Conn | None:
        """The connection that serves this use now."""
        return self._lines.serving(use)

    def frame_bytes_max(self, use: Use) -> int | None:
        """The largest frame that the broker that serves this use takes, if there is one."""
        conn = self._lines.serving(use)
        line = None if conn is None else self._lines.get(conn)
        return None if line is None or line.welcome is None else line.welcome.frame_bytes_max

    @property
    def next_sequence(self) -> int:
        """Of the event that the driver will send next."""
        return self._requests.next_sequence

    @property
    def pace(self) -> float | None:
        """How many guaranteed events a second the broker takes from all who share our stream; None: any number."""
        return self._promised.pace

    @property
    def in_doubt(self) -> int:
        """How many events has the driver sent that no broker is known to have read?"""
        return self._requests.in_doubt

    def is_awaiting(self, conn: Conn) -> bool:
        """Must this connection be read, for a welcome, an answer, or the end of a move?"""
        line = self._lines.get(conn)
        return line is None or line.welcome is None or self._requests.is_asked(conn) or self._moving.is_at(conn)

    def is_confirmed(self, use: Use) -> bool:
        """Is this use served, and has the broker confirmed all that was said again for it?"""
        conn = self._lines.serving(use)
        return conn is not None and not self._requests.is_saying_again(conn, use)

    def channel_place(self, number: int) -> Tick | None:
        """Of a subscription to a channel: what is not behind it has come, or was before it began."""
        tuning = self._tunings.get(number)
        return None if tuning is None else tuning.place
