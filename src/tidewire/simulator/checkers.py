"""Did all go well? Each checker answers with what did not, one line each.

The promise (best effort): an event reaches once, in the publisher's order, everyone whose subscription had been
confirmed before it was published. It may be missing only if the publisher's session, the way from its broker to that of
the subscriber, or the subscriber's session was out of order at some time while it was under way, or if it had a
deadline that it may not have met, and brokers have counted some as expired. It may never come twice, out of order, or
to somebody who does not want it. A client that begins again is somebody new in this: what it wanted before has ended
with the process, and its publications are those of another publisher.

That is what applications see, behind the gate of their sessions. What brokers bring is looked at too, ahead of it:

1. An event has one place, a source tree and a position there, whoever brings it to whom.
2. On one connection the positions of a publisher in a tree only grow: nothing comes there twice. (Urgent events
   overtake those of other publishers.)
3. On one connection the events of one publisher come in its order, from whatever trees. One may come late only if the
   publisher's session, or the way from the event's source to this broker, was out of order while it was under way.
   Guaranteed events have their order in each pubend.
4. Events come only where they are awaited: on the connection that serves the subscriptions and, during a move, on the
   one to the new broker. On one that a session has left they may come for as long as what is under way takes.

What is guaranteed has rules of its own (``guarantees.py``).

So an event comes to a session a second time only during a move, from both brokers, or after a connection was lost, on
the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidewire.simulator.clients import ClientHost
from tidewire.simulator.guarantees import followers_are_served, receipts_are_true
from tidewire.simulator.records import (
    FOREVER_NS,
    GUARANTEED,
    Arrival,
    EventKey,
    Got,
    Line,
    Part,
    Publication,
    Receipt,
    Span,
)
from tidewire.simulator.tables import tables_are_exact
from tidewire.simulator.world import World

Checker = Callable[[World], list[str]]

CONFIRMED_NS: Final = 2_000_000_000
"""So long after a way has become good, brokers on it know from where on they have what they want of a stream."""

RECOVERY_NS: Final = 5_000_000_000
"""Within so long what is missing in a stream is asked for, and comes."""


def no_loss(world: World) -> list[str]:
    """Nobody lacks an event that nothing stood in the way of, or that was not reported as thrown away."""
    found: list[str] = []
    refused = world.refused
    has_expired = any(host.expired for host in world.brokers.values())
    for client in world.clients.values():
        got = Got(client.receipts)
        missing = [
            (publication, lacking)
            for publication in world.publications.values()
            if (lacking := got.lacking(publication))
            and not _is_refused(publication, refused)
            and is_due(world, client, publication)
            and not (has_expired and _may_expire(world, publication))
        ]
        if sum(lacking for _, lacking in missing) > events_lost(client):
            found += [f"{client.name} lacks {_told(publication, lacking)}" for publication, lacking in missing]
    return found


def _is_refused(publication: Publication, refused: dict[EventKey, None]) -> bool:
    """Equal events are refused together, from one of them on; not all are listed."""
    if publication.count == 1 or not refused:
        return publication.key in refused
    publisher, first = publication.key
    return any(who == publisher and first <= sequence < first + publication.count for who, sequence in refused)


def _may_expire(world: World, publication: Publication) -> bool:
    """May it have been late on its way? What has its receipt never is."""
    if publication.ttl_ns is None or publication.key[0] & GUARANTEED:
        return False
    return _arrival_ns(world, publication.time_ns) - publication.time_ns >= publication.ttl_ns


def events_lost(client: ClientHost) -> int:
    """How many events was a slow subscriber told to have lost?"""
    return sum(int(told.facts["events"]) for _, told in client.told if told.what == "events lost")


def is_due(world: World, client: ClientHost, publication: Publication) -> bool:
    """Must this client have got this event?"""
    start_ns, sent_ns = publication.time_ns, _sent_ns(world, publication)
    end_ns = _arrival_ns(world, sent_ns)
    if end_ns > world.agenda.now_ns:
        return False
    if not any(_has_to_bring(span, publication, end_ns) for span in client.spans):
        return False
    if world.clients[publication.publisher].publishing.touch(start_ns, end_ns):
        return False
    if client.subscribing.touch(start_ns, end_ns):
        return False
    ways = (world.watch.ways.get((publication.tree, broker)) for broker in _serving(client, start_ns, end_ns))
    if publication.key[0] & GUARANTEED:
        start_ns -= CONFIRMED_NS
    return not any(way is not None and way.touch(start_ns, end_ns) for way in ways)


def _sent_ns(world: World, publication: Publication) -> int:
    """When it goes its way: a guaranteed event not before it is durable, and all before it are there."""
    promised = world.clients[publication.publisher].promised.get(publication.key)
    return publication.time_ns if promised is None else promised.receipted_ns + RECOVERY_NS


def _arrival_ns(world: World, start_ns: int) -> int:
    """When an event that was published then has come: what met a slow link may wait for as long as that is slow."""
    end_ns = start_ns + world.flight_ns
    for since_ns, until_ns in world.slowed.all_spans(world.agenda.now_ns):
        if since_ns <= end_ns and until_ns >= start_ns:
            end_ns = max(end_ns, until_ns + world.flight_ns)
    return end_ns


def _has_to_bring(span: Span, publication: Publication, end_ns: int) -> bool:
    """A subscription that stood all the time, or was replaced by others that want the event too."""
    if span.confirmed_ns > publication.time_ns or span.leaving_ns <= publication.time_ns:
        return False
    if span.follows and publication.key[0] & GUARANTEED:
        return False
    at: Span | None = span
    while at is not None and at.wanted.accepts(publication.attributes):
        if at.leaving_ns > end_ns:
            return True
        at = at.successor
    return False


def _serving(client: ClientHost, start_ns: int, end_ns: int) -> list[str]:
    """The brokers that served a client then."""
    before = [broker for since_ns, broker in client.served if since_ns <= start_ns][-1:]
    return before + [broker for since_ns, broker in client.served if start_ns < since_ns <= end_ns]


def no_duplicates(world: World) -> list[str]:
    """No application gets an event twice."""
    found: list[str] = []
    for client in world.clients.values():
        until: dict[tuple[int, int], int] = {}
        for part in sorted(_known(world, client), key=lambda part: part.sequence):
            session = part.receipt.life, part.publication.key[0]
            if part.sequence < until.get(session, 0):
                found.append(f"{client.name} got {_told(part.publication)} twice")
            until[session] = part.sequence + part.events
    return found


def in_order(world: World) -> list[str]:
    """The events of a publisher come in its order, each under the sequence that it gave it."""
    found: list[str] = []
    for client in world.clients.values():
        last: dict[tuple[int, int, int], int] = {}
        for receipt, publication, sequence, count in _known(world, client):
            if receipt.attributes != publication.attributes:
                found.append(f"{client.name} got {dict(receipt.attributes)} in place of {_told(publication)}")
            session = receipt.life, publication.key[0], receipt.pubend
            if sequence <= last.get(session, 0):
                found.append(f"{client.name} got {_told(publication)} too late")
            last[session] = sequence + count - 1
    return found


def brought_once(world: World) -> list[str]:
    """Every event has one place, and on one connection a publisher's places in a tree only grow (rules 1 and 2)."""
    found: list[str] = []
    places: dict[EventKey, tuple[int, int]] = {}
    for client in world.clients.values():
        for line in client.lines:
            last: dict[tuple[int, int], int] = {}
            for one in line.arrivals:
                publisher, sequence = one.key
                of = one.tree, 0 if publisher & GUARANTEED else publisher
                if one.position <= last.get(of, 0):
                    found.append(f"{_brought(world, client, line, one)} again, or behind a later one")
                last[of] = one.position + one.count - 1
                for step in dict.fromkeys((0, one.count - 1)):
                    place = one.tree, one.position + step
                    if places.setdefault((publisher, sequence + step), place) != place:
                        found.append(f"{_brought(world, client, line, one)} in another place than before")
    return found


