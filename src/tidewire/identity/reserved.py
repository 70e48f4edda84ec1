"""Which classes are nobody's? Those by which brokers speak with each other (peer L1).

An event of such a class is refused where it is published (``dataplane/``). Here what clients say beforehand is refused:
a subscription or an advertisement of nothing else. One that is wider is no fault: no event will ever match that part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidewire.language import compile_filter
from tidewire.matching.covering import Relation, relation
from tidewire.model.balance_messages import RESERVED_CLASSES
from tidewire.model.errors import ReservedClass
from tidewire.model.filters import decode_filter

_NAMES: Final = [name.encode() for name in RESERVED_CLASSES]
_RESERVED: Final = compile_filter("class in ({})".format(", ".join(f"'{name}'" for name in RESERVED_CLASSES)))


def refuse_reserved(filters: Sequence[bytes]) -> None:
    """ReservedClass if one of these is about nothing but what brokers say to each other."""
    for wanted in filters:
        if not any(name in wanted for name in _NAMES):
            continue  # there may be very many, and hardly one names such a class
        if relation(_RESERVED, decode_filter(wanted)) in (Relation.COVERS, Relation.EQUAL):
            raise ReservedClass(f"{', '.join(RESERVED_CLASSES)} are reserved for brokers: choose another class")
