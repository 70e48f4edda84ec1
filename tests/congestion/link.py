"""A head, one narrow link and an edge: gryphon E2 in steps of 10 ms, to judge a rate policy by."""

from __future__ import annotations

from collections import deque

import msgspec

from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.policies import RatePolicy
from tidewire.congestion.progress import Progress
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Nanoseconds, PubendId, Tick
from tidewire.model.ticks import tick_at

STEP_MS = 10
EVENT_BYTES = 360
SILENCE_BYTES = 40
QUEUE_BYTES_MAX = 5 << 20


class Phase(msgspec.Struct, frozen=True):
    """What the link did in a while."""

    utilisation: float
    queue_bytes_max: int
    jain: float
    """Fairness between the pubends, from their events that arrived: 1 is fair."""

    lost: int


class Link:
    """Some pubends share a link; queries and alerts overtake."""

    def __init__(
        self, policy: RatePolicy, config: CongestionConfig, *, pubends: int, offered_msgs_s: float, delay_ms: int
    ) -> None:
        start = Nanoseconds(0)
        self.rates = [
            policy(PubendId(one), config, offered_msgs_s=offered_msgs_s, now_ns=start) for one in range(pubends)
        ]
        self.edges = [Progress(config, horizon=tick_at(0), now_ns=start) for _ in self.rates]
        self.horizons = [tick_at(0)] * pubends
        self.latest = [tick_at(0)] * pubends
        self.due = [one / pubends for one in range(pubends)]
        self.queue: deque[tuple[int, Tick, int]] = deque()
        self.queued = 0
        self.credit = 0.0
        self.control: deque[tuple[int, int, Query | Alert]] = deque()
        self.delay_ms = delay_ms
        self.now_ms = 0

    def run(self, seconds: int, *, kb_s: float) -> Phase:
        """So long, with a link of so many KB/s."""
        sent = most = lost = 0
        arrived = [0] * len(self.rates)
        for _ in range(seconds * 1000 // STEP_MS):
            self.now_ms += STEP_MS
            lost += sum(self._publish(one) for one in range(len(self.rates)))
            most = max(most, self.queued)
            sent += self._carry(kb_s * 1024 * STEP_MS / 1000, arrived)
            self._talk()
        jain = sum(arrived) ** 2 / (len(arrived) * sum(count * count for count in arrived))
        return Phase(sent / (kb_s * 1024 * seconds), most, jain, lost)

    @property
    def now_ns(self) -> Nanoseconds:
        return Nanoseconds(self.now_ms * 1_000_000)

    def _publish(self, one: int) -> int:
        rate = self.rates[one]
        query = rate.due(latest=self.latest[one], now_ns=self.now_ns)
        if query is not None:
            self.control.append((self.now_ms + self.delay_ms, one, query))
        self.due[one] += rate.rate_msgs_s * STEP_MS / 1000
        count, lost = int(self.due[one]), 0
        self.due[one] -= count
        for number in range(count):
            self.latest[one] = Tick(tick_at(self.now_ms) + number)
            lost += not self._enqueue(one, EVENT_BYTES)
        if tick_at(self.now_ms) - self.latest[one] >= tick_at(round(rate.silence_s * 1000)):
            self.latest[one] = tick_at(self.now_ms)
            self._enqueue(one, SILENCE_BYTES)
        return lost

    def _enqueue(self, one: int, size: int) -> bool:
        if self.queued + size > QUEUE_BYTES_MAX:
            return False
        self.queue.append((one, self.latest[one], size))
        self.queued += size
        return True

    def _carry(self, budget: float, arrived: list[int]) -> int:
        self.credit += budget
        sent = 0
        while self.queue and self.queue[0][2] <= self.credit:
            one, tick, size = self.queue.popleft()
            self.horizons[one] = Tick(tick + 1)
            arrived[one] += size == EVENT_BYTES
            self.credit -= size
            sent += size
        self.queued -= sent
        if not self.queue:
            self.credit = 0
        return sent

    def _talk(self) -> None:
        if self.now_ms % 100 == 0:
            for edge, horizon in zip(self.edges, self.horizons, strict=True):
                edge.sample(horizon=horizon, now_ns=self.now_ns)
        while self.control and self.control[0][0] <= self.now_ms:
            _, one, message = self.control.popleft()
            if isinstance(message, Alert):
                self.rates[one].hear(message, latest=self.latest[one], now_ns=self.now_ns)
                continue
            alert = self.edges[one].answer(message, horizon=self.horizons[one], is_recovering=False)
            if alert is not None:
                self.control.append((self.now_ms + self.delay_ms, one, alert))
