"""Whom the door lets in: the brokers know, and are not asked for every request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tidewire.console.admission import REMEMBERED_MAX, REMEMBERED_S, Admission
from tidewire.console.network import Network
from tidewire.live.credentials import Credentials
from tidewire.model.errors import NotAuthenticated


class _Loop(asyncio.SelectorEventLoop):
    now_s = 100.0

    def time(self) -> float:
        return self.now_s


class _Brokers(Network, frozen=True):
    """They know the tokens that are in ``known``, and write down who has asked."""

    known: dict[str | None, None]
    asked: list[str | None]

    async def wire(self, credentials: Credentials, **_: Any) -> Any:
        @asynccontextmanager
        async def session() -> AsyncIterator[None]:
            self.asked.append(credentials.token)
            if credentials.token not in self.known:
                raise NotAuthenticated("the token has been revoked")
            yield

        return session()


def _brokers(address: str, *known: str) -> _Brokers:
    return _Brokers(brokers=(address,), known=dict.fromkeys(known), asked=[])


def test_who_is_known_is_remembered_for_a_moment() -> None:
    brokers = _brokers("tidewires://127.0.0.1:1", "ann")
    admission, ann = Admission(brokers), brokers.credentials("ann")
    with asyncio.Runner(loop_factory=_Loop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, _Loop)
        for _ in range(3):
            runner.run(admission.admit(ann))
        assert brokers.asked == ["ann"]
        del brokers.known["ann"]
        loop.now_s += REMEMBERED_S
        for _ in range(2):
            with pytest.raises(NotAuthenticated, match="revoked"):
                runner.run(admission.admit(ann))
        assert brokers.asked == ["ann"] * 3


def test_no_more_are_remembered_than_may_be() -> None:
    names = [f"n{number}" for number in range(REMEMBERED_MAX + 1)]
    brokers = _brokers("tidewires://127.0.0.1:1", *names)
    admission = Admission(brokers)
    with asyncio.Runner(loop_factory=_Loop) as runner:
        for name in [*names, names[-1], names[0]]:
            runner.run(admission.admit(brokers.credentials(name)))
    assert brokers.asked == [*names, names[0]]


def test_where_nobody_is_asked_anybody_comes_in() -> None:
    """Also while no broker can be reached: what a filter means can be said without."""
    brokers = _brokers("127.0.0.1:1")
    asyncio.run(Admission(brokers).admit(brokers.credentials(None)))
    assert brokers.asked == []


def test_a_coordinator_that_is_secured_counts_as_well() -> None:
    network = Network(coordinator="tidewires://127.0.0.1:1")
    with pytest.raises(NotAuthenticated, match="Bearer"):
        asyncio.run(Admission(network).admit(network.credentials(None)))
