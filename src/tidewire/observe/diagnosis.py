"""What is wrong with a running network, and what to do about it. Each check looks at one thing.

What is in order is one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tidewire.broker.status import BrokerStatus
from tidewire.model.errors import NotAuthenticated, NotPermitted
from tidewire.observe.findings import SPARE_FILES, Finding, ok, or_ok, problem, warning
from tidewire.observe.logs import STANDSTILL, logs_are_whole, logs_take_events
from tidewire.observe.network import CoordinatorView, Network

HIGH_LOAD: Final = 0.9
FULL_SHARE: Final = 0.5
"""Of a queue to a neighbour: more is worth a warning."""
STUCK_SHARE: Final = 0.9
RECENT_S: Final = 60.0
"""A loss that long ago is no longer news."""
LATELY_S: Final = 600.0
"""Neighbours that vanished, links that ended: still news."""
CLOCK_S: Final = 1.0
"""Calendars that differ by more are wrong."""
LINK_CLOCK_S: Final = 0.05
COMPARED_MIN: Final = 3
PREDICTED_WRONG: Final = 0.1
"""Balancing: predictions that are off by more, of at least so many sessions."""
_REFUSALS: Final = (NotAuthenticated.code, NotPermitted.code)
_SHOW_A_TOKEN: Final = "show a token that may do that: --token-file, made by: tidewire token create NAME --observe"


NetworkCheck = Callable[[Network], Iterator[Finding]]


def diagnose(network: Network) -> list[Finding]:
    """Every check, in order; if nobody answers, that is all there is to say."""
    checks = CHECKS if network.brokers else [everyone_answers]
    return [finding for check in checks for finding in check(network)]


def everyone_answers(network: Network) -> Iterator[Finding]:
    """Who should be there and is not? Of those who have left their coordinator it is told by the next check."""
    left = [member.broker for view in network.coordinators for member in view.members if not member.is_alive]
    found = []
    for one in network.silent:
        if one.broker in left:
            continue
        who = f"{one.broker} at {one.address}" if one.broker else one.address
        said = f", named by {one.named_by}," if one.named_by and one.named_by != one.broker else ""
        if one.code in _REFUSALS:
            found.append(problem("answers", f"{who}{said} does not tell you how it is: {one.reason}", _SHOW_A_TOKEN))
        else:
            advice = "start it again, or look at its log"
            found.append(problem("answers", f"{who}{said} does not answer: {one.reason}", advice))
    yield from found
    if network.brokers:
        yield ok("answers", f"{len(network.brokers)} brokers answer")


def coordinators_answer(network: Network) -> Iterator[Finding]:
    """Are the coordinators there, and is everyone registered?"""
    check = "coordinator"
    for one in network.coordinators:
        if one.code in _REFUSALS:
            told = f"the coordinator at {one.address} does not tell you what it knows: {one.reason}"
            yield warning(check, told, _SHOW_A_TOKEN)
            continue
        if one.reason:
            advice = "start it again: brokers go on without it, but newcomers find no neighbours"
            yield warning(check, f"the coordinator at {one.address} does not answer: {one.reason}", advice)
            continue
        lost = [
            status.broker
            for status in network.statuses()
            if status.coordinator == one.address and not status.is_registered
        ]
        for name in lost:
            yield warning(check, f"{name} is not connected to the coordinator at {one.address}", "look at its log")
        gone = [member for member in one.members if not member.is_alive]
        for member in gone:
            advice = f"start {member.broker} again, or forget it: stop the coordinator and remove it from its store"
            yield warning(check, f"{member.broker} at {member.address} has left the coordinator", advice)
        if not lost and not gone:
            yield ok(
                check, f"the coordinator at {one.address} knows {len(one.members)} brokers, all connected{_places(one)}"
            )


def _places(one: CoordinatorView) -> str:
    """What it does for newcomers, and who else reports to it."""
    ours = {member.broker for member in one.members}
    foreign = [] if one.balance is None else [each for each in one.balance.brokers if each.broker not in ours]
    told = f", and {len(foreign)} that report over HTTP" if foreign else ""
    return told + (f"; newcomers get a broker by {one.placement}" if one.placement else "")


def links_stand(network: Network) -> Iterator[Finding]:
    """Is everyone connected to whom they should be, and the whole in one piece?"""
    check, found = "links", []
    for status in network.statuses():
        found += [
            problem(check, f"{status.broker} should be connected to {address} and is not", "is that broker running?")
            for address in status.unreached
        ]
    parts = _parts(network)
    if len(parts) > 1:
        shown = " | ".join(", ".join(part) for part in parts)
        advice = "events do not pass between them: give them a coordinator, or name neighbours (--neighbour)"
        found.append(problem(check, f"the network is in {len(parts)} parts: {shown}", advice))
    links = sum(len(status.neighbours) for status in network.statuses()) // 2
    yield from or_ok(found, check, f"all links stand ({links})")


def _parts(network: Network) -> list[list[str]]:
    """The brokers that answered, by who can reach whom."""
    names = [status.broker for status in network.statuses()]
    linked: dict[str, list[str]] = {name: [] for name in names}
    for status in network.statuses():
        for neighbour in status.neighbours:
            if neighbour.broker in linked:
                linked[status.broker].append(neighbour.broker)
                linked[neighbour.broker].append(status.broker)
    parts: list[list[str]] = []
    met: dict[str, None] = {}
    for name in names:
        if name in met:
            continue
        part = {name: None}
        for one in (queue := [name]):
            fresh = [other for other in linked[one] if other not in part]
            part |= dict.fromkeys(fresh)
            queue += dict.fromkeys(fresh)
        met |= part
        parts.append(sorted(part))
    return parts


def nobody_vanished(network: Network) -> Iterator[Finding]:
    """Has a neighbour fallen silent lately, and not come back? Its own links no longer tell of it."""
    lost: dict[str, float] = {}
    for status in network.statuses():
        for one in status.decisions:
            name = str(one.facts.get("broker", ""))
            if one.what == "neighbour silent" and one.age_s < LATELY_S and network.broker(name) is None:
                lost[name] = min(one.age_s, lost.get(name, one.age_s))
    found = [
        problem(
            "vanished",
            f"{name} fell silent {age_s:.0f} s ago, and has not come back",
            "look at its machine and its log",
        )
        for name, age_s in lost.items()
    ]
    yield from or_ok(found, "vanished", "no neighbour has fallen silent lately")


def nothing_is_stuck(network: Network) -> Iterator[Finding]:
    """Do brokers wait for each other in a circle, and have links ended for that?"""
    check, found = "stuck", []
    full = {
        status.broker: [n.broker for n in status.neighbours if n.queued_bytes >= STUCK_SHARE * n.queue_bytes_max]
        for status in network.statuses()
    }
    circle = _circle(full)
    if circle:
        way = " → ".join([*circle, circle[0]])
        advice = "one link ends by itself after link_patience_s; a larger link_queue_bytes_max makes it rarer"
        found.append(problem(check, f"these wait for each other, their queues are full: {way}", advice))
    for status in network.statuses():
        ages = [d.age_s for d in status.decisions if d.what == "link stuck" and d.age_s < LATELY_S]
        if ages:
            message = f"{status.broker} ended a link on which nothing moved, {min(ages):.0f} s ago"
            found.append(warning(check, message, "its neighbour was too busy, or brokers wait in a circle"))
    yield from or_ok(found, check, "nothing is stuck")


def _circle(full: dict[str, list[str]]) -> list[str]:
    """Brokers whose full queues lead back to the first; empty if there are none."""
    for start in full:
        way, at = [start], {start: 0}
        while len(way) <= len(full):
            onward = [name for name in full.get(way[-1], []) if name in full]
            if not onward:
                break
            if onward[0] in at:
                return way[at[onward[0]] :]
            at[onward[0]] = len(way)
            way.append(onward[0])
    return []


def queues_have_room(network: Network) -> Iterator[Finding]:
    """Do links keep up? A full one holds up everybody whose events take it."""
    check, found = "queues", []
    for status in network.statuses():
        for neighbour in status.neighbours:
            share = neighbour.queued_bytes / neighbour.queue_bytes_max
            if share >= FULL_SHARE:
                message = f"the queue from {status.broker} to {neighbour.broker} is {share:.0%} full"
                advice = f"{neighbour.broker} or the network between is too slow: add a broker, or publish less"
                found.append(warning(check, message, advice))
        if status.waiting and not (status.log is not None and status.log.trouble in STANDSTILL):
            message = f"{status.waiting} connections of {status.broker} wait for room elsewhere"
            found.append(warning(check, message, "find the full queue: tidewire top"))
    yield from or_ok(found, check, "queues to neighbours have room")


def subscribers_keep_up(network: Network) -> Iterator[Finding]:
    """Who does not read what it subscribed to?"""
    check, found = "subscribers", []
    for status in network.statuses():
        much = status.queue_bytes_max / 4
        now = [s for s in status.slow if s.queued_bytes > much or (s.dropped_age_s or RECENT_S) < RECENT_S]
        if now:
            worst, lost = now[0], sum(one.dropped for one in now)
            more = "+" if status.slow_clients > len(status.slow) else ""
            who = f"a slow subscriber, {worst.name!r}," if len(now) == 1 else f"{len(now)}{more} slow subscribers"
            message = f"{status.broker} has {who} that lost {lost:,} events"
            if len(now) > 1:
                message += f"; the worst is {worst.name!r}"
            advice = "they should read faster or subscribe to less; slow_subscriber says what happens to them"
            found.append(warning(check, message, advice))
    yield from or_ok(found, check, "subscribers keep up")


def load_is_bearable(network: Network) -> Iterator[Finding]:
    """Is a broker at its limit?"""
    check, found = "load", []
    for status in network.statuses():
        indices = loads_of(status)
        over = [f"{name} {value:.0%}" for name, value in indices.items() if value > HIGH_LOAD]
        if over:
            level = problem if indices["input"] > 1 else warning
            advice = "add an edge broker, or move clients: beyond 100 % events wait longer and longer"
            found.append(level(check, f"{status.broker} is loaded: {', '.join(over)}", advice))
        if status.clients > HIGH_LOAD * status.connections_max:
            message = f"{status.broker} has {status.clients} clients of at most {status.connections_max}"
            found.append(warning(check, message, "raise connections_max, or add a broker"))
        if status.host is not None and status.host.files_max < status.connections_max + SPARE_FILES:
            message = (
                f"{status.broker} may open {status.host.files_max} files, and take {status.connections_max} clients"
            )
            advice = f"let it open {status.connections_max + SPARE_FILES} (ulimit -Hn, LimitNOFILE=), then restart it"
            found.append(warning(check, message, advice))
    yield from or_ok(found, check, f"no load index is beyond {HIGH_LOAD:.0%}")


def loads_of(status: BrokerStatus) -> dict[str, float]:
    """The load indices by the names that people see; 0 before they are known."""
    load = status.load
    if load is None:
        return dict.fromkeys(("input", "output", "cpu", "memory"), 0.0)
    return {
        "input": load.input_utilisation,
        "output": load.output_utilisation,
        "cpu": load.cpu_utilisation,
        "memory": load.memory_utilisation,
    }


_HELPLESS: Final = ("calls for help", "nobody can take what is too much")
"""Decisions of an edge that decides, and of a head that does."""


def balancing_helps(network: Network) -> Iterator[Finding]:
    """Is somebody overloaded whom nobody can help, and is balancing as it should be?"""
    check, found = "balancing", list[Finding]()
    on = [status for status in network.statuses() if status.balance is not None]
    off = [status.broker for status in network.statuses() if status.balance is None]
    if on and off:
        message = f"{', '.join(status.broker for status in on)} balance their load, {', '.join(off)} do not"
        found.append(warning(check, message, "set the same balancing in the settings of all brokers, or of none"))
    for status in on:
        balance = status.balance
        assert balance is not None
        helpless = [one for one in status.decisions if one.what in _HELPLESS and one.age_s < LATELY_S]
        if helpless and (balance.condition == "N/A" or helpless[-1].what == _HELPLESS[1]):
            whom = str(helpless[-1].facts.get("broker", status.broker))
            message = f"{whom} is overloaded, and nobody takes clients over from it"
            advice = (
                "the others are as full as it is: add an edge broker, or publish less; tidewire rebalance --dry-run"
            )
            found.append(warning(check, message, advice))
        errors = balance.errors
        if errors is not None and errors.compared >= COMPARED_MIN:
            off_by = max(errors.input_utilisation, errors.output_utilisation)
            if off_by > PREDICTED_WRONG:
                message = f"what {status.broker} predicts of its load is off by {off_by:.0%}"
                advice = (
                    "look at more events (press_samples), or raise local_ratio above that: else clients go to and fro"
                )
                found.append(warning(check, message, advice))
    by_hand = [status.broker for status in on if status.balance is not None and not status.balance.is_automatic]
    told = "balancing is off" if not on else f"{len(on)} brokers balance their load"
    yield from or_ok(found, check, told + (", when they are told to: tidewire rebalance" if by_hand else ""))


def channels_are_reached(network: Network) -> Iterator[Finding]:
    """Are brokers connected to the data cluster that they have?"""
    check, found = "channels", list[Finding]()
    on = [(status.broker, status.channels) for status in network.statuses() if status.channels is not None]
    off = [status.broker for status in network.statuses() if status.channels is None]
    if on and off:
        message = f"{', '.join(name for name, _ in on)} offer channels, {', '.join(off)} do not"
        found.append(warning(check, message, "set data_cluster in the settings of all brokers, or of none"))
    for name, one in on:
        if not one.is_connected:
            message = f"{name} does not reach the data cluster at {one.data_cluster}: {one.subscriptions} wait for it"
            advice = "it takes some seconds to start; else look at its log, or start it: tidewire datacluster --listen"
            found.append(warning(check, message, advice))
    told = "no broker has a data cluster"
    if on:
        asked, shared = (sum(getattr(one, of) for _, one in on) for of in ("subscriptions", "shared"))
        there = max(one.channels for _, one in on)
        told = f"{len(on)} brokers reach the data cluster: {there} channels, {asked} subscriptions that share {shared}"
    yield from or_ok(found, check, told)


def nobody_leaves(network: Network) -> Iterator[Finding]:
    """Is somebody being drained?"""
    leaving = [status for status in network.statuses() if status.is_leaving]
    found = [
        warning(
            "draining", f"{status.broker} is being drained, {status.clients} clients left", "stop it when 0 are left"
        )
        for status in leaving
    ]
    yield from or_ok(found, "draining", "no broker is being drained")


def clocks_agree(network: Network) -> Iterator[Finding]:
    """Calendars, for people who compare logs; and the clocks by which brokers tell the age of events."""
    check, found = "clocks", []
    for one in network.brokers:
        name, ahead_s = one.status.broker, one.clock_ahead_s
        if ahead_s is not None and abs(ahead_s) > CLOCK_S + one.took_s:
            way = "ahead of" if ahead_s > 0 else "behind"
            message = f"the calendar of {name} is {abs(ahead_s):.1f} s {way} this machine's"
            found.append(warning(check, message, "run a time service (chrony, ntpd) on both machines"))
        for neighbour in one.status.neighbours:
            error_us = neighbour.clock_error_us
            if error_us is not None and error_us > LINK_CLOCK_S * 1e6:
                message = f"{name} knows the clock of {neighbour.broker} only to {error_us / 1000:.0f} ms"
                found.append(warning(check, message, "the way between them is slow: delays of events are that vague"))
    yield from or_ok(found, check, "clocks agree")


def frames_fit(network: Network) -> Iterator[Finding]:
    """Does everyone take what the others take? The default is the least between brokers."""
    bounds: dict[str, int] = {}
    for status in network.statuses():
        bounds |= {neighbour.broker: neighbour.frame_bytes_max for neighbour in status.neighbours}
    found, by_bound = [], sorted((bound, broker) for broker, bound in bounds.items())
    if by_bound and by_bound[0][0] < by_bound[-1][0]:
        shown = ", ".join(f"{broker}: {bound}" for bound, broker in by_bound)
        message = f"frame_bytes_max differs ({shown}): events beyond the least do not get everywhere"
        found.append(warning("frames", message, "set it alike at all brokers; followers are told of a gap till then"))
    yield from or_ok(found, "frames", "what one broker takes all others take")


def versions_agree(network: Network) -> Iterator[Finding]:
    """Is everyone of the same version?"""
    versions: dict[str, list[str]] = {}
    for status in network.statuses():
        if status.host is not None:
            versions.setdefault(status.host.version, []).append(status.broker)
    if len(versions) > 1:
        shown = "; ".join(f"{version}: {', '.join(names)}" for version, names in versions.items())
        yield warning("versions", f"brokers are of different versions: {shown}", "update the older ones")
    elif versions:
        yield ok("versions", f"all brokers are of version {next(iter(versions))}")


CHECKS: Final[list[NetworkCheck]] = [
    everyone_answers,
    coordinators_answer,
    links_stand,
    nobody_vanished,
    nothing_is_stuck,
    queues_have_room,
    subscribers_keep_up,
    logs_take_events,
    logs_are_whole,
    load_is_bearable,
    balancing_helps,
    channels_are_reached,
    nobody_leaves,
    clocks_agree,
    frames_fit,
    versions_agree,
]
"""Every check of a running network. A new one goes here."""
