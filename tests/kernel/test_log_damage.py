"""Bytes that are not what was written are found, told, and cost no more than they must."""

from __future__ import annotations

import errno
import random
import time

import pytest

from tidewire._kernel._native import Log, MemoryFiles, crc32c
from tidewire.model.errors import StoreDamaged, StoreFailed, StoreFull, StoreLocked, StoreTooNew, UsageError

PUBEND = 9
FOREVER = 2**63
SEGMENT_BYTES = 16384


def opened(files: MemoryFiles, **options: int) -> Log:
    """A log with small segments."""
    return Log(
        files, **{"log_id": 77, "segment_bytes": SEGMENT_BYTES, "group_bytes": 2048, "cache_bytes": 0, **options}
    )


def publish(log: Log, ticks: range, *, pubend: int = PUBEND, publisher: int = 1) -> None:
    """One event for each tick, each in a group of its own."""
    for tick in ticks:
        assert log.append(pubend, tick, publisher, tick, 0, 0, f"event {tick} ".encode() * 10)
        assert log.commit()


def ticks_of(log: Log, *, pubend: int = PUBEND) -> tuple[list[int], list[tuple[int, int]]]:
    """All that can be read, and all that is lost."""
    records, lost, following = log.read(pubend, 1, FOREVER, 1 << 30)
    assert following == log.durable_tick(pubend) + 1
    return [record[1] for record in records], lost


def place_of(files: MemoryFiles, text: bytes) -> tuple[str, int]:
    """In which file, and where, this stands."""
    for name, _ in files.list():
        if name.endswith(".log") and (at := files.content(name).find(text)) >= 0:
            return name, at
    raise AssertionError(text)


def spoil(files: MemoryFiles, text: bytes) -> tuple[str, int]:
    """One bit of it changes on the disk."""
    name, at = place_of(files, text)
    files.damage(name, at, bytes([text[0] ^ 1]))
    return name, at


def test_a_damaged_event_is_isolated_and_told() -> None:
    """The rest is read; the ticks between its neighbours are lost, never silence."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(10, 200, 10))
    del log
    name, at = spoil(files, b"event 70 ")
    log = opened(files)
    (found,) = log.report[5]
    assert found[0] == name
    assert found[1] <= at < found[1] + found[2]
    assert found[3] == [(PUBEND, 61, 79)]
    ticks, lost = ticks_of(log)
    assert ticks == [tick for tick in range(10, 200, 10) if tick != 70]
    assert lost == [(61, 80)]
    assert [entry[3] for entry in log.check()] == [[(PUBEND, 61, 79)]]


def test_damage_that_comes_while_the_log_is_open_is_found_by_the_reader() -> None:
    """Also in a part of the range, and one event at a time."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 20))
    spoil(files, b"event 7 ")
    assert ticks_of(log)[1] == [(7, 8)]
    assert log.read(PUBEND, 3, 7)[1] == []
    assert log.read(PUBEND, 7, 9)[1:] == ([(7, 8)], 9)
    assert log.read(PUBEND, 8, 12)[1] == []
    at, seen, lost = 1, [], []
    while at <= 19:
        records, gone, at = log.read(PUBEND, at, FOREVER, 1)
        seen += [record[1] for record in records]
        lost += gone
    assert seen == [*range(1, 7), *range(8, 20)]
    assert lost == [(7, 8)]


def test_a_read_that_fails_is_no_silence() -> None:
    """What the disk does not give is lost, for now."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 20))
    files.fail("read", errno.EIO)
    assert log.read(PUBEND, 1, FOREVER)[0:2] == ([], [(1, 20)])
    files.fail("read", 0)
    assert ticks_of(log) == (list(range(1, 20)), [])


def test_the_head_of_a_group_is_damaged() -> None:
    """What the group held is found all the same."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 20))
    name, at = place_of(files, b"event 7 ")
    head = at - 56 - 64  # the group's, ahead of the record's
    del log
    files.damage(name, head + 20, b"\xff")
    log = opened(files)
    assert [entry[:3] for entry in log.report[5]] == [(name, head, 64)]
    assert ticks_of(log) == (list(range(1, 20)), [])


