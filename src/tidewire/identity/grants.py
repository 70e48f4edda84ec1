"""What an identity may do. Permissions are filters: they narrow what it subscribes to, and judge what it publishes.

A permission that is not given is not had: an identity without any may do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from tidewire.language import compile_filter, conjoined, render
from tidewire.matching.covering import Relation, relation
from tidewire.model.errors import BadConfiguration, NotPermitted, TidewireError
from tidewire.model.filters import ALL, Filter, decode_filter, encode_filter
from tidewire.model.messages import ANYTHING

ANYTHING_TEXT: Final = "*"
"""In place of a filter: whatever it is."""

Act = Literal["publish", "subscribe", "advertise", "observe", "operate"]


class Grant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an identity may do, as people write it: filters, or ``*`` for anything; None: not at all."""

    publish: str | None = None
    subscribe: str | None = None
    advertise: str | None = None
    """Explicitly; None: the same as ``publish``."""

    observe: bool = False
    """See how the brokers are: topology, loads, decisions, metrics."""

    operate: bool = False
    """Drain brokers, make them balance; register brokers that do not speak the wire."""

    weight: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """How much its opinion of what it gets counts under shortage, however many connections it has."""


EVERYTHING: Final = Grant(publish=ANYTHING_TEXT, subscribe=ANYTHING_TEXT, observe=True, operate=True)


class Permissions:
    """A grant, ready to be asked. BadConfiguration if one of its filters is none."""

    def __init__(self, name: str, grant: Grant) -> None:
        self.name = name
        self.grant = grant
        self._publish = _compiled(name, "publish", grant.publish)
        self._subscribe = _compiled(name, "subscribe", grant.subscribe)
        advertise = grant.publish if grant.advertise is None else grant.advertise
        self._advertise = _compiled(name, "advertise", advertise)

    def may(self, act: Literal["observe", "operate"]) -> None:
        """NotPermitted unless it may."""
        if not getattr(self.grant, act):
            raise self.missing(act)

    def missing(self, act: Act) -> NotPermitted:
        """The error that names what is missing. It speaks of this identity's own permissions, and of nothing else."""
        given = getattr(self.grant, act)
        if act == "advertise" and given is None:
            given = self.grant.publish
        if not isinstance(given, str):
            return NotPermitted(f"{self.name} lacks the permission to {act}")
        return NotPermitted(f"{self.name} may {act} only what its permission to {act} says: {given}")

    def narrowed(self, filters: list[bytes]) -> list[bytes]:
        """What is left of these subscriptions; NotPermitted if of one there is nothing left."""
        if self._subscribe is None:
            raise self.missing("subscribe")
        if self._subscribe == ALL:
            return filters
        found = []
        for wanted in filters:
            narrow = conjoined(decode_filter(wanted), self._subscribe)
            if not narrow.conjunctions:
                raise self.missing("subscribe")
            found.append(encode_filter(narrow))
        return found

    def check_channel(self, channel: str, given: Mapping[str, Any]) -> None:
        """NotPermitted unless it may hear of this channel, with these parameters.

        It is asked as of an event that has them as its attributes, and the name of the channel as ``channel``.
        """
        if self._subscribe is None or not self._subscribe.accepts({**given, "channel": channel}):
            raise self.missing("subscribe")

    def check_advertised(self, filters: list[bytes]) -> None:
        """NotPermitted unless each lies within what may be advertised.

        Who just publishes (``ANYTHING``) says nothing about its events: they are asked one by one.
        """
        for offered in filters:
            if offered == ANYTHING:
                if self._publish is None:
                    raise self.missing("publish")
            elif self._advertise is None or not _lies_in(decode_filter(offered), self._advertise):
                raise self.missing("advertise")

    def covers(self, other: Permissions) -> bool:
        """May this do all that the other may? Only what lasts counts: observing and operating are asked each time."""
        pairs = (
            (self._publish, other._publish),
            (self._subscribe, other._subscribe),
            (self._advertise, other._advertise),
        )
        return all(inner is None or (outer is not None and _lies_in(inner, outer)) for outer, inner in pairs)

    def publishable(self) -> list[bytes] | None:
        """One of these must match an event that it publishes; None: any event will do."""
        if self._publish == ALL:
            return None
        return [] if self._publish is None else [encode_filter(self._publish)]


def _lies_in(inner: Filter, outer: Filter) -> bool:
    return outer == ALL or not inner.conjunctions or relation(outer, inner) in (Relation.COVERS, Relation.EQUAL)


def _compiled(name: str, act: str, text: str | None) -> Filter | None:
    if text is None:
        return None
    if text == ANYTHING_TEXT:
        return ALL
    try:
        return compile_filter(text)
    except TidewireError as error:
        raise BadConfiguration(f"the permission of {name} to {act} is no filter: {error.message}") from None


def checked(grant: Grant, *, name: str = "it") -> Grant:
    """The grant, with its filters as they are understood; BadConfiguration if one is none."""
    Permissions(name, grant)
    return grant


def described(grant: Grant) -> list[tuple[str, str]]:
    """What it may do, line by line, for people."""
    lines = [(act, value) for act in ("publish", "subscribe", "advertise") if (value := getattr(grant, act))]
    shown = [(act, "anything" if text == ANYTHING_TEXT else render(compile_filter(text))) for act, text in lines]
    shown += [(act, "yes") for act in ("observe", "operate") if getattr(grant, act)]
    return shown if grant.weight == 1 else [*shown, ("weight", f"{grant.weight:g}")]
