"""Operators look at a running network: the whole of it from one address, rates, what is wrong, and a live screen."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
from pathlib import Path
from select import select
from time import monotonic
from typing import Any

import pytest

import tidewire
from tests.integration.network import HEAD_AND_TWO_EDGES, brokers, until
from tests.integration.test_commands import WAIT_S, free_ports, running, says, told
from tests.integration.test_slow import BODY, stubborn
from tidewire.live.coordinator import LiveCoordinator
from tidewire.live.operate import drain_broker, status_of
from tidewire.live.sockets import listen
from tidewire.live.survey import Surveyor, survey
from tidewire.model.errors import Unavailable


async def _command(*arguments: str, code: int = 0) -> Any:
    """The one document of a command, while the brokers of this loop go on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tidewire", *arguments, "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), WAIT_S)
    assert process.returncode == code, (out, err)
    return json.loads(out)


def test_a_network_is_seen_whole_from_any_broker() -> None:
    """By way of neighbours; with rates from the second look on, on links, too."""

    async def play() -> None:
        async with brokers(*HEAD_AND_TWO_EDGES) as (head, edge, other):
            async with tidewire.connect(edge.address) as wire:
                async with wire.subscribe("n >= 0") as wanted:
                    looking = Surveyor([edge.address])
                    first = await looking.look()
                    assert [one.status.broker for one in first.brokers] == ["B0", "B1", "B2"]
                    assert all(one.rates is None for one in first.brokers)
                    for number in range(100):
                        await wire.publish({"n": number})
                    await wire.flush()
                    for _ in range(100):
                        await anext(wanted)
                    second = await looking.look()
                    while second.brokers[0].rates is None:  # less than a hundredth of a second later
                        second = await looking.look()
                    assert second.silent == []
                    rates = {one.status.broker: one.rates for one in second.brokers}
                    of_head = rates["B0"]
                    assert of_head is not None
                    assert of_head.events_s * of_head.over_s == pytest.approx(100)
                    carried = sum(link.events_out_s for link in of_head.links) * of_head.over_s
                    assert carried == pytest.approx(100)
            assert (await survey([other.address, head.address], between_s=0)).broker("B1") is not None

    asyncio.run(play())


def test_who_does_not_answer_is_named_and_nobody_waits_long_for_it() -> None:
    """One is gone, one is deaf; the others are seen."""

    async def play() -> None:
        deaf = listen("127.0.0.1", 0)  # and never accepts
        ear = f"127.0.0.1:{deaf.getsockname()[1]}"
        async with brokers(*HEAD_AND_TWO_EDGES) as (head, edge, _other):
            looking = Surveyor([head.address, ear], seconds=0.5)
            await looking.look()
            await edge.stop()
            await until(lambda: len(head.node.core.links.up()) == 1)
            began = monotonic()
            network = await looking.look()
            assert monotonic() - began < 5.0
            assert {one.status.broker for one in network.brokers} == {"B0", "B2"}
            assert {(one.broker, one.address) for one in network.silent} == {("B1", edge.address), ("", ear)}
            assert any("no answer within 0.5 s" in one.reason for one in network.silent)
        deaf.close()

    asyncio.run(play())


def test_who_hangs_up_on_a_question_has_not_answered() -> None:
    """As a secured port may do to who speaks in clear."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        line: socket.socket = writer.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def play() -> None:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            (silent,) = (await survey([f"{host}:{port}"], between_s=0)).silent
            assert (silent.code, "tidewires://" in silent.reason) == ("unavailable", True), silent

    asyncio.run(play())


def test_the_coordinator_knows_brokers_that_no_neighbour_names() -> None:
    """Two brokers without a link: each is found by way of the coordinator of both, and doctor says what that means."""

    async def play() -> None:
        coordinator = LiveCoordinator("127.0.0.1:0")
        await coordinator.start()
        lone = {"role": "edge", "coordinator": coordinator.address}
        try:
            async with brokers(lone, lone) as (one, other):
                await until(lambda: one.node.core.is_registered and other.node.core.is_registered)
                network = await survey([one.address], between_s=0)
                assert [found.status.broker for found in network.brokers] == ["B0", "B1"]
                (view,) = network.coordinators
                assert {member.broker: member.is_alive for member in view.members} == {"B0": True, "B1": True}
                diagnosis = await _command("doctor", "--at", one.address, code=3)
                bad = [finding for finding in diagnosis["findings"] if finding["level"] == "problem"]
                assert [finding["check"] for finding in bad] == ["links"]
                assert "2 parts: B0 | B1" in bad[0]["message"]
        finally:
            await coordinator.stop()

    asyncio.run(play())


def test_a_slow_consumer_is_seen_by_every_command() -> None:
    async def play() -> None:
        async with brokers({"queue_bytes_max": 64 << 10}) as (node,):
            connection = await stubborn(node.address)
            await until(node.node.core.router.subscribers)
            async with tidewire.connect(node.address) as wire:
                while node.engine.totals().dropped == 0:
                    await wire.publish({"n": 1, "text": "x" * 10_000})
                    await asyncio.sleep(0)
                look = await _command("top", "--at", node.address, "--once", "--every", "0.2")
                (slow,) = look["brokers"][0]["status"]["slow"]
                assert (slow["name"], slow["queued_bytes"] > 16 << 10) == ("stubborn", True)
                assert look["brokers"][0]["rates"]["over_s"] >= 0.2
                diagnosis = await _command("doctor", "--at", node.address)
                told_of = [one for one in diagnosis["findings"] if one["check"] == "subscribers"]
                assert "'stubborn'" in told_of[0]["message"]
                assert diagnosis["problems"] == 0
                overlay = await _command("overlay", "--at", node.address, "--seconds", "0")
                assert overlay["brokers"][0]["status"]["slow_clients"] == 1
            connection.close()

    asyncio.run(play())


class Terminal:
    """A terminal of 80 by 24 with `tidewire top` in it."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        command = [sys.executable, "-m", "tidewire", "top", *arguments]
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""}
        environment = {name: value for name, value in environment.items() if value}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment)
        self._shown = b""

    def until(self, *words: str) -> None:
        """All these have been shown since the last time."""
        end = monotonic() + WAIT_S
        while not all(word.encode() in self._shown for word in words):
            assert monotonic() < end, self._shown.decode(errors="replace")[-3000:]
            if select([self._master], [], [], 0.1)[0]:
                self._shown += os.read(self._master, 65_536)
        self._shown = b""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def ended(self) -> tuple[int, bool]:
        """The exit code, and whether the terminal is as it was."""
        code = self.process.wait(WAIT_S)
        while select([self._master], [], [], 0.1)[0]:
            self._shown += os.read(self._master, 65_536)
        is_left = b"\x1b[?1049l" in self._shown and b"\x1b[?25h" in self._shown
        return code, is_left and termios.tcgetattr(self._slave) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)


