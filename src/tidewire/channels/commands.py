"""What an operator asks of the data cluster, and what it answers."""

from __future__ import annotations

import msgspec

from tidewire.channels.queries import Declaration
from tidewire.channels.schemas import Column
from tidewire.model.errors import DamagedFrame


class CreateChannel(msgspec.Struct, frozen=True, tag="create"):
    """Create the channel that this text declares."""

    text: str


class DropChannel(msgspec.Struct, frozen=True, tag="drop"):
    """End a channel, its subscriptions and its results."""

    channel: str


class ListChannels(msgspec.Struct, frozen=True, tag="list"):
    """Which channels are there?"""


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


ChannelCommand = CreateChannel | DropChannel | ListChannels | PauseChannel | ResumeChannel | ExplainChannel


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


class ChannelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a command has found, or left behind."""

    channels: list[ChannelDocument] = []
    """All of them; of a command about one, that one."""

    explanation: str = ""


_commands: msgspec.json.Decoder[ChannelCommand] = msgspec.json.Decoder(ChannelCommand)


def read_command(data: bytes) -> ChannelCommand:
    """DamagedFrame if it is none."""
    try:
        return _commands.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedFrame(f"a command about channels cannot be read: {error}") from None


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
