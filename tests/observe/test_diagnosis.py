"""Every check finds what it is for, says what to do, and is quiet in a network that is well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.observe.examples import answered, balance, channels, load, log, neighbour, network
from tidewire.balancing.record import Errors
from tidewire.broker.decisions import Decision
from tidewire.broker.status import Host, LossStatus, SlowConsumer
from tidewire.observe.diagnosis import CHECKS, diagnose
from tidewire.observe.network import CoordinatorView, Network, Unanswered


def decision(what: str, *, age_s: float = 5.0, **facts: str | int) -> Decision:
    return Decision(age_s=age_s, at_unix_s=None, what=what, times=1, facts=dict(facts))


def pair(left: dict[str, Any] | None = None, right: dict[str, Any] | None = None) -> Network:
    """Two brokers that are linked, and well but for this."""
    return network(
        answered("a", **{"neighbours": [neighbour("b")], **(left or {})}),
        answered("b", **{"neighbours": [neighbour("a")], **(right or {})}),
    )


def slow(**given: Any) -> SlowConsumer:
    usual: dict[str, Any] = {"name": "ann", "queued_bytes": 4 << 20, "dropped": 0, "dropped_age_s": None}
    return SlowConsumer(**usual | given)


def full_circle() -> Network:
    def to(name: str) -> list[Any]:
        return [neighbour(name, queued_bytes=32 << 20)]

    return network(
        answered("a", neighbours=to("b")), answered("b", neighbours=to("c")), answered("c", neighbours=to("a"))
    )


def cut_off() -> Network:
    return pair({"channels": channels(is_connected=False)}, {"channels": channels()})


def clock_ahead() -> Network:
    return network(answered("a", clock_ahead_s=5.0))


def longer_frames() -> Network:
    return pair({}, {"neighbours": [neighbour("a", frame_bytes_max=8 << 20)]})


def coordinator_down(code: str = "unavailable") -> Network:
    look = pair()
    view = CoordinatorView(address="127.0.0.1:7599", members=[], reason="refused", code=code)
    return Network(at_unix_s=0.0, brokers=look.brokers, silent=[], coordinators=[view])


def gone(name: str) -> tuple[Unanswered, ...]:
    return (Unanswered(broker=name, address="127.0.0.1:9", code="unavailable", reason="refused", named_by="a"),)


def shut(name: str) -> tuple[Unanswered, ...]:
    (one,) = gone(name)
    return (msgspec.structs.replace(one, code="not-permitted", reason="no"),)


WAITING: dict[str, Any] = {"limit_events_s": 5.0, "is_awaited": True}


def lossy(**given: Any) -> Network:
    """A broker's log lacks a second of a stream."""
    usual: dict[str, Any] = {"pubend": "0a", "first_ms": 1_700_000_000_000, "last_ms": 1_700_000_001_000}
    loss = LossStatus(**usual | {"ticks": 1001, "found_s": 1_700_000_100.0} | given)
    return pair({"log": log(losses=[loss])})


def both(**given: Any) -> Network:
    """Both balance, one of them as given."""
    return pair({"balance": balance(**given)}, {"balance": balance()})


def helpless() -> Network:
    overloaded = {"balance": balance(condition="N/A"), "decisions": [decision("calls for help", action="input")]}
    return pair(overloaded, {"balance": balance(condition="N/A")})


def wrong(by: float) -> Errors:
    return Errors(compared=3, input_utilisation=by, output_utilisation=0.0, matching_delay_s=0.0)


