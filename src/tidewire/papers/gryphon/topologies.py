"""The two topologies of gryphon §6, and how congestion control is set for an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tidewire.congestion.config import CongestionConfig
from tidewire.papers.gryphon.live import LiveScene
from tidewire.papers.gryphon.scene import GROUPS, QUEUE_BYTES_MAX, Scene, Setting
from tidewire.papers.gryphon.simulated import SimulatedScene
from tidewire.papers.report import Options

UNLIMITED: Final = CongestionConfig(rate_policy="unlimited", window_policy="unlimited")
CONTROLLED: Final = CongestionConfig(rate_policy="pdcc", window_policy="sdcc", lag_ms_min=0)
"""As the paper has it. Live, what an edge is told late because the machine is busy must not count (``_scene``)."""

SIMPLE: Final = (("PB", "IB"), ("IB", "SB1"), ("IB", "SB2"))
"""Fig. 1: each edge's subscribers want everything between them."""

COMPLEX: Final = (
    ("PB", "IB1"),
    ("IB1", "SB1"),
    ("IB1", "IB2"),
    ("IB2", "SB2"),
    ("IB2", "SB3"),
    ("IB2", "IB3"),
    ("IB3", "SB4"),
    ("IB3", "SB5"),
)
"""Fig. 12, with the wiring that the sheet recommends: each edge's subscribers want two events of five."""

SCALED: Final = (
    "5 subscribers at each edge in place of 250, each with a fifth of the events: the edge gets and delivers as many",
    "an event takes 360 bytes on a link between brokers; a broker on the way keeps 256 KB of each stream",
)


def scale_of(options: Options) -> float:
    """A quick run has a quarter of everything."""
    return 4.0 if options.is_quick else 1.0


def notes(options: Options, *more: str) -> list[str]:
    """What is to be known of how an experiment was done."""
    live = ["broker processes on one machine; links are relays on loopback"] if options.is_live else []
    quick = ["a quarter of the rates, links, queues and caches, and shorter times"] if options.is_quick else []
    return [*SCALED, *live, *quick, *more]


def simple(
    congestion: CongestionConfig, options: Options, *, is_fair: bool = True, queue_bytes: int = QUEUE_BYTES_MAX
) -> Scene:
    """PB – IB – SB1, SB2."""
    everything = range(GROUPS)
    setting = Setting(
        congestion=congestion,
        is_fair=is_fair,
        scale=scale_of(options),
        queue_bytes=queue_bytes,
    )
    return _scene(SIMPLE, {"SB1": everything, "SB2": everything}, setting, options)


def complex_tree(congestion: CongestionConfig, options: Options) -> Scene:
    """One root, three brokers on the way, five edges."""
    edges = {f"SB{i + 1}": (i, (i + 1) % GROUPS) for i in range(5)}
    return _scene(COMPLEX, edges, Setting(congestion=congestion, scale=scale_of(options)), options)


def _scene(
    links: Sequence[tuple[str, str]], edges: Mapping[str, Sequence[int]], setting: Setting, options: Options
) -> Scene:
    if options.is_live:
        config = msgspec.structs.replace(setting.congestion, lag_ms_min=CongestionConfig().lag_ms_min)
        setting = msgspec.structs.replace(setting, congestion=config)
        return LiveScene(links, edges=edges, setting=setting)
    return SimulatedScene(links, edges=edges, setting=setting, seed=options.seed)
