"""How a broker is to behave. Frozen, and checked once."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidewire.balancing.config import BalancingConfig
from tidewire.balancing.drd.config import DrdConfig
from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.congestion.policies import rate_policy, shortage_policy, window_policy
from tidewire.dataplane.protocol import QUEUE_BYTES_MAX, WhenFull
from tidewire.dataplane.streams import CACHE_BYTES_MAX
from tidewire.model.errors import BadConfiguration, UnknownName
from tidewire.model.ids import BrokerId
from tidewire.model.message_fields import BROKER_NAME_MAX, SECONDS_MAX, SECONDS_MIN
from tidewire.model.messages import DeclaredRole
from tidewire.placement.choices import Location
from tidewire.traffic.config import TrafficConfig
from tidewire.wire.frames import FRAME_BYTES_MAX

Release = Literal["acknowledged", "retention"]

MIGRATION_TIMEOUT_S: Final = 10.0
"""For each client (peer §9.1)."""

CPU_SHARE_MIN: Final = 1e-6
PUBENDS_MAX: Final = 1024
RETAIN_S_MAX: Final = 3.2e9
"""A hundred years."""


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One broker's settings."""

    broker: BrokerId
    address: str = ""
    """Where others reach it: host:port."""

    role: DeclaredRole = "auto"
    neighbours: list[str] = []
    """Addresses of brokers to connect to, beside those that the coordinator names."""

    coordinator: str | None = None
    location: Location | None = None
    """Where it is on the globe, in degrees, for a coordinator that gives newcomers the nearest broker."""
    data_cluster: str | None = None
    """Where the data cluster is, whose channels its clients may subscribe to: host:port."""
    security: str | None = None
    """The folder with its certificate and the keys of the installation; None: everybody may do everything."""
    covering: bool = True
    heartbeat_s: float = 2.0
    reconnect_s: float = 0.25
    """The first pause before a lost neighbour is tried again; it doubles up to ``reconnect_s_max``."""
    reconnect_s_max: float = 5.0
    tree_memory_s: float = 60.0
    """How long a tree that is lost is remembered, should it come back."""
    migration_timeout_s: float = MIGRATION_TIMEOUT_S

    cpu_share: float = 1.0
    """What it has of a core for events, for the load indices."""
    matching_slope_s: float = 0.0
    """What one more subscription adds to the matching of an event, until it has measured that; 0: it does not know."""
    output_bytes_s: float = 125e6
    """What its network takes, for the load indices."""
    input_bytes_s: float = 125e6
    """What its network brings, for a head that decides who moves."""
    matching_events_s: float | None = None
    """What it can match, for the same; None: as many events as it would take to be busy all the time, as measured."""
    memory_bytes: int = 1 << 30
    """What it may use for queues and index, for the load indices."""
    enforce_capacity: bool = False
    """Does it use no more than ``cpu_share`` and ``output_bytes_s``? Events then wait where they come from."""
    load_every_s: float = 1.0

    slow_subscriber: WhenFull = "drop"
    queue_bytes_max: int = QUEUE_BYTES_MAX
    """For each subscriber."""
    link_queue_bytes_max: int = 4 * QUEUE_BYTES_MAX
    link_patience_s: float = 30.0
    """A link that takes nothing for so long while somebody waits for room ends: in a circle all may wait for all."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    connections_max: int = 10_000
    subscriptions_max: int = 1_000_000
    """For each connection."""

    stream_cache_bytes: int = CACHE_BYTES_MAX
    """Of each stream that comes: what waits for what is lacking before it, and what is kept for those who lack it."""
    fair_streams: bool = True
    """Has each stream a queue of its own in every link, all served in turn? Else: first come, first served."""
    pubends: int = 1
    """Streams of guaranteed events, if it has a store for them: each publisher's go into one of them."""
    store: str | None = None
    """The folder of its log; None: nothing can be guaranteed here."""
    release: Release = "acknowledged"
    """When is an event no longer kept? ``acknowledged``: when it is older than ``retain_s`` and every follower has it;
    ``retention``: when it is older, and whoever still lacks it is told of a gap."""
    retain_s: float = 3600.0
    retain_bytes: int = 16 << 30
    """With more than this in its log it lets go of the oldest, as if it were old enough."""
    congestion: CongestionConfig = CongestionConfig()
    balancing: Literal["never", "peer", "drd", "peer-drd", "peer-lb"] = "never"
    """Who decides that clients move to where there is less to do: nobody, the edges themselves (``peer``), or the head:
    by deadlines (``drd``), or by balance, in the order of deadlines (``peer-drd``) or in any (``peer-lb``)."""
    balance: BalancingConfig = BalancingConfig()
    drd: DrdConfig = DrdConfig()
    """Where the head decides."""
    fdcc: FdccConfig = FdccConfig()
    """Who gives way under shortage."""
    traffic: TrafficConfig = TrafficConfig()
    """Which classes of traffic there are, and what they need."""

    def __post_init__(self) -> None:
        if not self.broker or len(self.broker) > BROKER_NAME_MAX or not self.broker.isprintable():
            raise BadConfiguration(
                f"broker = {self.broker!r}: a broker's name has 1 to {BROKER_NAME_MAX} printable characters"
            )
        for name in (
            "heartbeat_s",
            "reconnect_s",
            "reconnect_s_max",
            "tree_memory_s",
            "migration_timeout_s",
            "link_patience_s",
            "load_every_s",
        ):
            if not SECONDS_MIN <= getattr(self, name) <= SECONDS_MAX:
                allowed = f"it must be from {SECONDS_MIN:g} to {SECONDS_MAX:g} seconds"
                raise BadConfiguration(f"{name} = {getattr(self, name)}: {allowed}")
        for name, low in (
            ("queue_bytes_max", 4096),
            ("link_queue_bytes_max", 4096),
            ("frame_bytes_max", 4096),
            ("stream_cache_bytes", 4096),
        ):
            if not getattr(self, name) >= low:  # which no NaN is
                raise BadConfiguration(f"{name} = {getattr(self, name)}: it must be at least {low}")
        for name in ("connections_max", "subscriptions_max", "retain_bytes"):
            if getattr(self, name) < 1:
                raise BadConfiguration(f"{name} = {getattr(self, name)}: it must be at least 1")
        self._check_congestion()
        self._check_capacity()
        if self.balancing != "never" and (self.balance.handover, self.balance.order) != ("marker", "kept"):
            raise BadConfiguration(
                "handover and order of [balance]: brokers move clients by a marker and keep their order; leave them out"
            )
        if self.store == "":
            raise BadConfiguration("store = '': it is a folder, or left out")
        if not 1 <= self.pubends <= PUBENDS_MAX:
            raise BadConfiguration(f"pubends = {self.pubends}: it must be from 1 to {PUBENDS_MAX}")
        if not 0 <= self.retain_s <= RETAIN_S_MAX:
            raise BadConfiguration(f"retain_s = {self.retain_s}: it must be from 0 to {RETAIN_S_MAX:g} seconds")

    def _check_capacity(self) -> None:
        for name in ("memory_bytes", "output_bytes_s", "input_bytes_s", "matching_events_s"):
            if getattr(self, name) is not None and not getattr(self, name) >= 1:  # which no NaN is
                raise BadConfiguration(f"{name} = {getattr(self, name)}: it must be at least 1")
        if not CPU_SHARE_MIN <= self.cpu_share <= 1:
            allowed = f"it is a share of one core, from {CPU_SHARE_MIN:g} to 1"
            raise BadConfiguration(f"cpu_share = {self.cpu_share}: {allowed}")

        if not 0 <= self.matching_slope_s <= 1:
            allowed = "it is what a subscription adds to the matching of an event, from 0 to 1 s"
            raise BadConfiguration(f"matching_slope_s = {self.matching_slope_s}: {allowed}")

    def _check_congestion(self) -> None:
        """The tables of policies know the settings, not the other way round: so their names are checked here."""
        try:
            rate_policy(self.congestion)
            window_policy(self.congestion)
        except UnknownName as error:
            raise BadConfiguration(f"congestion: {error.message}") from None
        try:
            shortage_policy(self.fdcc)
        except UnknownName as error:
            raise BadConfiguration(f"fdcc: {error.message}") from None
