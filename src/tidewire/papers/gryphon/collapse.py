"""gryphon/C1 and gryphon/C2: without congestion control a narrow link, or one recovery, takes everything down.

Each is run twice, without and with PDCC and SDCC, with everything else the same.
"""

from __future__ import annotations

from tidewire.benchmarks.progress import Tell
from tidewire.congestion.config import CongestionConfig
from tidewire.papers.gryphon.measure import (
    delivered_s,
    is_recovered,
    line,
    published_s,
    queue_kb,
    rates_figure,
    slowest,
    within,
)
from tidewire.papers.gryphon.scene import KB, QUEUE_BYTES_MAX, Moment, Scene
from tidewire.papers.gryphon.topologies import CONTROLLED, UNLIMITED, notes, simple
from tidewire.papers.report import Claim, Figure, Options, Report

NARROW_KB_S = 60.0
ROOT_KB_S = 250.0


def narrow_link(options: Options, tell: Tell) -> Report:
    """C1: IB–SB1 is cut down to 60 KB/s."""
    queue_bytes = 1 << 20 if options.is_quick else QUEUE_BYTES_MAX
    before_s, after_s, last_s = (5, 65, 15) if options.is_quick else (20, 260, 60)

    def run(name: str, congestion: CongestionConfig) -> Scene:
        with simple(congestion, options, queue_bytes=queue_bytes) as scene:
            scene.run(before_s)
            scene.shape("IB", "SB1", NARROW_KB_S)
            scene.run(after_s, lambda now_s: tell(f"C1 {name}", now_s, before_s + after_s))
        return scene

    free, held = run("without congestion control", UNLIMITED), run("with PDCC and SDCC", CONTROLLED)
    left = delivered_s(_last(free, last_s), "SB1")
    return Report(
        id="gryphon/C1",
        claims=_narrow_claims(free, held, last_s),
        notes=notes(options),
        measured={"SB1_events_s": left},
        figures=_narrow_figures(free, held),
    )


def _last(scene: Scene, seconds: int) -> list[Moment]:
    return within(scene.moments, scene.now_s - seconds, scene.now_s)


def _narrow_claims(free: Scene, held: Scene, last_s: int) -> list[Claim]:
    last, kept = _last(free, last_s), _last(held, last_s)
    left, queue = delivered_s(last, "SB1"), queue_kb(free.moments, ("IB", "SB1"))
    used = delivered_s(kept, "SB1") / held.capacity_msgs_s(NARROW_KB_S)
    return [
        Claim(
            claim="without control the queue of IB for SB1 grows to its bound, and events are thrown away",
            paper="5 MB, overflows",
            measured=f"{queue / KB:.2f} MB of {free.queue_bytes / KB / KB:.2g},"
            f" {free.moments[-1].dropped:,} events thrown away",
            tolerance="95 % of the bound, some thrown away",
            holds=queue * KB >= 0.95 * free.queue_bytes and free.moments[-1].dropped > 0,
        ),
        Claim(
            claim="without control the rate of SB1 goes to 0",
            paper="0 events/s",
            measured=f"{left:.1f} events/s in the last {last_s} s",
            tolerance="below 5 % of what is published",
            holds=left < 0.05 * free.msgs_s,
        ),
        Claim(
            claim="the publishers do not notice",
            paper="500 events/s",
            measured=f"{published_s(last):.0f} of {free.msgs_s:.0f} events/s",
            tolerance="within 2 %",
            holds=abs(published_s(last) / free.msgs_s - 1) < 0.02,
        ),
        Claim(
            claim="with PDCC and SDCC nothing collapses: SB1 gets what its link carries, and nothing is thrown away",
            paper="(E2) oscillates round the sustainable rate",
            measured=f"{used:.0%} of the link, {held.moments[-1].dropped} thrown away,"
            f" at most {queue_kb(held.moments):.0f} KB in a queue",
            tolerance="80 % of the link, none thrown away, below 1 MB",
            holds=used >= 0.8 and held.moments[-1].dropped == 0 and queue_kb(held.moments) < KB,
        ),
        _order(free, held),
    ]


def _narrow_figures(free: Scene, held: Scene) -> list[Figure]:
    return [
        rates_figure("c1-unlimited", "C1: a link of 60 KB/s, no congestion control", free.moments, ["SB1", "SB2"]),
        Figure(
            name="c1-queue",
            title="C1: what waits at IB for SB1",
            x_label="s",
            y_label="KB",
            series=[
                line("no control", free.moments, lambda one: one.queues.get(("IB", "SB1"), 0) / KB),
                line("PDCC and SDCC", held.moments, lambda one: one.queues.get(("IB", "SB1"), 0) / KB),
            ],
        ),
        rates_figure("c1-pdcc", "C1: the same with PDCC and SDCC", held.moments, ["SB1", "SB2"]),
    ]


