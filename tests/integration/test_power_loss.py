"""The power fails while a real broker takes guaranteed events: what has a receipt is on the disk, once.

The broker runs with a library that follows what it writes and what it syncs (``power.cpp``). At random moments it is
stopped, and a copy is made of what would be left: all that was synced, and of the pages that were only written, some.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import BinaryIO, Final

import pytest

import tidewire
from tests.integration.network import brokers
from tests.integration.test_commands import free_ports
from tidewire._kernel.codec import decode
from tidewire.live.store import open_log
from tidewire.model.ids import BrokerId

SOURCE: Final = Path(__file__).with_name("power.cpp")
NAME: Final = BrokerId("B0")
PAGE: Final = 4096
COPIES: Final = 8
WINDOW: Final = 32
"""Events on their way at a time, of each publisher."""

PUBLISHERS: Final = 3


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built as the kernel was."""
    built = tmp_path_factory.mktemp("power") / "power.so"
    compiler = shutil.which("c++")
    assert compiler is not None
    subprocess.run([compiler, "-std=c++20", "-shared", "-fPIC", str(SOURCE), "-o", str(built)], check=True)
    return built


class Machine:
    """A broker in a process of its own, and the disk below it."""

    def __init__(self, folder: Path, library: Path, *, lies: bool) -> None:
        self.store, self.disk = folder / "store", folder / "disk"
        for kind in ("synced", "written"):
            (self.disk / kind).mkdir(parents=True)
        self.address = f"127.0.0.1:{free_ports(1)}"
        settings = folder / "broker.toml"
        settings.write_text(f'broker = "{NAME}"\naddress = "{self.address}"\nrole = "both"\nstore = "{self.store}"\n')
        watched = {"POWER_FOLDER": str(self.store), "POWER_DISK": str(self.disk), "LD_PRELOAD": str(library)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidewire", "broker", "--config", str(settings)],
            env=os.environ | watched | ({"POWER_LIES": "yes"} if lies else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def fail(self) -> None:
        """No sync succeeds any more."""
        (self.disk / "synced" / "failing").touch()

    def ended(self) -> tuple[int, str]:
        """It ends by itself: its exit code, and what it said."""
        said, _ = self._process.communicate(timeout=20)
        return self._process.returncode, said

    def lose_power(self, to: Path, chance: Random) -> None:
        """What would be left. Meanwhile the machine stands still."""
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)
        try:
            self._copy(to, chance)
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def _copy(self, to: Path, chance: Random) -> None:
        to.mkdir()
        share = chance.choice((0.0, 0.0, 0.5, 1.0))
        for kept in self.disk.iterdir():
            here = self.store / kept.name
            if not kept.is_file() or not here.exists():
                continue
            written = self.disk / "written" / str(here.stat().st_ino)
            with kept.open("rb") as synced, written.open("rb") as latest, (to / kept.name).open("wb") as left:
                left.truncate(kept.stat().st_size)
                for at in _data(latest):
                    left.seek(at)
                    source = latest if chance.random() < share else synced
                    left.write(os.pread(source.fileno(), PAGE, at))

    def end(self) -> None:
        """No more."""
        self._process.kill()
        self._process.communicate()


def _data(file: BinaryIO) -> Iterator[int]:
    """Where its pages begin, but for those that nothing was ever written to."""
    end = 0
    while True:
        try:
            first = os.lseek(file.fileno(), end, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(file.fileno(), first, os.SEEK_HOLE)
        yield from range(first // PAGE * PAGE, end, PAGE)


def found_in(folder: Path, *, is_whole: bool = True) -> Counter[int]:
    """The numbers of the events in a log, each as often as it is there; by pubend they are in order, none is lost.

    A log that lacks files because its disk has lied may say so.
    """
    log, notes = open_log(folder)
    found: Counter[int] = Counter()
    for pubend in log.pubends():
        records, lost, _ = log.read(pubend, log.released_tick(pubend), 1 << 62, 1 << 40)
        assert lost == [] or not is_whole
        ticks = [record[1] for record in records]
        assert ticks == sorted(set(ticks))
        found.update(int(str(decode(record[6])["n"])) for record in records)
    log.close()
    assert not [note for note in notes if note.what == "log damaged"] or not is_whole
    return found


async def under_load(machine: Machine, folder: Path, chance: Random) -> list[set[int]]:
    """Publish, and let the power fail again and again; which numbers had a receipt each time?"""
    receipted: set[int] = set()
    moments: list[set[int]] = []
    is_over = False

    async def publisher(first: int) -> None:
        async with tidewire.connect(machine.address, guaranteed=True, timeout=30) as wire:
            room = asyncio.Semaphore(WINDOW)

            async def one(n: int) -> None:
                async with room:
                    await wire.publish({"n": n, "text": "x" * Random(n).choice((0, 100, 3000))})
                    receipted.add(n)

            async with asyncio.TaskGroup() as tasks:
                n = first
                while not is_over:
                    for _ in range(WINDOW):
                        tasks.create_task(one(n))
                        n += PUBLISHERS
                    await asyncio.sleep(0.002)

    async with asyncio.TaskGroup() as tasks:
        for first in range(PUBLISHERS):
            tasks.create_task(publisher(first))
        while len(receipted) < 20:
            await asyncio.sleep(0.01)
        for i in range(COPIES):
            await asyncio.sleep(chance.random() * 0.2)
            moments.append(set(receipted))
            machine.lose_power(folder / str(i), chance)
        is_over = True
    return moments


def test_what_has_a_receipt_survives_the_loss_of_power(tmp_path: Path, library: Path) -> None:
    machine = Machine(tmp_path, library, lies=False)
    try:
        moments = asyncio.run(under_load(machine, tmp_path, Random(7)))
    finally:
        machine.end()
    for i, receipted in enumerate(moments):
        found = found_in(tmp_path / str(i))
        assert sorted(receipted - set(found)) == [], f"lost in copy {i}, of {len(receipted)}"
        assert [n for n, times in found.items() if times > 1] == [], f"twice in copy {i}"
    assert len(moments[-1]) > 100
    asyncio.run(_comes_once(tmp_path / str(COPIES - 1), moments[-1]))


async def _comes_once(folder: Path, receipted: set[int]) -> None:
    """And a broker that goes on with what is left tells all of it, to whoever wants it from the beginning."""
    async with brokers({"role": "both", "store": str(folder)}) as (node,), tidewire.connect(node.address) as wire:
        subscription = await wire.subscribe("n >= 0", durable="x", since="earliest")
        got: list[int] = []
        while not receipted.issubset(got):
            got.append(int(str((await subscription.get(20))["n"])))
        assert len(got) == len(set(got))


def test_a_disk_that_lies_is_found_out(tmp_path: Path, library: Path) -> None:
    """It says that all is synced, and nothing is: so the test above can fail."""
    machine = Machine(tmp_path, library, lies=True)
    try:
        moments = asyncio.run(under_load(machine, tmp_path, Random(7)))
    finally:
        machine.end()
    found = [found_in(tmp_path / str(i), is_whole=False) for i in range(len(moments))]
    assert any(not receipted.issubset(there) for receipted, there in zip(moments, found, strict=True))


def test_a_disk_that_fails_ends_the_broker_and_loses_nothing(tmp_path: Path, library: Path) -> None:
    """Nobody gets a receipt for what it could not keep; it says why it ends, and what had a receipt is there."""
    machine = Machine(tmp_path, library, lies=False)
    receipted: list[int] = []

    async def publish() -> None:
        async with tidewire.connect(machine.address, guaranteed=True, timeout=5) as wire:
            for n in range(10_000):
                await wire.publish({"n": n})
                receipted.append(n)
                if n == 50:
                    machine.fail()

    try:
        with pytest.raises(tidewire.TidewireError):
            asyncio.run(publish())
        code, said = machine.ended()
    finally:
        machine.end()
    assert code != 0
    assert "Traceback" not in said
    assert "has failed" in said
    assert receipted == list(range(51))
    assert set(found_in(machine.store)).issuperset(receipted)
