"""What kind of traffic is this, and what does it need? Classes have names; what is said about traffic are its terms."""

from __future__ import annotations

import math
from typing import Annotated, Final, NewType

import msgspec
from msgspec import Meta

from tidewire.model.errors import UsageError

ClassKey = NewType("ClassKey", str)
"""A traffic class: by the name that it was configured with, or by what its filters have in common."""

DELAY_S_MIN: Final = 0.001
DELAY_S_MAX: Final = 1e9
"""Beyond thirty years nobody is in a hurry."""

Delay = Annotated[float, Meta(ge=DELAY_S_MIN, le=DELAY_S_MAX)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Terms(msgspec.Struct, frozen=True, array_like=True):
    """What settings, a publisher or a subscriber say of some traffic; None: nothing.

    ``delay_s``: it is of use for so long after it was published. ``value``: what it is worth, from 0 to 1.
    ``weight``: how much its subscribers' opinions count, from 0 to 1.
    """

    delay_s: Delay | None = None
    value: Share | None = None
    weight: Share | None = None


NO_TERMS: Final = Terms()


def terms_of(*, delay_s: float | None = None, value: float | None = None, weight: float | None = None) -> Terms:
    """The terms, if they can be; UsageError that says what can be."""
    if delay_s is not None and not DELAY_S_MIN <= delay_s <= DELAY_S_MAX:
        raise UsageError(
            f"delay_s = {delay_s}: it is how long an event is of use, from {DELAY_S_MIN} to {DELAY_S_MAX:g} s"
        )
    for name, share in (("value", value), ("weight", weight)):
        if share is not None and not 0 <= share <= 1:
            raise UsageError(f"{name} = {share}: it must be from 0 to 1")
    if delay_s is None and value is None and weight is None:
        return NO_TERMS
    return Terms(_as_float(delay_s), _as_float(value), _as_float(weight))


def _as_float(number: float | None) -> float | None:
    return None if number is None else float(number)


def strictest(terms: list[Terms]) -> Terms:
    """All of these at once: the shortest delay, the highest value and weight that somebody names."""
    return Terms(
        delay_s=min((one.delay_s for one in terms if one.delay_s is not None), default=None),
        value=max((one.value for one in terms if one.value is not None), default=None),
        weight=max((one.weight for one in terms if one.weight is not None), default=None),
    )


def delay_s_of(terms: list[Terms]) -> float:
    """The shortest delay that is named; infinite if none is."""
    shortest = strictest(terms).delay_s
    return math.inf if shortest is None else shortest