def failed_link(options: Options, tell: Tell) -> Report:
    """C2: PB–IB carries 250 KB/s, IB–SB2 is down for 120 s."""
    down_s, after_s = (20, 60) if options.is_quick else (120, 200)

    queue_bytes = 2 << 20 if options.is_quick else QUEUE_BYTES_MAX

    def run(name: str, congestion: CongestionConfig, *, is_fair: bool = True) -> Scene:
        def told(now_s: int) -> None:
            tell(f"C2 {name}", now_s, 10 + down_s + after_s)

        with simple(congestion, options, is_fair=is_fair, queue_bytes=queue_bytes) as scene:
            scene.shape("PB", "IB", ROOT_KB_S)
            scene.run(10, told)
            scene.cut("IB", "SB2")
            scene.run(down_s, told)
            scene.mend("IB", "SB2")
            scene.run(after_s, told)
        return scene

    free = run("without congestion control, first come, first served", UNLIMITED, is_fair=False)
    fair = run("without congestion control, fair queues", UNLIMITED)
    held = run("with PDCC and SDCC", CONTROLLED)
    back_s = 10.0 + down_s
    behind = _behind_s(free, back_s)
    figures = [
        rates_figure("c2-unlimited", "C2: SB2 was cut off, no congestion control", free.moments, ["SB1", "SB2"]),
        rates_figure("c2-pdcc", "C2: the same with PDCC and SDCC", held.moments, ["SB1", "SB2"]),
    ]
    told = notes(options, f"the link is down for {down_s} s")
    claims = [*_uncontrolled(free, fair, back_s, after_s), _controlled(held, back_s, options), _order(free, fair, held)]
    return Report(id="gryphon/C2", claims=claims, notes=told, measured={"behind_s": behind[1]}, figures=figures)


def _behind_s(scene: Scene, back_s: float) -> tuple[float, float]:
    """When its link is back, and in the end."""
    first, last = within(scene.moments, back_s, back_s)[0], scene.moments[-1]
    return max(first.behind_ms["SB2"]) / 1000, max(last.behind_ms["SB2"]) / 1000


def _uncontrolled(free: Scene, fair: Scene, back_s: float, after_s: int) -> list[Claim]:
    end_s = back_s + after_s
    last = within(free.moments, end_s - after_s / 3, end_s)
    behind = _behind_s(free, back_s)
    rates = [delivered_s(last, edge) for edge in ("SB1", "SB2")]
    fair_last = within(fair.moments, end_s - after_s / 3, end_s)
    fair_rates = [delivered_s(fair_last, edge) for edge in ("SB1", "SB2")]
    return [
        Claim(
            claim="without control SB2 never catches up once its link is back",
            paper="never",
            measured=f"{behind[0]:.0f} s behind when it comes back, {behind[1]:.0f} s behind {after_s} s later",
            tolerance="it falls further behind",
            holds=behind[1] > behind[0],
        ),
        Claim(
            claim="without control both edges end far below the rate of publication",
            paper="far below 500 events/s",
            measured=f"SB1 {rates[0]:.0f}, SB2 {rates[1]:.0f} events/s",
            tolerance="both below half of it",
            holds=max(rates) < 0.5 * free.msgs_s,
        ),
        Claim(
            claim="what SB2 asks for again fills the queue of PB for IB",
            paper="PB–IB congested",
            measured=f"{queue_kb(last, ('PB', 'IB')) / KB:.2f} MB of {free.queue_bytes / KB / KB:.2g}",
            tolerance="95 % of its bound",
            holds=queue_kb(last, ("PB", "IB")) * KB >= 0.95 * free.queue_bytes,
        ),
        Claim(
            claim="(ours) fair queues alone do not save SB2",
            paper="no fair queues there",
            measured=f"SB2 {max(fair.moments[-1].behind_ms['SB2']) / 1000:.0f} s behind at the end;"
            f" SB1 {fair_rates[0]:.0f}, SB2 {fair_rates[1]:.0f} events/s",
            tolerance="SB2 falls further behind",
            holds=max(fair.moments[-1].behind_ms["SB2"]) / 1000 > behind[0],
        ),
    ]


def _controlled(held: Scene, back_s: float, options: Options) -> Claim:
    after = within(held.moments, back_s, held.now_s)
    slow = slowest(after, "SB1", options)
    lag = max(after[-1].behind_ms["SB2"]) / 1000
    recovered = next((one.at_s - back_s for one in after if one.at_s > back_s and is_recovered("SB2")(one)), None)
    return Claim(
        claim="with PDCC and SDCC SB2 recovers, and SB1 does not suffer",
        paper="(E1) recovers in 160 s",
        measured=f"{'not recovered' if recovered is None else f'recovered in {recovered:.0f} s'}"
        f" ({lag:.0f} s behind at the end), SB1 at least {slow:.2f} s of stream a second",
        tolerance="recovered, SB1 above 0.8",
        holds=recovered is not None and slow > 0.8,
    )


def _order(*scenes: Scene) -> Claim:
    wrong = sum(scene.disorders() for scene in scenes)
    return Claim(
        claim="whatever happens, each subscriber gets the events of a pubend once and in order",
        paper="exactly once, in order",
        measured=f"{wrong} events twice or out of order",
        tolerance="none",
        holds=wrong == 0,
    )
