"""The log in a folder of the machine, with its threads: what is durable outlives the process and the power."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidewire._kernel._native import Log, PosixFiles, join_events
from tidewire.model.errors import StoreFailed, StoreLocked

PUBEND = 3
FOREVER = 2**63
SMALL = {"segment_bytes": 1 << 16, "group_bytes": 4096, "log_id": 5}


def opened(folder: Path, **options: int) -> Log:
    """A log with small segments in a folder."""
    return Log(PosixFiles(str(folder)), **{**SMALL, **options})


def ticks_of(log: Log, pubend: int = PUBEND) -> list[int]:
    """Everything that can be read; nothing is lost."""
    records, lost, _ = log.read(pubend, log.released_tick(pubend), FOREVER, 1 << 30)
    assert not lost
    return [record[1] for record in records]


def wait(log: Log, event: int, *, until_tick: int) -> list[int]:
    """What the thread tells until this tick is durable."""
    ticks: list[int] = []
    while log.durable_tick(PUBEND) < until_tick:
        assert select.select([event], [], [], 60)[0], "the thread is silent"
        ticks += [record[1] for _, records in log.take() for record in records]
    return ticks + [record[1] for _, records in log.take() for record in records]


def test_it_is_there_again(tmp_path: Path) -> None:
    """Events, keys, publishers; read from memory and from the files."""
    for cache_bytes in (0, 1 << 20):
        folder = tmp_path / str(cache_bytes)
        log = opened(folder, cache_bytes=cache_bytes)
        log.put(b"a", b"1")
        batch = join_events([b"%d" % i * 50 for i in range(1, 2001)])
        assert log.append_batch(PUBEND, 1, 8, 1, 0, 0, batch) == 2000
        assert log.commit()
        assert ticks_of(log) == list(range(1, 2001))
        events, lost, following = log.read_batch(PUBEND, 1, FOREVER, 1 << 30)
        assert (events, lost, following) == (batch, [], 2001)
        log.close()
        log = opened(folder, cache_bytes=cache_bytes)
        assert log.report[3:] == (0, "", [])
        assert ticks_of(log) == list(range(1, 2001))
        assert log.read_batch(PUBEND, 1, FOREVER, 1 << 30)[0] == batch
        assert (log.get(b"a"), log.last_sequence(PUBEND, 8), log.tick_of(PUBEND, 8, 1999)) == (b"1", 2000, 1999)
        assert log.first_tick(PUBEND) == 1


def test_segments_go_when_everything_in_them_is_released(tmp_path: Path) -> None:
    """By two pubends; one that needs an old segment holds that one, and no other."""
    log = opened(tmp_path / "log")
    log.append(7, 1, 0, 0, 0, 0, b"kept")
    log.append_batch(PUBEND, 1, 0, 0, 0, 0, join_events([b"x" * 200] * 3000))
    assert log.commit()
    count = len(log.segments())
    assert count > 8
    log.release(PUBEND, 2900)
    log.commit()
    log.take()
    numbers = [number for number, _, _ in log.segments()]
    assert numbers[0] == 1
    assert len(numbers) == 2 or numbers[1] >= count - 1
    assert log.disk_bytes == sum(size for _, size, _ in log.segments())
    assert ticks_of(log, 7) == [1]
    assert (log.first_tick(PUBEND), log.first_tick(PUBEND, 2950), log.first_tick(PUBEND, 3001)) == (2900, 2950, 0)
    log.close()
    log = opened(tmp_path / "log")
    assert not log.report[5], "what was released is not missed"
    assert (ticks_of(log, 7), ticks_of(log)) == ([1], list(range(2900, 3001)))
    assert log.read(PUBEND, 5, 2901)[1] == [(5, 2900)]
    log.forget(7)
    log.commit()
    log.take()
    assert log.segments()[0][0] >= count - 1
    left = {path.name for path in (tmp_path / "log").iterdir()} - {"lock"}
    assert left <= {f"{number:016x}.{kind}" for number, _, _ in log.segments() for kind in ("log", "idx")}


def test_threads_commit_in_order(tmp_path: Path) -> None:
    """Everything comes back once, in order, and segments are prepared ahead."""
    log = opened(tmp_path / "log", inline_events_max=0)
    event = log.start()
    tick, ticks = 0, []
    while tick < 20_000:
        taken = log.append_batch(PUBEND, tick + 1, 1, tick + 1, 0, 0, join_events([b"y" * 100] * 100))
        tick += taken
        log.submit()
        if not taken:
            assert log.trouble in {"preparing", "behind", "none"}
            assert select.select([event], [], [], 60)[0]
        ticks += [record[1] for _, records in log.take() for record in records]
    ticks += wait(log, event, until_tick=tick)
    assert ticks == list(range(1, tick + 1)) == ticks_of(log)
    log.close()
    assert ticks_of(opened(tmp_path / "log")) == ticks


def test_few_events_are_committed_where_they_are(tmp_path: Path) -> None:
    """The thread is for crowds."""
    log = opened(tmp_path / "log", inline_events_max=4)
    event = log.start()
    log.append(PUBEND, 1, 0, 0, 0, 0, b"one")
    assert log.submit()
    assert log.durable_tick(PUBEND) == 1
    log.append_batch(PUBEND, 2, 0, 0, 0, 0, join_events([b"z"] * 5))
    assert not log.submit()
    wait(log, event, until_tick=6)
    assert log.submit()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """And a second log of the same process."""
    log = opened(tmp_path / "log")
    with pytest.raises(StoreLocked, match="another process"):
        opened(tmp_path / "log")
    program = (
        "import sys\nfrom tidewire._kernel._native import Log, PosixFiles\n"
        "from tidewire.model.errors import StoreLocked\n"
        "try:\n    Log(PosixFiles(sys.argv[1]))\nexcept StoreLocked:\n    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "log")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "refused\n"
    log.close()
    opened(tmp_path / "log")


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    """The path is in the message."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match="file"):
        PosixFiles(str(tmp_path / "file"))


