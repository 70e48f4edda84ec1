"""What an operator asks of the data cluster, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tidewire.channels.cluster_events import Kept
from tidewire.channels.queries import Declaration
from tidewire.channels.schemas import Column
from tidewire.model.errors import DamagedFrame
from tidewire.model.values import shown_value


class CreateChannel(msgspec.Struct, frozen=True, tag="create"):
    """Create the channel that this text declares."""

    text: str


class DropChannel(msgspec.Struct, frozen=True, tag="drop"):
    """End a channel, its subscriptions and its results."""

    channel: str


class ListChannels(msgspec.Struct, frozen=True, tag="list"):
    """Which channels are there?"""


class ListNames(msgspec.Struct, frozen=True, tag="names"):
    """To which durable subscribers is something owed, or will be?"""


class PauseChannel(msgspec.Struct, frozen=True, tag="pause"):
    """Let it run no more until it is resumed. Its subscriptions stay, and what comes meanwhile waits."""

    channel: str


class ResumeChannel(msgspec.Struct, frozen=True, tag="resume"):
    """Let it run again: its first run looks at all that has come meanwhile."""

    channel: str


class ExplainChannel(msgspec.Struct, frozen=True, tag="explain"):
    """How is it carried out, and at what cost? A channel by its name, or one that this text would declare."""

    channel: str = ""
    text: str = ""


ChannelCommand = CreateChannel | DropChannel | ListChannels | ListNames | PauseChannel | ResumeChannel | ExplainChannel
NAMES_MAX: Final = 100
"""Of so many durable subscribers it is told: those that are furthest behind."""


class ChannelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A channel, as operators see it."""

    channel: str
    text: str
    parameters: list[Column]
    columns: list[Column]
    feed: str
    period_ms: int | None
    """None: it is continuous."""

    kind: str
    """Equal for channels that share one plan and one job."""

    is_paused: bool = False
    subscriptions: int = 0
    """Of all brokers and names together: identical ones count once."""


class NameDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A durable subscriber to a channel, as operators see it."""

    name: str
    owner: str
    channel: str
    parameters: dict[str, bool | int | float | str]
    behind_s: float
    """So old is the oldest result that it has not dealt with; 0: there is none."""


class ChannelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a command has found, or left behind."""

    channels: list[ChannelDocument] = []
    """All of them; of a command about one, that one."""

    names: list[NameDocument] = []
    """Those that are furthest behind come first."""

    explanation: str = ""


_commands: msgspec.json.Decoder[ChannelCommand] = msgspec.json.Decoder(ChannelCommand)


def read_command(data: bytes) -> ChannelCommand:
    """DamagedFrame if it is none."""
    try:
        return _commands.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedFrame(f"a command about channels cannot be read: {error}") from None


def names_of(
    declaration: Declaration, record: Kept, first_ms: Sequence[int | None], *, now_ms: int
) -> list[NameDocument]:
    """The durable subscribers that hold a subscription; for each, when the first result was that it is owed."""
    names = [column.name for column in declaration.parameters]
    parameters = {name: shown_value(value) for name, value in zip(names, record.want.values, strict=True)}
    found = []
    for known, first in zip(record.names, first_ms, strict=True):
        owner, _, name = known.partition("\0")
        behind_s = 0.0 if first is None else max(0, now_ms - first) / 1000
        one = NameDocument(name=name, owner=owner, channel=declaration.name, parameters=parameters, behind_s=behind_s)
        found.append(one)
    return found


def furthest(names: Iterable[NameDocument]) -> list[NameDocument]:
    """Those that are furthest behind, first."""
    return sorted(names, key=lambda one: (-one.behind_s, one.channel, one.name))[:NAMES_MAX]


def document_of(declaration: Declaration, *, kind: str, is_paused: bool, subscriptions: int) -> ChannelDocument:
    """A channel in words and numbers."""
    return ChannelDocument(
        channel=declaration.name,
        text=declaration.text,
        parameters=list(declaration.parameters),
        columns=list(declaration.query.columns()),
        feed=declaration.feed,
        period_ms=declaration.period_ms,
        kind=kind,
        is_paused=is_paused,
        subscriptions=subscriptions,
    )