def test_the_last_group_is_cut_only_if_nothing_proves_it() -> None:
    """After an end without a word nobody knows; after ``close`` it is damage."""
    for is_closed in (False, True):
        files = MemoryFiles()
        log = opened(files)
        publish(log, range(1, 6))
        if is_closed:
            log.close()
        del log
        spoil(files, b"event 5 ")
        log = opened(files)
        assert bool(log.report[5]) is is_closed
        assert bool(log.report[3]) is not is_closed
        assert log.read(PUBEND, 1, FOREVER)[0][-1][1] == 4
        publish(log, range(log.last_tick(PUBEND) + 1, log.last_tick(PUBEND) + 4))
        assert ticks_of(opened_again(files, log))[0][-3:] == ticks_of_last(is_closed)


def ticks_of_last(is_closed: bool) -> list[int]:
    """Tick 5 is given again only if it was never durable."""
    return [6, 7, 8] if is_closed else [5, 6, 7]


def opened_again(files: MemoryFiles, log: Log) -> Log:
    """The same files, after a process has ended."""
    log.close()
    return opened(files)


@pytest.mark.parametrize("with_index", [True, False])
def test_damage_in_a_segment_that_is_closed(with_index: bool) -> None:
    """Whether the index is there or made anew."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 400))
    assert len(log.segments()) > 3
    log.close()
    name, _ = spoil(files, b"event 7 ")
    assert name == "0000000000000001.log"
    if not with_index:
        files.damage("0000000000000001.idx", 100, b"\xff\xff\xff")
    log = opened(files)
    assert bool(log.report[5]) is not with_index
    ticks, lost = ticks_of(log)
    assert ticks == [tick for tick in range(1, 400) if tick != 7]
    assert lost == [(7, 8)]
    assert [entry[0] for entry in log.check()] == [name]


def test_a_damaged_snapshot_is_made_good_by_what_was_before() -> None:
    """The state is read from an older segment."""
    files = MemoryFiles()
    log = opened(files)
    log.put(b"key", b"value")
    publish(log, range(1, 200))
    newest = f"{log.segments()[-1][0]:016x}.log"
    assert log.segments()[-1][0] > 1
    log.close()
    files.damage(newest, 64 + 64 + 10, b"\xff\xff")
    log = opened(files)
    assert [entry[0] for entry in log.report[5]] == [newest]
    assert log.get(b"key") == b"value"
    assert log.last_sequence(PUBEND, 1) == 199
    assert ticks_of(log)[0] == list(range(1, 200))


def test_a_segment_that_is_missing_is_lost_not_silent() -> None:
    """Nobody released it."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 400))
    second = log.segments()[1]
    (_, first, last) = second[2][0]
    log.close()
    copy = without(files, "0000000000000002.log")
    log = opened(copy)
    assert [entry[0] for entry in log.report[5]] == ["0000000000000002.log"]
    assert log.report[5][0][3] == [(PUBEND, first, last)]
    ticks, lost = ticks_of(log)
    assert ticks == [tick for tick in range(1, 400) if not first <= tick <= last]
    assert lost == [(first, last + 1)]


def test_what_a_file_held_before_is_never_taken_for_new() -> None:
    """A record of another segment is none here, though its crc was right there."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(100, 300))
    log.close()
    old, at_old = place_of(files, b"event 105 ")
    new, at_new = place_of(files, b"event 250 ")
    assert old != new
    files.damage(new, at_new - 56, files.content(old)[at_old - 56 : at_old + 100])
    log = opened(files)
    ticks, lost = ticks_of(log)
    assert ticks == [tick for tick in range(100, 300) if tick != 250]
    assert lost == [(250, 251)]


def test_a_segment_in_the_middle_goes_when_the_disk_knows_why() -> None:
    """Else it would be missed after a crash."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 2), pubend=7)
    publish(log, range(1, 400))
    before = log.segments()
    log.release(PUBEND, 390)
    assert log.segments() == before
    files.crash(1)
    log = opened(files)
    assert not log.report[5]
    assert log.segments() == before
    log.release(PUBEND, 390)
    assert log.commit()
    log.take()
    assert [number for number, _, _ in log.segments()] == [1, before[-1][0]]
    files.crash(2)
    log = opened(files)
    assert not log.report[5]
    assert ticks_of(log, pubend=7) == ([1], [])
    assert ticks_of(log) == (list(range(390, 400)), [(1, 390)])


def without(files: MemoryFiles, missing: str) -> MemoryFiles:
    """A copy of all files but one."""
    copy = MemoryFiles()
    for name, size in files.list():
        if name != missing:
            copy.add(name, files.content(name))
            assert dict(copy.list())[name] == size
    return copy


