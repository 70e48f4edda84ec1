"""Front-ends beside a host of channels: what many clients cost the data cluster that all want the same few things."""

from __future__ import annotations

from collections.abc import Iterable

from tidewire.channels.cluster_events import Send
from tidewire.channels.frontend_events import Connected, Disconnected, FrontendEffect, Notify, Say, Subscribe
from tidewire.channels.frontends import Frontends
from tidewire.channels.messages import ToCluster
from tidewire.model.ids import BrokerId, Conn
from tidewire.spark.channel_host import ChannelHost


class FrontEnds:
    """Brokers that share the clients."""

    def __init__(self, host: ChannelHost, *, brokers: int) -> None:
        self._host = host
        self._brokers = {BrokerId(f"b{number}"): Frontends(BrokerId(f"b{number}")) for number in range(brokers)}

    async def subscribe(self, channel: str, given: Iterable[dict[str, object]]) -> None:
        """A client for each, at one broker after the other; all have connected again when it is done."""
        for front in self._brokers.values():
            await self._say(front.handle(Connected(1)))
            front.handle(Disconnected())
        fronts = list(self._brokers.values())
        for number, values in enumerate(given):
            subscribe = Subscribe(subscriber=(Conn(number), 1), channel=channel, given=values)
            fronts[number % len(fronts)].handle(subscribe)
        for front in self._brokers.values():
            await self._say(front.handle(Connected(2)))

    async def _say(self, effects: Iterable[FrontendEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Say):
                self.hear(await self._host.told(effect.message))

    def hear(self, sends: Iterable[Send]) -> tuple[list[ToCluster], int]:
        """What brokers answer, and how many notifications they have for clients."""
        effects = [effect for one in sends for effect in self._brokers[one.broker].handle(one.message)]
        return [one.message for one in effects if isinstance(one, Say)], sum(isinstance(one, Notify) for one in effects)

    @property
    def shared(self) -> int:
        """The subscriptions that brokers have at the data cluster."""
        return sum(front.shared for front in self._brokers.values())
