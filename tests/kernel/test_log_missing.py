"""Segments that are cut, removed or without a head: what was durable once and cannot be read is lost, never silence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernel.test_log_damage import FOREVER, PUBEND, opened, publish, ticks_of
from tidewire._kernel._native import Log, MemoryFiles, crc32c

NOW_MS = 5_000
NOW = NOW_MS << 20
"""When the log is opened again, as a tick."""

OTHER = 10
"""A pubend that is idle since the first segment."""


def written(*, last: int = 400) -> tuple[MemoryFiles, list[tuple[int, int]]]:
    """Several segments; the ticks of each, the last one's at the end."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 3), pubend=OTHER)
    publish(log, range(1, last))
    extents = [next((one[1:] for one in extents if one[0] == PUBEND), (0, 0)) for _, _, extents in log.segments()]
    assert len(extents) >= 5
    del log
    return files, extents


def name_of(number: int, ending: str = "log") -> str:
    """Of a file."""
    return f"{number:016x}.{ending}"


def copied(files: MemoryFiles, change: Callable[[str, bytes], bytes | None]) -> MemoryFiles:
    """Another disk with the same files, each as it is changed; None: it is not there."""
    copy = MemoryFiles()
    for name, _ in files.list():
        content = change(name, files.content(name))
        if content is not None:
            copy.add(name, content)
    return copy


def without(files: MemoryFiles, *names: str) -> MemoryFiles:
    """All but these."""
    return copied(files, lambda name, content: None if name in names else content)


def cut(files: MemoryFiles, name: str, size: int) -> MemoryFiles:
    """One of them is shorter."""
    return copied(files, lambda one, content: content[:size] if one == name else content)


def again(files: MemoryFiles) -> Log:
    """Later."""
    return opened(files, opened_ns=NOW_MS * 1_000_000)


def lasting(files: MemoryFiles, lost: list[tuple[int, int]]) -> None:
    """Readers are told this as lost, the log says so, and every later life does, which finds nothing new."""
    log = again(files)
    assert log.report[5]
    assert [(first, last + 1) for first, last, _ in log.losses(PUBEND)] == lost
    assert {found for _, _, found in log.losses(PUBEND)} == {NOW_MS * 1_000_000}
    assert ticks_of(log)[1] == lost
    end = log.last_tick(PUBEND)
    publish(log, range(end + 1, end + 3))
    for _ in range(2):
        del log
        log = opened(files, opened_ns=9 * NOW_MS * 1_000_000)
        assert [(first, last + 1) for first, last, _ in log.losses(PUBEND)] == lost
        ticks, said = ticks_of(log)
        assert (said, ticks[-2:]) == (lost, [end + 1, end + 2])


def test_the_segment_before_the_last_one_is_missing() -> None:
    """The last one is written to: its index is in memory, and says that something is missing ahead of it."""
    files, extents = written()
    first, last = extents[-2]
    lasting(without(files, name_of(len(extents) - 1)), [(first, last + 1)])


def test_two_segments_that_are_missing_are_one_loss() -> None:
    files, extents = written()
    lasting(without(files, name_of(2), name_of(3)), [(extents[1][0], extents[2][1] + 1)])


def test_the_first_segment_is_missing_and_nobody_released_it() -> None:
    files, extents = written()
    lasting(without(files, name_of(1)), [(1, extents[0][1] + 1)])


def test_the_first_segments_are_gone_because_they_were_released() -> None:
    files, extents = written()
    log = again(files)
    log.release(PUBEND, extents[1][1] + 1)
    log.release(OTHER, 3)
    log.commit()
    log.take()
    log.commit()
    del log
    assert name_of(1) not in dict(files.list())
    log = again(files)
    assert (log.report[5], log.losses(PUBEND)) == ([], [])


@pytest.mark.parametrize("evidence", ["index", "prepared"])
def test_the_last_segment_is_removed(evidence: str) -> None:
    """That there was one is known by the index of the one before, or by the one that was made ready to follow it."""
    files, extents = written()
    count = len(extents)
    if evidence == "prepared":
        files = without(files, name_of(count - 1, "idx"))
        files.add(name_of(count + 1), bytes(16384))
    lasting(without(files, name_of(count)), [(extents[-2][1] + 1, NOW + 1)])


