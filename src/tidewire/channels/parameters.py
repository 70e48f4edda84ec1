"""What does a subscription give to a channel? Checked by its broker, which needs no parser for that."""

from __future__ import annotations

from collections.abc import Mapping

from tidewire.channels.schemas import Column, cell_of, similar
from tidewire.model.errors import BadParameters, UnsupportedType
from tidewire.model.values import Value


def given_values(channel: str, parameters: tuple[Column, ...], given: Mapping[str, object]) -> tuple[Value, ...]:
    """What a subscription gives, in the order of the channel's parameters and of their types.

    Equal subscriptions give equal values: a whole number for a double is a double.
    """
    known = [column.name for column in parameters]
    for name in given:
        if name not in known:
            hint = similar(name, known) or "; it has none"
            raise BadParameters(f"channel {channel} has no parameter {name!r}{hint}")
    values: list[Value] = []
    for column in parameters:
        try:
            value = cell_of(column, given.get(column.name))
        except UnsupportedType as problem:
            raise BadParameters(f"channel {channel}: {problem.message}") from None
        if value is None:
            raise BadParameters(f"channel {channel} needs a value for {column.name} ({column.type})")
        values.append(value)
    return tuple(values)
