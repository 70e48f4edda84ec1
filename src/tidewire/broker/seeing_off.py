"""Those who may not come in, and those who may no longer stay."""

from __future__ import annotations

from collections.abc import Iterable

from tidewire.broker.clients import Clients
from tidewire.broker.effects import Effect, Note
from tidewire.identity.guard import Guard
from tidewire.model.errors import NotAuthenticated, TidewireError
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.messages import Bye
from tidewire.wire.connections import Close, Send


def turned_away(conn: Conn, error: TidewireError, **who: str) -> list[Effect]:
    """What the other side says of itself is cut short: it is not known who that is."""
    facts = {name: value[:64] for name, value in who.items()}
    bye = Bye(error.code, error.message, -1.0)
    return [Send(conn, bye, "control"), Close(conn), Note("turned away", {**facts, "why": error.message})]


class SeeingOff:
    """Of one broker."""

    def __init__(self, guard: Guard, clients: Clients) -> None:
        self._guard = guard
        self._clients = clients

    def revoked(self, now_ns: Nanoseconds) -> Iterable[Effect]:
        """Whom to trust has changed: those go who may no longer stay. The only time that everybody is looked at."""
        for conn, identity in self._clients.identities():
            flaw = self._guard.flaw_of(identity, now_ns=now_ns)
            if flaw is not None:
                yield from turned_away(conn, NotAuthenticated(flaw), client=self._clients.name_of(conn))
        for conn, flaw in self._guard.flawed():
            if conn not in self._clients:
                yield from turned_away(conn, NotAuthenticated(flaw))

    def expired(self, now_ns: Nanoseconds) -> Iterable[Effect]:
        """Those whose tokens have expired."""
        for conn in self._clients.expired(self._guard.unix_s(now_ns)):
            error = NotAuthenticated("your token has expired")
            yield from turned_away(conn, error, client=self._clients.name_of(conn))
