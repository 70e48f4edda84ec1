"""What a client or an operator shows to prove who it is, and by what it knows the other side."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Either a token or a certificate says who it is; both may be given. Without any: anonymous."""

    token: str | None = None
    authority: Path | None = None
    """The certificate that brokers' certificates are signed with; None: those that this machine trusts."""

    certificate: Path | None = None
    key: Path | None = None


ANONYMOUS = Credentials()
