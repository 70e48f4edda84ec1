"""The experiments of gryphon §6: C1, C2, C3 and E1 to E4, on the brokers that serve users: simulated, or live."""

from __future__ import annotations

from typing import Final

from tidewire.papers.gryphon import bottleneck, collapse, recovery, storm, tree
from tidewire.papers.report import Experiment

_SIMPLE: Final = {"topology": "PB – IB – SB1, SB2", "publication": "500 events/s in 4 pubends"}

EXPERIMENTS: Final = (
    Experiment(
        id="gryphon/C1",
        shows="without congestion control a narrow link takes an edge down",
        parameters={**_SIMPLE, "IB–SB1": "60 KB/s"},
        is_live_too=True,
        run=collapse.narrow_link,
    ),
    Experiment(
        id="gryphon/C2",
        shows="without congestion control one edge that recovers takes all down",
        parameters={**_SIMPLE, "PB–IB": "250 KB/s", "IB–SB2": "down for 120 s"},
        is_live_too=True,
        run=collapse.failed_link,
    ),
    Experiment(
        id="gryphon/C3",
        shows="many who catch up from a costly log do not delay what is new",
        parameters={"topology": "PB – SB1, SB2", "catch up": "60 subscribers of SB2", "a read": "20 µs of PB's CPU"},
        run=storm.storm,
    ),
    Experiment(
        id="gryphon/E1",
        shows="with PDCC and SDCC an edge recovers while the other keeps up",
        parameters={**_SIMPLE, "PB–IB": "250 KB/s, then 500", "IB–SB2": "down for 120 s"},
        is_live_too=True,
        run=recovery.recovers,
    ),
    Experiment(
        id="gryphon/E2",
        shows="PDCC follows a narrow link that changes",
        parameters={**_SIMPLE, "IB–SB1": "60, 150, 60 KB/s", "policies": ", ".join(bottleneck.POLICIES)},
        is_live_too=True,
        run=bottleneck.changes,
    ),
    Experiment(
        id="gryphon/E3",
        shows="the worst place of a larger tree sets the rate",
        parameters={"topology": "1 root, 3 on the way, 5 edges", "PB–IB1": "150 KB/s", "IB3–SB5": "down for 120 s"},
        is_live_too=True,
        run=tree.worst_place,
    ),
    Experiment(
        id="gryphon/E4",
        shows="the more is asked of a recovering edge, the sooner it has recovered; pubends share fairly",
        parameters={**_SIMPLE, "PB–IB": "500 KB/s", "dt_rec": "-0.2 to 2.0", "queues": "fair, and first come"},
        is_live_too=True,
        run=recovery.thresholds,
    ),
)
