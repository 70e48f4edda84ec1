"""What can go wrong, whose fault it is, and what to do next.

    TidewireError
    ├── UsageError                yours: the call, the text or the value is not acceptable
    │   ├── FilterSyntaxError     filter-syntax      with position, caret and what was expected
    │   ├── FilterTooLong         filter-too-long    text, list or pattern beyond its bound
    │   ├── FilterTooDeep         filter-too-deep    parentheses nested beyond the bound
    │   ├── FilterTooCostly       filter-too-costly  normal form or cost beyond the bound
    │   ├── FilterMeaningless     filter-meaningless parsed, but an operand cannot be right
    │   ├── UnsupportedType       value-type         an attribute value that is no event value
    │   ├── ValueOutOfRange       value-range        an integer beyond int64, a date beyond the calendar
    │   ├── BadAttributeName      attribute-name     empty, too long, or given twice
    │   ├── EventTooLarge         event-too-large    more attributes or bytes than an event may have
    │   ├── NotAdvertised         event-not-advertised  outside of what its publisher advertised
    │   ├── ReservedClass         class-reserved     a class by which only brokers speak
    │   ├── UnknownName           unknown-name       a policy, workload or command that does not exist
    │   ├── UnknownUser           user-unknown       somebody who has not registered
    │   ├── UnknownBroker         broker-unknown     a broker that has not registered
    │   ├── SameName              same-name          another one has this name already
    │   ├── BadConfiguration      configuration      a setting that cannot be right
    │   ├── LimitReached          limit              more connections, subscriptions or bytes than allowed
    │   ├── NotAuthenticated      not-authenticated  who you are was not shown: no token, or not a good one
    │   ├── NotPermitted          not-permitted      who you are may not do that; the missing permission is named
    │   ├── FollowedElsewhere     followed-elsewhere another session follows by this name now
    │   ├── Forgotten             forgotten          another session has ended this name for good
    │   ├── ChannelSyntaxError    channel-syntax     a channel's text does not follow the grammar
    │   ├── ChannelMeaningless    channel-meaningless  parsed, but a column, type or parameter cannot be right
    │   ├── ChannelUnsupported    channel-unsupported  SQL that channels do not have
    │   ├── ChannelTooCostly      channel-too-costly  the query would take too long, or is too large
    │   ├── BadParameters         channel-parameters a subscription gives a channel what it does not take
    │   ├── UnknownSubscription   subscription-unknown
    │   └── DuplicateSubscription subscription-duplicate
    ├── PeerError                 theirs: bytes from the other side are not what they must be
    │   ├── DamagedEvent          event-damaged
    │   ├── DamagedFilter         filter-damaged
    │   └── DamagedFrame          frame-damaged      bytes that are no frame or message of the protocol
    ├── Overloaded                overloaded         nobody's fault: slow down, with ``retry_after_s``
    └── Unavailable               unavailable        a needed part is not there right now
        ├── InDoubt               in-doubt           a guaranteed event was sent and has no receipt: it may be taken
        ├── NoStore               no-store           nobody keeps events, so nothing can be guaranteed
        ├── StoreFull             store-full         no room on the disk
        ├── StoreFailed           store-failed       the disk does not do what it must; nothing is acknowledged any more
        ├── StoreLocked           store-locked       another process uses it
        ├── StoreTooNew           store-format       written by a newer program
        └── StoreDamaged          store-damaged      nothing in it can be read

The ``code`` of a class never changes; messages may.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class TidewireError(Exception):
    """The root of every error that Tidewire raises on purpose."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(TidewireError):
    """Your side: correct the call and try again."""

    code = "usage"


class PeerError(TidewireError):
    """Their side: what they sent is not what it must be."""

    code = "peer"


class FilterSyntaxError(UsageError):
    """A filter's text does not follow the grammar."""

    code = "filter-syntax"

    def __init__(self, reason: str, *, text: str, position: int, expected: Iterable[str] = ()) -> None:
        self.reason = reason
        self.text = text
        self.position = position
        self.expected = tuple(expected)
        self.line, self.column = _line_and_column(text, position)
        drawn = pointed_out(reason, text=text, position=position)
        super().__init__(drawn + ("\nexpected " + _one_of(self.expected) if self.expected else ""))


