"""Detection (peer §5)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.balancing.parts import CONFIG, Half, at, cluster, edge, load
from tidewire.balancing.config import AsPrinted
from tidewire.balancing.detectors import (
    Finding,
    LocalDetector,
    Pace,
    balanced_set,
    look,
    look_around,
    overload_action,
    uneven,
)
from tidewire.balancing.estimates import delay_difference
from tidewire.balancing.indices import Reading, differences, mean, smoothed
from tidewire.balancing.pie import Entry
from tidewire.model.balance_messages import Condition, Indices, LocalPie
from tidewire.model.ids import BrokerId


def reading(
    input_utilisation: float = 0.0, output: float = 0.0, *, cpu: float = 0.0, memory: float = 0.0, delay_s: float = 0.0
) -> Reading:
    return smoothed(load(input_utilisation, output, cpu=cpu, memory=memory, delay_s=delay_s), None, weight=0.75)


def seen(
    ours: Reading, entries: list[Entry[LocalPie]], condition: Condition = "OK", *, is_settled: bool = True
) -> Finding:
    return look(ours, condition, entries, is_settled=is_settled, config=CONFIG)


@pytest.mark.parametrize(
    ("one_s", "other_s", "difference", "triggers"),
    [(0.000002, 0.000001, 1e-5, False), (10, 9, 10, True), (0.022, 0.018, 0.04, False)],
)
def test_difference_of_delays(one_s: float, other_s: float, difference: float, triggers: bool) -> None:
    """peer G6, Eq. 3.5."""
    assert delay_difference(one_s, other_s, norm_s=CONFIG.delay_norm_s) == pytest.approx(difference)
    found = uneven(Indices(0, 0, one_s), [edge("B", indices=(0, 0, other_s))], ratio=0.1, delay=0.1, config=CONFIG)
    assert [one.action for one in found] == (["match"] if triggers else [])


def test_smoothing() -> None:
    """peer G9, Eq. 3.4: y0 = 0.4, then 0.8, 0.8, 0.2."""
    detector = LocalDetector(CONFIG, chance=Half(), now_ns=at(0))
    values = []
    for second, x in enumerate((0.4, 0.8, 0.8, 0.2)):
        detector.run(load(x), "OK", [], session_end_ns=None, changed_ns=None, now_ns=at(second))
        assert detector.reading is not None
        values.append(detector.reading.input_utilisation)
    assert values == pytest.approx([0.4, 0.7, 0.775, 0.34375])


@pytest.mark.parametrize(
    ("ours", "action"),
    [
        (reading(0.96, 1.4, cpu=1.0), "input"),
        (reading(0.5, 0.97, cpu=1.0), "match"),
        (reading(0.5, 0.97, cpu=0.96), "output"),
        (reading(0.5, 0.5, memory=0.99), "match"),
    ],
)
def test_what_an_overload_asks_for(ours: Reading, action: str) -> None:
    """peer G17, D3: input above all, then what is worst."""
    assert overload_action(ours, upper=CONFIG.overload_upper) == action
    finding = seen(ours, [])
    assert (finding.verdict, finding.action, finding.causes) == ("overloaded", action, ("overloaded",))


@pytest.mark.parametrize(
    ("highest", "verdict", "causes"),
    [
        (0.899, "balanced", ()),
        (0.9, "inert", ("overloaded",)),
        (0.92, "inert", ("overloaded",)),
        (0.95, "inert", ("overloaded",)),
        (0.951, "overloaded", ("overloaded",)),
    ],
)
def test_the_inert_band(highest: float, verdict: str, causes: tuple[str, ...]) -> None:
    """peer G17 and §11 row 23: N/A from 0.9 on, a session only beyond 0.95."""
    for ours in (reading(cpu=highest), reading(memory=highest), reading(0.0, highest), reading(highest)):
        finding = seen(ours, [])
        assert (finding.verdict, finding.causes) == (verdict, causes)


def test_nobody_is_inert_for_good() -> None:
    """peer §5.1 and G17: at 0.92 no session begins; but after 90 s there it asks those that have less to do."""
    for config, asks in ((CONFIG, True), (replace(CONFIG, as_printed=AsPrinted(inert_for_good=True)), False)):
        detector = LocalDetector(config, chance=Half(), now_ns=at(0))
        found = {}
        for second, ours in ((0, 0.92), (60, 0.92), (89, 0.92), (90, 0.92), (100, 0.5), (110, 0.97), (130, 0.92)):
            entries = [edge("B", indices=(0.3, 0, 0))]
            found[second] = detector.run(
                load(ours), "N/A", entries, session_end_ns=None, changed_ns=None, now_ns=at(second)
            )
        assert [second for second, one in found.items() if one.verdict == "inert"] == [0, 60, 89, 90, 130]
        assert [second for second in (0, 60, 89, 90, 130) if found[second].candidates] == ([90] if asks else [])


def test_whom_the_overloaded_ask() -> None:
    """peer §5.1, step 1: all but the overloaded, the least loaded first; those in sessions too (§11 row 14)."""
    entries = [
        edge("B", "N/A", indices=(0.1, 0, 0)),
        edge("C", indices=(0.5, 0, 0)),
        edge("D", "BUSY", indices=(0.3, 0, 0)),
        edge("E", "STABILIZING", indices=(0.4, 0, 0)),
    ]
    finding = seen(reading(1.2), entries, "N/A")
    assert [one.broker for one in finding.candidates] == ["D", "E", "C"]
    assert {one.action for one in finding.candidates} == {"input"}
    assert finding.candidates[0].difference == pytest.approx(0.9)
    assert finding.causes == ()


def test_overload_may_be_worked_off_while_stabilizing() -> None:
    """peer D5."""
    assert seen(reading(1.2), [edge("B")], "STABILIZING", is_settled=False).verdict == "overloaded"


@pytest.mark.parametrize("condition", ["N/A", "STABILIZING"])
def test_nothing_is_begun_before_the_load_has_settled(condition: Condition) -> None:
    """peer §5.1, the gate between the steps: N/A goes by STABILIZING (§11 row 13)."""
    relieved = ("relieved",) if condition == "N/A" else ()
    finding = seen(reading(0.8), [edge("B")], condition, is_settled=False)
    assert (finding.verdict, finding.causes, finding.candidates) == ("stabilizing", relieved, ())
    finding = seen(reading(0.8), [edge("B")], condition, is_settled=True)
    assert (finding.verdict, finding.causes) == ("imbalanced", (*relieved, "settled"))


def test_the_overloaded_go_first() -> None:
    """peer V5, D4: others begin nothing as long as PIE shows one; the overloaded are exempt."""
    entries = [edge("B"), edge("C", "N/A")]
    assert seen(reading(0.8), entries).verdict == "waits"
    assert seen(reading(0.8), [edge("B"), edge("C", "BUSY")]).verdict == "imbalanced"
    assert seen(reading(0.99), entries).verdict == "overloaded"


def test_only_those_who_can_act_go_first_by_choice() -> None:
    """peer §11 row 27."""
    config = replace(CONFIG, only_overloaded_go_first=True)
    inert, pressing = edge("C", "N/A"), edge("C", "N/A", is_pressing=True)
    for entry, verdict in ((inert, "imbalanced"), (pressing, "waits")):
        assert look(reading(0.8), "OK", [edge("B"), entry], is_settled=True, config=config).verdict == verdict


def test_imbalance() -> None:
    """peer §5.1, step 2, D2 and §11 row 15: one entry for each broker and index, the largest difference first."""
    entries = [
        edge("B", indices=(0.3, 0.8, 0.0)),
        edge("C", indices=(0.49, 0.1, 0.03)),
        edge("D", "BUSY"),
        edge("E", "STABILIZING"),
    ]
    finding = seen(reading(0.5, 0.35, delay_s=0.021), entries)
    assert [(one.broker, one.action) for one in finding.candidates] == [("C", "output"), ("B", "match"), ("B", "input")]
    assert [one.difference for one in finding.candidates] == pytest.approx([0.25, 0.21, 0.2])


def test_just_at_the_threshold_nothing_is_begun() -> None:
    """peer §5.1: the difference must exceed it."""
    assert seen(reading(0.125), [edge("B", indices=(0.025, 0, 0))]).verdict == "balanced"


def test_a_broker_in_a_session_does_not_look() -> None:
    """peer S1."""
    detector = LocalDetector(CONFIG, chance=Half(), now_ns=at(0))
    assert detector.run(load(1.5), "BUSY", [edge("B")], session_end_ns=None, changed_ns=None, now_ns=at(1)) == Finding(
        "busy"
    )
    assert detector.reading is None


def settled_at(detector: LocalDetector, second: float, ours: float, *, session_end: float | None) -> bool:
    end_ns = None if session_end is None else at(session_end)
    finding = detector.run(load(ours), "STABILIZING", [], session_end_ns=end_ns, changed_ns=end_ns, now_ns=at(second))
    return "settled" in finding.causes


def test_after_a_session_a_broker_rests() -> None:
    """peer §5.1: the stabilize duration of 30 s (in seconds: §11 row 10)."""
    detector = LocalDetector(CONFIG, chance=Half(), now_ns=at(0))
    assert [settled_at(detector, second, 0.5, session_end=100) for second in (101, 129.9, 130)] == [False, False, True]


def test_the_load_must_be_steady() -> None:
    """peer §5.1: no index may have changed by 0.05 over the last 60 s."""
    detector = LocalDetector(replace(CONFIG, smoothing=1.0, settles_anew=False), chance=Half(), now_ns=at(0))
    looks = [(0, 0.8), (30, 0.5), (60, 0.5), (89, 0.51), (90, 0.52), (95, 0.56)]
    assert [settled_at(detector, second, ours, session_end=None) for second, ours in looks] == [
        True,
        False,
        False,
        False,
        True,
        False,
    ]


def test_what_was_before_a_session_is_no_measure_of_what_is() -> None:
    """Beyond peer §5.1: when rates have nothing of it in them any more, two looks that agree are enough."""
    config = replace(CONFIG, load_window_s=40.0)
    detector = LocalDetector(config, chance=Half(), now_ns=at(0))
    settled_at(detector, 90, 0.8, session_end=None)
    looks = [(101, 0.7), (139, 0.5), (140, 0.4), (141, 0.42)]
    assert [settled_at(detector, second, ours, session_end=100) for second, ours in looks] == [
        False,
        False,
        False,
        True,
    ]
    assert detector.reading is not None
    assert detector.reading.input_utilisation == pytest.approx(0.415), "0.75 of 0.42, and of nothing but 0.4"
    literal = LocalDetector(replace(config, settles_anew=False), chance=Half(), now_ns=at(0))
    settled_at(literal, 90, 0.8, session_end=None)
    assert not any(settled_at(literal, second, ours, session_end=100) for second, ours in looks)


def test_a_long_session_does_not_make_a_load_steady() -> None:
    """peer §5.1: the last look before it counts, however long ago it was."""
    detector = LocalDetector(replace(CONFIG, smoothing=1.0, settles_anew=False), chance=Half(), now_ns=at(0))
    settled_at(detector, 0, 0.8, session_end=None)
    assert not settled_at(detector, 500, 0.4, session_end=400)
    assert not settled_at(detector, 530, 0.4, session_end=400)
    assert settled_at(detector, 560, 0.4, session_end=400)


def test_when_to_look() -> None:
    """peer §5: a random pause between the least and the most, cut short by PIE7."""
    pace = Pace(least_s=20, most_s=40, chance=Half(), now_ns=at(100))
    assert pace.next_ns == at(130)
    pace.wake(at(105))
    assert pace.next_ns == at(105)
    pace.wake(at(107))
    assert pace.next_ns == at(105)
    pace.rest(at(108))
    assert pace.next_ns == at(138)


def test_balanced_set() -> None:
    """peer D6: all three differences within the local thresholds, either way."""
    entries = [
        edge("C", indices=(0.5, 0.5, 0.02)),
        edge("B", indices=(0.59, 0.41, 0.011)),
        edge("D", indices=(0.61, 0.5, 0.02)),
        edge("E", indices=(0.5, 0.39, 0.02)),
        edge("F", indices=(0.5, 0.5, 0.031)),
    ]
    assert balanced_set(BrokerId("A"), Indices(0.5, 0.5, 0.02), entries, config=CONFIG) == ["A", "B", "C"]


def test_a_preview_remembers_nothing() -> None:
    detector = LocalDetector(CONFIG, chance=Half(), now_ns=at(0))
    detector.run(load(0.4), "OK", [], session_end_ns=None, changed_ns=None, now_ns=at(1))
    before, due = detector.reading, detector.pace.next_ns
    finding = detector.preview(load(0.8), "OK", [edge("B")], session_end_ns=None, changed_ns=None, now_ns=at(2))
    assert finding.verdict == "imbalanced"
    assert finding.candidates[0].difference == pytest.approx(0.7)
    assert (detector.reading, detector.pace.next_ns) == (before, due)


def test_clusters() -> None:
    """peer §5.2: the thresholds between clusters, one entry for each, by its largest difference."""
    ours = Indices(0.5, 0.5, 0.02)
    entries = [
        cluster("X", indices=(0.3, 0.1, 0.02)),
        cluster("Y", indices=(0.36, 0.5, 0.02)),
        cluster("Z", indices=(0.0, 0.5, 0.02)),
        cluster("W", "BUSY", indices=(0.0, 0.0, 0.0)),
    ]
    finding = look_around(ours, "OK", entries, config=CONFIG)
    assert [(one.broker, one.action) for one in finding.candidates] == [("Z", "input"), ("X", "output")]
    assert [
        one.broker for one in look_around(ours, "N/A", entries, without=BrokerId("Z"), config=CONFIG).candidates
    ] == ["X"]
    assert look_around(ours, "BUSY", entries, config=CONFIG) == Finding("busy")
    overloaded = [*entries, cluster("V", "N/A")]
    assert look_around(ours, "OK", overloaded, config=CONFIG) == Finding("waits")
    assert look_around(ours, "N/A", overloaded, config=CONFIG).verdict == "imbalanced"


def test_mean_of_a_cluster() -> None:
    """peer §3.2: arithmetic, whatever the size of its edges."""
    found = mean([Indices(0.25, 0.5, 0.125), Indices(0.5, 1.0, 0.375)])
    assert found == Indices(0.375, 0.75, 0.25)
    assert mean([]) is None


def test_differences_are_signed() -> None:
    """peer D2: only the one with the higher index begins."""
    assert differences(Indices(0.2, 0.5, 0.01), Indices(0.5, 0.2, 0.02), norm_s=0.1) == {
        "input": pytest.approx(-0.3),
        "match": pytest.approx(-0.1),
        "output": pytest.approx(0.3),
    }
