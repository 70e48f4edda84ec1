"""The benchmark of the data plane runs, and counts what it says it counts."""

from __future__ import annotations

import pytest

from tidewire.benchmarks.plane import EVENT_BYTES, batches, main, measure_plane, published, pumped_ns, queued_ns


def test_events_have_the_size_they_are_said_to_have() -> None:
    frames = published(300)
    assert all(len(frame) == EVENT_BYTES + 13 for frame in frames)
    assert b"".join(batches(frames)) == b"".join(frames)


def test_both_ways_deliver_everything() -> None:
    """They assert it themselves."""
    assert queued_ns(2, events=700, rounds=1) > 0
    assert pumped_ns(2, events=700, rounds=1) > 0


def test_the_ledger_gets_a_ratio() -> None:
    found = measure_plane(0.001, subscribers=2, pairs=6)
    assert found["plane.fan_out_2.reference"].median > 1


def test_it_prints_per_event_and_per_delivery(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--subscribers", "1"]) == 0
    assert "ns per delivery" in capsys.readouterr().out
