"""How a broker is, for people and scripts: one document, made on demand.

It stays small and cheap whatever the number of clients: counts instead of lists, and of slow clients the worst. What
passes per second is the difference of two documents (``observe/rates.py``); the time between them is that of their
``uptime_s``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tidewire.balancing.load import Load
from tidewire.broker.balance_documents import BalanceStatus
from tidewire.broker.channels import ChannelsStatus
from tidewire.broker.core import BrokerCore
from tidewire.broker.decisions import TEXT_MAX, Decision
from tidewire.broker.links import Neighbour
from tidewire.broker.shortage_status import ShortageStatus
from tidewire.dataplane.protocol import Engine
from tidewire.dataplane.streams import StreamState, has_streams
from tidewire.delivery.holds import Behind
from tidewire.model.ids import Conn, Nanoseconds, PubendId
from tidewire.model.ticks import ms_of
from tidewire.wire.frames import FRAME_BYTES_MAX

SLOW_MAX: Final = 20
NAMES_MAX: Final = 100
"""Slow clients that are listed: the worst."""
SLOW_SHARE: Final = 0.25
"""Of its queue: a client that has more waiting is slow."""


class NeighbourStatus(msgspec.Struct, frozen=True):
    """A neighbour, as this broker sees it."""

    broker: str
    address: str
    role: str | None
    is_full: bool
    is_leaving: bool
    events_in: int
    events_out: int
    bytes_in: int
    bytes_out: int
    queued_bytes: int
    queue_bytes_max: int
    dropped: int
    """Guaranteed events that found no room in that queue, since the link stands: they are asked for again. And events
    that do not fit into ``frame_bytes_max``."""
    clock_error_us: int | None
    """How far off a time from there may be; None while its clock is not known."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    """It takes no longer frame: an event that does not fit is not sent there, and lost if it is guaranteed."""
    expired: int = 0
    """Events for it that were late, and thrown away."""


class SlowConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """A client that does not keep up: its queue is more than a quarter full, or it has lost events."""

    name: str
    queued_bytes: int
    dropped: int
    """Events that it has lost on this connection."""

    expired: int = 0
    """Events for it that were past their deadline, and thrown away."""

    dropped_age_s: float | None
    """How long ago it was last told of a loss; None: it has lost nothing."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The process that a broker runs in. Only its driver knows."""

    version: str
    pid: int
    files_max: int
    """How many files and connections the process may have open (ulimit -n)."""


class PubendStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of guaranteed events that this broker keeps."""

    pubend: str
    events: int
    """Taken into it since the broker started."""

    limit_events_s: float | None
    """How many are taken a second, because somebody does not keep up; None: as many as come."""

    is_awaited: bool
    """Do publishers wait?"""

    reached_ms: int
    """How far it is: a time of its own clock, in milliseconds of 1970."""

    alerts: int
    """That came because an edge does not keep up."""

    alerts_recovering: int
    """That came because an edge does not catch up fast enough."""


class StreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of guaranteed events that comes here because somebody is owed it."""

    pubend: str
    horizon_ms: int
    """Up to here nothing is missing: a time of the pubend's clock, in milliseconds of 1970."""

    progress: float
    """Seconds of stream in a second, smoothed."""

    window_ms: int
    """How much of what is missing may be asked for at a time."""

    is_recovering: bool
    """Does it catch up?"""


class LossStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a stream that this broker kept, or should have kept, and does not have."""

    pubend: str
    first_ms: int
    last_ms: int
    """From when to when: times of the stream's own clock, in milliseconds of 1970."""

    ticks: int
    found_s: float | None
    """When that was found, in seconds of 1970; None: somebody who was to get it met it, since the broker started."""

    why: str
    """damaged; younger: the store is new or an older copy, and a broker has told a subscriber more of the stream; said:
    subscribers say that they have had more of it."""

    names: int = 0
    """said: how many durable subscriptions, up to 100."""


class NameStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A durable subscription, as one store knows it."""

    name: str
    owner: str
    """The identity whose name it is."""

    age_s: float
    """How long ago it began."""

    behind_s: float
    """How much of a stream is kept for it here."""

    is_idle: bool
    """Can nothing that it wants be published here? Then nothing is kept for it."""


class LogStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where a broker keeps guaranteed events."""

    folder: str
    trouble: str
    """none, or why nothing is taken: full, failed; behind and preparing pass."""

    why: str
    disk_bytes: int
    pubends: list[PubendStatus]
    held: int
    """Durable subscriptions for which events are kept here."""

    names: list[NameStatus]
    """Those that are furthest behind."""

    losses: list[LossStatus] = []
    """Until they are older than what is kept. Durable subscribers that they concern hear of a gap."""


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One broker at one moment. Counters only grow, from the broker's start."""

    broker: str
    address: str
    role: str
    incarnation: str
    """Tells one life of it from another. A number, as text: it has more digits than some readers of JSON keep."""
    uptime_s: float
    unix_s: float | None
    """Its calendar time when this was made, in seconds of 1970; None where there is no such clock."""
    host: Host | None
    """None in the simulator."""
    is_leaving: bool
    """Is it being drained?"""
    coordinator: str | None
    """Its coordinator's address, if it has one."""
    is_registered: bool
    """Is it connected to its coordinator?"""
    clients: int
    publishers: int
    subscribers: int
    connections: int
    """All of them: clients, lanes of neighbours, the coordinator's, and those that have not said who they are."""
    connections_max: int
    """More clients are turned away."""
    neighbours: list[NeighbourStatus]
    unreached: list[str]
    """Addresses that it should be connected to, and is not."""
    links_stuck: int
    """Links that have ended because nothing moved on them while somebody waited."""
    trees: int
    events: int
    """Taken."""
    deliveries: int
    forwards: int
    matches: int
    refused: int
    dropped: int
    """Events that slow clients have lost."""
    expired: int = 0
    """Events that were past their deadline, and thrown away, one for each connection that they were for."""
    bytes_in: int
    bytes_out: int
    queued_bytes: int
    queue_bytes_max: int
    """The bound of each client's queue."""
    waiting: int
    """Connections that are not read until there is room elsewhere for what they sent."""
    log: LogStatus | None
    """None: it has no store."""
    streams: list[StreamStatus]
    """Those that come here, from wherever their pubends are."""
    followers: int
    """Durable subscriptions of its clients."""
    followers_behind: int
    """Those that do not get some stream as it comes, but catch up."""
    slow: list[SlowConsumer]
    """The worst, by what waits for them and what they lost."""
    slow_clients: int
    """All of them."""
    routes: int
    """Subscriptions in the index: those of clients, and those of neighbours by tree."""
    index_bytes: int
    busy_s: float
    load: Load | None
    """None in the first second."""
    balance: BalanceStatus | None = None
    """None: it does not balance."""
    channels: ChannelsStatus | None = None
    """None: it has no data cluster."""
    shortage: ShortageStatus | None = None
    """None: nobody gives way under shortage."""
    decisions: list[Decision]
    """The last, the oldest first."""