def test_every_byte_may_be_damaged() -> None:
    """Wherever it is: the log opens or says that it cannot, and what it gives is what was written."""
    files = MemoryFiles()
    log = opened(files, segment_bytes=4096)
    publish(log, range(10, 300, 10))
    log.put(b"key", b"value")
    log.close()
    chance = random.Random(5)
    whole = dict(zip(range(10, 300, 10), range(29), strict=True))
    for _ in range(300):
        copy = without(files, "")
        name, size = chance.choice(copy.list())
        copy.damage(name, chance.randrange(size - 8), chance.randbytes(8))
        log = opened(copy, segment_bytes=4096)
        ticks, lost = ticks_of(log)
        assert set(ticks) <= set(whole)
        for tick in whole:
            is_lost = any(first <= tick < end for first, end in lost)
            assert (tick in ticks) != is_lost, (name, tick)


def test_nothing_of_a_torn_end_comes_back() -> None:
    """What lies behind the end since a crash is never taken for a part of the next life."""
    for seed in range(200):
        files = MemoryFiles()
        log = opened(files)
        publish(log, range(1, 4))
        for tick in range(4, 12):
            log.append(PUBEND, tick, 1, tick, 0, 0, b"old" * 20)
            log.seal()
        log.write()
        files.crash(seed)
        log = opened(files)
        kept = log.last_tick(PUBEND)
        publish(log, range(kept + 1, kept + 2))
        files.crash(seed + 1)
        log = opened(files)
        assert log.last_tick(PUBEND) == kept + 1
        assert ticks_of(log) == (list(range(1, kept + 2)), [])
        assert log.report[3] == 0


