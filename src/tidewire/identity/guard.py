"""Who may come in? A machine's authority, what time it is there, and the certificates of its connections."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidewire.identity.authority import EVERYONE, Authority, Identity, check_coordinator, check_data_cluster
from tidewire.model.errors import NotAuthenticated
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.wire.connections import Peer


class Trust(msgspec.Struct, frozen=True):
    """Whom to trust from now on, and what time it is for everybody. Told at the start, and again and again."""

    authority: Authority
    unix_ns: int


NEWS_AFTER_NS: Final = 10_000_000_000
"""A refusal that comes again is in the log once in so long."""
NEWS_MAX: Final = 256


class Guard:
    """Without an authority everybody may do everything."""

    def __init__(self, *, is_secured: bool) -> None:
        self._is_secured = is_secured
        self._authority: Authority | None = None
        self._offset_ns = 0
        self._peers: dict[Conn, Peer] = {}
        self._places: dict[Conn, str] = {}
        self._told: dict[tuple[str, str], int] = {}
        """Refusals that the log has been told of, and when: where somebody was, and why it was refused."""

    def trust(self, told: Trust, *, now_ns: Nanoseconds) -> None:
        """From now on this is right."""
        self._authority = told.authority
        self._offset_ns = told.unix_ns - now_ns

    def opened(self, conn: Conn, peer: Peer | None, *, place: str = "") -> None:
        """A connection stands, with this certificate at its other end, which is there."""
        if peer is not None:
            self._peers[conn] = peer
        if self._is_secured and place:
            self._places[conn] = place

    def closed(self, conn: Conn) -> None:
        """It has ended."""
        self._peers.pop(conn, None)
        self._places.pop(conn, None)

    def certificate_of(self, conn: Conn) -> str | None:
        """The fingerprint of what the other end has shown."""
        peer = self._peers.get(conn)
        return None if peer is None else peer.fingerprint

    def news(self, conn: Conn, why: str, *, now_ns: Nanoseconds) -> dict[str, str | int | float] | None:
        """What the log should be told of a refusal; None if it has been told the same of that place lately."""
        place = self._places.get(conn, "")
        told_ns = self._told.get((place, why))
        if told_ns is not None and now_ns < told_ns + NEWS_AFTER_NS:
            return None
        self._told.pop((place, why), None)
        self._told[place, why] = now_ns
        if len(self._told) > NEWS_MAX:
            del self._told[next(iter(self._told))]
        return {**({"from": place} if place else {}), "why": why}

    def identify(self, conn: Conn, token: str | None, *, now_ns: Nanoseconds) -> Identity:
        """Who is there? NotAuthenticated if that is not shown."""
        if not self._is_secured:
            return EVERYONE
        if self._authority is None:
            raise NotAuthenticated("it is not known here yet whom to trust: come again in a moment")
        return self._authority.identify(token, self._peers.get(conn), unix_s=self.unix_s(now_ns))

    def check(
        self, conn: Conn, token: str | None, act: Literal["observe", "operate"], *, now_ns: Nanoseconds
    ) -> Identity:
        """Who is there, if it may do that; else NotAuthenticated or NotPermitted."""
        identity = self.identify(conn, token, now_ns=now_ns)
        identity.permissions.may(act)
        return identity

    def check_broker(self, conn: Conn, name: str) -> None:
        """NotAuthenticated or NotPermitted unless this broker is there, with a certificate that is still good."""
        if not self._is_secured:
            return
        if self._authority is None:
            raise NotAuthenticated("it is not known here yet whom to trust: come again in a moment")
        self._authority.check_broker(self._peers.get(conn), name)

    def check_coordinator(self, conn: Conn, address: str) -> None:
        """PeerError unless a coordinator is there, by its certificate."""
        if self._is_secured:
            check_coordinator(self._peers.get(conn), address)

    def check_data_cluster(self, conn: Conn, address: str) -> None:
        """PeerError unless a data cluster is there, by its certificate."""
        if self._is_secured:
            check_data_cluster(self._peers.get(conn), address)

    def flaw_of(self, identity: Identity, *, now_ns: Nanoseconds) -> str | None:
        """Why somebody who has come in may no longer stay; None if it may."""
        if self._authority is None:
            return None
        return self._authority.flaw_of(identity, unix_s=self.unix_s(now_ns))

    def flaw_of_certificate(self, conn: Conn) -> str | None:
        """Why the certificate of this connection is no longer good; None if it is, or there is none."""
        peer = self._peers.get(conn)
        return None if peer is None or self._authority is None else self._authority.flaw_of_certificate(peer)

    def has_revoked(self, fingerprint: str) -> bool:
        """Has the certificate with this fingerprint been revoked?"""
        return self._authority is not None and fingerprint in self._authority.revoked

    def flawed(self) -> list[tuple[Conn, str]]:
        """The connections whose certificates are no longer good, and why."""
        flaws = [(conn, self.flaw_of_certificate(conn)) for conn in self._peers]
        return [(conn, flaw) for conn, flaw in flaws if flaw is not None]

    def unix_s(self, now_ns: Nanoseconds) -> float:
        """What time it is for everybody; long ago, before there is an authority."""
        return (now_ns + self._offset_ns) / 1e9
