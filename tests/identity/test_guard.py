"""Who may come in, and of whom the log is told that they may not."""

from __future__ import annotations

import pytest

from tidewire.identity.authority import Authority
from tidewire.identity.guard import NEWS_AFTER_NS, NEWS_MAX, Guard, Trust
from tidewire.model.errors import NotAuthenticated
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.wire.connections import Peer

NOW = Nanoseconds(1_000)
EDGE = Peer("broker", "edge1", "f00d")


def test_the_log_hears_of_a_refusal_once_in_a_while_from_each_place() -> None:
    guard = Guard(is_secured=True)
    guard.opened(Conn(1), None, place="10.0.0.1")
    guard.opened(Conn(2), None, place="10.0.0.2")
    assert guard.news(Conn(1), "no token", now_ns=NOW) == {"from": "10.0.0.1", "why": "no token"}
    assert guard.news(Conn(1), "no token", now_ns=NOW) is None
    assert guard.news(Conn(1), "ann lacks the permission", now_ns=NOW) is not None
    assert guard.news(Conn(2), "no token", now_ns=NOW) == {"from": "10.0.0.2", "why": "no token"}
    guard.closed(Conn(1))
    guard.opened(Conn(3), None, place="10.0.0.1")
    assert guard.news(Conn(3), "no token", now_ns=NOW) is None, "who comes again is the same"
    assert guard.news(Conn(3), "no token", now_ns=Nanoseconds(NOW + NEWS_AFTER_NS)) is not None


def test_what_is_remembered_of_refusals_has_a_bound() -> None:
    guard = Guard(is_secured=True)
    for number in range(3 * NEWS_MAX):
        assert guard.news(Conn(1), f"reason {number}", now_ns=NOW) is not None
    assert len(guard._told) == NEWS_MAX
    assert guard.news(Conn(1), f"reason {3 * NEWS_MAX - 1}", now_ns=NOW) is None


def test_nobody_is_a_broker_before_it_is_known_whom_to_trust() -> None:
    guard = Guard(is_secured=True)
    guard.opened(Conn(1), EDGE)
    with pytest.raises(NotAuthenticated, match="not known here yet"):
        guard.check_broker(Conn(1), "edge1")
    guard.trust(Trust(Authority(domain="here", token_key=""), 0), now_ns=NOW)
    guard.check_broker(Conn(1), "edge1")
    guard.trust(Trust(Authority(domain="here", token_key="", revoked={"f00d": None}), 0), now_ns=NOW)
    with pytest.raises(NotAuthenticated, match="revoked"):
        guard.check_broker(Conn(1), "edge1")
    assert guard.flawed() == [(Conn(1), "your certificate has been revoked")]