def brought_in_order(world: World) -> list[str]:
    """On one connection the events of one publisher come in its order (rule 3)."""
    found: list[str] = []
    for client in world.clients.values():
        for line in client.lines:
            last: dict[tuple[int, int], int] = {}
            for one in line.arrivals:
                publisher, sequence = one.key
                of = publisher, one.tree if publisher & GUARANTEED else 0
                if sequence <= last.get(of, 0) and not _may_be_late(world, line, one):
                    found.append(f"{_brought(world, client, line, one)} too late")
                last[of] = max(last.get(of, 0), sequence + one.count - 1)
    return found


def _may_be_late(world: World, line: Line, arrival: Arrival) -> bool:
    publication = world.publications.covering(arrival.key)
    if publication is None:
        return True  # another checker says so
    if world.clients[publication.publisher].publishing.touch(publication.time_ns, arrival.time_ns):
        return True
    way = world.watch.ways.get((publication.tree, line.broker))
    return way is not None and way.touch(publication.time_ns, arrival.time_ns)


def brought_where_awaited(world: World) -> list[str]:
    """Events come on the connections that a session subscribed on, and on no other (rule 4)."""
    return [
        f"{_brought(world, client, line, one)}, where the session no longer is"
        for client in world.clients.values()
        for line in client.lines
        for one in line.arrivals
        if one.left_ns != FOREVER_NS and one.time_ns > _arrival_ns(world, one.left_ns)
    ]


