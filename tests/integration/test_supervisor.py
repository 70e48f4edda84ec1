"""Children that die are started again; one that cannot start is given up, with its reason."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.network import until
from tidewire.live import supervisor as supervising
from tidewire.live.supervisor import FAILURES_MAX, Child, Supervisor


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("""echo begins; echo '{"error": {"code": "configuration", "message": "damaged"}}'; exit 2""", "damaged"),
        ("echo Traceback; echo 'ValueError: no'; echo; exit 1", "ValueError: no"),
        ("exit 7", "exit 7"),
    ],
)
def test_one_that_cannot_start_is_given_up_and_says_why(
    script: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "BACK_OFF_S_MAX", 0.01)

    async def run() -> None:
        said: list[tuple[str, str]] = []
        nodes = Supervisor(say=lambda name, line: said.append((name, line)))
        bad, good = Child("bad", ["sh", "-c", script]), Child("good", ["sleep", "60"])
        nodes.start(bad)
        nodes.start(good)
        await until(lambda: bad.is_given_up)
        assert said[-1] == ("bad", f"failed {FAILURES_MAX} times in a row, and is given up: {reason}")
        assert bad.restarts == FAILURES_MAX - 1
        assert sum("starts again" in line for _, line in said) == FAILURES_MAX - 1
        assert not good.is_given_up
        await nodes.stop()
        assert bad.restarts == FAILURES_MAX - 1

    asyncio.run(run())


def test_one_that_is_killed_is_started_again_however_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "BACK_OFF_S_MAX", 0.01)

    async def run() -> None:
        nodes = Supervisor(say=lambda _name, _line: None)
        child = Child("victim", ["sh", "-c", "kill -9 $$"])
        nodes.start(child)
        await until(lambda: child.restarts > 2 * FAILURES_MAX)
        assert not child.is_given_up
        await nodes.stop()

    asyncio.run(run())


def test_failures_that_are_far_between_are_not_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "BACK_OFF_S_MAX", 0.01)
    monkeypatch.setattr(supervising, "_STEADY_S", 0.0)

    async def run() -> None:
        nodes = Supervisor(say=lambda _name, _line: None)
        child = Child("old", ["sh", "-c", "exit 1"])
        nodes.start(child)
        await until(lambda: child.restarts > 2 * FAILURES_MAX)
        assert not child.is_given_up
        await nodes.stop()

    asyncio.run(run())
