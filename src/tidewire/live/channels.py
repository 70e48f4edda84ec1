"""A channel as a client hears it: notifications, each with its rows and where they came from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tidewire.channels.packing import pack_given
from tidewire.channels.results import Packed, ResultRow
from tidewire.client.events import CloseChannelFor, Notify, OpenChannelFor, Took
from tidewire.live.durable import check_name
from tidewire.live.inbox import Inbox
from tidewire.model.channel_messages import CHANNEL_NAME_MAX, GIVEN_BYTES_MAX
from tidewire.model.errors import UsageError
from tidewire.model.ids import Tick
from tidewire.model.ticks import ms_of

if TYPE_CHECKING:
    from tidewire.live.connect import Wire
    from tidewire.live.session import Request


class FoundRow(Mapping[str, Any]):
    """One thing that a channel has found: a mapping of its columns."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: tuple[str, ...], row: ResultRow) -> None:
        self._columns = columns
        self._row = row

    @property
    def origins(self) -> list[tuple[str, int]]:
        """The events that it came from: the stream of each, as positions of durable subscriptions name it, and the
        tick there."""
        return [(f"{pubend:016x}", int(tick)) for pubend, tick in self._row.origins]

    def __getitem__(self, name: str) -> Any:
        try:
            return self._row.cells[self._columns.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<FoundRow {dict(self)!r}>"


class ChannelNotification:
    """What one run of a channel has found for one subscription: iterate over its rows."""

    __slots__ = ("_packed", "channel", "columns", "parameters", "tick")

    def __init__(self, channel: str, parameters: Mapping[str, Any], notify: Notify) -> None:
        self.channel = channel
        self.parameters = parameters
        self.columns = notify.columns
        self.tick = int(notify.tick)
        """The run, in the channel's stream: it grows from one notification to the next."""
        self._packed = Packed(notify.rows, notify.data)

    @property
    def rows(self) -> list[FoundRow]:
        """All that was found."""
        return [FoundRow(self.columns, row) for row in self._packed.rows()]

    @property
    def data(self) -> bytes:
        """The rows in bytes, as they came: the same for all who want the same."""
        return self._packed.data

    @property
    def ran_s(self) -> float:
        """When the channel ran, in seconds since 1970, on the data cluster's clock."""
        return ms_of(Tick(self.tick)) / 1000

    def __iter__(self) -> Iterator[FoundRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return self._packed.count

    def __repr__(self) -> str:
        return f"<ChannelNotification {self.channel} {dict(self.parameters)!r}: {len(self)} rows>"


FoundCallback = Callable[[ChannelNotification], None]


class ChannelSubscription(Inbox[ChannelNotification]):
    """What a channel finds, as an asynchronous iterator, or by a callback.

    ``await`` it or enter it with ``async with``: then it is confirmed, and every result of later runs will come, once
    and in order. Leaving the block unsubscribes; with a name, what comes meanwhile is owed to the next who has it.
    """

    def __init__(
        self,
        others: ChannelSubscriptions,
        number: int,
        channel: str,
        parameters: Mapping[str, Any],
        *,
        name: str | None,
        callback: FoundCallback | None,
    ) -> None:
        super().__init__(others.wire, number, callback)
        if not 1 <= len(channel) <= CHANNEL_NAME_MAX:
            raise UsageError(f"a channel's name has 1 to {CHANNEL_NAME_MAX} characters")
        if name is not None:
            check_name(name)
        self._others = others
        self.channel = channel
        self.parameters = dict(parameters)
        self.name = name
        self._given = pack_given(parameters)
        if len(self._given) > GIVEN_BYTES_MAX:
            raise UsageError(f"the parameters of a subscription have at most {GIVEN_BYTES_MAX} bytes")

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        await self._others.open(
            self,
            lambda token: OpenChannelFor(token, self.number, self.channel, self._given, self.name or ""),
            take_back=lambda token: CloseChannelFor(token, self.number, is_final=False),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._last = None  # whoever leaves because of an error is not done with it
        await self.unsubscribe()

    async def unsubscribe(self) -> None:
        """No more for now. What has come can still be read; the last notification that you got is done by this."""
        await self._close(is_final=self.name is None)

    async def forget(self) -> None:
        """No more for ever: nothing is kept for its name."""
        await self._close(is_final=True)

    async def _close(self, *, is_final: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._done()
        try:
            await self._others.close(self, lambda token: CloseChannelFor(token, self.number, is_final))
        except BaseException:
            self._is_over = False  # it stands: it can be tried again
            raise
        self._end()

    def came(self, notify: Notify) -> None:
        """The session has this for it."""
        self._put(ChannelNotification(self.channel, self.parameters, notify))

    def _taken(self, come: ChannelNotification) -> None:
        self._others.took(self.number, come.tick)


class ChannelSubscriptions:
    """Those of one session, by their numbers."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._open: dict[int, ChannelSubscription] = {}
        self._took: dict[int, Tick] = {}
        """What the application is done with, and the broker has not been told: all of it is told at once, soon."""

    def all(self) -> list[ChannelSubscription]:
        """Every one."""
        return list(self._open.values())

    def remove(self, number: int) -> ChannelSubscription | None:
        """This one no longer, if it was there."""
        return self._open.pop(number, None)

    async def open(self, subscription: ChannelSubscription, make: Request, *, take_back: Request) -> None:
        """One more, when a broker has confirmed it."""
        self._open[subscription.number] = subscription
        try:
            await self.wire._ask(make, take_back=take_back)
        except BaseException:
            self._open.pop(subscription.number, None)
            self.wire._caught_up()
            raise

    async def close(self, subscription: ChannelSubscription, make: Request) -> None:
        """One less."""
        self.tell_taken()
        await self.wire._ask(make)
        self._open.pop(subscription.number, None)
        self.wire._caught_up()

    def took(self, number: int, tick: int) -> None:
        """The application is done with this, and all before it."""
        if number in self._open:
            if not self._took:
                asyncio.get_running_loop().call_soon(self.tell_taken)
            self._took[number] = Tick(tick)

    def tell_taken(self) -> None:
        """Now: what is said behind it is behind it."""
        if self._took:
            taken, self._took = self._took, {}
            self.wire._session.tell(Took(taken))

    def notified(self, notify: Notify) -> None:
        """Something has come."""
        found = self._open.get(notify.number)
        if found is not None:
            found.came(notify)
