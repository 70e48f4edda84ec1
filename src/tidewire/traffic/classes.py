"""Of which class is this subscription, or this event?

The first configured class that fits; else the value that is demanded of the class attribute, or that the event has
there; else a subscription is alone with those that want exactly the same (epeer §0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from tidewire.language import compile_filter
from tidewire.matching.covering import covers
from tidewire.model.filters import Filter, decode_filter
from tidewire.model.messages import ANYTHING
from tidewire.model.traffic import NO_TERMS, ClassKey, Terms, delay_s_of, terms_of
from tidewire.model.values import Kind, Value
from tidewire.traffic.config import TrafficConfig

REMEMBERED_MAX: Final = 65_536
UNCLASSED: Final = ClassKey("-")
"""Of events without a class, and of advertisements of anything."""


class Classes:
    """The classes of one network."""

    def __init__(self, config: TrafficConfig) -> None:
        self._attribute = config.attribute
        self._configured = [(ClassKey(one.name), compile_filter(one.filter)) for one in config.classes]
        self._terms = {
            ClassKey(one.name): terms_of(delay_s=one.delay_s, value=one.value, weight=one.weight)
            for one in config.classes
        }
        self._known: dict[bytes, ClassKey] = {}

    def configured(self) -> list[tuple[ClassKey, Filter, Terms]]:
        """Those that people have named, in their order."""
        return [(key, wanted, self._terms[key]) for key, wanted in self._configured]

    def of_filter(self, encoded: bytes) -> ClassKey:
        """The class of a subscription or an advertisement, by its filter in normal form."""
        known = self._known.get(encoded)
        if known is None:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            known = self._known[encoded] = self._found(encoded)
        return known

    def _found(self, encoded: bytes) -> ClassKey:
        if encoded == ANYTHING:
            return UNCLASSED
        wanted = decode_filter(encoded)
        for key, configured in self._configured:
            if covers(configured, wanted):
                return key
        value = _demanded(wanted, self._attribute)
        if value is not None:
            return _by_value(value)
        return ClassKey(f"#{blake2b(encoded, digest_size=8).hexdigest()}")

    def of_attributes(self, attributes: Mapping[str, Value]) -> ClassKey:
        """The class of an event."""
        for key, configured in self._configured:
            if configured.accepts(attributes):
                return key
        value = attributes.get(self._attribute)
        return _by_value(value) if isinstance(value, str) else UNCLASSED

    def terms(self, key: ClassKey) -> Terms:
        """What is configured for it."""
        return self._terms.get(key, NO_TERMS)

    def delay_s(self, key: ClassKey, said: Iterable[Terms] = ()) -> float:
        """How long its events are of use: the shortest of what is configured and said; infinite if nothing is."""
        return delay_s_of([self.terms(key), *said])

    def weight(self, key: ClassKey) -> float:
        """How much opinions of its subscribers count, at most."""
        weight = self.terms(key).weight
        return 1.0 if weight is None else weight


def _by_value(value: str) -> ClassKey:
    return ClassKey(f"={value}")


def _demanded(wanted: Filter, attribute: str) -> str | None:
    """The one text that every event must have there to match; None if there is no such."""
    found: dict[str, None] = {}
    for conjunction in wanted.conjunctions:
        allowed = next((one.allowed for one in conjunction.constraints if one.attribute == attribute), None)
        if allowed is None or allowed.kind is not Kind.STRING:
            return None
        points = allowed.points()
        if points is None or len(points) != 1:
            return None
        found[str(points[0])] = None
    return next(iter(found)) if len(found) == 1 else None
