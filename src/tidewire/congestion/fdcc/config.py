"""How traffic gives way under shortage: every parameter of epeer §3 that concerns it. Frozen, checked once."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Final, Literal

import msgspec

from tidewire.congestion.fdcc.expression import Expression
from tidewire.model.errors import BadConfiguration, UsageError
from tidewire.model.message_fields import SECONDS_MAX, SECONDS_MIN

TRAIN_BYTES_MAX: Final = 1 << 20


class FdccConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[fdcc]`` of a broker's settings. Rates are messages per second."""

    policy: str = "never"
    """``never``: nobody is asked what events are worth; ``fdcc``: epeer §2.10."""

    utility: str = ""
    """What an event is worth to subscribers that do not say how they judge: an expression over its attributes, such as
    ``0.1 * magnitude``. Empty: they say nothing."""
    feedback_s: float = 1.0
    """How often subscribers say what events are worth to them, and publishers what they would send. Heads decide as
    often as load is measured (``load_every_s``)."""
    utility_window_s: float = 1.0
    """Over how long a head sums up what subscribers say before it judges by it."""

    threshold_low: float = 0.90
    """TH_low: limits are lifted when all that is offered would load every broker less than this."""
    threshold_high: float = 0.95
    """TH_high: a broker that is loaded more than this is overloaded."""
    overloaded_periods: int = 2
    """Without balancing, a broker that is overloaded for so many periods in a row is short: nobody takes its load."""
    balancing_periods: int = 15
    """With balancing, so long it has to help before that counts as a shortage; it may say so earlier."""
    budget_fraction: float = 0.95
    """Of a broker's capacity, what admitted publishers may use; with 1.0, the literal rule, it stays overloaded."""

    drain_s: float = 5.0
    """What waits at a link is to be worked off in so long: as long as it is there, less is admitted."""
    train_bytes: int = 24_000
    """While there is a shortage, so much is sent at once over a link in each period, to see what it carries."""

    tiers: bool = True
    """Does the utility of a publisher alone bound its rate, while there is a shortage?"""
    tier_edges: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)
    tier_limits_msgs_s: tuple[float, ...] = (10.0, 200.0, 500.0, 900.0, 2000.0)
    """One more than edges: below the first, between each two, from the last on."""
    order: Literal["class", "publisher"] = "class"
    """Who is admitted first: the most important classes, in them the best publishers (epeer §2.10); or the publishers
    that are worth most for what they take, of whatever class."""
    fractional_last: bool = False
    """Does the first publisher of a class that does not fit get what is left, or nothing?"""
    floor_msgs_s: float = 0.0
    """What every publisher may send in any case, so that subscribers can judge it anew. Literal: nothing."""

    quench: bool = True
    """Are publishers told that nobody wants what they publish, so that they make no messages of it?"""
    quench_ack_s: float = 2.0
    """A publisher that was told to be silent must say in this time that it speaks again; else its connection ends."""

    def __post_init__(self) -> None:
        """BadConfiguration, if it cannot be."""
        _check(self)


def _check(config: FdccConfig) -> None:
    if config.utility:
        try:
            Expression(config.utility)
        except UsageError as error:
            raise BadConfiguration(f"fdcc.utility: {error.message}") from None
    for name in ("feedback_s", "utility_window_s", "drain_s", "quench_ack_s"):
        value = getattr(config, name)
        if not SECONDS_MIN <= value <= SECONDS_MAX:
            raise BadConfiguration(f"fdcc.{name} is {value}: from {SECONDS_MIN} to {SECONDS_MAX} seconds")
    if not 0 < config.threshold_low <= config.threshold_high <= 1:
        raise BadConfiguration("fdcc.threshold_low and threshold_high must be in (0, 1], the first not higher")
    if not 0 < config.budget_fraction <= 1:
        raise BadConfiguration(f"fdcc.budget_fraction is {config.budget_fraction}: above 0, at most 1")
    if not 0 <= config.train_bytes <= TRAIN_BYTES_MAX:
        raise BadConfiguration(f"fdcc.train_bytes is {config.train_bytes}: from 0 to {TRAIN_BYTES_MAX}")
    for name in ("overloaded_periods", "balancing_periods"):
        if getattr(config, name) < 1:
            raise BadConfiguration(f"fdcc.{name} must be at least 1")
    if not 0 <= config.floor_msgs_s < inf:
        raise BadConfiguration("fdcc.floor_msgs_s must be 0 or more")
    _check_tiers(config)


def _check_tiers(config: FdccConfig) -> None:
    edges, limits = config.tier_edges, config.tier_limits_msgs_s
    if any(not 0 < edge < 1 for edge in edges) or any(low >= high for low, high in pairwise(edges)):
        raise BadConfiguration("fdcc.tier_edges must rise, between 0 and 1")
    if len(limits) != len(edges) + 1 or any(not limit >= 0 for limit in limits):
        raise BadConfiguration("fdcc.tier_limits_msgs_s needs one limit more than tier_edges has edges, each 0 or more")
