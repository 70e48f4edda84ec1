"""A feed on real sockets: follows by a name, and keeps what comes until the data cluster has stored it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from tidewire._kernel._native import harvest
from tidewire.client.config import ClientConfig
from tidewire.client.events import Connect, FollowAs, Tell
from tidewire.delivery.intake import Intake, Places, Span, Taken
from tidewire.language import compile_filter
from tidewire.live.credentials import ANONYMOUS, Credentials, context_for
from tidewire.live.line import FRAME_BYTES_MAX, Line
from tidewire.live.session import Session
from tidewire.model.errors import PeerError, TidewireError, Unavailable
from tidewire.model.filters import encode_filter
from tidewire.model.ids import Conn, PubendId, Tick

HELD_BYTES_MAX: Final = 64 << 20
"""What has come and is not stored yet; then the broker waits, by its own bounds, and the feed falls behind."""
AGAIN_S: Final = 2.0
READ_S: Final = 60.0
"""So long a reader waits for events that came in an earlier life, and must come again."""
_NUMBER: Final = 1

Say = Callable[[str, dict[str, Any]], None]


class FeedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a feed follows."""

    name: str
    """By which brokers hold events for it: unique, and the same in every life."""

    wanted: str
    """The filter."""

    since_ms: int = 0
    """Where it begins that has never been: in milliseconds since 1970; -1: now."""


class _Harvesting(Session):
    """A session that hands events over by the span, as the kernel takes them off the connection."""

    def __init__(self, config: ClientConfig, *, intake: Intake, on_more: Callable[[], None], **listeners: Any) -> None:
        super().__init__(config, **listeners)
        self._intake = intake
        self._on_more = on_more
        self._rests: dict[Conn, bytes] = {}

    def came(self, line: Line, data: bytes) -> None:
        """Bytes have come: events by the span, the rest as to any session."""
        following = self.core.followings.get(_NUMBER)
        places = {} if following is None else {int(pubend): int(tick) for pubend, tick in following.places.items()}
        data = self._rests.pop(line.conn, b"") + data
        try:
            consumed, others, spans = harvest(data, _NUMBER, places, FRAME_BYTES_MAX)
        except PeerError:  # told as any session tells it
            super().came(line, data)
            return
        if consumed < len(data):
            self._rests[line.conn] = data[consumed:]
        for pubend, first, last, count, batch in spans:
            for tick in (first, last) if count > 1 else (last,):
                self.core.followings.is_due(_NUMBER, PubendId(pubend), Tick(tick))
            self._intake.came(PubendId(pubend), Span(Tick(first), Tick(last), count, batch))
        if others:
            super().came(line, others)
        self._on_more()

    def lost(self, line: Line, reason: str) -> None:
        """A connection has ended, and with it what it had begun to say."""
        self._rests.pop(line.conn, None)
        super().lost(line, reason)


class Feed:
    """One feed: begins at ``settled``, where its rows are stored up to."""

    def __init__(
        self,
        config: FeedConfig,
        addresses: list[str],
        *,
        settled: Places,
        say: Say,
        credentials: Credentials = ANONYMOUS,
        held_bytes_max: int = HELD_BYTES_MAX,
    ) -> None:
        self.config = config
        self._filter = encode_filter(compile_filter(config.wanted))
        self._addresses = addresses
        self._credentials = credentials
        self._security = context_for(addresses, credentials)
        self._say = say
        self._held_bytes_max = held_bytes_max
        self._is_paused = False
        self._waiting = 0
        """Readers who lack something: for them more is taken than there is room for."""
        self._news: asyncio.Future[None] | None = None
        self._session: _Harvesting | None = None
        self.intake = Intake(settled)
        self.error: TidewireError | None = None
        """Why nothing comes any more, if that is so."""

    async def run(self) -> None:
        """Follow until cancelled; a network that cannot be reached is asked again."""
        while True:
            try:
                await self._follow()
                self.error = None
                raise await self._ended
            except Unavailable as error:
                self._say("feed waits", {"feed": self.config.name, "reason": error.message})
            except TidewireError as error:  # coming again would not mend it
                self.error = error
                self._say("feed stopped", {"feed": self.config.name, "code": error.code, "reason": error.message})
                return
            finally:
                await self._close()
            await asyncio.sleep(AGAIN_S)

    async def _follow(self) -> None:
        name = self.config.name
        client = ClientConfig(addresses=self._addresses, name=name, identity=self._credentials.token)
        self._ended: asyncio.Future[TidewireError] = asyncio.get_running_loop().create_future()
        session = self._session = _Harvesting(
            client,
            intake=self.intake,
            on_more=self._more,
            on_event=lambda *_: None,
            on_notice=self._noticed,
            on_over=self._has_ended,
            on_ended=lambda _, error: self._has_ended(error),
            security=self._security,
        )
        await session.ask(Connect)
        places, done = list(self.intake.reached().items()), list(self.intake.kept_from().items())
        since = self.config.since_ms
        await session.ask(lambda token: FollowAs(token, _NUMBER, self._filter, name, since, places, done))
        self._say("feed follows", {"feed": name, "streams": len(places)})

    def _more(self) -> None:
        """Something has come: who waits for it looks again."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
        self._news = None
        self._regulate()

    def _has_ended(self, error: TidewireError) -> None:
        if not self._ended.done():
            self._ended.set_result(error)

    def _noticed(self, notice: Tell) -> None:
        if notice.what == "gap" and notice.facts["is_back"]:
            self._has_ended(
                PeerError(
                    f"the stream {notice.facts['pubend']} has gone back before what is stored of it: its broker has "
                    "another log than it had, or its clock was set back. Rows are stored in the order of ticks: create "
                    "another dataset for what comes now"
                )
            )
        elif notice.what == "gap":
            pubend, first, last = int(str(notice.facts["pubend"]), 16), notice.facts["first"], notice.facts["last"]
            self.intake.lost(PubendId(pubend), Tick(int(first)), Tick(int(last)))
        self._say(f"feed: {notice.what}", {"feed": self.config.name, **notice.facts})

    def _regulate(self) -> None:
        """What is not stored has a bound."""
        session = self._session
        if session is None:
            return
        is_full = self.intake.held_bytes >= (self._held_bytes_max // 2 if self._is_paused else self._held_bytes_max)
        is_paused = is_full and not self._waiting
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            (session.pause_reading if is_paused else session.resume_reading)()

    async def _close(self) -> None:
        session, self._session = self._session, None
        self._is_paused = False
        if session is not None:
            with suppress(Unavailable):
                await session.close()

    # -- what readers ask for ------------------------------------------------------------------------------------------

    async def read(self, pubend: PubendId, first: Tick, end: Tick) -> Taken:
        """The events between these ticks, when they have come; Unavailable if they do not."""
        if self.intake.has(pubend, end):
            return self.intake.read(pubend, first, end)
        self._waiting += 1
        self._regulate()
        try:
            async with asyncio.timeout(READ_S):
                while not self.intake.has(pubend, end):
                    self._news = self._news or asyncio.get_running_loop().create_future()
                    await asyncio.shield(self._news)
        except TimeoutError:
            raise Unavailable(
                f"the stream {pubend:016x} does not come as far as it once did: is the broker that keeps it there?"
            ) from None
        finally:
            self._waiting -= 1
        return self.intake.read(pubend, first, end)

    def settle(self, ends: Places) -> None:
        """All below is stored: brokers need hold it no longer."""
        for pubend, end in self.intake.settle(ends).items():
            if self._session is not None:
                self._session.taken(_NUMBER, pubend, Tick(end - 1))
        self._regulate()