class Loss(msgspec.Struct, frozen=True):
    """What a client has lost so far, and when that was last seen."""

    events: int
    at_ns: int


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a node knows of itself, beside its machine and its engine."""

    load: Load | None
    started_ns: int
    unix_offset_ns: int | None
    host: Host | None
    connections: int
    waiting: int
    losses: Mapping[Conn, Loss]
    decisions: list[Decision]


def status_of(core: BrokerCore, engine: Engine, known: Known, *, now_ns: Nanoseconds) -> BrokerStatus:
    """What there is to say."""
    work, totals = engine.work(), engine.totals()
    neighbours = [_neighbour_status(core, engine, neighbour) for neighbour in core.links.up()]
    for_clients = totals.queued_bytes - sum(neighbour.queued_bytes for neighbour in neighbours)
    slow = _slow(core, engine, known.losses, for_clients, now_ns)
    streams = {one.pubend: one for one in engine.streams()} if has_streams(engine) else {}
    config = core.config
    return BrokerStatus(
        broker=config.broker,
        address=config.address,
        role=core.links.role,
        incarnation=str(core.incarnation),
        uptime_s=(now_ns - known.started_ns) / 1e9,
        unix_s=None if known.unix_offset_ns is None else (now_ns + known.unix_offset_ns) / 1e9,
        host=known.host,
        is_leaving=core.links.is_leaving,
        coordinator=config.coordinator,
        is_registered=core.is_registered,
        clients=len(core.clients),
        publishers=len(core.clients.using("publish")),
        subscribers=len(core.clients.using("subscribe")),
        connections=known.connections,
        connections_max=config.connections_max,
        neighbours=neighbours,
        unreached=core.links.unreached(),
        links_stuck=core.links.stuck,
        trees=core.router.tree_count(),
        events=work.events,
        deliveries=work.deliveries,
        forwards=work.forwards,
        matches=work.matches,
        refused=work.refused,
        dropped=totals.dropped,
        expired=totals.expired,
        bytes_in=totals.bytes_in,
        bytes_out=totals.bytes_out,
        queued_bytes=totals.queued_bytes,
        queue_bytes_max=config.queue_bytes_max,
        waiting=known.waiting,
        log=_log_status(core, streams, now_ns=now_ns),
        streams=_stream_statuses(core, streams),
        followers=len(core.streams.followers),
        followers_behind=core.streams.followers.behind(),
        slow=slow[:SLOW_MAX],
        slow_clients=len(slow),
        routes=work.subscriptions,
        index_bytes=work.memory_bytes,
        busy_s=work.busy_ns / 1e9,
        load=known.load,
        balance=core.balancing.status(now_ns=now_ns),
        shortage=core.shortage.status(),
        channels=core.channels.status(),
        decisions=known.decisions,
    )


def _name_status(one: Behind) -> NameStatus:
    owner, _, name = one.name.partition("\0")
    return NameStatus(
        name=name, owner=owner, age_s=one.age_ms / 1000, behind_s=one.behind_ms / 1000, is_idle=one.is_idle
    )


def _log_status(core: BrokerCore, states: Mapping[PubendId, StreamState], *, now_ns: Nanoseconds) -> LogStatus | None:
    pubends = core.streams.pubends
    if core.config.store is None:
        return None
    hosted = [(states.get(state.pubend, state), limit, alerts) for state, limit, alerts in pubends.states()]
    return LogStatus(
        folder=core.config.store,
        trouble=pubends.log.trouble,
        why=pubends.log.why,
        disk_bytes=pubends.log.disk_bytes,
        pubends=[
            PubendStatus(
                pubend=_named(state.pubend),
                events=state.events,
                limit_events_s=limit,
                is_awaited=state.is_awaited,
                reached_ms=ms_of(state.heard),
                alerts=alerts,
                alerts_recovering=alerts_recovering,
            )
            for state, limit, (alerts, alerts_recovering) in hosted
        ],
        held=len(pubends.holds),
        names=[_name_status(one) for one in core.streams.names.behind(now_ns=now_ns, most=NAMES_MAX)],
        losses=[
            LossStatus(
                pubend=_named(one.pubend),
                first_ms=ms_of(one.first),
                last_ms=ms_of(one.last),
                ticks=one.last - one.first + 1,
                found_s=one.found_ns / 1e9 if one.found_ns else None,
                why=one.why,
                names=one.names,
            )
            for one in pubends.losses
        ],
    )


def _named(pubend: PubendId) -> str:
    return f"{pubend:016x}"


def _stream_statuses(core: BrokerCore, states: Mapping[PubendId, StreamState]) -> list[StreamStatus]:
    coming = core.streams.attending.coming()
    return [
        StreamStatus(
            pubend=_named(state.pubend),
            horizon_ms=ms_of(state.horizon),
            progress=one.progress,
            window_ms=one.window_ms,
            is_recovering=one.is_recovering,
        )
        for state in states.values()
        if state.horizon is not None and (one := coming.get(state.pubend)) is not None
    ]


def _neighbour_status(core: BrokerCore, engine: Engine, neighbour: Neighbour) -> NeighbourStatus:
    traffic = engine.traffic(neighbour.lanes["data"])
    about, clock = neighbour.about, None if neighbour.liveness is None else neighbour.liveness.clock()
    return NeighbourStatus(
        neighbour.broker,
        neighbour.address,
        None if about is None else about.role,
        about is not None and about.is_full,
        about is not None and about.is_leaving,
        traffic.events_in,
        traffic.events_out,
        traffic.bytes_in,
        traffic.bytes_out,
        traffic.queued_bytes,
        core.config.link_queue_bytes_max,
        traffic.dropped,
        None if clock is None else clock.error_us,
        neighbour.frame_bytes_max,
        traffic.expired,
    )


def _slow(
    core: BrokerCore, engine: Engine, losses: Mapping[Conn, Loss], queued_bytes: int, now_ns: Nanoseconds
) -> list[SlowConsumer]:
    """All clients are looked at only if what waits for all of them is more than one of them may have."""
    much = int(core.config.queue_bytes_max * SLOW_SHARE)
    asked = core.clients.conns() if queued_bytes > much else [conn for conn in losses if conn in core.clients]
    found = []
    for conn in asked:
        traffic, loss = engine.traffic(conn), losses.get(conn)
        waits = traffic.queued_bytes
        if waits <= much and loss is None:
            continue
        found.append(
            SlowConsumer(
                name=core.clients.name_of(conn)[:TEXT_MAX],
                queued_bytes=waits,
                dropped=0 if loss is None else loss.events,
                expired=traffic.expired,
                dropped_age_s=None if loss is None else round((now_ns - loss.at_ns) / 1e9, 3),
            )
        )
    return sorted(found, key=lambda one: (one.queued_bytes, one.dropped), reverse=True)
