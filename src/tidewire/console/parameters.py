"""What stands behind the question mark: every name known, every value possible, or it is said what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request

from tidewire.language import as_selector
from tidewire.model.errors import UnknownName, UsageError

FORMATS: Final = ("json", "cloudevents")
NEXT_FORMATS: Final = (*FORMATS, "cloudevents-binary")
YES_OR_NO: Final = ("false", "true")
SECONDS_MAX: Final = 86_400.0
WAIT_S: Final = 10.0
WAIT_S_MAX: Final = 60.0
UNIX_S_MAX: Final = 1e12


def parameters(request: Request, *known: str) -> Mapping[str, str]:
    """The query, of which every name is known and stands once."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            raise UsageError(f"there is no parameter {name[:80]!r} here" + (f": {', '.join(known)}" if known else ""))
        if name in found:
            raise UsageError(f"the parameter {name!r} stands twice")
        found[name] = value
    return found


def filter_in(told: Mapping[str, str]) -> str:
    """The filter, which must be there."""
    if "filter" not in told:
        raise UsageError("say what you want: ?filter=... ; everything is filter=true")
    return as_selector(told["filter"])


def choice(told: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """One of these; the first if nothing is said."""
    chosen = told.get(name, choices[0])
    if chosen not in choices:
        raise UnknownName(chosen[:80], what=name, known=choices)
    return chosen


def number(told: Mapping[str, str], name: str, *, above: float, most: float) -> float | None:
    """A number, if it is there."""
    if name not in told:
        return None
    try:
        found = float(told[name])
    except ValueError:
        found = above
    if not above < found <= most:
        raise UsageError(f"{name} must be a number above {above:g}, up to {most:g}")
    return found
