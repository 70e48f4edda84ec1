"""What does a subscription give to a channel? Checked by its broker, which needs no parser for that."""

from __future__ import annotations

from collections.abc import Mapping

from tidewire.channels.schemas import Column, ColumnType, cell_of, shown_cell, similar
from tidewire.model.errors import BadParameters, UnsupportedType, UsageError
from tidewire.model.values import Timestamp, Value


def timed(parameters: tuple[Column, ...], given: Mapping[str, object]) -> dict[str, object]:
    """The same, with timestamps for the texts that stand for them: who speaks JSON has no others (RFC 3339).

    BadParameters if a text is none.
    """
    found = dict(given)
    for column in parameters:
        value = found.get(column.name)
        if column.type is ColumnType.TIMESTAMP and isinstance(value, str):
            try:
                found[column.name] = Timestamp.parse(value)
            except UsageError:
                raise BadParameters(
                    f"{column.name} is a timestamp, such as 2026-11-15T12:00:00Z: {shown_cell(value)} is none"
                ) from None
    return found


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
    typed = timed(parameters, given)
    for column in parameters:
        try:
            value = cell_of(column, typed.get(column.name))
        except UnsupportedType as problem:
            raise BadParameters(f"channel {channel}: {problem.message}") from None
        if value is None:
            raise BadParameters(f"channel {channel} needs a value for {column.name} ({column.type})")
        values.append(value)
    return tuple(values)
