"""Tokens: who somebody is and what it may do, signed, with an end. They are JSON Web Tokens (EdDSA).

Whoever signs has the private key; brokers have only the public one, so that none of them can make a token.
"""

from __future__ import annotations

import re
from typing import Any, Final

import jwt
import msgspec
from jwt.types import Options

from tidewire.identity.grants import Grant
from tidewire.model.errors import BadConfiguration, NotAuthenticated

ALGORITHM: Final = "EdDSA"
TOKEN_CHARACTERS_MAX: Final = 16_384
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
"""Of an identity."""

_OPTIONS: Final[Options] = {
    "require": ["sub", "jti", "aud", "iat", "exp"],
    "verify_exp": False,  # these three by the time that we are given, not by a clock of the library's
    "verify_iat": False,
    "verify_nbf": False,
}
CLOCKS_DIFFER_S: Final = 60.0
"""Clocks of two machines may: a token may come from so far in the future."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What a token says."""

    id: str
    name: str
    grant: Grant
    domain: str
    """Whose brokers it is for: those of another installation do not take it."""

    issued_s: float
    expires_s: float
    """Unix times."""

    certificate: str | None = None
    """The fingerprint of the only certificate that it may be shown with; None: it may be shown by whoever has it."""


def signed(token: Token, private_key: str) -> str:
    """The token as it is shown to brokers."""
    claims: dict[str, Any] = {
        "sub": token.name,
        "jti": token.id,
        "aud": token.domain,
        "iat": token.issued_s,
        "exp": token.expires_s,
        "tidewire": msgspec.to_builtins(token.grant),
    }
    if token.certificate is not None:
        claims["cnf"] = {"x5t#S256": token.certificate}
    return jwt.encode(claims, private_key, algorithm=ALGORITHM)


def verified(shown: str, public_key: str, *, domain: str, unix_s: float) -> Token:
    """What a token says; NotAuthenticated, with the reason, if it is not a good one now."""
    if len(shown) > TOKEN_CHARACTERS_MAX:
        raise NotAuthenticated("the token is too long to be one of ours")
    try:
        claims = jwt.decode(shown, public_key, algorithms=[ALGORITHM], audience=domain, options=_OPTIONS)
        token = Token(
            id=str(claims["jti"]),
            name=checked_name(str(claims["sub"])),
            grant=msgspec.convert(claims.get("tidewire", {}), Grant),
            domain=domain,
            issued_s=float(claims["iat"]),
            expires_s=float(claims["exp"]),
            certificate=_bound_to(claims),
        )
    except jwt.InvalidAudienceError:
        raise NotAuthenticated("the token is for the brokers of another installation") from None
    except jwt.InvalidSignatureError:
        raise NotAuthenticated("the token was not signed by this installation's key") from None
    except jwt.InvalidAlgorithmError:
        raise NotAuthenticated(f"the token is not signed with {ALGORITHM}") from None
    except (jwt.PyJWTError, msgspec.ValidationError, BadConfiguration, ValueError, TypeError, OverflowError):
        raise NotAuthenticated("the token is damaged, or is none of ours") from None
    if not token.issued_s - CLOCKS_DIFFER_S <= unix_s:
        raise NotAuthenticated("the token is from the future: compare the clocks of the machines")
    if not unix_s < token.expires_s:
        raise NotAuthenticated("the token has expired: make another one with tidewire token create")
    return token


def _bound_to(claims: dict[str, Any]) -> str | None:
    bound = claims.get("cnf")
    return None if bound is None else str(bound["x5t#S256"])


def checked_name(name: str) -> str:
    """The name of an identity; BadConfiguration if it is none."""
    if NAME.fullmatch(name) is None:
        raise BadConfiguration(
            f"{name!r} is no name of an identity: 1 to 64 letters, digits and . _ @ + -, the first a letter or a digit"
        )
    return name
