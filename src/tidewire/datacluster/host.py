"""What is behind the machine: the one who knows all channels, who wants what, and the results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidewire.channels.cluster_events import BrokerGone, Send
from tidewire.channels.commands import ChannelAnswer, ChannelCommand
from tidewire.channels.messages import ToCluster
from tidewire.model.ids import BrokerId

HostEvent = ToCluster | BrokerGone


class ChannelHost(Protocol):
    """The channels of one data cluster.

    What it has to say by itself, when a channel has run, it says with the ``post`` of its server.
    """

    def brokers(self) -> Iterable[BrokerId]:
        """Those that hold subscriptions from before this start: they have a while to come back."""

    async def told(self, event: HostEvent) -> Iterable[Send]:
        """A broker has said something, or is dead. Called for one after the other, in their order."""

    async def asked(self, command: ChannelCommand) -> tuple[ChannelAnswer, Iterable[Send]]:
        """An operator wants something; a TidewireError says why it cannot be. Others are served meanwhile."""
