"""The policies at a link that is 60, 150 and again 60 KB/s wide: gryphon E2, in a small model of it."""

from __future__ import annotations

import pytest

from tests.congestion.link import QUEUE_BYTES_MAX, Link, Phase
from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.policies import POLICIES

MEGABYTE = 1 << 20


def phases(policy: str, *, pubends: int = 4, offered_msgs_s: float = 500, delay_ms: int = 10) -> list[Phase]:
    link = Link(
        POLICIES[policy],
        CongestionConfig(),
        pubends=pubends,
        offered_msgs_s=offered_msgs_s / pubends,
        delay_ms=delay_ms,
    )
    link.run(10, kb_s=10_000)
    return [link.run(120, kb_s=60), link.run(120, kb_s=150), link.run(120, kb_s=60)]


def test_without_control_the_queue_overflows() -> None:
    """gryphon C1, E2: full queues, and events lost."""
    assert all(phase.lost > 0 and phase.queue_bytes_max > 0.99 * QUEUE_BYTES_MAX for phase in phases("unlimited")[1:])


@pytest.mark.parametrize("policy", ["pdcc", "pdcc-settled"])
def test_with_control_nothing_is_lost(policy: str) -> None:
    """gryphon E2: queues far below 1 MB, rates near the sustainable ones, and fair."""
    for phase in phases(policy):
        assert phase.lost == 0
        assert phase.queue_bytes_max < 0.5 * MEGABYTE
        assert phase.utilisation > 0.8
        assert phase.jain > 0.9


@pytest.mark.parametrize(("pubends", "delay_ms"), [(4, 10), (4, 200), (1, 10)])
def test_direct_uses_nine_tenths_of_the_link(pubends: int, delay_ms: int) -> None:
    """gryphon §7, E2: in each phase, also while the rate still has to climb from 60 to 150 KB/s."""
    for phase in phases("pdcc-direct", pubends=pubends, delay_ms=delay_ms):
        assert phase.utilisation > 0.9
        assert phase.queue_bytes_max < 0.25 * MEGABYTE
        assert phase.jain > 0.98


def test_direct_survives_what_is_twentyfold_too_much() -> None:
    """gryphon §7: who waits for the horizon must not wait until the queue is full."""
    for policy in ("pdcc-direct", "pdcc-settled"):
        assert sum(phase.lost for phase in phases(policy, offered_msgs_s=4000)) == 0
