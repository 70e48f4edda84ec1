"""How does a session go from one broker to another? Every event once, in order (peer M3–M5a).

A subscriber is served by both for a while. What the new broker brings is held until the old one has said that it has
sent all that the new one may lack. What both brought is known by its publisher's sequence, where it is handed to the
application (``order.py``): of each publisher the new one's part begins behind the last event of the old one, also when
the new one lags behind. A publisher waits until the old broker has delivered everything, and the new one has told
everyone.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidewire.client.events import ClientEffect, HandOver, PublishOn, Tell
from tidewire.client.followings import Followings
from tidewire.client.lines import Lines
from tidewire.client.requests import Requests
from tidewire.client.tunings import Tunings
from tidewire.model.ids import Conn
from tidewire.model.messages import Leave, Move, Stay, Use
from tidewire.wire.connections import Send
from tidewire.wire.frames import Delivered


class Handover:
    """A subscriber on its way, and its events."""

    def __init__(self, *, session: int, old: Conn) -> None:
        self.session = session
        self.old: Conn | None = old
        """None: it has ended, and its number may be another one's."""
        self.new: Conn | None = None
        self.is_said = False
        """Has the new broker been told all that is wanted?"""
        self.is_served = False
        """Does the new broker serve us, and does the old one know?"""
        self.is_fresh = False
        """Has the old broker confirmed nothing? Then all comes from the new one, and nobody waits for the old one."""
        self._held: list[Delivered] = []

    def hold(self, delivered: Delivered) -> None:
        """The new broker brought an event."""
        self._held.append(delivered)

    def released(self) -> list[Delivered]:
        """All that the new broker brought, in its order; the old one may have brought some of it."""
        held, self._held = self._held, []
        return held


class PublisherMove:
    """A publisher on its way: it begins at the new broker when the old one has delivered everything."""

    def __init__(self, *, session: int, old: Conn) -> None:
        self.session = session
        self.old: Conn | None = old
        """None: it has ended, and its number may be another one's."""
        self.new: Conn | None = None
        self.is_said = False
        """Has the new broker been told what will be published?"""
        self.has_left = False
        self.is_expected = False
        """Has the new broker told everyone?"""


