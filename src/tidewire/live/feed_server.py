"""Serves what feeds have been sent to the data cluster's readers, on this machine or others: by the block, by ticks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from hmac import compare_digest
from typing import Final

from tidewire.live.feeds import Feed
from tidewire.model.errors import NotAuthenticated, PeerError, TidewireError, UnknownName
from tidewire.model.ids import PubendId, Tick
from tidewire.wire.feeds import (
    LENGTH,
    Answer,
    Block,
    Divide,
    Ends,
    Enter,
    Latest,
    Offsets,
    Pieces,
    Read,
    Refusal,
    Request,
    Settle,
    framed,
    length_of,
    request_of,
)

ENTER_S: Final = 10.0
"""So long one may be connected without saying who one is."""


class FeedServer:
    """The feeds of one data cluster, by their ids, and those who read them."""

    def __init__(self, *, secret: str) -> None:
        self._secret = secret
        self._server: asyncio.Server | None = None
        self._readers: set[asyncio.Task[None]] = set()
        self.feeds: dict[str, Feed] = {}

    async def start(self, host: str, port: int = 0) -> str:
        """Listen; where?"""
        self._server = await asyncio.start_server(self._serve, host, port)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def stop(self) -> None:
        """Serve nobody any more."""
        if self._server is not None:
            self._server.close()
        for task in self._readers:
            task.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._readers.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError, asyncio.CancelledError):
                await self._converse(reader, writer)
        finally:
            self._readers.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ENTER_S):
                entered = await _request(reader)
            if not isinstance(entered, Enter) or not compare_digest(entered.secret, self._secret):
                raise NotAuthenticated("a reader has to show the secret of this data cluster first")
            while True:
                answer, blocks = await self._answered(await _request(reader))
                writer.write(framed(answer))
                writer.writelines(blocks)
                await writer.drain()
        except PeerError as error:
            writer.write(framed(Refusal(error.code, error.message)))
        except NotAuthenticated as error:
            writer.write(framed(Refusal(error.code, error.message)))

    async def _answered(self, request: Request) -> tuple[Answer, list[bytes]]:
        try:
            match request:
                case Latest(start, events_max):
                    return Ends(self._latest(start, events_max)), []
                case Divide(start, end, events_max):
                    return Pieces(self._pieces(start, end, events_max)), []
                case Read(feed, stream, first, end):
                    taken = await self._feed(feed).read(PubendId(int(stream, 16)), Tick(first), Tick(end))
                    size = sum(map(len, taken.batches))
                    return Block(size, [(int(one), int(other)) for one, other in taken.gaps]), taken.batches
                case Settle(ends):
                    for name in ends.keys() & self.feeds.keys():
                        self.feeds[name].settle(_places(ends[name]))
                    return Ends({name: _streams(feed.intake.settled) for name, feed in self.feeds.items()}), []
                case Enter():
                    return Refusal("usage", "you have entered already"), []
        except TidewireError as error:
            return Refusal(error.code, error.message), []

    def _latest(self, start: Offsets, events_max: int) -> Offsets:
        ends = dict(start)
        for name, feed in self.feeds.items():
            far = feed.intake.latest(_places(start.get(name, {})), events_max=events_max)
            if far:
                ends[name] = _streams(far)
        return ends

    def _pieces(self, start: Offsets, end: Offsets, events_max: int) -> list[Read]:
        found: list[Read] = []
        for name, ends in end.items():
            feed = self.feeds.get(name)
            if feed is None:  # its dataset is gone
                continue
            pieces = feed.intake.pieces(_places(start.get(name, {})), _places(ends), events_max=events_max)
            found += [Read(name, f"{piece.pubend:016x}", piece.first, piece.end) for piece in pieces]
        return found

    def _feed(self, name: str) -> Feed:
        found = self.feeds.get(name)
        if found is None:
            raise UnknownName(name, what="feed", known=self.feeds)
        return found


async def _request(reader: asyncio.StreamReader) -> Request:
    length = length_of(await reader.readexactly(LENGTH.size))
    return request_of(await reader.readexactly(length))


def _places(streams: Mapping[str, int]) -> dict[PubendId, Tick]:
    return {PubendId(int(stream, 16)): Tick(tick) for stream, tick in streams.items()}


def _streams(places: Mapping[PubendId, Tick]) -> dict[str, int]:
    return {f"{pubend:016x}": int(tick) for pubend, tick in places.items()}
