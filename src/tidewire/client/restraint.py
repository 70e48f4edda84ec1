"""What may a session publish? Its limits by class, and what nobody wants; and what it would publish, which it tells.

Nothing of this exists until a broker asks for opinions (``AskOpinions``): who is not asked pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tidewire.congestion.fdcc.rate_filter import TokenBucket
from tidewire.model.errors import Overloaded
from tidewire.model.ids import Nanoseconds
from tidewire.model.shortage_messages import FLOWS_MAX, AskOpinions, Limits, OfferedClass, Offering, Quench
from tidewire.model.traffic import ClassKey
from tidewire.model.values import Value

RETRY_S: Final = 1.0
"""Limits are looked at once in a period: until then it is no use to try again."""

_WHY: Final = {
    "selection": "there is not enough capacity on the way, and others are more important to subscribers",
    "tier": "there is not enough capacity on the way, and this is of little value to subscribers",
    "share": "a subscriber on the way of this stream cannot take more, and others are more important",
}

ClassOf = Callable[[Mapping[str, Value]], ClassKey]


class _Class:
    """What was offered in one class, since it was last told."""

    __slots__ = ("bytes", "guaranteed", "offered", "sent")

    def __init__(self) -> None:
        self.offered = self.guaranteed = self.sent = self.bytes = 0


class Restraint:
    """Of one session, at the broker that it publishes at."""

    def __init__(self, asked: AskOpinions, class_of: ClassOf, *, now_ns: Nanoseconds) -> None:
        self._every_ns = int(asked.every_s * 1e9)
        self._class_of = class_of
        self._told_ns = now_ns
        self._classes: dict[ClassKey, _Class] = {}
        self._limits: dict[tuple[ClassKey, bool], tuple[TokenBucket, str]] = {}
        """By class, and whether it is for guaranteed events alone."""
        self.quenched: dict[int, None] = {}
        """Advertisements that nobody wants."""
        self.unwanted = self.held_back = 0
        """Events that were not made: because nobody wanted them, and because of limits."""

    @property
    def limits(self) -> dict[ClassKey, tuple[float, str]]:
        """What may be published per second, and why: of those classes that are limited."""
        found: dict[ClassKey, tuple[float, str]] = {}
        for (key, _), (bucket, why) in self._limits.items():
            if key not in found or bucket.limit_msgs_s < found[key][0]:
                found[key] = bucket.limit_msgs_s, why
        return found

    def limited(self, message: Limits, *, now_ns: Nanoseconds) -> None:
        """Some limits have changed."""
        for limit in message.limits:
            key = ClassKey(limit.traffic_class), limit.guaranteed_only
            known = self._limits.pop(key, None)
            if limit.msgs_s is None:
                continue
            if known is None:
                known = TokenBucket(limit.msgs_s, now_ns=now_ns), limit.why
            known[0].limit(limit.msgs_s, now_ns=now_ns)
            self._limits[key] = known[0], limit.why

    def quench(self, message: Quench) -> None:
        """Nobody wants these, somebody those."""
        self.quenched.update(dict.fromkeys(message.unwanted))
        for number in message.wanted:
            self.quenched.pop(number, None)

    def check(
        self,
        attributes: Mapping[str, Value],
        *,
        is_guaranteed: bool,
        offers: Mapping[int, Callable[[Mapping[str, Value]], bool]],
        now_ns: Nanoseconds,
    ) -> ClassKey | None:
        """May it be published, and of which class is it? None: nobody wants it. No message has been made so far.

        Overloaded if there is a limit, and it is reached.

        ``offers``: what is advertised, by number, and whether an event is covered by it.
        """
        key = self._class_of(attributes)
        if self.quenched and not is_guaranteed and self._is_unwanted(attributes, offers):
            self.unwanted += 1
            return None
        counts = self._classes.get(key)
        if counts is None:
            counts = self._classes[key if len(self._classes) < FLOWS_MAX else ClassKey("-")] = _Class()
        counts.offered += 1
        counts.guaranteed += is_guaranteed
        if self._limits:
            self._hold_back(key, is_guaranteed=is_guaranteed, now_ns=now_ns)
        return key

    def sent(self, key: ClassKey, size_bytes: int) -> None:
        """It was made, and has this size."""
        counts = self._classes.get(key)
        if counts is not None:
            counts.sent += 1
            counts.bytes += size_bytes

    def due(self, *, now_ns: Nanoseconds) -> Offering | None:
        """What to say, if it is time; also that there was nothing, once."""
        elapsed_ns = now_ns - self._told_ns
        if elapsed_ns < self._every_ns or not self._classes:
            return None
        self._told_ns = now_ns
        per_s = 1e9 / elapsed_ns
        offering = Offering(
            [
                OfferedClass(
                    key, one.offered * per_s, one.guaranteed * per_s, one.bytes / one.sent if one.sent else 0.0
                )
                for key, one in self._classes.items()
            ]
        )
        self._classes = {key: _Class() for key, one in self._classes.items() if one.offered}
        return offering

    def deadline_ns(self) -> int | None:
        """When there is something to say."""
        return self._told_ns + self._every_ns if self._classes else None

    def _is_unwanted(
        self,
        attributes: Mapping[str, Value],
        offers: Mapping[int, Callable[[Mapping[str, Value]], bool]],
    ) -> bool:
        spoken: Iterable[int] = (number for number in offers if number not in self.quenched)
        return not any(offers[number](attributes) for number in spoken)

    def _hold_back(self, key: ClassKey, *, is_guaranteed: bool, now_ns: Nanoseconds) -> None:
        names = ((key, False), (key, True)) if is_guaranteed else ((key, False),)
        held = [self._limits[name] for name in names if name in self._limits]
        for bucket, why in held:
            wait_s = bucket.retry_after_s(now_ns=now_ns)
            if wait_s > 0:
                self.held_back += 1
                limit = bucket.limit_msgs_s
                raise Overloaded(
                    f"at most {limit:g} events a second of class {key} may be published at present: {_WHY[why]}",
                    retry_after_s=min(wait_s, RETRY_S),
                    limit_msgs_s=limit,
                    reason=why,
                )
        for bucket, _ in held:
            bucket.passes(now_ns=now_ns)
