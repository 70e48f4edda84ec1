"""Tidewire: content-based publish/subscribe. Say what you want, never where to find it.

    >>> import tidewire
    >>> wanted = tidewire.compile_filter("class = 'QUAKE' and magnitude >= 6")
    >>> wanted.accepts({"class": "QUAKE", "magnitude": 6.4})
    True

The names below are loaded when they are first used: importing the package loads nothing else. Their types are in
``__init__.pyi``, so that the package itself imports none of its rooms.
"""

from __future__ import annotations

from importlib import import_module

_HOMES = {
    "ChannelNotification": "live.channels",
    "ChannelSubscription": "live.channels",
    "Credentials": "live.credentials",
    "Delivery": "matching.protocol",
    "Envelope": "model.events",
    "Event": "model.events",
    "Filter": "model.filters",
    "InDoubt": "model.errors",
    "KernelMatcher": "matching.index",
    "Matcher": "matching.protocol",
    "Notification": "live.notification",
    "Overloaded": "model.errors",
    "Poset": "matching.poset",
    "Relation": "matching.covering",
    "ScanMatcher": "matching.scan",
    "TidewireError": "model.errors",
    "Subscription": "live.subscription",
    "Timestamp": "model.values",
    "Unavailable": "model.errors",
    "Wire": "live.connect",
    "compile_filter": "language",
    "connect": "live.connect",
    "decode_filter": "model.filters",
    "encode_filter": "model.filters",
    "explain": "language",
    "make_event": "model.events",
    "parse": "language",
    "relation": "matching.covering",
    "render": "language",
}

_ROOMS = {"sync": "sync"}

__all__ = ["__version__", *_HOMES, *_ROOMS]  # noqa: PLE0604 - names, from the table above


def __getattr__(name: str) -> object:
    if name == "__version__":
        found: object = import_module("importlib.metadata").version("tidewire")
    elif name in _ROOMS:
        found = import_module(f"tidewire.{_ROOMS[name]}")
    elif name in _HOMES:
        found = getattr(import_module(f"tidewire.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'tidewire' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
