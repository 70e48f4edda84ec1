"""Scenes of broker processes: a shaped link carries what it should, can be cut, and what is seen is what happens."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tidewire.benchmarks.processes import process_tree
from tidewire.cli.app import app
from tidewire.papers.gryphon.measure import delivered_s, is_recovered, within
from tidewire.papers.gryphon.scene import Scene
from tidewire.papers.gryphon.topologies import CONTROLLED, simple
from tidewire.papers.report import Options
from tidewire.papers.shaping import BUFFER_BYTES, ShapedLink

SIZE = 200_000
BYTES_S = 400_000


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_a_shaped_link_carries_so_much_and_no_more() -> None:
    """What goes through arrives whole, as fast as the link is; at once when it is not shaped."""

    async def run() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        link = ShapedLink(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        link.open()
        took = []
        for bytes_s in (None, BYTES_S):
            link.shape(bytes_s)
            host, port = link.address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            start = time.monotonic()
            writer.write(bytes(SIZE))
            assert len(await reader.readexactly(SIZE)) == SIZE
            took.append(time.monotonic() - start)
            writer.close()
        assert took[0] < took[1]
        assert took[1] >= SIZE / BYTES_S
        await link.end()
        server.close()

    asyncio.run(run())


def test_a_shaped_link_carries_all_that_it_may() -> None:
    """Timers are late, and there are many waits: what they lose is made up for."""
    end_s = time.monotonic() + 60
    while (share := asyncio.run(_carried_share())) < 0.97 and time.monotonic() < end_s:
        pass  # the machine was busy with something else for so long that it is no lateness of timers any more
    assert 0.97 <= share <= 1.03


async def _carried_share() -> float:
    """Of what a link may carry, how much of it comes through?"""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    link = ShapedLink(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    link.open()
    link.shape(BYTES_S)
    host, port = link.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(bytes(2 * SIZE))
    await reader.readexactly(SIZE // 4)
    start = time.monotonic()
    await reader.readexactly(SIZE)
    took_s = time.monotonic() - start
    writer.close()
    await link.end()
    server.close()
    return SIZE / BYTES_S / took_s


def test_a_link_that_is_cut_ends_its_connections_and_comes_back_at_the_same_place() -> None:
    async def run() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        link = ShapedLink(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        link.open()
        host, port = link.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"a")
        assert await reader.read(1) == b"a"
        await link.cut()
        assert await reader.read(1) == b""
        writer.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(host, int(port))
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
        link.open()
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"b")
        assert await reader.read(1) == b"b"
        writer.close()
        await link.end()
        server.close()

    asyncio.run(run())


def test_little_waits_in_the_sockets_of_a_narrow_link() -> None:
    """Else a broker would not notice for a long time that its link is narrow, and could not choose what goes first."""

    async def run() -> None:
        silent = socket.create_server(("127.0.0.1", 0))
        link = ShapedLink(f"127.0.0.1:{silent.getsockname()[1]}")
        link.shape(1)
        link.open()
        host, port = link.address.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        sent, is_full = 0, False
        sock = writer.get_extra_info("socket").dup()
        sock.setblocking(False)
        for _ in range(200):
            try:
                sent += sock.send(bytes(4096))
            except BlockingIOError:
                is_full = True
                await asyncio.sleep(0.01)
        assert is_full
        assert sent < 16 * BUFFER_BYTES
        sock.close()
        writer.close()
        await link.end()
        silent.close()

    asyncio.run(run())


def delivery_s(scene: Scene, edge: str, *, over_s: int, until: Callable[[float], bool]) -> float:
    """Events a second to an edge, when they are so many, or when a minute is over: a busy machine takes its time."""
    end_s = time.monotonic() + 60
    while True:
        begin = len(scene.moments)
        scene.run(over_s)
        found = delivered_s(scene.moments[max(0, begin - 1) :], edge)
        if until(found) or time.monotonic() > end_s:
            return found


@pytest.mark.slow
def test_a_live_scene_is_slowed_by_a_narrow_link_and_recovers_from_a_failed_one() -> None:
    """gryphon E1 and E2 in little: four processes, a quarter of the rates."""
    options = Options(is_quick=True, is_live=True)
    with simple(msgspec.structs.replace(CONTROLLED, rate_policy="pdcc-direct"), options) as scene:
        flow = pytest.approx(scene.msgs_s, rel=0.2)
        assert delivery_s(scene, "SB2", over_s=2, until=lambda msgs_s: msgs_s == flow) == flow
        scene.shape("IB", "SB1", 60)
        scene.run(6)
        carried = scene.capacity_msgs_s(60)
        found = delivery_s(scene, "SB1", over_s=6, until=lambda msgs_s: msgs_s > 0.3 * carried)
        assert 0.3 * carried < found <= 1.1 * carried
        assert sum(scene.moments[-1].alerts) > 0
        assert any(limit is not None for limit in scene.moments[-1].limits)
        scene.cut("IB", "SB2")
        scene.run(1)
        away_s = scene.moments[-1].at_s
        scene.run(2)
        assert delivered_s(within(scene.moments, away_s, away_s + 2), "SB2") == 0
        scene.mend("IB", "SB2")
        assert scene.run(30, until=is_recovered("SB2"))
        scene.run(1)
        assert scene.moments[-1].delivered["SB2"] >= 0.9 * scene.moments[-1].published - scene.msgs_s
        assert scene.disorders() == 0


def test_what_has_no_live_form_says_so() -> None:
    told = CliRunner().invoke(app, ["paper", "run", "gryphon/C3", "--live"])
    assert told.exit_code == 2
    assert "simulator only" in told.stderr


@pytest.mark.slow
def test_who_ends_an_experiment_ends_its_brokers_too() -> None:
    command = [sys.executable, "-m", "tidewire", "paper", "run", "gryphon/E2", "--live", "--quick"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end_s = time.monotonic() + 60
        while len(family := process_tree(process.pid)) < 5 and time.monotonic() < end_s:
            time.sleep(0.05)
        assert len(family) == 5  # itself and four brokers
        process.terminate()
        assert process.wait(timeout=60) == 143
    assert not any(Path(f"/proc/{pid}").exists() for pid in family)
