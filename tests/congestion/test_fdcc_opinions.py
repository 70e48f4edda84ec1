"""What subscribers say, and that nobody's word counts more than is its due (epeer §2.10, §7: feedback manipulation)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.congestion.fdcc.expression import Expression
from tidewire.congestion.fdcc.intake import Intake, Voice
from tidewire.congestion.fdcc.links import LinkMeter, TrainMeter
from tidewire.congestion.fdcc.opinions import Averages
from tidewire.congestion.fdcc.selection import Budget
from tidewire.congestion.fdcc.watch import Balanced, Unbalanced, smoothed
from tidewire.model.errors import UsageError
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.shortage_messages import FLOWS_MAX, Opinion
from tidewire.model.traffic import ClassKey
from tidewire.model.values import Value

SECOND = 1_000_000_000
QUAKE = ClassKey("=QUAKE")
ABOUT = 1, 7, QUAKE


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(round(seconds * SECOND))


def says(intake: Intake, conn: int, utility: float, *, second: float = 0.0, **how: Any) -> bool:
    """One opinion about one flow, from a connection of somebody."""
    voice, weight = Voice(how.get("voice", str(conn))), how.get("weight", 1.0)
    opinion = Opinion(1, how.get("publisher", 7), QUAKE, utility, 1)
    known = how.get("known", True)
    return intake.said(Conn(conn), [opinion], voice=voice, weight=weight, may_know=lambda _: known, now_ns=at(second))


def test_averages_are_per_publisher_and_class() -> None:
    """epeer Eq 1: of the messages of that second; of whom nothing came nothing is said."""
    averages = Averages()
    for utility in (0.2, 0.4, 0.9):
        averages.add(1, 7, QUAKE, utility)
    averages.add(1, 8, QUAKE, 5.0)
    said = averages.taken()
    assert said is not None
    assert [(one.publisher, round(one.utility, 9), one.events) for one in said.about] == [(7, 0.5, 3), (8, 1.0, 1)]
    assert averages.taken() is None


def test_opinions_have_a_bound() -> None:
    """However many publishers there are."""
    averages = Averages()
    for publisher in range(FLOWS_MAX + 10):
        averages.add(1, publisher, QUAKE, 1.0)
    said = averages.taken()
    assert said is not None
    assert len(said.about) == FLOWS_MAX


def test_opinions_are_summed_up() -> None:
    """epeer Eq 2: ΣW·Ū over the number of those who spoke."""
    intake = Intake(period_ns=SECOND)
    says(intake, 1, 0.5)
    says(intake, 2, 0.3, weight=0.5)
    assert intake.taken()[ABOUT].utility == pytest.approx(0.325)
    assert intake.taken() == {}


def test_a_flood_is_heard_once() -> None:
    """Who speaks a thousand times in a second has said one thing."""
    intake = Intake(period_ns=SECOND)
    assert says(intake, 1, 0.0)
    heard = [says(intake, 2, 1.0, second=0.4 * i / 1000) for i in range(999)]
    assert heard == [True] + [False] * 998
    assert (intake.heard, intake.ignored_often) == (2, 998)
    assert intake.taken()[ABOUT].utility == pytest.approx(0.5)
    assert says(intake, 2, 1.0, second=1.0), "a second later it may speak again"


def test_many_connections_have_one_voice() -> None:
    """A hundred connections of one identity say what one says; also if they say different things."""
    intake = Intake(period_ns=SECOND)
    says(intake, 1, 0.2, voice="ann")
    for conn in range(100, 200):
        says(intake, conn, 1.0, voice="eve")
    assert intake.taken()[ABOUT].utility == pytest.approx((0.2 + 1.0) / 2)
    says(intake, 1, 0.9, voice="ann", second=5)
    for conn in range(100, 200):
        says(intake, conn, 0.0, voice="eve", second=5)
    assert intake.taken()[ABOUT].utility == pytest.approx(0.45), "nor can it drown the others out"


def test_a_weight_is_a_bound() -> None:
    """Who always says 1 gains no more than its own weight; more than 1, or no number, is cut."""
    intake = Intake(period_ns=SECOND)
    says(intake, 1, 0.0)
    says(intake, 2, 1.0, weight=0.25)
    assert intake.taken()[ABOUT].utility == pytest.approx(0.125)
    says(intake, 3, 50.0, weight=50.0, second=5)
    says(intake, 4, float("nan"), second=5)
    assert intake.taken()[ABOUT].utility == pytest.approx(0.5)


def test_nobody_is_heard_about_strangers() -> None:
    """Of publishers whose events it cannot have got."""
    intake = Intake(period_ns=SECOND)
    assert says(intake, 1, 0.0, known=False)
    assert intake.taken() == {}
    assert intake.ignored_unknown == 1


def test_one_message_says_one_thing_of_a_flow() -> None:
    """The same publisher twice in one message counts once."""
    intake = Intake(period_ns=SECOND)
    twice = [Opinion(1, 7, QUAKE, 1.0, 1)] * 50 + [Opinion(1, 7, QUAKE, 0.0, 1)]
    intake.said(Conn(1), twice, voice=Voice("1"), weight=1.0, may_know=lambda _: True, now_ns=at(0))
    assert intake.taken()[ABOUT].utility == 1.0
    assert intake.ignored_unknown == 50


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8), st.floats(0, 1))
def test_a_liar_moves_no_more_than_its_share(honest: list[tuple[float, float]], lie: float) -> None:
    """Whatever one voice says, a utility moves by at most its weight over all who speak."""

    def utility(said: float) -> float:
        intake = Intake(period_ns=SECOND)
        for conn, (one, weight) in enumerate(honest):
            says(intake, conn, one, weight=weight)
        for conn in range(1000, 1010):
            says(intake, conn, said, voice="liar")
        found = intake.taken()[ABOUT].utility
        assert found is not None
        return found

    assert abs(utility(lie) - utility(0.0)) <= 1 / (len(honest) + 1) + 1e-9


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("0.1 * magnitude", 0.64),
        ("1 if kind == 'QUAKE' and magnitude >= 6 else 0.2", 1.0),
        ("min(1, magnitude / 8) - 0.3", 0.5),
        ("kind in ('WAVE', 'QUAKE')", 1.0),
        ("not missing", 0.0),
        ("where.lat / 100", 0.383),
        ("2", 1.0),
        ("-1", 0.0),
        ("0 < magnitude < 7", 1.0),
        ("kind * 2", 0.0),
        ("magnitude / 0", 0.0),
    ],
)
def test_expressions(text: str, worth: float) -> None:
    """Over the attributes; what cannot be said of an event makes it worth nothing."""
    event: dict[str, Value] = {"kind": "QUAKE", "magnitude": 6.4, "where.lat": 38.3}
    assert Expression(text)(event) == pytest.approx(worth)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import os",
        "__import__('os')",
        "().__class__",
        "magnitude ** 99",
        "[x for x in y]",
        "lambda: 1",
        "f'{a}'",
        "open('x')",
        "a[0]",
        "1 +" * 400 + "1",
        "x" * 2000,
        "(" * 300 + "1" + ")" * 300,
        "min()",
        "abs(a, key=b)",
    ],
)
def test_what_is_no_expression(text: str) -> None:
    """Nothing of Python can be said but what is meant."""
    with pytest.raises(UsageError):
        Expression(text)


def test_smoothing() -> None:
    """epeer G1: the newest of two samples weighs 0.7; the first is used as it is."""
    assert smoothed(0.80, 1.00) == pytest.approx(0.94)
    assert smoothed(None, 1.00) == 1.00


def test_overloaded_for_long_is_short() -> None:
    """Where nobody moves load: beyond TH_high for so many periods; exactly there is not beyond (epeer §2.6)."""
    watch, output = Unbalanced(threshold=0.95, periods=2), Budget("output")
    assert [watch.look({output: load}) for load in (0.95, 0.95, 2.0, 2.0, 0.1, 0.1)] == [False] * 3 + [True] + [
        False,
        False,
    ]


def test_whoever_balances_says_that_nobody_helps() -> None:
    """epeer §2.10: nobody in the whole network can take it; and what it cannot help with lasts."""
    output = Budget("output")
    watch = Balanced(threshold=0.95, periods=3, link_periods=1)
    assert not watch.look({output: 0.5})
    watch.nobody_helps()
    assert watch.look({output: 0.5})
    assert [watch.look({output: 2.0}) for _ in range(4)] == [False, False, True, True]
    assert Balanced(threshold=0.95, periods=3, link_periods=1).look({Budget("head >edge"): 2.0})


def test_what_a_full_link_carries() -> None:
    """A queue that stands says it; without one nothing is known, unless a train has said it."""
    meter, sent = LinkMeter(), 0
    for queued in (0, 0):
        sent += 500_000
        meter.measured(sent_bytes=sent, queued_bytes=queued, elapsed_s=1.0)
    assert _capacity(meter) is None
    queued = 0
    for _ in range(4):
        sent, queued = sent + 600_000, queued + 400_000
        meter.measured(sent_bytes=sent, queued_bytes=queued, elapsed_s=1.0)
    assert meter.capacity_bytes_s == pytest.approx(200_000)
    assert meter.is_standing
    meter.carried(999.0)
    assert meter.capacity_bytes_s == pytest.approx(200_000), "the queue knows better"
    meter.measured(sent_bytes=sent, queued_bytes=0, elapsed_s=1.0)
    meter.carried(250_000.0)
    assert meter.capacity_bytes_s == 250_000.0
    meter.carried(None)
    assert _capacity(meter) is None, "it carries more than can be told: there is no shortage there"


def _capacity(meter: LinkMeter) -> float | None:
    return meter.capacity_bytes_s


def test_what_a_train_says() -> None:
    """The first says when the clock begins; one that is not whole says nothing."""
    meter = TrainMeter()
    assert meter.came(1, 0, 1000, is_last=False, now_ns=0) == (False, None)
    assert meter.came(1, 1, 1000, is_last=False, now_ns=SECOND // 100) == (False, None)
    assert meter.came(1, 2, 1000, is_last=True, now_ns=SECOND // 50) == (True, 100_000.0)
    assert meter.came(2, 1, 1000, is_last=True, now_ns=SECOND) == (False, None)
    meter.came(3, 0, 1000, is_last=False, now_ns=SECOND)
    assert meter.came(3, 1, 1000, is_last=True, now_ns=SECOND + 1000) == (True, None)