SICK: list[tuple[str, str, str, Callable[[], Network]]] = [
    ("answers", "problem", "c at 127.0.0.1:9, named by a, does not", lambda: network(answered("a"), silent=gone("c"))),
    ("answers", "problem", "does not tell you how it is: no", lambda: network(answered("a"), silent=shut("c"))),
    ("coordinator", "warning", "does not answer: refused", coordinator_down),
    ("coordinator", "warning", "does not tell you what it knows", lambda: coordinator_down("not-permitted")),
    ("coordinator", "warning", "c at", lambda: network(answered("a"), a=True, c=False)),
    ("links", "problem", "should be connected to 127.0.0.1:9", lambda: pair({"unreached": ["127.0.0.1:9"]})),
    ("links", "problem", "2 parts: a | b", lambda: network(answered("a"), answered("b"))),
    ("balancing", "warning", "a balance their load, b do not", lambda: pair({"balance": balance()})),
    ("balancing", "warning", "nobody takes clients over from it", helpless),
    ("balancing", "warning", "off by 30%", lambda: both(errors=wrong(0.3))),
    ("channels", "warning", "a offer channels, b do not", lambda: pair({"channels": channels()})),
    ("channels", "warning", "a does not reach the data cluster at 127.0.0.1:7605: 40 wait for it", cut_off),
    ("vanished", "problem", "c fell silent", lambda: pair({"decisions": [decision("neighbour silent", broker="c")]})),
    ("stuck", "problem", "a → b → c → a", full_circle),
    ("stuck", "warning", "nothing moved", lambda: pair({"decisions": [decision("link stuck", broker="b")]})),
    ("queues", "warning", "75% full", lambda: pair({"neighbours": [neighbour("b", queued_bytes=24 << 20)]})),
    ("queues", "warning", "3 connections", lambda: pair({"waiting": 3})),
    ("subscribers", "warning", "'ann'", lambda: pair({"slow": [slow()], "slow_clients": 1})),
    ("subscribers", "warning", "lost 7", lambda: pair({"slow": [slow(queued_bytes=0, dropped=7, dropped_age_s=1.0)]})),
    ("load", "warning", "cpu 95%", lambda: pair({"load": load(cpu_utilisation=0.95)})),
    ("load", "problem", "input 120%", lambda: pair({"load": load(input_utilisation=1.2)})),
    ("load", "warning", "9500 clients", lambda: pair({"clients": 9500})),
    ("load", "warning", "1024 files", lambda: pair({"host": Host(version="0.1.0", pid=1, files_max=1024)})),
    ("logs", "problem", "disk of a is full", lambda: pair({"log": log(trouble="full")})),
    ("logs", "problem", "disk of a is full", lambda: pair({"log": log(trouble="full", **WAITING), "waiting": 3})),
    ("logs", "warning", "no room for the next file of log: no space", lambda: pair({"log": log(why="no space")})),
    ("logs", "problem", "has failed: no sync", lambda: pair({"log": log(trouble="failed", why="no sync")})),
    ("logs", "warning", "5 events/s", lambda: pair({"log": log(limit_events_s=5.0, is_awaited=True)})),
    ("losses", "problem", "lacks a part of stream 0a, from 2023-11-14 22:13:20 UTC", lambda: lossy(why="damaged")),
    ("losses", "problem", "(1,001 ticks; found 2023-11-14 22:15:00 UTC)", lambda: lossy(why="damaged")),
    ("losses", "problem", "met by a reader", lambda: lossy(why="damaged", found_s=None)),
    ("losses", "problem", "younger than what brokers have told of stream 0a", lambda: lossy(why="younger")),
    ("losses", "warning", "has less of stream 0a than subscribers say", lambda: lossy(why="said", names=2)),
    ("draining", "warning", "a is being drained, 5", lambda: pair({"is_leaving": True})),
    ("clocks", "warning", "5.0 s ahead", clock_ahead),
    ("clocks", "warning", "to 80 ms", lambda: pair({"neighbours": [neighbour("b", clock_error_us=80_000)]})),
    ("frames", "warning", "differs (b: 2097152, a: 8388608)", longer_frames),
    ("versions", "warning", "0.2.0: b", lambda: pair({}, {"host": Host(version="0.2.0", pid=1, files_max=20_000)})),
]


@pytest.mark.parametrize(("check", "level", "message", "make"), SICK)
def test_what_is_wrong_is_found(check: str, level: str, message: str, make: Callable[[], Network]) -> None:
    """With what to do about it; nothing else is wrong."""
    bad = [one for one in diagnose(make()) if one.level != "ok"]
    assert [(one.check, one.level) for one in bad if one.check == check] == [(check, level)]
    assert message in next(one.message for one in bad if one.check == check)
    assert all(one.advice for one in bad)
    assert {one.check for one in bad} <= {check, "queues"}  # a full circle has full queues, too


def test_every_check_is_shown_to_find_something() -> None:
    found = {one.check for check in CHECKS for one in check(network(answered("a"), a=True))}
    assert found == {check for check, *_ in SICK}


def test_a_network_that_is_well_has_one_line_of_each_check() -> None:
    findings = diagnose(pair())
    assert {one.level for one in findings} == {"ok"}
    assert len(findings) == len(CHECKS) - 1  # there is no coordinator


def test_how_many_channels_there_are() -> None:
    look = pair({"channels": channels()}, {"channels": channels(subscriptions=2, shared=1)})
    [found] = [one for one in diagnose(look) if one.check == "channels"]
    assert found.level == "ok"
    assert found.message == "2 brokers reach the data cluster: 2 channels, 42 subscriptions that share 6"


def test_old_trouble_is_no_news() -> None:
    healed = {
        "decisions": [decision("link stuck", age_s=700.0), decision("neighbour silent", age_s=5.0, broker="b")],
        "slow": [slow(queued_bytes=0, dropped=7, dropped_age_s=100.0)],
    }
    assert {one.level for one in diagnose(pair(healed))} == {"ok"}


def test_if_nobody_answers_nothing_else_is_said() -> None:
    findings = diagnose(network(silent=gone("")))
    assert [(one.check, one.level) for one in findings] == [("answers", "problem")]


def test_who_has_left_the_coordinator_is_told_of_once() -> None:
    """It may have been stopped for good: a warning. Who only does not answer is a problem."""
    missing = [
        Unanswered(broker=name, address="127.0.0.1:9", code="unavailable", reason="refused", named_by="a")
        for name in ("left", "hung")
    ]
    found = diagnose(network(answered("a"), silent=tuple(missing), a=True, left=False, hung=True))
    assert [(one.check, one.level) for one in found if "left" in one.message] == [("coordinator", "warning")]
    assert [(one.check, one.level) for one in found if "hung" in one.message] == [("answers", "problem")]


def test_who_waits_for_a_full_disk_is_not_said_to_wait_for_a_queue() -> None:
    found = diagnose(pair({"log": log(trouble="full", **WAITING), "waiting": 3}))
    assert [one.check for one in found if one.level != "ok"] == ["logs"]