WRITER = """
import sys
from tidewire._kernel._native import Log, PosixFiles, join_events
log = Log(PosixFiles(sys.argv[1]), segment_bytes=1 << 16, group_bytes=4096)
event = log.start()
tick = log.last_tick(3)
while True:
    tick += log.append_batch(3, tick + 1, 1, tick + 1, 0, 0, join_events([b"%d " % (tick + 1) * 20] * 7))
    log.submit()
    for record in [record for _, records in log.take() for record in records[-1:]]:
        sys.stdout.write(f"{record[1]}\\n")
    sys.stdout.flush()
    log.release(3, max(0, tick - 3000))
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """What the process said was durable is there when it is started again, over and over."""
    folder = tmp_path / "log"
    chance = random.Random(1)
    last = 0
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randrange(1, 400)):
                last = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            said = writer.stdout.read().splitlines()
        last = max([last, *(int(line) for line in said[:-1])])
        log = opened(folder)
        assert not log.report[5]
        ticks = ticks_of(log)
        assert ticks[-1] >= last
        assert ticks == list(range(ticks[0], ticks[-1] + 1))
        assert ticks[0] <= max(1, last - 2000)
        assert log.last_sequence(PUBEND, 1) == ticks[-1]
        del log


def test_a_copy_without_the_end_that_was_not_synced(tmp_path: Path) -> None:
    """The power goes: of the folder remains what was synced, and by chance some pages more."""
    chance = random.Random(2)
    for turn in range(30):
        folder, copy = tmp_path / f"log{turn}", tmp_path / f"copy{turn}"
        log = opened(folder)
        log.append_batch(PUBEND, 1, 1, 1, 0, 0, join_events([b"s" * 300] * chance.randrange(1, 600)))
        assert log.commit()
        durable = log.durable_tick(PUBEND)
        shutil.copytree(folder, copy)
        log.append_batch(PUBEND, durable + 1, 1, durable + 1, 0, 0, join_events([b"u" * 300] * chance.randrange(1, 60)))
        log.seal()
        log.write()
        for file in sorted(folder.glob("*.log")):
            _keep_some_pages(file, copy / file.name, chance)
        again = opened(copy)
        assert not again.report[5]
        ticks = ticks_of(again)
        assert ticks == list(range(1, len(ticks) + 1))
        assert len(ticks) >= durable
        again.append(PUBEND, len(ticks) + 1, 1, len(ticks) + 1, 0, 0, b"goes on")
        assert again.commit()
        again.close()
        assert ticks_of(opened(copy)) == list(range(1, len(ticks) + 2))


def _keep_some_pages(new: Path, old: Path, chance: random.Random) -> None:
    """Each page that differs is the new one, or stays."""
    fresh = new.read_bytes()
    if not old.exists():  # a file that was made is there: making it syncs the folder
        old.write_bytes(fresh[:64] + bytes(len(fresh) - 64))
    with old.open("r+b") as file:
        for at in range(0, len(fresh), 4096):
            if chance.randrange(2):
                os.pwrite(file.fileno(), fresh[at : at + 4096], at)