def pointed_out(reason: str, *, text: str, position: int) -> str:
    """The reason with its line, and a caret under the place in the text."""
    line, column = _line_and_column(text, position)
    source = text.split("\n")[line - 1]
    start = max(0, column - 1 - 60)
    shown = "".join(c if c.isprintable() else "·" for c in source[start : start + 76])
    return f"line {line}, column {column}: {reason}\n  {shown}\n  {' ' * (column - 1 - start)}^"


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _one_of(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


class FilterTooLong(UsageError):
    """A filter's text, one of its lists or patterns is beyond the bound."""

    code = "filter-too-long"


class FilterTooDeep(UsageError):
    """A filter nests parentheses or negations beyond the bound."""

    code = "filter-too-deep"


class FilterTooCostly(UsageError):
    """A filter's normal form or cost is beyond the bound."""

    code = "filter-too-costly"


class FilterMeaningless(UsageError):
    """A filter is well formed but an operand cannot be right."""

    code = "filter-meaningless"


class UnsupportedType(UsageError):
    """A value is of a type that events do not carry."""

    code = "value-type"


class ValueOutOfRange(UsageError):
    """A value is of a known type but outside its range."""

    code = "value-range"


class BadAttributeName(UsageError):
    """An attribute name is empty, too long, or stands twice."""

    code = "attribute-name"


class EventTooLarge(UsageError):
    """An event has more attributes or bytes than an event may have."""

    code = "event-too-large"


class NotAdvertised(UsageError):
    """An event is outside of what its publisher advertised."""

    code = "event-not-advertised"


class ReservedClass(UsageError):
    """A class by which brokers speak with each other: nobody else publishes it, or subscribes to it."""

    code = "class-reserved"


class UnknownName(UsageError):
    """A name is not in the table that it is chosen from."""

    code = "unknown-name"

    def __init__(self, name: str, *, what: str, known: Iterable[str]) -> None:
        self.known = sorted(known)
        super().__init__(f"there is no {what} named {name!r}; known: {', '.join(self.known) or 'none'}")


class UnknownUser(UsageError):
    """Somebody has not registered at the coordinator."""

    code = "user-unknown"


class UnknownBroker(UsageError):
    """A broker has not registered at the coordinator, or not for a long time."""

    code = "broker-unknown"


class SameName(UsageError):
    """Another one has this name already."""

    code = "same-name"


class BadConfiguration(UsageError):
    """A setting cannot be right, or does not exist."""

    code = "configuration"


class LimitReached(UsageError):
    """More of something than this node allows."""

    code = "limit"


class NotAuthenticated(UsageError):
    """Who it is was not shown, or not well enough."""

    code = "not-authenticated"


class NotPermitted(UsageError):
    """An identity may not do what it asked for."""

    code = "not-permitted"


class Forgotten(UsageError):
    """Another session has ended this durable subscription for good."""

    code = "forgotten"


class FollowedElsewhere(UsageError):
    """Another session follows by this name: whoever comes last has it."""

    code = "followed-elsewhere"


class ChannelSyntaxError(UsageError):
    """A channel's text does not follow the grammar."""

    code = "channel-syntax"


class ChannelMeaningless(UsageError):
    """A channel's text is well formed, but a column, a type or a parameter cannot be right."""

    code = "channel-meaningless"


class ChannelUnsupported(UsageError):
    """A channel's text is SQL that channels do not have."""

    code = "channel-unsupported"


class ChannelTooCostly(UsageError):
    """A channel's query would take too long, or is too large."""

    code = "channel-too-costly"


class BadParameters(UsageError):
    """A subscription does not give a channel the parameters that it takes."""

    code = "channel-parameters"


class UnknownSubscription(UsageError):
    """A subscription is to be removed that is not there."""

    code = "subscription-unknown"


class DuplicateSubscription(UsageError):
    """A subscription is to be inserted under a number that is taken."""

    code = "subscription-duplicate"


class DamagedEvent(PeerError):
    """Bytes that claim to be an event are not one."""

    code = "event-damaged"


class DamagedFilter(PeerError):
    """Bytes that claim to be a filter in normal form are not one."""

    code = "filter-damaged"


class DamagedFrame(PeerError):
    """Bytes on a connection are no frame or message of the protocol."""

    code = "frame-damaged"


class Overloaded(TidewireError):
    """There is not enough of something right now; slow down."""

    code = "overloaded"
    retry_after_s: float = 1.0
    limit_msgs_s: float | None = None
    """What may be published per second, if it is a publisher that is limited."""
    reason: str = ""
    """Why, in a word: ``selection``, ``tier`` or ``share``."""

    def __init__(
        self, message: str, *, retry_after_s: float, limit_msgs_s: float | None = None, reason: str = ""
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.limit_msgs_s = limit_msgs_s
        self.reason = reason


class Unavailable(TidewireError):
    """A part that is needed is not there right now."""

    code = "unavailable"


class InDoubt(Unavailable):
    """A guaranteed event was sent, and nobody says whether it was taken."""

    code = "in-doubt"


class NoStore(Unavailable):
    """The broker that was asked keeps no log, or none that can be reached does: nothing can be guaranteed there."""

    code = "no-store"


class StoreFull(Unavailable):
    """The disk has no room for the log."""

    code = "store-full"


class StoreFailed(Unavailable):
    """The disk failed to keep what the log gave it."""

    code = "store-failed"


class StoreLocked(Unavailable):
    """Another process uses the log."""

    code = "store-locked"


class StoreTooNew(Unavailable):
    """A newer program has written the log."""

    code = "store-format"


class StoreDamaged(Unavailable):
    """Nothing of the log can be read."""

    code = "store-damaged"


def error_of(code: str, message: str) -> TidewireError:
    """The error with this code, as the other side has described it; a PeerError if the code is unknown here."""
    kinds: list[type[TidewireError]] = [TidewireError]
    for kind in kinds:
        if kind.code == code:
            error = kind.__new__(kind)
            TidewireError.__init__(error, message)
            return error
        kinds += kind.__subclasses__()
    return PeerError(f"{code}: {message}")