class Moving:
    """The moves of a session, at most one for each use. The steps return effects, in the order of a move."""

    def __init__(self, lines: Lines, requests: Requests, followings: Followings, tunings: Tunings) -> None:
        self._lines = lines
        self._requests = requests
        self._followings = followings
        self._tunings = tunings
        self._handover: Handover | None = None
        self._publisher: PublisherMove | None = None
        self.is_in_doubt = False
        """Is something without a receipt where the session publishes? Then it does not leave."""

    def is_moving(self, use: Use) -> bool:
        """Is this use on its way to another broker?"""
        return self._move_of(use) is not None

    def _move_of(self, use: Use) -> Handover | PublisherMove | None:
        return self._handover if use == "subscribe" else self._publisher

    def leave_needless(self) -> Iterator[ClientEffect]:
        """End those that only led to where something is served now."""
        for conn in self._lines.conns() if self._lines.is_any_serving() else []:
            if self.is_needless(conn):
                yield self._lines.leave(conn)

    def is_needless(self, conn: Conn) -> bool:
        """Does this connection serve nothing, nor is something leaving it?"""
        moves = self._handover, self._publisher
        return self._lines.is_idle(conn) and not any(move is not None and move.old == conn for move in moves)

    def is_at(self, conn: Conn) -> bool:
        """Does something move from or to this connection?"""
        moves = self._handover, self._publisher
        return any(move is not None and conn in (move.old, move.new) for move in moves)

    def is_new(self, conn: Conn) -> bool:
        """Is this where a subscriber is moving to?"""
        return self._handover is not None and self._handover.new == conn

    # -- events --------------------------------------------------------------------------------------------------------

    def is_plain(self) -> bool:
        """May events go to the application without asking?"""
        return self._handover is None

    def is_due(self, conn: Conn, delivered: Delivered) -> bool:
        """May this event go on to the application now? If not, it is of no use, or held until the move is done."""
        if self._handover is not None and self.is_new(conn):
            self._handover.hold(delivered)
            return False
        if conn != self._lines.serving("subscribe"):
            return False
        return self._handover is None or not self._handover.is_fresh

    def is_served_by(self, conn: Conn) -> bool:
        """Does this broker serve us already, while the one before it still has something for us?"""
        return self._handover is not None and self._handover.is_served and self._handover.new == conn

    # -- the steps of a move -------------------------------------------------------------------------------------------

    def begin(self, conn: Conn, move: Move) -> Iterator[ClientEffect]:
        """The broker asks us to go elsewhere."""
        if self._lines.serving(move.use) != conn or self.is_moving(move.use):
            yield Send(conn, Stay(move.session, "this session is not served here, or moves already"), "control")
            return
        if move.use == "subscribe":
            self._handover = Handover(session=move.session, old=conn)
        else:
            self._publisher = PublisherMove(session=move.session, old=conn)
            yield PublishOn(None)
            yield Send(conn, Leave(move.session))
        yield self._lines.dial_at(move.address, move.use, is_move=True)

    def welcomed(self, conn: Conn, use: Use) -> Iterator[ClientEffect]:
        """The connection to the new place stands."""
        move = self._move_of(use)
        if move is not None:
            move.new = conn
        yield from self.say_all_there(use)

    def say_all_there(self, use: Use | None) -> Iterator[ClientEffect]:
        """Say all at the new place, once nothing is asked for at the old one that the new one would not hear of."""
        move = None if use is None else self._move_of(use)
        if use is None or move is None or move.new is None or move.is_said:
            return
        if move.old is None or not self._requests.is_bound(move.old, use):
            move.is_said = True
            if isinstance(move, Handover):
                move.is_fresh = not self._requests.has_said(use) and not self._followings.all()
            yield Send(move.new, self._requests.say_again(move.new, use))
            for following in self._followings.all() if use == "subscribe" else ():
                yield Send(move.new, self._requests.follow_again(move.new, following))
            for tuning in self._tunings.said_again() if use == "subscribe" else ():
                yield Send(move.new, self._requests.tune(move.new, tuning))

    def expected(self, use: Use) -> Iterator[ClientEffect]:
        """The new broker serves us: the old one may let us go."""
        if use == "subscribe" and self._handover is not None and self._handover.new is not None:
            yield from self._requests.carried(self._handover.new)
            self._handover.is_served = True
            if self._handover.old is not None:
                yield Send(self._handover.old, Leave(self._handover.session))
            if self._handover.old is None or self._handover.is_fresh:
                yield from self._subscriber_moved(self._handover)
        elif use == "publish" and self._publisher is not None:
            self._publisher.is_expected = True
            yield from self._publisher_moved(self._publisher)

    def left(self, conn: Conn, session: int) -> Iterator[ClientEffect]:
        """The old broker has sent, or delivered, all."""
        handover, publisher = self._handover, self._publisher
        if handover is not None and (handover.old, handover.session) == (conn, session):
            yield from self._subscriber_moved(handover)
        elif publisher is not None and (publisher.old, publisher.session) == (conn, session):
            publisher.has_left = True
            yield from self._publisher_moved(publisher)

    def _subscriber_moved(self, handover: Handover) -> Iterator[ClientEffect]:
        assert handover.new is not None
        self._handover = None
        yield HandOver(handover.released(), handover.new)
        yield from self._moved(handover.old, handover.new, "subscribe")

    def _publisher_moved(self, move: PublisherMove) -> Iterator[ClientEffect]:
        if not (move.has_left and move.is_expected) or move.new is None or self.is_in_doubt:
            return
        self._publisher = None
        yield PublishOn(move.new)
        yield from self._moved(move.old, move.new, "publish")

    def _moved(self, old: Conn | None, new: Conn, use: Use) -> Iterator[ClientEffect]:
        self._lines.serve(use, new)
        yield Tell("moved", {"use": use, "to": self._lines.broker(use) or ""})
        for conn in self._lines.conns():  # the old one, and those that only led to the new one
            if self.is_needless(conn):
                yield self._lines.leave(conn)
        if old is not None and self._lines.is_serving(old):  # the other use, but no longer this one
            followed = (one.number for one in self._followings.all()) if use == "subscribe" else ()
            yield Send(old, self._requests.take_back(use, followed))
            for tuning in self._tunings.all() if use == "subscribe" else ():
                yield Send(old, self._requests.tune_out(tuning))

    def no_longer_in_doubt(self) -> Iterator[ClientEffect]:
        """All that was guaranteed is durable: a publisher may go."""
        if self._publisher is not None:
            yield from self._publisher_moved(self._publisher)

    def failed(self, use: Use, reason: str) -> Iterator[ClientEffect]:
        """The new place cannot be had: stay at the old one, if it is still there."""
        move = self._move_of(use)
        if use == "subscribe":
            self._handover = None
        else:
            self._publisher = None
        if move is None or move.old is None:
            return
        if use == "publish":
            yield PublishOn(move.old)
        yield Send(move.old, Stay(move.session, reason), "control")
        if isinstance(move, Handover) and move.is_served and self._requests.has_said(use):
            # The old broker was told to let us go, and may have: what came since then is lost, as with any connection.
            yield Tell("connection lost", {"use": use, "reason": reason})
            yield Send(move.old, self._requests.say_again(move.old, use))

    def old_is_gone(self, conn: Conn) -> Iterator[ClientEffect]:
        """The old broker has ended in the middle of a move: go on with the new one as far as it is ready."""
        handover, publisher = self._handover, self._publisher
        if handover is not None and handover.old == conn:
            handover.old = None
            if handover.is_served:
                yield from self._subscriber_moved(handover)
            elif handover.new is None:
                self._handover = None
                self._lines.no_longer_moves("subscribe")
            else:
                yield from self.say_all_there("subscribe")
        if publisher is not None and publisher.old == conn and self.is_in_doubt:
            self._publisher = None
            self._lines.no_longer_moves("publish")
        elif publisher is not None and publisher.old == conn:
            publisher.old = None
            publisher.has_left = True
            yield from self.say_all_there("publish")
            yield from self._publisher_moved(publisher)
