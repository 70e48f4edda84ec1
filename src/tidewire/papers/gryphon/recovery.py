"""gryphon/E1 and gryphon/E4: an edge recovers beside one that does not, how fast, and at whose cost."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from tidewire.benchmarks.progress import Tell
from tidewire.congestion.config import CongestionConfig
from tidewire.papers.gryphon.measure import (
    delivered_s,
    fairness,
    is_recovered,
    line,
    published_s,
    queue_kb,
    rate_line,
    rates_figure,
    slowest,
    window_ms,
    within,
)
from tidewire.papers.gryphon.scene import KB, Moment, Scene
from tidewire.papers.gryphon.topologies import CONTROLLED, notes, simple
from tidewire.papers.report import Claim, Figure, Options, Report, Series

BEFORE_S = 10


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """How it went after a link came back."""

    scene: Scene
    back_s: float
    took_s: float | None
    """None: it has not recovered."""

    moments: list[Moment]
    """From when the link was back until the edge had recovered."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to IB–SB2, and what PB–IB carries."""

    name: str
    root_kb_s: float
    down_s: float
    patience_s: float
    is_fair: bool = True
    after_s: float = 0.0
    """For how long it is looked at when it has recovered."""


def recover(congestion: CongestionConfig, options: Options, tell: Tell, failure: Failure) -> Recovery:
    """IB–SB2 fails for a while; then let SB2 recover."""
    patience_s = failure.patience_s
    back_s = BEFORE_S + failure.down_s
    most = round(back_s + patience_s)

    def told(now_s: int) -> None:
        tell(failure.name, now_s, most)

    with simple(congestion, options, is_fair=failure.is_fair) as scene:
        scene.shape("PB", "IB", failure.root_kb_s)
        scene.run(BEFORE_S, told)
        scene.cut("IB", "SB2")
        scene.run(failure.down_s, told)
        scene.mend("IB", "SB2")
        scene.run(2, told)  # the connection comes back, and what is lacking is known
        has = scene.run(patience_s, told, until=is_recovered("SB2"))
        took_s = scene.now_s - back_s if has else None
        moments = within(scene.moments, back_s, scene.now_s)
        scene.run(failure.after_s, lambda now_s: tell(f"{failure.name}, afterwards", now_s))
    return Recovery(scene=scene, back_s=back_s, took_s=took_s, moments=moments)


def recovers(options: Options, tell: Tell) -> Report:
    """E1: as C2, with both schemes; then again with 500 KB/s, for the NACK window."""
    down_s = 20.0 if options.is_quick else 120.0
    after_s = 30.0 if options.is_quick else 90.0
    narrow = Failure(name="E1 250 KB/s", root_kb_s=250, down_s=down_s, patience_s=3 * down_s, after_s=after_s)
    one = recover(CONTROLLED, options, tell, narrow)
    wider = msgspec.structs.replace(narrow, name="E1 500 KB/s", root_kb_s=500, after_s=0.0)
    wide = recover(CONTROLLED, options, tell, wider)
    figures = [
        rates_figure("e1-rates", "E1: SB2 was cut off for 120 s, PB–IB 250 KB/s", one.scene.moments, ["SB1", "SB2"]),
        Figure(
            name="e1-window",
            title="E1: the NACK window of SB2, PB–IB 500 KB/s",
            x_label="s",
            y_label="ms of stream",
            series=[line("window", wide.moments, lambda moment: window_ms(moment, "SB2"))],
        ),
    ]
    measured = {"recovery_s": one.took_s or -1.0, "recovery_500_s": wide.took_s or -1.0}
    claims = [*_recovery_claims(one, down_s, after_s, options), *_window_claims(wide)]
    return Report(id="gryphon/E1", claims=claims, notes=notes(options), measured=measured, figures=figures)


def _recovery_claims(one: Recovery, down_s: float, after_s: float, options: Options) -> list[Claim]:
    scene, offered = one.scene, one.scene.msgs_s
    lowest = min(rate_line("", one.moments, lambda moment: moment.published, over=2).y)
    last = within(scene.moments, scene.now_s - 10, scene.now_s)
    slow = slowest(one.moments, "SB1", options)
    ends = one.moments[-1].at_s
    mean, burst = delivered_s(one.moments, "SB2"), delivered_s(within(one.moments, ends - 8, ends), "SB2")
    took = "never" if one.took_s is None else f"{one.took_s:.0f} s"
    return [
        Claim(
            claim=f"SB2 recovers in finite time, after {down_s:.0f} s",
            paper="160 s after 120 s",
            measured=took,
            tolerance="at most twice as long as it was away",
            holds=one.took_s is not None and one.took_s <= 2 * down_s,
        ),
        Claim(
            claim="the publication rate falls while SB2 recovers, and returns",
            paper="falls, then returns to 500 events/s",
            measured=f"lowest {lowest:.0f}, {published_s(last):.0f} of {offered:.0f} events/s {after_s:.0f} s later",
            tolerance="below half, then above 90 %",
            holds=lowest < offered / 2 and published_s(last) > 0.9 * offered,
        ),
        Claim(
            claim="SB1, which does not recover, keeps up",
            paper="SB1 gets what is published",
            measured=f"at least {slow:.2f} s of stream a second",
            tolerance="above 0.8",
            holds=slow > 0.8,
        ),
        Claim(
            claim="the end of the recovery is faster: it comes from the cache of IB",
            paper="a spike near the end",
            measured=f"{burst:.0f} events/s in the last 8 s, {mean:.0f} on the mean",
            tolerance="20 % more",
            holds=burst > 1.2 * mean,
        ),
        Claim(
            claim="no event is thrown away, none comes twice or out of order, and queues stay short",
            paper="exactly once, in order",
            measured=f"{scene.moments[-1].dropped} thrown away, {scene.disorders()} in disorder,"
            f" at most {queue_kb(one.moments, ('PB', 'IB')):.0f} KB waits at PB",
            tolerance="none, none, below 1 MB",
            holds=scene.moments[-1].dropped == 0
            and scene.disorders() == 0
            and queue_kb(one.moments, ("PB", "IB")) < KB,
        ),
    ]