def test_nothing_but_what_was_made_ready_is_left() -> None:
    """It is begun anew, which is told; nothing of the old files stays."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 5))
    head = files.content(name_of(1))[:64]
    del log
    prepared = bytearray(head.ljust(16384, b"\0"))
    prepared[24] = 2
    prepared[12:16] = crc32c(bytes(prepared[16:64]), crc32c(bytes(prepared[:12]))).to_bytes(4, "little")
    files = MemoryFiles()
    files.add(name_of(2), bytes(prepared))
    log = again(files)
    assert (log.report[0], log.report[5]) == (True, [(name_of(1), 0, 0, [])])
    assert [name for name, _ in files.list()] == [name_of(1)]


def test_the_last_segment_is_emptied() -> None:
    files, extents = written()
    lasting(cut(files, name_of(len(extents)), 0), [(extents[-2][1] + 1, NOW + 1)])


def test_the_end_of_the_last_segment_is_cut_off() -> None:
    """In the middle of a group or behind one: what is left is read, and what was behind is lost up to now."""
    files, extents = written()
    name, (first, last) = name_of(len(extents)), extents[-1]
    content = files.content(name)
    assert first + 3 < last
    for size in (content.find(b"event %d " % (last - 2)) + 20, content.find(b"event %d " % (last - 2)) - 56 - 64):
        lasting(cut(files, name, size), [(last - 2, NOW + 1)])


def test_zeros_that_are_cut_off_are_no_loss() -> None:
    """Behind the last group there was nothing yet."""
    files, extents = written()
    name = name_of(len(extents))
    content = files.content(name).rstrip(b"\0")
    log = again(cut(files, name, len(content) + 1000))
    assert (log.report[5], log.losses(PUBEND), ticks_of(log)[1]) == ([], [], [])


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("number", [2, 3])
def test_the_end_of_an_older_segment_is_cut_off(number: int, with_index: bool) -> None:
    """Also exactly behind a group, where nothing looks torn."""
    files, extents = written()
    last = extents[number - 1][1]
    content = files.content(name_of(number))
    for size in (content.find(b"event %d " % (last - 2)) + 20, content.find(b"event %d " % (last - 2)) - 56 - 64):
        copy = cut(files, name_of(number), size)
        lasting(copy if with_index else without(copy, name_of(number, "idx")), [(last - 2, last + 1)])


def test_the_end_of_an_older_segment_has_become_zeros() -> None:
    """As file systems leave it that have lost blocks."""
    files, extents = written()
    last = extents[1][1]
    at = files.content(name_of(2)).find(b"event %d " % (last - 2)) - 56 - 64

    def emptied(name: str, content: bytes) -> bytes | None:
        return content[:at].ljust(len(content), b"\0") if name == name_of(2) else content

    lasting(without(copied(files, emptied), name_of(2, "idx")), [(last - 2, last + 1)])


@pytest.mark.parametrize("number", [1, 3, -1])
def test_a_damaged_head_costs_nothing_and_is_mended(number: int) -> None:
    """It is told once."""
    files, extents = written()
    name = name_of(number if number > 0 else len(extents))
    files.damage(name, 3, b"?" * 40)
    log = again(files)
    assert list(log.report[5]) == [(name, 0, 64, [])]
    assert ticks_of(log) == (list(range(1, 400)), [])
    del log
    assert again(files).report[5] == []


def test_the_snapshot_behind_a_missing_segment_is_damaged_too() -> None:
    """Then the state comes from before the hole, and what is lost reaches up to the next event that is there."""
    files, extents = written()
    count = len(extents)
    copy = without(files, name_of(count - 1))
    copy.damage(name_of(count), 64, b"\xff" * 64)
    log = again(copy)
    ticks, lost = ticks_of(log)
    assert lost == [(extents[-3][1] + 1, ticks[ticks.index(extents[-3][1]) + 1])]
    assert ticks[-1] == 399


def test_what_is_lost_can_be_said_and_is_released_with_the_rest() -> None:
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 5))
    assert log.lose(PUBEND, 5, 9)
    assert ticks_of(log) == ([1, 2, 3, 4], [])  # it is not durable yet
    log.commit()
    publish(log, range(10, 12))
    assert ticks_of(log) == ([1, 2, 3, 4, 10, 11], [(5, 10)])
    assert log.read(PUBEND, 7, FOREVER)[1] == [(7, 10)]
    assert log.lose(PUBEND, 12, 12)
    log.release(PUBEND, 10)
    assert [one[:2] for one in log.losses(PUBEND)] == [(12, 12)]
    del log


def test_many_losses_are_told_as_few() -> None:
    """Their number is bounded, and what can be read between them still comes."""
    files = MemoryFiles()
    log = opened(files)
    for tick in range(1, 400, 2):
        publish(log, range(tick, tick + 1))
        assert log.lose(PUBEND, tick + 1, tick + 1)
    log.commit()
    assert len(log.losses(PUBEND)) <= 64
    ticks, lost = ticks_of(log)
    assert ticks == list(range(1, 400, 2))
    assert lost == [(tick, tick + 1) for tick in range(2, 401, 2)]
    del log
    assert ticks_of(opened(files)) == (ticks, lost)


def test_what_a_reader_meets_is_said() -> None:
    """Damage that comes while the log is open."""
    files = MemoryFiles()
    log = opened(files)
    publish(log, range(1, 20))
    at = files.content(name_of(1)).find(b"event 7 ")
    files.damage(name_of(1), at, b"?")
    assert log.losses(PUBEND) == []
    ticks_of(log)
    assert log.losses(PUBEND) == [(7, 7, 0)]
