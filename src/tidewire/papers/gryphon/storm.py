"""gryphon/C3: many subscribers that were away come back at once, to a log whose reads are costly.

What is new still flows.

The paper names congestion of the CPU that hosts the pubends, and does not measure it.
"""

from __future__ import annotations

from tidewire.benchmarks.progress import Tell
from tidewire.congestion.config import CongestionConfig
from tidewire.papers.gryphon.scene import GROUPS, Setting
from tidewire.papers.gryphon.simulated import SimulatedScene
from tidewire.papers.gryphon.topologies import CONTROLLED, UNLIMITED, notes, scale_of
from tidewire.papers.report import Claim, Figure, Options, Report, Series
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.costs import Measured

COSTLY = Measured(copy_ns=20_000)
"""What an event costs that is told, read or new: two hundred times what it costs live."""

CALM_MS_MAX = 20.0
"""With more than this before the storm, nothing can be said about the storm."""

EDGE_CACHE_BYTES = 64 << 10
"""An edge that remembers next to nothing: all that is lacking comes from the log."""


class _Run:
    """One storm."""

    def __init__(self, congestion: CongestionConfig, options: Options, tell: Tell, name: str) -> None:
        self.count = 60
        self.away_s = 20.0 if options.is_quick else 40.0
        self.scene = SimulatedScene(
            (("PB", "SB1"), ("PB", "SB2")),
            edges={"SB1": range(GROUPS), "SB2": range(1)},
            setting=Setting(
                congestion=congestion,
                scale=scale_of(options),
                edge_cache_bytes=EDGE_CACHE_BYTES,
            ),
            root_costs=COSTLY,
            seed=options.seed,
        )
        world = self.scene.world
        self.late = [world.add_client(f"late-{i}", "SB2") for i in range(self.count)]
        for i, client in enumerate(self.late):
            client.follow(1, f"group = {i % GROUPS}", client.name)
        world.run(3)
        for client in self.late:
            client.crash()
        self._watched = [client for one in self.scene.subscribers if one.edge == "SB1" for client in one.clients]
        self._forget()
        self.calm_ms = self._delays(self.away_s)
        for client in self.late:
            client.start()
        self.storm_ms: list[float] = []
        self.seconds = 0
        self.lags: list[float] = []
        while not self.is_over() and self.seconds < 300:
            self.seconds += 1
            self.storm_ms += self._delays(1.0)
            self.lags.append(float(max(self._behind(client) for client in self.late)))
            tell(name, self.seconds)

    def is_over(self) -> bool:
        """Has everybody what was missed?"""
        return bool(self.lags) and self.lags[-1] < 1.0

    def _behind(self, client: ClientHost) -> float:
        """Seconds from what it got last to now."""
        (record,) = client.followed.values()
        if not record.received:
            return self.away_s
        return (self.scene.world.agenda.now_ns - self._born(record.received[-1].key)) / 1e9

    def _born(self, key: tuple[int, int]) -> int:
        return next(
            (it.client.promised[key].published_ns for it in self.scene.publishers if key in it.client.promised), 0
        )

    def _forget(self) -> None:
        for client in self._watched:
            for record in client.followed.values():
                record.received.clear()

    def _delays(self, seconds: float) -> list[float]:
        """How long events took to the subscribers of SB1, in milliseconds."""
        self.scene.world.run(seconds)
        found = [
            (one.time_ns - self._born(one.key)) / 1e6
            for client in self._watched
            for record in client.followed.values()
            for one in record.received
        ]
        self._forget()
        return found


def _p99(delays: list[float]) -> float:
    return sorted(delays)[int(0.99 * len(delays))]


def storm(options: Options, tell: Tell) -> Report:
    """C3: everybody asks for everything at once."""
    runs = {
        "SDCC": _Run(CONTROLLED, options, tell, "C3 with SDCC"),
        "no window": _Run(UNLIMITED, options, tell, "C3 without a window"),
    }
    held = runs["SDCC"]
    ratio = {name: _p99(one.storm_ms) / _p99(one.calm_ms) for name, one in runs.items()}
    claims = [
        Claim(
            claim=f"while {held.count} subscribers catch up from the log, what is new arrives as before",
            paper="named, never evaluated",
            measured=f"p99 {_p99(held.calm_ms):.1f} ms before, {_p99(held.storm_ms):.1f} ms meanwhile:"
            f" {ratio['SDCC']:.2f} times ({ratio['no window']:.2f} without a window)",
            tolerance=f"1.5 times, and at most {CALM_MS_MAX:g} ms before",
            holds=ratio["SDCC"] <= 1.5 and _p99(held.calm_ms) <= CALM_MS_MAX,
        ),
        Claim(
            claim="all of them catch up",
            paper="–",
            measured=f"in {held.seconds} s, after {held.away_s:.0f} s away" if held.is_over() else "not in 300 s",
            tolerance="in finite time",
            holds=held.is_over(),
        ),
    ]
    figures = [
        Figure(
            name="c3-behind",
            title="C3: how far the last of them is behind",
            x_label="s",
            y_label="s",
            series=[
                Series(name=name, x=[float(i) for i in range(len(one.lags))], y=one.lags) for name, one in runs.items()
            ],
        )
    ]
    told = notes(options, "each event that is told costs the CPU of PB 20 µs, whether new or read from the log")
    return Report(
        id="gryphon/C3",
        claims=claims,
        notes=told,
        measured={f"p99_ratio_{name}": value for name, value in ratio.items()},
        figures=figures,
    )
