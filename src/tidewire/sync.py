"""``tidewire.sync``: publish and subscribe without asyncio; see ``tidewire.live.sync``, where it is."""

from tidewire.live.sync import SyncChannelSubscription, SyncSubscription, SyncWire, connect

__all__ = ["SyncChannelSubscription", "SyncSubscription", "SyncWire", "connect"]
