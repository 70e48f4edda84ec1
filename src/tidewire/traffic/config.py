"""Which classes of traffic there are, as people have set it. Frozen, checked once."""

from __future__ import annotations

from typing import Final

import msgspec

from tidewire.language import compile_filter
from tidewire.model.errors import BadAttributeName, BadConfiguration, TidewireError
from tidewire.model.names import refuse_bad_name
from tidewire.model.traffic import terms_of

CLASSES_MAX: Final = 4096
CLASS_NAME_MAX: Final = 128


class ClassConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One class: the events that its filter matches, and the subscriptions that want nothing but these."""

    name: str
    filter: str
    delay_s: float | None = None
    """For so long after it was published an event is of use; without it, for ever."""
    value: float | None = None
    """What an event is worth, from 0 to 1, unless it says so itself."""
    weight: float | None = None
    """How much its subscribers' opinions count, from 0 to 1; without it, fully."""

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= CLASS_NAME_MAX or not self.name.isprintable():
            raise BadConfiguration(f"name = {self.name!r}: it has 1 to {CLASS_NAME_MAX} printable characters")
        try:
            compile_filter(self.filter)
            terms_of(delay_s=self.delay_s, value=self.value, weight=self.weight)
        except TidewireError as error:
            raise BadConfiguration(f"class {self.name!r}: {error.message}") from None


class TrafficConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[traffic]``; the same for all brokers of a network."""

    attribute: str = "class"
    """What no class below fits is of the class that this attribute names."""
    classes: list[ClassConfig] = []
    """The first one that fits counts."""

    def __post_init__(self) -> None:
        try:
            refuse_bad_name(self.attribute)
        except BadAttributeName as error:
            raise BadConfiguration(f"attribute: {error.message}") from None
        if len(self.classes) > CLASSES_MAX:
            raise BadConfiguration(f"there are {len(self.classes)} classes; at most {CLASSES_MAX} are allowed")
        names: dict[str, None] = {}
        for one in self.classes:
            if one.name in names:
                raise BadConfiguration(f"two classes are called {one.name!r}: names must differ")
            names[one.name] = None