def test_a_full_disk_refuses_and_resumes() -> None:
    """Nothing is half there, what is durable can be read, and releasing makes room."""
    files = MemoryFiles()
    log = opened(files)
    files.set_capacity(3 * SEGMENT_BYTES + 4096)
    tick = 0
    while log.append(PUBEND, tick + 1, 1, tick + 1, 0, 0, b"x" * 100):
        tick += 1
        assert log.commit()
    assert (log.trouble, log.last_tick(PUBEND)) == ("full", tick)
    assert "No space left" in log.trouble_text
    assert log.last_sequence(PUBEND, 1) == tick
    assert ticks_of(log)[0] == list(range(1, tick + 1))
    assert log.put(b"still", b"written")  # what is small has a reserve
    log.release(PUBEND, tick // 2)
    assert log.commit()
    log.take()
    assert log.append(PUBEND, tick + 1, 1, tick + 1, 0, 0, b"x" * 100)
    assert log.commit()
    assert log.trouble == "none"
    files.crash(1)
    assert opened(files).last_tick(PUBEND) == tick + 1


def test_a_full_disk_is_full_until_there_is_room_for_a_segment() -> None:
    """At the edge it does not come and go: what is small finds no room either, and what is synced changes nothing."""
    files = MemoryFiles()
    log = opened(files)
    files.set_capacity(SEGMENT_BYTES + 4096)
    tick = 0
    while log.append(PUBEND, tick + 1, 1, tick + 1, 0, 0, b"x" * 2000):
        tick += 1
        assert log.commit()
    for key in (b"one", b"two"):
        assert log.trouble == "full"
        assert log.append(PUBEND, tick + 1, 1, tick + 1, 0, 0, b"x") == 0
        assert log.put(key, b"what is small has a reserve")
        assert log.commit()
    assert log.trouble == "full"
    files.set_capacity(3 * SEGMENT_BYTES)
    assert log.commit()
    assert log.append(PUBEND, tick + 1, 1, tick + 1, 0, 0, b"x")
    assert log.commit()
    assert log.trouble == "none"


def test_while_the_segment_has_room_events_are_taken_though_the_next_one_cannot_be_made() -> None:
    """That it will end is known before."""
    files = MemoryFiles()
    log = opened(files)
    files.set_capacity(SEGMENT_BYTES + 4096)
    log.start()
    deadline = time.monotonic() + 60
    while not log.trouble_text:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (log.trouble, "No space left" in log.trouble_text) == ("none", True)
    publish(log, range(1, 4))
    assert (log.trouble, "No space left" in log.trouble_text) == ("none", True)
    files.set_capacity(3 * SEGMENT_BYTES)
    while log.trouble_text:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    log.close()


def test_a_disk_that_is_full_when_it_is_written_to() -> None:
    """The group waits, whole, until there is room."""
    files = MemoryFiles()
    log = opened(files)
    log.append(PUBEND, 1, 0, 0, 0, 0, b"x")
    files.fail("write", errno.ENOSPC)
    assert not log.commit()
    assert (log.trouble, log.durable_tick(PUBEND), log.take()) == ("full", 0, [])
    files.fail("write", 0)
    assert log.commit()
    assert (log.trouble, log.durable_tick(PUBEND)) == ("none", 1)


@pytest.mark.parametrize("kind", ["sync", "write"])
def test_after_a_failure_nothing_is_acknowledged_any_more(kind: str) -> None:
    """Also if the disk says later that all is well: the pages may be gone."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 4))
    log.take()
    log.append(PUBEND, 4, 1, 4, 0, 0, b"x")
    files.fail(kind, errno.EIO)
    with pytest.raises(StoreFailed, match="Input/output error"):
        log.commit()
    files.fail(kind, 0)
    for call in (log.commit, log.sync, log.submit, log.seal):
        with pytest.raises(StoreFailed):
            call()
    with pytest.raises(StoreFailed):
        log.append(PUBEND, 5, 1, 5, 0, 0, b"x")
    assert (log.trouble, log.take(), log.durable_tick(PUBEND)) == ("failed", [], 3)
    assert [record[1] for record in log.read(PUBEND, 1, 100)[0]] == [1, 2, 3]


def test_what_a_failed_sync_left_in_memory_is_written_again() -> None:
    """The next process finds the group in the page cache; only when it is on the disk does it count."""
    files = MemoryFiles()
    log = opened(files)
    log.append(PUBEND, 1, 1, 1, 0, 0, b"x")
    log.seal()
    log.write()
    del log
    before = files.writes
    log = opened(files)
    assert log.durable_tick(PUBEND) == 1
    assert files.writes - before == 2  # the group, and the mark of the new life
    files.crash(3)
    assert opened(files).durable_tick(PUBEND) == 1


def test_one_event_in_flight_is_one_write_and_one_sync() -> None:
    """And an idle log does nothing."""
    files = MemoryFiles()
    log = opened(files)
    writes, syncs = files.writes, files.syncs
    for tick in range(1, 20):
        log.append(PUBEND, tick, 1, tick, 0, 0, b"x" * 100)
        assert log.submit()
        assert (files.writes, files.syncs) == (writes + tick, syncs + tick)
    assert log.submit()
    assert log.commit()
    assert (files.writes, files.syncs) == (writes + 19, syncs + 19)


def test_a_second_owner_is_refused() -> None:
    """Until the first has let go."""
    files = MemoryFiles()
    log = opened(files)
    with pytest.raises(StoreLocked):
        opened(files)
    log.close()
    opened(files)


def test_a_newer_format_is_refused() -> None:
    """With what to do about it. A head that only looks newer, because it is damaged, is no reason."""
    files = MemoryFiles()
    opened(files).close()
    head = bytearray(files.content("0000000000000001.log")[:64])
    head[8] = 3
    files.damage("0000000000000001.log", 8, b"\x03")
    assert [entry[:3] for entry in opened(files).report[5]] == [("0000000000000001.log", 0, 64)]
    head[12:16] = crc32c(bytes(head[16:]), crc32c(bytes(head[:12]))).to_bytes(4, "little")
    files.damage("0000000000000001.log", 0, bytes(head))
    with pytest.raises(StoreTooNew, match="version 3"):
        opened(files)


def test_a_log_without_a_readable_group_is_not_begun_anew() -> None:
    """Emptying the folder is for people to decide."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 5))
    log.close()
    files.damage("0000000000000001.log", 0, b"\x01" * 2000)
    with pytest.raises(StoreDamaged):
        opened(files)


def test_a_log_that_was_about_to_be_made_is_made() -> None:
    """The power went before anything was in it."""
    files = MemoryFiles()
    files.fail("write", errno.EIO)
    with pytest.raises(StoreFailed):
        opened(files)
    files.fail("write", 0)
    log = opened(files)
    assert log.report[0]
    publish(log, range(1, 3))


def test_no_room_to_begin_with() -> None:
    """Said at once."""
    files = MemoryFiles()
    files.set_capacity(1000)
    with pytest.raises(StoreFull):
        opened(files)


def test_ticks_and_sequences_ascend() -> None:
    """Anything else is a mistake of the caller."""
    log = opened(MemoryFiles())
    log.append(PUBEND, 5, 1, 5, 0, 0, b"")
    for tick, sequence in [(5, 6), (4, 6), (6, 5), (6, 4)]:
        with pytest.raises(UsageError):
            log.append(PUBEND, tick, 1, sequence, 0, 0, b"")
    assert log.append(PUBEND, 6, 2, 1, 0, 0, b"")
