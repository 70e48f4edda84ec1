"""Was every promise about guaranteed events kept? What the logs hold is the truth that all is compared with.

1. An event that has a receipt is in a log, and no event is in the logs twice.
2. A follower gets exactly the events of a stream that match, from where it began there: each once, by tick, and none
   of them is missing once all is at rest, but for gaps that it was told of.
3. It has begun when it is told so: whatever is published afterwards, anywhere, it is owed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidewire._kernel.codec import decode
from tidewire.model.ids import PubendId, Tick
from tidewire.model.values import Value
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.promises import FollowerRecord
from tidewire.simulator.records import FOREVER_NS, EventKey, key_of
from tidewire.simulator.world import World

_ALL = 1 << 62


class Logged(msgspec.Struct, frozen=True):
    """An event in a log."""

    pubend: PubendId
    tick: Tick
    key: EventKey
    attributes: Mapping[str, Value]


def logged(world: World) -> list[Logged]:
    """All that is durable anywhere, by pubend and tick."""
    found: list[Logged] = []
    for host in world.brokers.values():
        if host.disk is None or (log := host.disk.log) is None:
            continue
        for pubend in log.pubends():
            records, _, _ = log.read(pubend, 0, _ALL, _ALL)
            events = [decode(record[6]) for record in records]
            found += [
                Logged(PubendId(pubend), Tick(record[1]), key_of(event), event.attributes)
                for record, event in zip(records, events, strict=True)
            ]
    return found


def receipts_are_true(world: World) -> list[str]:
    """What has a receipt is in a log, and nothing is in the logs twice (rule 1)."""
    found: list[str] = []
    known: dict[EventKey, Logged] = {}
    for one in logged(world):
        if one.key in known:
            found.append(f"event {one.key} is in the logs twice: at {known[one.key].tick} and at {one.tick}")
        known[one.key] = one
    for client in world.clients.values():
        for promised in client.promised.values():
            if promised.is_receipted and promised.key not in known:
                at_s = promised.receipted_ns / 1e9
                found.append(f"{client.name}'s event {promised.key} has a receipt from {at_s:.3f} s, and is in no log")
    return found


def followers_are_served(world: World) -> list[str]:
    """Followers get what they are owed, and nothing else (rules 2 and 3)."""
    events = logged(world)
    published = {one.key: one.published_ns for client in world.clients.values() for one in client.promised.values()}
    clients = world.clients.values()
    found = [what for client in clients for record in client.names_ended for what in _disorder(client, record)]
    return found + [
        what
        for client in clients
        for record in client.followed.values()
        for what in _flaws(client, record, events, published)
        if record.ended_ns == FOREVER_NS
    ]


def _flaws(
    client: ClientHost, record: FollowerRecord, events: list[Logged], published: Mapping[EventKey, int]
) -> list[str]:
    who = _who(client, record)
    found = _disorder(client, record)
    owed = {
        (one.pubend, one.tick): one.key
        for one in events
        if (one.tick >= record.begun.get(one.pubend, _ALL) or published.get(one.key, 0) > record.confirmed_ns)
        and record.wanted.accepts(one.attributes)
    }
    got = {(one.pubend, one.tick): one.key for one in record.received}
    for place, key in owed.items():
        if got.get(place) != key and not _is_in_gap(record, *place):
            found.append(f"{who} lacks {key} at tick {place[1]} of {place[0]:016x}")
    found += [f"{who} got {key} at {place}, which is in no log" for place, key in got.items() if place not in owed]
    return found


def _who(client: ClientHost, record: FollowerRecord) -> str:
    return f"{client.name}, who follows as {record.name!r},"


def _disorder(client: ClientHost, record: FollowerRecord) -> list[str]:
    """What came twice, late, or too early."""
    who, found = _who(client, record), list[str]()
    last: dict[PubendId, int] = {}
    for one in record.received:
        if one.tick <= last.get(one.pubend, 0):
            found.append(f"{who} got {one.key} at tick {one.tick} again or late, at {one.time_ns / 1e9:.3f} s")
        last[one.pubend] = one.tick
        if one.tick < record.begun.get(one.pubend, _ALL):
            found.append(f"{who} got {one.key} at tick {one.tick}, before it had begun")
    return found


def _is_in_gap(record: FollowerRecord, pubend: PubendId, tick: Tick) -> bool:
    return any(one == pubend and first <= tick <= last for one, first, last in record.gaps)