def _window_claims(wide: Recovery) -> list[Claim]:
    sizes = [window_ms(moment, "SB2") for moment in wide.moments]
    count = len(sizes)
    start, middle, end = sizes[:3], sorted(sizes[count // 4 : -count // 4])[count // 4], max(sizes[-6:])
    return [
        Claim(
            claim="the NACK window begins small, settles, and opens more at the end",
            paper="about 200, then about 900, then more",
            measured=f"{min(start):.0f}, then {middle:.0f}, then {end:.0f} ms of stream",
            tolerance="each larger than the one before, the first at most 300",
            holds=min(start) <= 300 and min(start) < middle < end,
        )
    ]


# -- E4 ----------------------------------------------------------------------------------------------------------------


def thresholds(options: Options, tell: Tell) -> Report:
    """E4: how fast must a recovering edge be? PB–IB carries 500 KB/s."""
    steps = [-0.2, 0.6, 2.0] if options.is_quick else [round(-0.2 + 0.2 * i, 1) for i in range(12)]
    down_s = 20.0 if options.is_quick else 60.0
    lines: list[Series] = []
    shares: dict[bool, list[float]] = {}
    took: dict[bool, list[float]] = {}
    patience_s = 4 * down_s
    for is_fair in (True, False):
        picked = steps if is_fair else steps[::2]
        took[is_fair], shares[is_fair] = [], []
        for threshold in picked:
            config = msgspec.structs.replace(CONTROLLED, recovery=threshold)
            name = f"E4 threshold {threshold:g}, {'fair queues' if is_fair else 'first come, first served'}"
            failure = Failure(name=name, root_kb_s=500, down_s=down_s, patience_s=patience_s, is_fair=is_fair)
            one = recover(config, options, tell, failure)
            took[is_fair].append(one.took_s or patience_s)
            shares[is_fair].append(fairness(one.moments))
        kind = "fair" if is_fair else "FCFS"
        lines.append(Series(name=f"recovery, {kind}", x=list(picked), y=took[is_fair]))
    figures = [
        Figure(name="e4-recovery", title="E4: recovery time by threshold", x_label="dt_rec", y_label="s", series=lines)
    ]
    measured = {f"recovery_s_at_{step:g}": seconds for step, seconds in zip(steps, took[True], strict=True)}
    claims = _threshold_claims(steps, took, shares, patience_s)
    told = notes(options, f"the link is down for {down_s:g} s; a recovery is given up after {patience_s:g} s")
    return Report(id="gryphon/E4", claims=claims, notes=told, measured=measured, figures=figures)


def _threshold_claims(
    steps: list[float], took: dict[bool, list[float]], shares: dict[bool, list[float]], patience_s: float
) -> list[Claim]:
    fair = took[True]
    falls = sum(after <= 1.1 * before for before, after in pairwise(fair))
    low, high = fair[0], fair[-1]
    flat = [seconds for step, seconds in zip(steps, fair, strict=True) if step >= 1.4]
    spread = max(flat) / min(flat)
    told = ", ".join(f"{step:g}: {seconds:.0f}" for step, seconds in zip(steps, fair, strict=True))
    return [
        Claim(
            claim="recovery is faster the more is asked of it",
            paper="falls from 0.2 to 1.8, not linearly",
            measured=f"s by threshold: {told}",
            tolerance="none more than a tenth above the one before, the last below 80 % of the first",
            holds=falls == len(fair) - 1 and high < 0.8 * low,
        ),
        Claim(
            claim="above a threshold nothing is gained: the link is full of what is told again",
            paper="flat from 1.8 on",
            measured=f"from 1.4 on within {spread - 1:.0%}",
            tolerance="25 %",
            holds=spread <= 1.25,
        ),
        Claim(
            claim="below a threshold of 0 recovery takes longest",
            paper="may never end",
            measured=f"{low:.0f} s" if low < patience_s else f"not within {patience_s:.0f} s",
            tolerance="not faster than with any higher threshold",
            holds=low >= max(fair) * 0.999,
        ),
        Claim(
            claim="pubends are cut alike: solved by fair queues (the paper's open problem)",
            paper="unfair at or below 1, first come, first served",
            measured=f"Jain index at least {min(shares[True]):.2f} with fair queues,"
            f" {min(shares[False]):.2f} first come, first served",
            tolerance="at least 0.9 with fair queues",
            holds=min(shares[True]) >= 0.9,
        ),
    ]
