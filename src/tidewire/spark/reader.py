"""How Spark's processes get at the feeds: a connection to their server, with one request after the other."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Final, Self, TypeVar

from tidewire.model.errors import Unavailable, error_of
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
    answer_of,
    framed,
    length_of,
)

ANSWER_S: Final = 90.0
"""Longer than the server makes a reader wait for events."""

_Wanted = TypeVar("_Wanted", Ends, Pieces, Block)


class FeedReader:
    """One connection. Unavailable if the feeds cannot be reached: the data cluster has ended, or does not answer."""

    def __init__(self, address: str, *, secret: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_S)
        except OSError as error:
            raise Unavailable(f"the feeds cannot be reached at {address}: {error.strerror or error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(framed(Enter(secret)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """No more questions."""
        self._socket.close()

    def latest(self, start: Offsets, *, events_max: int) -> Offsets:
        """How far may one go?"""
        return self._ask(Latest(start, events_max), Ends)[0].ends

    def divide(self, start: Offsets, end: Offsets, *, events_max: int) -> list[Read]:
        """What is to be read between these?"""
        return self._ask(Divide(start, end, events_max), Pieces)[0].pieces

    def read(self, piece: Read) -> tuple[bytes, list[tuple[int, int]]]:
        """A batch of events, and the gaps between them."""
        block, batch = self._ask(piece, Block)
        return batch, block.gaps

    def settle(self, ends: Offsets) -> Offsets:
        """All below is stored; where are the feeds now?"""
        return self._ask(Settle(ends), Ends)[0].ends

    def _ask(self, request: Request, wanted: type[_Wanted]) -> tuple[_Wanted, bytes]:
        try:
            self._socket.sendall(framed(request))
            answer: Answer = answer_of(self._exactly(length_of(self._exactly(LENGTH.size))))
            if isinstance(answer, Refusal):
                raise error_of(answer.code, answer.reason)
            size = answer.size if isinstance(answer, Block) else 0
            assert isinstance(answer, wanted), f"{answer} is no answer to {request}"
            return answer, self._exactly(size)
        except OSError as error:
            raise Unavailable(f"the feeds no longer answer: {error.strerror or error}") from None

    def _exactly(self, size: int) -> bytes:
        into = bytearray(size)
        view = memoryview(into)
        while view:
            count = self._socket.recv_into(view)
            if count == 0:
                raise Unavailable("the feeds no longer answer: the connection was closed")
            view = view[count:]
        return bytes(into)
