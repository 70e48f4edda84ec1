"""The benchmarks of live brokers, at a size that shows that they measure what they say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tidewire.benchmarks import filters, overlay, slow
from tidewire.benchmarks.networks import chain, tree


def test_shapes() -> None:
    assert chain(4) == [0, 1, 2]
    assert tree(6) == [0, 0, 1, 1, 2]
    assert chain(1) == tree(1) == []


def test_an_overlay_carries_everything_and_covering_saves_routes_and_bytes() -> None:
    report = overlay.run(overlay.Plan(sizes=(1, 3), shapes=("tree",), turns=1, turn_s=0.05))
    assert [(one.brokers, one.covering, one.subscribers) for one in report.networks] == [
        (1, True, 1),
        (1, False, 1),
        (3, True, 2),
        (3, False, 2),
    ]
    for one in report.networks:
        assert one.events_per_s > 100
        assert 0 < one.delay_us.p50 <= one.delay_us.p99
        assert one.cpu_us_per_delivery > 0
    alone, three = report.covering_saves
    assert (alone.routes, alone.link_bytes_before_events) == (0, 0)
    assert 0.4 < three.routes < 0.6  # the edges keep those of their own subscribers
    assert three.link_bytes_before_events > 0.5
    assert msgspec.json.decode(msgspec.json.encode(report), type=overlay.Report) == report


def test_one_that_does_not_read_costs_its_queue() -> None:
    report = slow.run(slow.Plan(seconds=0.6, turns=6, rate=2_000.0, subscribers=2))
    assert report.alone.lost == report.beside_slow.lost == 0
    assert report.cpu.median > 0
    assert report.memory_grown_mb < report.memory_bound_mb


def test_filters_over_the_wire(tmp_path: Path) -> None:
    told: list[str] = []
    plan = filters.Plan(sizes=(1_000,), peers=(), rounds=6, turn_s=0.05, folder=tmp_path)
    report = filters.run(plan, tell=lambda stage, step=0, steps=0: told.append(stage))
    (size,) = report.sizes
    ours = size.servers["tidewire"]
    assert ours.lost == 0
    assert ours.deliveries_per_event <= size.subscriptions_matched_per_event == pytest.approx(8, abs=4)
    assert ours.cpu_us_per_event > 0
    assert ours.events_per_s > 1_000
    assert size.subscribing.filters_per_s > 1_000
    assert told[0].startswith("making the workload")
