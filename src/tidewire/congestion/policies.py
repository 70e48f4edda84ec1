"""Which policies are there? Open tables, each with its null baseline: how fast to send, what to ask for, who yields."""

from __future__ import annotations

from typing import Final, Protocol

from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.direct import Direct
from tidewire.congestion.fdcc.config import FdccConfig
from tidewire.congestion.fdcc.controller import Controller
from tidewire.congestion.pdcc import Pdcc
from tidewire.congestion.probing import Probing
from tidewire.congestion.sdcc import Sdcc
from tidewire.congestion.settled import Settled
from tidewire.congestion.unlimited import UnlimitedRate, UnlimitedWindow
from tidewire.model.congestion import Alert, Query
from tidewire.model.errors import UnknownName
from tidewire.model.ids import Nanoseconds, PubendId, Tick


class Rate(Protocol):
    """How fast one pubend may send."""

    @property
    def limit_msgs_s(self) -> float:
        """What its publishers may send per second; infinite while no congestion is known."""

    @property
    def rate_msgs_s(self) -> float:
        """What it sends: never above what is offered."""

    @property
    def is_throttled(self) -> bool:
        """Would its publishers send more?"""

    @property
    def silence_s(self) -> float:
        """After so long without an event, silence is to be told."""

    def offer(self, msgs_s: float, *, now_ns: Nanoseconds) -> None:
        """So much the publishers would send."""

    def next_deadline(self) -> Nanoseconds | None:
        """When ``due`` has something to do; None: never."""

    def due(self, *, latest: Tick, now_ns: Nanoseconds) -> Query | None:
        """Let the rate grow if it may; and the query to send, if it is time for one."""

    def hear(self, alert: Alert, *, latest: Tick, now_ns: Nanoseconds) -> bool:
        """Somebody does not keep up. Was the rate lowered?"""


class Window(Protocol):
    """How much of one stream may be asked for."""

    @property
    def size(self) -> int:
        """What may be outstanding."""

    @property
    def retry_ns(self) -> Nanoseconds:
        """What has not come for so long after it was asked for is to be asked for again."""

    def restart(self, *, now_ns: Nanoseconds) -> None:
        """A new recovery begins."""

    def answered(self, *, asked_ns: Nanoseconds, now_ns: Nanoseconds) -> bool:
        """What was asked for then has come. Has the window changed?"""


class RatePolicy(Protocol):
    """Makes the control of one pubend's rate."""

    def __call__(
        self, pubend: PubendId, config: CongestionConfig, *, offered_msgs_s: float, now_ns: Nanoseconds
    ) -> Rate: ...


class WindowPolicy(Protocol):
    """Makes the control of one stream's window."""

    def __call__(self, config: CongestionConfig, *, first: int, step: int, most: int) -> Window: ...


POLICIES: Final[dict[str, RatePolicy]] = {
    "unlimited": UnlimitedRate,
    "pdcc": Pdcc,
    "pdcc-settled": Settled,
    "pdcc-direct": Direct,
}
WINDOWS: Final[dict[str, WindowPolicy]] = {"unlimited": UnlimitedWindow, "sdcc": Sdcc, "sdcc-probing": Probing}


SHORTAGES: Final[dict[str, type[Controller] | None]] = {"never": None, "fdcc": Controller}
"""Who decides what gives way under shortage; None: nobody, and nobody is asked what events are worth."""


def shortage_policy(config: FdccConfig) -> type[Controller] | None:
    """The one that is configured; UnknownName if there is none such."""
    if config.policy not in SHORTAGES:
        raise UnknownName(config.policy, what="policy under shortage", known=SHORTAGES)
    return SHORTAGES[config.policy]


def rate_policy(config: CongestionConfig) -> RatePolicy:
    """The one that is configured; UnknownName if there is none such."""
    if config.rate_policy not in POLICIES:
        raise UnknownName(config.rate_policy, what="rate policy", known=POLICIES)
    return POLICIES[config.rate_policy]


def window_policy(config: CongestionConfig) -> WindowPolicy:
    """The one that is configured; UnknownName if there is none such."""
    if config.window_policy not in WINDOWS:
        raise UnknownName(config.window_policy, what="window policy", known=WINDOWS)
    return WINDOWS[config.window_policy]
