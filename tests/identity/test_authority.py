"""Who is there? Tokens that are good, and many that are not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from tidewire.identity.authority import EVERYONE, Authority
from tidewire.identity.grants import Grant
from tidewire.identity.tokens import Token, signed, verified
from tidewire.model.errors import NotAuthenticated, NotPermitted, TidewireError
from tidewire.wire.connections import Peer

NOW = 1_800_000_000.0


def key_pair() -> tuple[str, str]:
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


PRIVATE, PUBLIC = key_pair()
OTHER_PRIVATE, _ = key_pair()
GRANT = Grant(subscribe="region = 'north'")
TOKEN = Token(id="t1", name="ann", grant=GRANT, domain="here", issued_s=NOW - 10, expires_s=NOW + 60)
AUTHORITY = Authority(domain="here", token_key=PUBLIC, certificates={"sensor7": Grant(publish="room = 7")})


def token(**changes: Any) -> str:
    return signed(msgspec.structs.replace(TOKEN, **changes), PRIVATE)


def test_a_good_token_says_who_and_what() -> None:
    assert verified(token(), PUBLIC, domain="here", unix_s=NOW) == TOKEN
    identity = AUTHORITY.identify(token(), None, unix_s=NOW)
    assert (identity.name, identity.token, identity.expires_s) == ("ann", "t1", NOW + 60)
    assert identity.permissions.grant == GRANT


def _unsigned() -> str:
    claims = jwt.decode(token(), options={"verify_signature": False})
    return jwt.encode(claims, "", algorithm="none")


def _signed_with_the_public_key() -> str:
    """The old trick: the public key as the secret of a symmetric signature."""
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=")
    claims = token().split(".")[1].encode()
    made = hmac.new(PUBLIC.encode(), head + b"." + claims, hashlib.sha256).digest()
    return b".".join([head, claims, base64.urlsafe_b64encode(made).rstrip(b"=")]).decode()


def _with_more_rights() -> str:
    head, claims, signature = token().split(".")
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    told["tidewire"] = {"publish": "*", "subscribe": "*", "operate": True}
    changed = base64.urlsafe_b64encode(json.dumps(told).encode()).rstrip(b"=").decode()
    return f"{head}.{changed}.{signature}"


def _without(claim: str) -> str:
    claims = jwt.decode(token(), options={"verify_signature": False})
    del claims[claim]
    return jwt.encode(claims, PRIVATE, algorithm="EdDSA")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: token(expires_s=NOW), "has expired"),
        (lambda: token(issued_s=NOW + 100, expires_s=NOW + 200), "from the future"),
        (lambda: token(domain="there"), "another installation"),
        (lambda: signed(TOKEN, OTHER_PRIVATE), "not signed by this installation"),
        (_unsigned, "not signed with EdDSA"),
        (_signed_with_the_public_key, "not signed with EdDSA"),
        (_with_more_rights, "not signed by this installation"),
        (lambda: _without("exp"), "damaged"),
        (lambda: _without("aud"), "damaged"),
        (lambda: _without("jti"), "damaged"),
        (lambda: token(name="a b\n"), "damaged"),
        (lambda: token(expires_s=float("nan")), "has expired"),
        (lambda: "", "damaged"),
        (lambda: "a.b.c", "damaged"),
        (lambda: "x" * 100_000, "too long"),
        (lambda: token(grant=Grant(subscribe="x =")), "of no use"),
    ],
)
def test_tokens_that_are_not_good(make: Callable[[], str], says: str) -> None:
    with pytest.raises(NotAuthenticated, match=says):
        AUTHORITY.identify(make(), None, unix_s=NOW)


@given(st.text(max_size=300) | st.binary(max_size=200).map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_whatever_is_shown_is_refused_by_code(shown: str) -> None:
    with pytest.raises(NotAuthenticated):
        AUTHORITY.identify(shown, None, unix_s=NOW)


@given(st.integers(0, len(token()) - 1), st.sampled_from("abzAZ019-_."))
def test_a_changed_token_is_refused_or_the_same(at: int, letter: str) -> None:
    good = token()
    changed = good[:at] + letter + good[at + 1 :]
    try:
        found = AUTHORITY.identify(changed, None, unix_s=NOW)
    except NotAuthenticated:
        return
    assert (found.name, found.permissions.grant) == ("ann", GRANT)  # the last bits of base64 mean nothing


def test_a_stolen_token_that_is_bound_to_a_certificate_is_of_no_use() -> None:
    bound = token(certificate="f00d")
    ours, thief = Peer("client", "ann", "f00d"), Peer("client", "thief", "beef")
    assert AUTHORITY.identify(bound, ours, unix_s=NOW).name == "ann"
    for shown_with in (None, thief):
        with pytest.raises(NotAuthenticated, match="only with the certificate"):
            AUTHORITY.identify(bound, shown_with, unix_s=NOW)


def test_what_was_revoked_is_no_longer_good() -> None:
    stricter = msgspec.structs.replace(AUTHORITY, revoked={"t1": None, "beef": None})
    with pytest.raises(NotAuthenticated, match="token has been revoked"):
        stricter.identify(token(), None, unix_s=NOW)
    with pytest.raises(NotAuthenticated, match="certificate has been revoked"):
        stricter.identify(None, Peer("client", "sensor7", "beef"), unix_s=NOW)
    with pytest.raises(NotAuthenticated, match="certificate has been revoked"):
        stricter.identify(token(id="t2"), Peer("client", "sensor7", "beef"), unix_s=NOW)
    assert stricter.identify(token(id="t2"), None, unix_s=NOW).token == "t2"


def test_those_who_are_in_may_have_to_go() -> None:
    ann = AUTHORITY.identify(token(), None, unix_s=NOW)
    sensor = AUTHORITY.identify(None, Peer("client", "sensor7", "f00d"), unix_s=NOW)
    assert AUTHORITY.flaw_of(ann, unix_s=NOW + 59) is None
    assert AUTHORITY.flaw_of(ann, unix_s=NOW + 60) == "your token has expired"
    assert AUTHORITY.flaw_of(sensor, unix_s=NOW + 1e9) is None
    stricter = msgspec.structs.replace(AUTHORITY, revoked={"t1": None, "f00d": None})
    assert stricter.flaw_of(ann, unix_s=NOW) == "your token has been revoked"
    assert stricter.flaw_of(sensor, unix_s=NOW) == "your certificate has been revoked"


def test_by_certificate() -> None:
    sensor = AUTHORITY.identify(None, Peer("client", "sensor7", "f00d"), unix_s=NOW)
    assert sensor.permissions.grant == Grant(publish="room = 7")
    stranger = AUTHORITY.identify(None, Peer("client", "stranger", "cafe"), unix_s=NOW)
    with pytest.raises(TidewireError):
        stranger.permissions.narrowed([])
    assert stranger.permissions.publishable() == []
    with pytest.raises(NotAuthenticated, match="show a token"):
        AUTHORITY.identify(None, None, unix_s=NOW)


def test_nobody_speaks_in_anothers_place() -> None:
    ann = AUTHORITY.identify(token(), None, unix_s=NOW)
    bob = AUTHORITY.identify(token(name="bob", id="t2"), None, unix_s=NOW)
    again = AUTHORITY.identify(token(id="t3"), None, unix_s=NOW)
    assert ann.publisher(7) != bob.publisher(7)
    assert ann.publisher(7) == again.publisher(7), "it goes on where it was, also with another token"
    assert ann.publisher(7) != ann.publisher(8)
    assert EVERYONE.publisher(7) == 7


def test_only_a_broker_is_a_broker_and_only_itself() -> None:
    AUTHORITY.check_broker(Peer("broker", "edge1", "f00d"), "edge1")
    for peer in (None, Peer("client", "edge1", "f00d"), Peer("coordinator", "edge1", "f00d")):
        with pytest.raises(NotPermitted, match="only a broker"):
            AUTHORITY.check_broker(peer, "edge1")
    with pytest.raises(NotPermitted, match="that of the broker edge1, not head"):
        AUTHORITY.check_broker(Peer("broker", "edge1", "f00d"), "head")


def test_a_broker_whose_certificate_was_revoked_is_none() -> None:
    stricter = msgspec.structs.replace(AUTHORITY, revoked={"f00d": None})
    with pytest.raises(NotAuthenticated, match="certificate has been revoked"):
        stricter.check_broker(Peer("broker", "edge1", "f00d"), "edge1")
    stricter.check_broker(Peer("broker", "edge1", "beef"), "edge1")


@pytest.mark.parametrize(
    ("now", "has_to_go"),
    [
        ({"sensor7": Grant(publish="room = 7", subscribe="n > 5")}, False),
        ({"sensor7": Grant(publish="*", subscribe="n > 1", observe=True)}, False),
        ({"sensor7": Grant(publish="room = 7", subscribe="n > 6")}, True),
        ({"sensor7": Grant(publish="room = 8", subscribe="n > 5")}, True),
        ({"sensor7": Grant(publish="room = 7", subscribe="n > 5", advertise="room = 7 and n = 1")}, True),
        ({"sensor7": Grant(publish="room = 7")}, True),
        ({"sensor8": Grant(publish="*", subscribe="*")}, True),
    ],
)
def test_who_has_less_than_it_was_given_has_to_go(now: dict[str, Grant], has_to_go: bool) -> None:
    """By its certificate; what a token says stays as it was signed."""
    before = msgspec.structs.replace(
        AUTHORITY, certificates={"sensor7": Grant(publish="room = 7", subscribe="n > 5", operate=True)}
    )
    sensor = before.identify(None, Peer("client", "sensor7", "f00d"), unix_s=NOW)
    ann = before.identify(token(), Peer("client", "sensor7", "f00d"), unix_s=NOW)
    after = msgspec.structs.replace(AUTHORITY, certificates=now)
    assert (after.flaw_of(sensor, unix_s=NOW) is not None) == has_to_go
    assert after.flaw_of(ann, unix_s=NOW) is None


def test_a_token_of_keys_that_have_changed_is_good_no_longer() -> None:
    ann = AUTHORITY.identify(token(), None, unix_s=NOW)
    sensor = AUTHORITY.identify(None, Peer("client", "sensor7", "f00d"), unix_s=NOW)
    for changed in ({"domain": "there"}, {"token_key": key_pair()[1]}):
        after = msgspec.structs.replace(AUTHORITY, **changed)
        assert "keys of this installation have changed" in (after.flaw_of(ann, unix_s=NOW) or "")
        assert after.flaw_of(sensor, unix_s=NOW) is None, "a certificate is another matter"


def test_a_certificate_is_good_while_one_that_may_have_signed_it_is_trusted() -> None:
    ours = msgspec.structs.replace(AUTHORITY, signers={"old": None, "new": None})
    peer = Peer("broker", "edge1", "f00d", ("old",))
    sensor = ours.identify(None, Peer("client", "sensor7", "f00d", ("old", "older")), unix_s=NOW)
    ours.check_broker(peer, "edge1")
    assert ours.flaw_of(sensor, unix_s=NOW) is None
    later = msgspec.structs.replace(AUTHORITY, signers={"new": None})
    assert "another authority" in (later.flaw_of(sensor, unix_s=NOW) or "")
    with pytest.raises(NotAuthenticated, match="another authority"):
        later.check_broker(peer, "edge1")
