"""Those who run a broker, and those who look at it: may they, and what follows?"""

from __future__ import annotations

from collections.abc import Iterable

from tidewire.broker.balancing import Balancing
from tidewire.broker.draining import Draining
from tidewire.broker.effects import Effect, Note
from tidewire.broker.guests import Guests
from tidewire.identity.guard import Guard
from tidewire.model.errors import TidewireError
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import AskStatus, Drain, Rebalance, Refused
from tidewire.wire.connections import Send

Wish = Drain | Rebalance


class Operators:
    """Of one broker."""

    def __init__(
        self, broker: BrokerId, guard: Guard, guests: Guests, *, draining: Draining, balancing: Balancing
    ) -> None:
        self._broker = broker
        self._guard = guard
        self._guests = guests
        self._draining = draining
        self._balancing = balancing

    def asked_status(self, conn: Conn, question: AskStatus, *, now_ns: Nanoseconds) -> list[Effect]:
        """Somebody wants to know how this broker is. Empty if it may; else what to do about it."""
        try:
            self._guard.check(conn, question.identity, "observe", now_ns=now_ns)
        except TidewireError as error:
            noted = self._noted("observe", conn, error, now_ns)
            return [Send(conn, Refused(question.request, error.code, error.message), "control"), *noted]
        return []

    def asked(self, conn: Conn, wish: Wish, now_ns: Nanoseconds) -> Iterable[Effect]:
        """An operator wants something. Who may look may also see what balancing would do."""
        is_dry_run = isinstance(wish, Rebalance) and wish.is_dry_run
        try:
            operator = self._guard.check(conn, wish.identity, "observe" if is_dry_run else "operate", now_ns=now_ns)
            if isinstance(wish, Rebalance):
                self._balancing.check()
        except TidewireError as error:
            noted = self._noted(type(wish).__name__.lower(), conn, error, now_ns)
            return [Send(conn, Refused(wish.request, error.code, error.message)), *noted]
        self._guests.leave(conn)
        if isinstance(wish, Drain):
            return self._draining.begin(conn, wish.request, broker=self._broker, operator=operator.name)
        told = [] if is_dry_run else [Note("asked to rebalance", {"by": operator.name})]
        return [*told, *self._balancing.rebalance(conn, wish.request, is_dry_run=is_dry_run, now_ns=now_ns)]

    def gone(self, conn: Conn) -> None:
        """This one waits no longer."""
        self._draining.gone(conn)
        self._balancing.gone(conn)

    def _noted(self, act: str, conn: Conn, error: TidewireError, now_ns: Nanoseconds) -> list[Effect]:
        """For the log, once in a while."""
        news = self._guard.news(conn, error.message, now_ns=now_ns)
        return [] if news is None else [Note("refused", {"act": act, **news})]