def _brought(world: World, client: ClientHost, line: Line, arrival: Arrival) -> str:
    publication = world.publications.covering(arrival.key)
    told = str(arrival.key) if publication is None else _told(publication)
    return f"at {arrival.time_ns / 1e9:.3f} s {line.broker} brought {client.name} {told}"


def no_false_positives(world: World) -> list[str]:
    """Nobody gets what it does not want, or under a number that does not want it."""
    found: list[str] = []
    for client in world.clients.values():
        for receipt, publication, _, _ in _known(world, client):
            spans = [span for span in client.spans if span.asked_ns <= receipt.time_ns]
            spans = [span for span in spans if _still_counts(world, span, receipt)]
            numbers = {span.number for span in spans if span.wanted.accepts(publication.attributes)}
            if not numbers or not numbers.issuperset(receipt.subscriptions):
                told = f"under {list(receipt.subscriptions)}, wanted by {sorted(numbers)}"
                found.append(f"{client.name} got {_told(publication)} {told}")
    return found


def _still_counts(world: World, span: Span, receipt: Receipt) -> bool:
    if span.gone_ns == FOREVER_NS:
        return True
    # What was under way, or held back by a move, may come behind the confirmation.
    return receipt.time_ns <= span.gone_ns + world.flight_ns


def queues_bounded(world: World) -> list[str]:
    """No queue of a broker was ever beyond its bound, nor what it kept of a stream."""
    for host in world.brokers.values():
        host.look_at_queues()
    return [what for host in world.brokers.values() for what in host.beyond_bound]


def no_failures(world: World) -> list[str]:
    """No request of an application fails."""
    return [
        f"at {time_ns / 1e9:.3f} s {client.name} was told: {error}"
        for client in world.clients.values()
        for time_ns, error in client.failures
    ]


def _known(world: World, client: ClientHost) -> list[Part]:
    """What a client got that somebody published."""
    return [part for one in client.receipts for part in world.publications.parts(one)]


def nothing_unknown(world: World) -> list[str]:
    """Nobody gets what nobody published."""
    return [
        f"{client.name} got {dict(receipt.attributes)}, which nobody published, as {receipt.key}"
        for client in world.clients.values()
        for receipt in client.receipts
        if sum(part.events for part in world.publications.parts(receipt)) < receipt.count
    ]


CHECKERS: Final[dict[str, Checker]] = {
    "no loss": no_loss,
    "no duplicates": no_duplicates,
    "in order": in_order,
    "brought once": brought_once,
    "brought in order": brought_in_order,
    "brought where awaited": brought_where_awaited,
    "no false positives": no_false_positives,
    "nothing unknown": nothing_unknown,
    "queues bounded": queues_bounded,
    "tables exact": tables_are_exact,
    "receipts are true": receipts_are_true,
    "followers are served": followers_are_served,
}


def check(world: World) -> list[str]:
    """All that is wrong in this world."""
    return [f"{name}: {what}" for name, checker in CHECKERS.items() for what in checker(world)]


def _told(publication: Publication, count: int = 1) -> str:
    """Which event, or how many of which."""
    attributes = " ".join(f"{name}={value!r}" for name, value in publication.attributes.items())
    at_s, first = publication.time_ns / 1e9, publication.sequence
    which = f"{publication.publisher}'s event {first}"
    if publication.count > 1:
        some = "one" if count == 1 else str(count)
        which = f"{some} of {publication.publisher}'s events {first} to {first + publication.count - 1}"
    return f"{which} ({attributes}; {at_s:.3f} s at {publication.broker})"
