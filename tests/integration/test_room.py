"""A broker that has no room for more: those who are in go on, and those who come hear why not, or somebody goes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import tidewire
from tests.integration.network import until
from tidewire.broker.effects import Note
from tidewire.live import entrance
from tidewire.live.entrance import Entrance, place_of
from tidewire.live.sockets import listen, parse_address
from tidewire.model.messages import VERSION, Bye, Hello, Message
from tidewire.wire.frames import FrameReader, decode_message, message_frame

SOFT, HARD = 48, 96
ROOM = HARD - HARD // 4


@pytest.fixture
def cramped() -> Iterator[dict[str, Any]]:
    """The first line of a broker that may open few files."""
    limits = f'ulimit -Sn {SOFT} && ulimit -Hn {HARD} && exec "$@"'
    command = [sys.executable, "-m", "tidewire", "broker", "--json", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(["sh", "-c", limits, "sh", *command], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def call(address: str) -> socket.socket:
    return socket.create_connection(parse_address(address), timeout=20)


def greet(line: socket.socket, name: str) -> Message:
    """The first answer."""
    frames = FrameReader()
    with contextlib.suppress(OSError):
        line.sendall(message_frame(Hello(version=VERSION, name=name, uses=["subscribe"])))
    while data := line.recv(65_536):
        for _, payload in frames.feed(data):
            return decode_message(payload)
    raise AssertionError("it ended without a word")


async def hears(wire: tidewire.Wire, events: tidewire.Subscription, number: int) -> None:
    await wire.publish({"number": number})
    async for event in events:
        assert event["number"] == number
        return


def test_a_broker_opens_as_many_files_as_it_may(cramped: dict[str, Any]) -> None:
    assert (cramped["what"], cramped["files_max"]) == ("broker", HARD)


def test_those_who_say_nothing_keep_nobody_out(cramped: dict[str, Any]) -> None:
    address = str(cramped["address"])

    async def run(stack: contextlib.ExitStack) -> None:
        async with tidewire.connect(address) as early, early.subscribe("number >= 0") as events:
            for _ in range(2 * HARD):
                stack.enter_context(call(address))
            await hears(early, events, 1)
            answers = [await asyncio.to_thread(greet, stack.enter_context(call(address)), "raw") for _ in range(10)]
            assert not any(isinstance(answer, Bye) for answer in answers)
            for number in range(2, 12):
                async with tidewire.connect(address) as newcomer:
                    await hears(newcomer, events, number)

    with contextlib.ExitStack() as stack:
        asyncio.run(run(stack))


def test_without_room_a_newcomer_hears_why_and_the_others_go_on(cramped: dict[str, Any]) -> None:
    address = str(cramped["address"])

    async def run(stack: contextlib.ExitStack) -> None:
        async with tidewire.connect(address) as early, early.subscribe("number >= 0") as events:
            await hears(early, events, 1)
            answers: list[Message] = []
            lines: list[socket.socket] = []
            for number in range(HARD):
                lines.append(stack.enter_context(call(address)))
                answers.append(await asyncio.to_thread(greet, lines[-1], f"client{number}"))
            refused = [one for one in answers if isinstance(one, Bye)]
            assert {one.code for one in refused} == {"limit"}
            assert "open files" in refused[0].reason
            assert len(answers) - len(refused) == ROOM - 1
            await hears(early, events, 2)
            lines[0].close()
            later = stack.enter_context(call(address))
            assert not isinstance(await asyncio.to_thread(greet, later, "later"), Bye)

    with contextlib.ExitStack() as stack:
        asyncio.run(run(stack))


class Exhausted:
    """A listening socket of a process that has no more files, for a while."""

    def __init__(self) -> None:
        self._listener = listen("127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_out_of_files = True
        self.failures = 0

    def fileno(self) -> int:
        return self._listener.fileno()

    def accept(self) -> Any:
        if not self.is_out_of_files:
            return self._listener.accept()
        self.failures += 1
        raise OSError(errno.EMFILE, "Too many open files")

    def close(self) -> None:
        self._listener.close()


def test_without_files_it_waits_says_so_once_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(entrance, "_PAUSE_S", 0.05)
        listener, notes, came = Exhausted(), list[Note](), list[str]()

        def let_in(connection: socket.socket, place: str) -> None:
            came.append(place)
            connection.close()

        door = Entrance(listener, let_in=let_in, say=notes.append)  # type: ignore[arg-type]
        door.open()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        with call(listener.address), call(listener.address):
            await until(lambda: listener.failures >= 3)
            assert turns > 5 * listener.failures, "the others have their turns meanwhile"
            assert [note.what for note in notes] == ["cannot accept"]
            listener.is_out_of_files = False
            await until(lambda: len(came) == 2)
            assert [note.what for note in notes] == ["cannot accept", "accepts again"]
            assert came == ["127.0.0.1", "127.0.0.1"]
        door.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::1", "::/64"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
    ],
)
def test_whose_an_address_is(host: str, place: str) -> None:
    assert place_of(host) == place
