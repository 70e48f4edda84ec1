"""Which alerts go on to a pubend? Those of many edges become one per query: gryphon §2.3, Fig. 5."""

from __future__ import annotations

from tidewire.congestion.config import CongestionConfig, nanoseconds
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Nanoseconds


class Alerts:
    """The alerts about one pubend that come to a head on the way.

    The first answer to a query goes up at once; what comes later waits, and the worst of it goes up with the first
    answer to the next. So no more alerts go up than queries went down.
    """

    def __init__(self, config: CongestionConfig) -> None:
        self._leftover_ns = config.leftover_queries_max * nanoseconds(config.query_s)
        self._sequence = 0
        self._waiting: Alert | None = None
        self._waiting_since_ns = Nanoseconds(0)

    def query(self, query: Query) -> None:
        """A query passes on its way down. One that does not count on is of a new life of the pubend."""
        if query.sequence <= self._sequence:
            self._sequence, self._waiting = 0, None

    def alert(self, alert: Alert, *, now_ns: Nanoseconds) -> Alert | None:
        """What to send up now that an edge, or a head below, has sent this."""
        if self._waiting is not None and now_ns - self._waiting_since_ns > self._leftover_ns:
            self._waiting = None
        worst = alert if self._waiting is None else _worse(self._waiting, alert)
        if alert.sequence > self._sequence:
            self._sequence, self._waiting = alert.sequence, None
            return worst
        if self._waiting is None:
            self._waiting_since_ns = now_ns
        self._waiting = worst
        return None


def _worse(one: Alert, other: Alert) -> Alert:
    """Both in one, as an answer to what the second answers."""
    return Alert(
        pubend=other.pubend,
        sequence=other.sequence,
        slowest=min(one.slowest, other.slowest),
        slowest_recovering=min(one.slowest_recovering, other.slowest_recovering),
        horizon=min((at for at in (one.horizon, other.horizon) if at is not None), default=None),
    )
