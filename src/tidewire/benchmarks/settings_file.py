"""The settings of a broker process as a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def as_toml(settings: Mapping[str, Any], *, table: str = "") -> str:
    """Tables last. The texts must have nothing that JSON writes otherwise than TOML."""
    plain = {name: value for name, value in settings.items() if not isinstance(value, Mapping)}
    lines = [f"{name} = {_value(value)}" for name, value in plain.items() if value is not None]
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{table}{name}]", as_toml(value, table=f"{table}{name}.")]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    return repr(value) if isinstance(value, float) else msgspec.json.encode(value).decode()  # JSON knows no infinity
