"""PDCC that waits for its own decreases (gryphon §7): what was published before one still arrives slowly after it."""

from __future__ import annotations

from tidewire.congestion.pdcc import Pdcc
from tidewire.model.congestion import Alert
from tidewire.model.ids import Tick
from tidewire.model.ticks import ms_of


class Settled(Pdcc):
    """An alert lowers the rate again only when its horizon has passed the tick of the last decrease.

    Only as long as it is not too far behind: who overloads a link tenfold must not wait until its queue is full.
    """

    _lowered_at = Tick(0)

    def _lower(self, alert: Alert) -> float | None:
        if alert.horizon is not None and alert.horizon <= self._lowered_at:
            lag_ms = ms_of(self._latest) - ms_of(alert.horizon)
            if lag_ms <= self._config.lag_ms_max:
                return None
        self._lowered_at = self._latest
        return super()._lower(alert)