def test_top_in_a_terminal(tmp_path: Path) -> None:
    """It draws, hears its keys, and leaves the terminal as it was: by q, and by a signal."""
    port = free_ports(3)
    with running("up", "--port", str(port), "--edges", "1", folder=tmp_path) as up:
        up.until(says("tidewire is up"))
        for how in ("q", "signal"):
            terminal = Terminal("--at", f"127.0.0.1:{port}", "--every", "0.3", folder=tmp_path)
            try:
                terminal.until("2 brokers", "edge1", "head", "no slow consumers", "neighbour up", "q end")
                terminal.press("s")
                terminal.until("sorted by events")
                terminal.press("h")
                terminal.until("choose a broker: slow consumers")
                terminal.press("h\x1b[B")
                terminal.until("\x1b[7medge1")
                if how == "q":
                    terminal.press("q")
                else:
                    terminal.process.send_signal(signal.SIGTERM)
                assert terminal.ended() == (0, True)
            finally:
                terminal.close()
        diagnosis = told("doctor", "--at", f"127.0.0.1:{port}", folder=tmp_path)
        assert diagnosis["problems"] == 0
        ports = [one["message"] for one in diagnosis["findings"] if one["check"] == "port"]
        assert [message.split(" is ")[1] for message in ports[:3]] == [
            "that of broker head",
            "that of broker edge1",
            "that of the coordinator",
        ]


def test_top_without_a_terminal_is_a_document_a_line(tmp_path: Path) -> None:
    port = free_ports(1)
    with running("broker", "--name", "lone", "--listen", f"127.0.0.1:{port}", folder=tmp_path) as node:
        node.until(says("broker"))
        with running("top", "--at", f"127.0.0.1:{port}", "--every", "0.2", folder=tmp_path) as top:
            for _ in range(2):
                look = top.until(lambda one: "brokers" in one)
                assert look["brokers"][0]["status"]["broker"] == "lone"
                assert look["brokers"][0]["rates"]["over_s"] >= 0.2
            assert top.end() == 130
        shown = subprocess.run(
            [sys.executable, "-m", "tidewire", "overlay", "--at", f"127.0.0.1:{port}", "--seconds", "0"],
            capture_output=True,
            text=True,
            check=True,
            timeout=WAIT_S,
        )
        assert "lone" in shown.stdout
        assert node.end() == 0


def test_a_drain_that_takes_too_long_says_who_is_left() -> None:
    """What waits for a client goes first: one that does not read cannot go."""

    async def run() -> None:
        settings = {"queue_bytes_max": 64 << 10, "role": "both"}
        async with brokers(settings, {"role": "both", "neighbours": [0]}) as (node, _):
            connection = await stubborn(node.address)
            await until(node.node.core.router.subscribers)
            async with tidewire.connect(node.address) as wire:
                while node.engine.totals().dropped == 0:
                    await wire.publish({"n": 1}, body=BODY)
                    await asyncio.sleep(0)
                with pytest.raises(Unavailable, match=r"within 0\.5 s: . of its clients .*: stubborn \(0\.\d MB\)$"):
                    await drain_broker(node.address, seconds=0.5)
            connection.close()
            await drain_broker(node.address, seconds=20)

    asyncio.run(run())


def test_a_broker_is_drained_by_the_name_that_another_one_knows() -> None:
    async def play() -> None:
        async with brokers(*HEAD_AND_TWO_EDGES) as (head, edge, _):
            async with tidewire.connect(edge.address) as wire:
                await wire.subscribe("n >= 0")
                assert await _command("drain", "B1", "--at", head.address) == {"drained": "B1"}
                assert wire.subscribed_at == "B2"
            unknown = await _command("drain", "B7", "--at", head.address, code=2)
            assert "no broker named 'B7'; known: B0, B1, B2" in unknown["error"]["message"]

    asyncio.run(play())


def test_a_drain_of_nobody_says_no_more_than_that() -> None:
    async def run() -> None:
        with pytest.raises(Unavailable, match=r"^127\.0\.0\.1:1: Connection refused$"):
            await drain_broker("127.0.0.1:1", seconds=5)

    asyncio.run(run())


def test_a_node_that_resets_the_connection_is_unavailable() -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(Unavailable, match="ended the connection without an answer"):
                await status_of(f"127.0.0.1:{port}")

    asyncio.run(run())
