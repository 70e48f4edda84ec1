"""The null baseline: nobody is asked, nobody is slowed, and all that is missing may be asked for at once."""

from __future__ import annotations

from math import inf
from typing import Final

from tidewire.congestion.config import CongestionConfig, nanoseconds
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Nanoseconds, PubendId, Tick


class UnlimitedRate:
    """A pubend sends what is offered."""

    limit_msgs_s: Final = inf
    is_throttled: Final = False

    def __init__(
        self,
        pubend: PubendId,  # noqa: ARG002 every policy is made in the same way
        config: CongestionConfig,
        *,
        offered_msgs_s: float,
        now_ns: Nanoseconds,  # noqa: ARG002
    ) -> None:
        self.silence_s = config.silence_s
        self.rate_msgs_s = offered_msgs_s

    def offer(self, msgs_s: float, *, now_ns: Nanoseconds) -> None:  # noqa: ARG002
        """So much is sent from now on."""
        self.rate_msgs_s = msgs_s

    def next_deadline(self) -> Nanoseconds | None:
        """There is never anything to do."""
        return None

    def due(self, *, latest: Tick, now_ns: Nanoseconds) -> Query | None:  # noqa: ARG002
        """No query."""
        return None

    def hear(self, alert: Alert, *, latest: Tick, now_ns: Nanoseconds) -> bool:  # noqa: ARG002
        """It is not listened to."""
        return False


class UnlimitedWindow:
    """All of the receive window may be asked for."""

    def __init__(
        self,
        config: CongestionConfig,
        *,
        first: int,  # noqa: ARG002 every window is made in the same way
        step: int,  # noqa: ARG002
        most: int,
    ) -> None:
        self.size = most
        self.retry_ns = Nanoseconds(nanoseconds(config.nack_retry_s))

    def restart(self, *, now_ns: Nanoseconds) -> None:
        """It is open already."""

    def answered(self, *, asked_ns: Nanoseconds, now_ns: Nanoseconds) -> bool:  # noqa: ARG002
        """It stays as it is."""
        return False
