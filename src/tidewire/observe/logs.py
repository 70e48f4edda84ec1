"""What is wrong with the logs of a running network, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from tidewire.broker.status import BrokerStatus, LogStatus, LossStatus
from tidewire.observe.findings import Finding, or_ok, problem, warning
from tidewire.observe.network import Network

STANDSTILL: Final = ("full", "failed")
"""Troubles of a log in which it takes nothing: publishers wait for that, and for nobody else."""
AWAY_S: Final = 60.0
"""Who is behind by less is only a little late."""
_MAKE_ROOM: Final = "make room there, retain less (retain_s, retain_bytes), or forget those who never come back"


def logs_take_events(network: Network) -> Iterator[Finding]:
    """Is anything in the way of guaranteed events?"""
    check, found = "logs", list[Finding]()
    for status in network.statuses():
        log = status.log
        if log is None:
            continue
        if log.trouble == "full":
            full = f"the disk of {status.broker} is full, and {log.folder} takes nothing"
            found.append(problem(check, full, _MAKE_ROOM + _furthest_behind(log)))
        elif log.trouble == "failed":
            advice = "look at the disk, and start the broker again: it finds out what is there"
            found.append(problem(check, f"the disk of {status.broker} has failed: {log.why}", advice))
        elif log.why:
            soon = f"the disk of {status.broker} has no room for the next file of {log.folder}: {log.why}"
            found.append(warning(check, soon, _MAKE_ROOM + _furthest_behind(log)))
        for one in log.pubends if log.trouble not in STANDSTILL else ():
            if one.limit_events_s is not None and one.is_awaited:
                advice = "a subscriber or a link on the way is too slow for it: tidewire top shows which"
                slowed = f"publishers at {status.broker} wait: {one.limit_events_s:.3g} events/s are taken"
                found.append(warning(check, slowed, advice))
    kept = sum(status.log is not None for status in network.statuses())
    yield from or_ok(found, check, f"{kept} brokers keep guaranteed events, and take them")


def _furthest_behind(log: LogStatus) -> str:
    """For whom most is kept, if they are away and not just a little late."""
    found = ", ".join(f"{one.name} ({one.behind_s / 3600:.1f} h)" for one in log.names[:3] if one.behind_s > AWAY_S)
    return f". Furthest behind: {found} (tidewire names)" if found else ""


def logs_are_whole(network: Network) -> Iterator[Finding]:
    """Is there something that guaranteed events were in, and is not there any more?"""
    check, found = "losses", list[Finding]()
    for status in network.statuses():
        told = [] if status.log is None else status.log.losses
        losses = [one for one in told if one.why != "said"]
        for pubend in dict.fromkeys(one.pubend for one in losses):
            of = [one for one in losses if one.pubend == pubend]
            found.append(_loss(status, pubend, of))
        found += [_said(status, one) for one in told if one.why == "said"]
    yield from or_ok(found, check, "no log lacks anything that it has kept")


def _loss(status: BrokerStatus, pubend: str, losses: list[LossStatus]) -> Finding:
    assert status.log is not None
    span = (
        f"from {_when(min(one.first_ms for one in losses) / 1e3)} to {_when(max(one.last_ms for one in losses) / 1e3)}"
    )
    since = min((one.found_s for one in losses if one.found_s is not None), default=None)
    known = "met by a reader since it started" if since is None else f"found {_when(since)}"
    parts = "a part" if len(losses) == 1 else f"{len(losses)} parts"
    if any(one.why == "younger" for one in losses):
        what = f"{status.log.folder} of {status.broker} is younger than what brokers have told of stream {pubend}"
        advice = (
            "it was emptied, or put back from an older copy: if you have the newer folder, stop the broker, put it back"
            "; subscribers that were there, or give their position, hear of a gap"
        )
    else:
        what = f"{status.log.folder} of {status.broker} is damaged: it lacks {parts} of stream {pubend}"
        advice = (
            "look at the disk (dmesg, smartctl); if you have a copy of the folder, stop the broker, put it back;"
            " durable subscribers hear of a gap"
        )
    return problem("losses", f"{what}, {span} ({sum(one.ticks for one in losses):,} ticks; {known})", advice)


def _said(status: BrokerStatus, loss: LossStatus) -> Finding:
    """Only a warning: whoever subscribes may give a position that never was."""
    assert status.log is not None
    less = f"{status.log.folder} of {status.broker} has less of stream {loss.pubend}"
    what = f"{less} than subscribers say they have had (durable subscriptions that say so: {loss.names})"
    advice = (
        "if it was put back from an older copy, and you have the newer folder, stop the broker, put it back; else they"
        " gave a position that never was: the broker's log names the first one, and they have heard of a gap"
    )
    return warning("losses", what, advice)


def _when(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
