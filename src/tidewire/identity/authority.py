"""The authority: who is on the other end of a connection?

It is handed to a broker's machine, anew whenever something about it has changed: keys, revocations, permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from tidewire.identity.grants import EVERYTHING, Grant, Permissions
from tidewire.identity.tokens import verified
from tidewire.model.errors import BadConfiguration, NotAuthenticated, NotPermitted, PeerError
from tidewire.wire.connections import Peer


class Identity:
    """Who somebody is, until when, and what it may do."""

    def __init__(
        self,
        name: str,
        permissions: Permissions,
        *,
        token: str | None = None,
        certificate: Peer | None = None,
        expires_s: float | None = None,
        vouched_by: tuple[str, str] | None = None,
    ) -> None:
        self.name = name
        self.permissions = permissions
        self.token = token
        """The token's id."""
        self.certificate = certificate
        self.expires_s = expires_s
        self.vouched_by = vouched_by
        """The domain and the key that its token was good for."""

    def publisher(self, chosen: int) -> int:
        """The publisher that its events are from: its own choice, in a space of its own.

        Subscribers know by it what is new and what has come before: nobody may speak in another's place.
        """
        digest = blake2b(f"{self.name}\0{chosen}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1 | 1


class _Everyone(Identity):
    def publisher(self, chosen: int) -> int:
        return chosen


EVERYONE = _Everyone("anonymous", Permissions("anonymous", EVERYTHING))
"""Where there is no authority."""


def check_coordinator(peer: Peer | None, address: str) -> None:
    """PeerError unless whoever answers at this address has shown a coordinator's certificate."""
    if peer is None or peer.of != "coordinator":
        raise _other_than(peer, address, "coordinator")


def check_data_cluster(peer: Peer | None, address: str) -> None:
    """PeerError unless whoever answers at this address has shown a data cluster's certificate."""
    if peer is None or peer.of != "datacluster":
        raise _other_than(peer, address, "data cluster")


def _other_than(peer: Peer | None, address: str, expected: str) -> PeerError:
    shown = "nobody of this installation" if peer is None else f"the {peer.of} {peer.name}"
    return PeerError(
        f"{address} shows the certificate of {shown}, and not a {expected}'s: correct the address, or find out"
        f" who has taken the {expected}'s place there"
    )


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker knows of who may do what."""

    domain: str
    token_key: str
    """The public key, as PEM."""

    revoked: Mapping[str, None] = {}
    """The ids of tokens that are no longer good, and the fingerprints of certificates."""

    signers: Mapping[str, None] = {}
    """The keys that sign certificates; none: whatever the driver has verified is good."""

    certificates: Mapping[str, Grant] = {}
    """What clients with a certificate may do, by their names."""

    def identify(self, shown: str | None, peer: Peer | None, *, unix_s: float) -> Identity:
        """Who it is, by the token that it shows or else by its certificate; NotAuthenticated if by neither."""
        if peer is not None and (flaw := self.flaw_of_certificate(peer)) is not None:
            raise NotAuthenticated(flaw)
        if shown is None:
            return self._by_certificate(peer)
        token = verified(shown, self.token_key, domain=self.domain, unix_s=unix_s)
        if token.id in self.revoked:
            raise NotAuthenticated("the token has been revoked")
        if token.certificate is not None and (peer is None or peer.fingerprint != token.certificate):
            raise NotAuthenticated("the token is good only with the certificate that it was made for")
        try:
            permissions = Permissions(token.name, token.grant)
        except BadConfiguration as error:
            raise NotAuthenticated(f"the token is of no use: {error.message}") from None
        return Identity(
            token.name,
            permissions,
            token=token.id,
            certificate=peer,
            expires_s=token.expires_s,
            vouched_by=(self.domain, self.token_key),
        )

    def check_broker(self, peer: Peer | None, name: str) -> None:
        """NotAuthenticated or NotPermitted unless this is the certificate, still good, of the broker with this name."""
        if peer is None or peer.of != "broker":
            raise NotPermitted("only a broker, with a broker's certificate, may link to brokers")
        if (flaw := self.flaw_of_certificate(peer)) is not None:
            raise NotAuthenticated(flaw)
        if peer.name != name:
            raise NotPermitted(f"the certificate is that of the broker {peer.name}, not {name}")

    def _by_certificate(self, peer: Peer | None) -> Identity:
        if peer is None:
            raise NotAuthenticated("show a token, or a certificate: make one with tidewire token create")
        return Identity(peer.name, Permissions(peer.name, self._grant_of(peer)), certificate=peer)

    def _grant_of(self, peer: Peer) -> Grant:
        return EVERYTHING if peer.of != "client" else self.certificates.get(peer.name, Grant())

    def flaw_of_certificate(self, peer: Peer) -> str | None:
        """Why this certificate, which was good once, is so no longer; None if it still is."""
        if peer.fingerprint in self.revoked:
            return "your certificate has been revoked"
        if self.signers and peer.signers and not any(one in self.signers for one in peer.signers):
            return "your certificate is good no longer: this installation has another authority now, get one from that"
        return None

    def flaw_of(self, identity: Identity, *, unix_s: float) -> str | None:
        """Why this identity, which was good once, is so no longer; None if it still is."""
        if identity.expires_s is not None and unix_s >= identity.expires_s:
            return "your token has expired"
        if identity.token in self.revoked:
            return "your token has been revoked"
        if identity.certificate is not None and (flaw := self.flaw_of_certificate(identity.certificate)) is not None:
            return flaw
        if identity.vouched_by is not None and identity.vouched_by != (self.domain, self.token_key):
            return "your token is good no longer: the keys of this installation have changed"
        if identity.token is None and identity.certificate is not None and self._has_less(identity):
            return "your permissions have changed, and are fewer now: connect again"
        return None

    def _has_less(self, identity: Identity) -> bool:
        """Would it be given less now than it was, by its certificate?"""
        assert identity.certificate is not None
        given = identity.permissions
        grant = self._grant_of(identity.certificate)
        return grant != given.grant and not Permissions(identity.name, grant).covers(given)
