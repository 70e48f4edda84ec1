"""What a client or an operator shows to prove who it is, and by what it knows the other side."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidewire.live.sockets import is_loopback, is_secured, parse_address
from tidewire.model.errors import BadConfiguration, UsageError


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Either a token or a certificate says who it is; both may be given. Without any: anonymous."""

    token: str | None = None
    authority: Path | None = None
    """The certificate that brokers' certificates are signed with; None: those that this machine trusts."""

    certificate: Path | None = None
    key: Path | None = None


ANONYMOUS = Credentials()


def context_for(addresses: Sequence[str], credentials: Credentials) -> ssl.SSLContext | None:
    """How to speak to these brokers: with TLS, if they are written ``tidewires://``; None: in clear.

    UsageError if a token would be sent in clear to another machine, or a certificate not at all.
    """
    secured = [is_secured(address) for address in addresses]
    if any(secured):
        if not all(secured):
            raise UsageError("some of these addresses are secured (tidewires://) and some are not: write all alike")
        return client_context(credentials)
    if credentials.certificate is not None:
        raise UsageError("a certificate can be shown only to a broker that is secured: write tidewires://host:port")
    for address in addresses:
        if credentials.token is not None and not is_loopback(parse_address(address)[0]):
            raise UsageError(f"the token would be sent in clear to {address}: write tidewires://{address}")
    return None


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """TLS 1.3, with the broker's certificate verified."""
    authority = credentials.authority
    try:
        context = ssl.create_default_context(cafile=None if authority is None else str(authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if credentials.certificate is not None:
            context.load_cert_chain(credentials.certificate, credentials.key)
    except (OSError, ssl.SSLError) as error:
        where = credentials.certificate if authority is None else authority
        raise BadConfiguration(f"{where} cannot be read as a certificate: {error.strerror or error}") from None
    return context
