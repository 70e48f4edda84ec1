"""What the log knows beside the events: publishers within their bounds, keys, segments that begin with all of it."""

from __future__ import annotations

from itertools import pairwise

from tidewire._kernel._native import Log, MemoryFiles

PUBEND = 4
MS = 1 << 20
"""Ticks of a millisecond."""


def opened(files: MemoryFiles, **options: int) -> Log:
    """A log with small segments."""
    return Log(files, **{"log_id": 3, "segment_bytes": 8192, "group_bytes": 2048, **options})


def fill(log: Log, *, segments: int, from_ms: int) -> int:
    """Publisher 99 fills so many segments, an event a millisecond; the last millisecond."""
    ms, goal = from_ms, log.segments()[-1][0] + segments
    while log.segments()[-1][0] < goal:
        ms += 1
        assert log.append(PUBEND, ms * MS, 99, ms, 0, 0, bytes(300))
        assert log.commit()
    return ms


def test_a_repeated_event_has_the_same_tick_after_a_restart() -> None:
    """gryphon §1.3: for the last events of each publisher; older ones are known to be old, newer ones to be new."""
    files = MemoryFiles()
    log = opened(files, publisher_window=4)
    for i in range(1, 11):
        log.append(PUBEND, 100 * i, 7, 2 * i, 0, 0, b"")
    log.commit()
    for _ in range(3):
        assert [log.tick_of(PUBEND, 7, 2 * i) for i in range(5, 12)] == [0, 0, 700, 800, 900, 1000, 0]
        assert log.tick_of(PUBEND, 7, 15) == 0
        assert (log.last_sequence(PUBEND, 7), log.last_sequence(PUBEND, 8), log.last_sequence(5, 7)) == (20, 0, 0)
        log.close()
        log = opened(files, publisher_window=4)
    fill(log, segments=3, from_ms=1)
    log.close()
    log = opened(files, publisher_window=2)  # by a snapshot now, and narrower
    assert [log.tick_of(PUBEND, 7, 2 * i) for i in range(7, 12)] == [0, 0, 900, 1000, 0]


def test_publishers_that_are_idle_for_long_are_forgotten() -> None:
    """When a segment begins, by the ticks of the log; the same is known after a restart."""
    files = MemoryFiles()
    log = opened(files, publisher_idle_ms=1000)
    log.append(PUBEND, 10 * MS, 1, 1, 0, 0, b"")
    ms = fill(log, segments=1, from_ms=10)
    log.append(PUBEND, (ms + 900) * MS, 2, 1, 0, 0, b"")
    fill(log, segments=1, from_ms=ms + 905)
    for _ in range(2):
        assert (log.last_sequence(PUBEND, 1), log.last_sequence(PUBEND, 2)) == (1, 1)
        log.close()
        log = opened(files, publisher_idle_ms=1000)
    fill(log, segments=1, from_ms=ms + 1500)
    for _ in range(2):
        assert (log.last_sequence(PUBEND, 1), log.last_sequence(PUBEND, 2)) == (0, 1)
        log.close()
        log = opened(files, publisher_idle_ms=1000)


def test_of_too_many_publishers_the_most_recent_are_known() -> None:
    """And of too many events only the last one of those who are idle longest."""
    log = opened(MemoryFiles(), publishers_max=10, window_events_max=24, publisher_window=8)
    for publisher in range(1, 51):
        for sequence in range(1, 5):
            log.append(PUBEND, publisher * 10 + sequence, publisher, sequence, 0, 0, b"")
    log.commit()
    fill(log, segments=2, from_ms=1)
    assert log.publishers == 10
    assert [p for p in range(1, 51) if log.last_sequence(PUBEND, p)] == list(range(42, 51))
    assert [log.tick_of(PUBEND, 42, sequence) for sequence in (3, 4)] == [0, 424]
    assert [log.tick_of(PUBEND, 50, sequence) for sequence in (3, 4)] == [503, 504]


def test_state_that_is_larger_than_a_segment() -> None:
    """Then segments are larger."""
    files = MemoryFiles()
    log = opened(files, publisher_window=4)
    wanted = {b"key %d" % i: bytes([i]) * 500 for i in range(100)}
    for key, value in wanted.items():
        assert log.put(key, value)
        assert log.commit()
    fill(log, segments=2, from_ms=1)
    assert log.segments()[-1][1] > 4 * 50_000
    for _ in range(2):
        assert dict(log.items(b"")) == wanted
        assert log.items(b"key 7") == [(key, wanted[key]) for key in sorted(wanted) if key.startswith(b"key 7")]
        log.close()
        log = opened(files, publisher_window=4)
    for key in wanted:
        log.erase(key)
    fill(log, segments=2, from_ms=10_000)
    assert log.items(b"") == []
    assert log.segments()[-1][1] == 8192


def test_a_pubend_never_goes_back() -> None:
    """Not behind what it said would stay silent, nor after a restart; one that is forgotten is gone."""
    files = MemoryFiles()
    log = opened(files)
    log.append(PUBEND, 10, 0, 0, 0, 0, b"")
    log.append(6, 10, 1, 1, 0, 0, b"")
    log.advance(PUBEND, 500)
    log.commit()
    assert (log.last_tick(PUBEND), log.durable_tick(PUBEND)) == (500, 500)
    assert log.read(PUBEND, 11, 1000) == ([], [], 501)
    log.forget(6)
    log.commit()
    for _ in range(2):
        assert log.last_tick(PUBEND) == 500
        assert log.pubends() == [PUBEND]
        assert log.last_sequence(6, 1) == 0
        log.close()
        log = opened(files)


def test_segments_say_what_is_in_them() -> None:
    """For retention by time or bytes: the oldest is first, with the ticks of each pubend."""
    log = opened(MemoryFiles())
    last_ms = fill(log, segments=3, from_ms=0)
    segments = log.segments()
    assert [number for number, _, _ in segments] == [1, 2, 3, 4]
    ticks = [(first, last) for _, _, [(_, first, last)] in segments]
    assert ticks[0][0] == MS
    assert ticks[-1][1] == last_ms * MS
    assert all(a[1] + MS == b[0] for a, b in pairwise(ticks))
    log.release(PUBEND, ticks[1][1] + 1)
    assert len(log.segments()) == 4  # the disk does not know why yet
    assert log.commit()
    log.take()
    assert [number for number, _, _ in log.segments()] == [3, 4]
    assert log.disk_bytes == 2 * 8192
