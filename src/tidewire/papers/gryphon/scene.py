"""The scenes of the paper's experiments: brokers with shaped links, pubends with publishers, subscribers, a probe.

A scene is simulated (``simulated.py``: the broker machines and the kernel, logs on simulated disks, in virtual time) or
live (``live.py``: broker processes on this machine, their links shaped). What is seen of it is the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from tidewire._kernel.codec import encode
from tidewire.broker.status import BrokerStatus, StreamStatus
from tidewire.congestion.config import CongestionConfig
from tidewire.dataplane.streams import CACHE_BYTES_MAX
from tidewire.model.events import make_event
from tidewire.model.values import Value
from tidewire.wire.frames import HEAD, SPAN, STREAM_HEAD

KB: Final = 1024
EVENT_BYTES: Final = 360
"""On a link between brokers (gryphon §6)."""

STAMP_BYTES: Final = 32
"""What a pubend adds: publisher, sequence, pubend, tick."""

PUBENDS: Final = 4
RATE_MSGS_S: Final = 500.0
"""Of all pubends together."""

OUTSTANDING_MAX: Final = 32
"""A publisher waits for receipts when it has so many events without one: that is how it feels its limit."""

BATCH: Final = 2
"""Events that it publishes at once: simulating it takes less than if each came alone."""

QUEUE_BYTES_MAX: Final = 5 * KB * KB
CACHE_BYTES: Final = 256 * KB
"""Of each stream at a broker on the way: about 6 s. The paper does not say; most comes from the pubend there too."""

GROUPS: Final = 5
"""An event belongs to one of so many groups, in turn, and each subscriber wants some of them."""


def event(group: int) -> dict[str, Value]:
    """An event that takes ``EVENT_BYTES`` on a link."""
    made: dict[str, Value] = {"group": group, "text": ""}
    around = HEAD.size + STREAM_HEAD.size + SPAN.size + STAMP_BYTES
    made["text"] = "x" * (EVENT_BYTES - around - len(encode(make_event(made))))
    return made


EVENTS: Final = [event(group) for group in range(GROUPS)]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe saw, once in a while."""

    at_s: float
    published: int
    """Events in the log, of all pubends."""

    published_by: tuple[int, ...]
    delivered: dict[str, int]
    queues: dict[tuple[str, str], int]
    """Bytes that wait in a broker for a neighbour."""

    dropped: int
    """Events that found no room in a link's queue, in all."""

    behind_ms: dict[str, list[int]]
    """Of each edge and pubend: how far its horizon is behind the pubend."""

    coming: dict[str, list[StreamStatus]]
    limits: list[float | None]
    alerts: tuple[int, int]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What the brokers of a scene are like."""

    congestion: CongestionConfig
    is_fair: bool = True
    scale: float = 1.0
    """So many times less is published, and links, queues and caches on the way carry and hold so much less."""

    queue_bytes: int = QUEUE_BYTES_MAX
    edge_cache_bytes: int = CACHE_BYTES_MAX


class Scene(ABC):
    """A tree of brokers below one that hosts the pubends."""

    def __init__(
        self, links: Sequence[tuple[str, str]], *, edges: Mapping[str, Sequence[int]], setting: Setting
    ) -> None:
        """``edges``: by name, the groups that its subscribers want. The first broker of the first link is the root."""
        self.links, self.edges, self._setting = links, edges, setting
        self.scale = setting.scale
        self.msgs_s = RATE_MSGS_S / setting.scale
        self.queue_bytes = round(setting.queue_bytes / setting.scale)
        self.root = links[0][0]
        self.names = list(dict.fromkeys(name for link in links for name in link))
        self.moments: list[Moment] = []
        self._dropped: dict[tuple[str, str], tuple[int, int]] = {}
        """Of each link: in the connections that have ended, and in the present one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def settings_of(self, name: str) -> dict[str, Any]:
        """What a broker is configured with, but for where it is and whom it knows."""
        hosts: dict[str, Any] = {"pubends": PUBENDS} if name == self.root else {}
        is_edge = name in self.edges
        return hosts | {
            "role": "edge" if is_edge else "head",
            "congestion": self._setting.congestion,
            "fair_streams": self._setting.is_fair,
            "link_queue_bytes_max": self.queue_bytes,
            "stream_cache_bytes": self._setting.edge_cache_bytes if is_edge else round(CACHE_BYTES / self.scale),
            "tree_memory_s": 600.0,
        }

    # -- what happens to it --------------------------------------------------------------------------------------------

    @abstractmethod
    def shape(self, a: str, b: str, kb_s: float) -> None:
        """A link carries so much from now on, less by the scale."""

    @abstractmethod
    def cut(self, a: str, b: str) -> None:
        """A link fails: what waits for it is lost, its connections end."""

    @abstractmethod
    def mend(self, a: str, b: str) -> None:
        """It works again."""

    @abstractmethod
    def close(self) -> None:
        """It is over: nothing of it is left but what was seen."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def run(
        self,
        seconds: float,
        tell: Callable[[int], object] | None = None,
        *,
        every_s: float = 1.0,
        until: Callable[[Moment], bool] | None = None,
    ) -> bool:
        """Let time pass, and look every so often; true as soon as it is as it should be."""
        end_s = self.now_s + seconds
        while self.now_s < end_s - 1e-9:
            self.wait(min(every_s, end_s - self.now_s))
            self.moments.append(self._look())
            if tell is not None:
                tell(round(self.now_s))
            if until is not None and until(self.moments[-1]):
                return True
        return False

    # -- what is seen of it --------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def now_s(self) -> float:
        """Since the first event."""

    @abstractmethod
    def statuses(self) -> Mapping[str, BrokerStatus]:
        """How all brokers are, by name."""

    @abstractmethod
    def delivered(self) -> dict[str, int]:
        """How many events have come to the subscribers of each edge."""

    @abstractmethod
    def disorders(self) -> int:
        """Events that came to a subscriber twice, or not in the order of their ticks."""

    def capacity_msgs_s(self, kb_s: float) -> float:
        """What such a link carries if it carries nothing but events."""
        return kb_s / self.scale * KB / EVENT_BYTES

    def _look(self) -> Moment:
        statuses = self.statuses()
        log = statuses[self.root].log
        assert log is not None, f"{self.root} has no store"
        reached = {one.pubend: one.reached_ms for one in log.pubends}
        coming = {edge: [one for one in statuses[edge].streams if one.pubend in reached] for edge in self.edges}
        queues: dict[tuple[str, str], int] = {}
        for name, status in statuses.items():
            for neighbour in status.neighbours:
                queues[name, neighbour.broker] = neighbour.queued_bytes
                before, last = self._dropped.get((name, neighbour.broker), (0, 0))
                before += last if neighbour.dropped < last else 0
                self._dropped[name, neighbour.broker] = before, neighbour.dropped
        return Moment(
            at_s=self.now_s,
            published=sum(one.events for one in log.pubends),
            published_by=tuple(one.events for one in log.pubends),
            delivered=self.delivered(),
            queues=queues,
            dropped=sum(before + last for before, last in self._dropped.values()),
            behind_ms={edge: [reached[one.pubend] - one.horizon_ms for one in coming[edge]] for edge in self.edges},
            coming=coming,
            limits=[one.limit_events_s for one in log.pubends],
            alerts=(sum(one.alerts for one in log.pubends), sum(one.alerts_recovering for one in log.pubends)),
        )
