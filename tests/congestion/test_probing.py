"""A window that has settled is tried a step wider now and then."""

from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.probing import STILL_MAX, Probing
from tidewire.congestion.sdcc import Sdcc
from tidewire.model.ids import Nanoseconds

MS = 1_000_000


def run(window: Sdcc, *, answers: int, bandwidth: float | None = None, first_ms: float = 200.0) -> list[float]:
    """The sizes, one answer after the other: 100 ms of way, and what the window takes at this bandwidth."""
    now, sizes = 0, []
    for i in range(answers):
        taken = first_ms if i == 0 else 100.0 + (0.0 if bandwidth is None else window.size / bandwidth)
        asked, now = now, now + int(taken * MS)
        window.answered(asked_ns=Nanoseconds(asked), now_ns=Nanoseconds(now))
        sizes.append(float(window.size))
    return sizes


def made(kind: type[Sdcc]) -> Sdcc:
    window = kind(CongestionConfig(), first=100, step=100, most=10_000)
    window.restart(now_ns=Nanoseconds(0))
    return window


def test_one_slow_answer_does_not_close_a_window_for_good() -> None:
    """The paper's rule compares with the last change alone, and stays at the least; ours opens again."""
    slow = [60 * MS, 200 * MS]

    def after_a_slow_answer(window: Sdcc) -> float:
        now = 0
        for taken in slow + [170 * MS] * 60:
            asked, now = now, now + taken
            window.answered(asked_ns=Nanoseconds(asked), now_ns=Nanoseconds(now))
        return float(window.size)

    assert after_a_slow_answer(made(Sdcc)) == 100
    assert after_a_slow_answer(made(Probing)) > 1_000


def test_where_more_does_not_help_a_window_goes_back() -> None:
    """At a bottleneck a wider window only waits longer: it stays within a step of where it has settled."""
    settled = run(made(Probing), answers=200, bandwidth=1.0)[50:]
    assert max(settled) - min(settled) <= 200
    assert len(set(settled)) > 1
    assert run(made(Probing), answers=STILL_MAX)[-1] <= 500
