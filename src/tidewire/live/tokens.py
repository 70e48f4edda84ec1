"""Making tokens, where the key is, and remembering which were made."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Final

import msgspec

from tidewire.identity.grants import Grant, checked
from tidewire.identity.tokens import Token, checked_name, signed
from tidewire.live.secret_files import locked, staged, write_secret
from tidewire.live.security import read_authority, revoke
from tidewire.model.errors import BadConfiguration, UnknownName, UsageError

TOKEN_YEARS_MAX: Final = 100
_YEAR_S: Final = 365.25 * 86_400


class Issued(msgspec.Struct, frozen=True):
    """A token that was made, without what makes it one, and whether it is still good."""

    token: Token
    is_revoked: bool
    has_expired: bool


def issue(
    folder: Path, name: str, grant: Grant, *, seconds: float, certificate: str | None = None, out: Path | None = None
) -> tuple[str, Token]:
    """A new token, good for so long, in this file if one is named; and what it says. If it fails, nothing is left."""
    authority = read_authority(folder)
    try:
        key = (folder / "tokens.key").read_text()
    except OSError as error:
        raise BadConfiguration(
            f"{folder / 'tokens.key'}, which signs tokens, cannot be read ({error.strerror}):"
            " make them where it is, or as somebody who may read it"
        ) from None
    if grant == Grant():
        raise UsageError("a token that allows nothing is of no use: give it --publish, --subscribe or --all")
    if seconds > TOKEN_YEARS_MAX * _YEAR_S:
        raise UsageError(f"a token is good for at most {TOKEN_YEARS_MAX} years")
    now = time()
    token = Token(
        id=token_hex(8),
        name=checked_name(name),
        grant=checked(grant, name=name),
        domain=authority.domain,
        issued_s=round(now),
        expires_s=round(now + seconds),
        certificate=certificate,
    )
    shown = signed(token, key)
    with locked(folder), ExitStack() as stack:
        put = None if out is None else stack.enter_context(staged(out, shown.encode()))
        write_secret(folder / "tokens.json", msgspec.json.encode([*_made(folder), token]))
        if put is not None:
            put()
    return shown, token


def issued(folder: Path) -> list[Issued]:
    """All that were made here, the oldest first."""
    revoked, now = read_authority(folder).revoked, time()
    return [Issued(token, token.id in revoked, token.expires_s <= now) for token in _made(folder)]


def revoke_tokens(folder: Path, ids: list[str]) -> list[Token]:
    """These, by their ids, or all of these names; UnknownName if there is none such."""
    made = _made(folder)
    found = [token for token in made if token.id in ids or token.name in ids]
    for wanted in ids:
        if not any(wanted in (token.id, token.name) for token in found):
            raise UnknownName(wanted, what="token", known=dict.fromkeys(token.name for token in made))
    revoke(folder, [token.id for token in found])
    return found


def _made(folder: Path) -> list[Token]:
    file = folder / "tokens.json"
    if not file.exists():
        return []
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Token])
    except (OSError, msgspec.DecodeError) as error:
        raise BadConfiguration(f"{file} is damaged ({error}): move it away, the tokens themselves stay good") from None
