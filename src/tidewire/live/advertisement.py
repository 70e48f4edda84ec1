"""What a session will publish, and why an event is outside of that."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from tidewire.client.events import AdvertiseThat, UnadvertiseThat
from tidewire.language import explain, render
from tidewire.model.errors import NotAdvertised
from tidewire.model.events import Event
from tidewire.model.filters import Filter, encode_filter
from tidewire.model.messages import ANYTHING
from tidewire.model.traffic import NO_TERMS, Terms
from tidewire.model.values import Value

if TYPE_CHECKING:
    from tidewire.live.publishing import Publishing

_OFFERS_TOLD: Final = 3


class Advertisement:
    """What this session will publish. ``await`` it or enter it: then every broker knows."""

    def __init__(self, wire: Publishing, number: int, offered: Filter | None, terms: Terms = NO_TERMS) -> None:
        """``offered``: None of those who have not said what it is."""
        self._wire = wire
        self._number = number
        self._offered = offered
        self._terms = [] if terms == NO_TERMS else [terms]

    def __await__(self) -> Generator[Any, None, Self]:
        return self._advertised().__await__()

    async def __aenter__(self) -> Self:
        return await self._advertised()

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def _advertised(self) -> Self:
        was_advertised, self._wire._is_advertised = self._wire._is_advertised, True
        offered = ANYTHING if self._offered is None else encode_filter(self._offered)
        try:
            await self._wire._ask(
                lambda token: AdvertiseThat(token, [self._number], [offered], self._terms),
                take_back=lambda token: UnadvertiseThat(token, [self._number]),
            )
        except BaseException:
            self._wire._is_advertised = was_advertised
            self._wire._session.wake_publishers()
            raise
        if self._offered is not None:
            self._wire._offers[self._number] = self._offered
        self._wire._covers[self._number] = _anything if self._offered is None else self._offered.accepts
        return self

    async def end(self) -> None:
        """No longer."""
        await self._wire._ask(lambda token: UnadvertiseThat(token, [self._number]))
        self._wire._offers.pop(self._number, None)
        self._wire._covers.pop(self._number, None)


def _anything(_: Mapping[str, Value]) -> bool:
    return True


def outside(event: Event, offers: Iterable[Filter]) -> NotAdvertised:
    """Why a broker has refused this event, whose session has advertised this."""
    reasons = [f"{render(offered)} ({_why_outside(event, offered)})" for offered in offers]
    told = "; nor does ".join(reasons[:_OFFERS_TOLD])
    more = f"; nor {len(reasons) - _OFFERS_TOLD} more" if len(reasons) > _OFFERS_TOLD else ""
    why = f"what was advertised does not cover it: {told}{more}" if reasons else "nothing is advertised any more"
    return NotAdvertised(f"the event was not taken: {why}. Mend the event, or advertise it too, with wire.advertise")


def _why_outside(event: Event, offered: Filter) -> str:
    """An event must match, and have only attributes that the advertisement names (peer L4)."""
    if not offered.accepts(event.attributes):
        return "; ".join(str(one) for one in explain(render(offered), event.attributes).decisions)
    named: dict[str, None] = {}
    for one in offered.conjunctions:
        if one.accepts(event.attributes):
            named.update(dict.fromkeys(constraint.attribute for constraint in one.constraints))
            named.update(dict.fromkeys(name for area in one.areas for name in (area.latitude, area.longitude)))
    beside = [name for name in event.attributes if name not in named]
    some = f"; for any value: {beside[0]} is not null" if beside else ""
    return f"it does not name {', '.join(beside) or 'all of its attributes together'}{some}"
