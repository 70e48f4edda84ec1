"""What `tidewire rebalance` shows of each broker: within 80 columns, whatever they are called."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.test_operators import screen
from tests.observe.examples import answered, balance, network
from tidewire.balancing.detectors import Candidate
from tidewire.balancing.indices import Reading
from tidewire.broker.balance_documents import Figures, NextStep, WouldMove
from tidewire.cli.rebalance import _refuse_unbalanced, _show
from tidewire.cli.top_view import View
from tidewire.model.errors import BadConfiguration
from tidewire.model.ids import BrokerId

LONG = "edge-with-a-rather-long-name-that-goes-on-and-on"


def figures(output: float) -> dict[str, float]:
    return {
        "input_utilisation": 0.1,
        "output_utilisation": output,
        "cpu_utilisation": 0.1,
        "memory_utilisation": 0.01,
        "matching_delay_s": 0.0000123,
    }


def step(**given: Any) -> NextStep:
    usual: dict[str, Any] = {
        "broker": LONG,
        "role": "edge",
        "is_automatic": True,
        "condition": "OK",
        "verdict": "imbalanced",
        "smoothed": Reading(**figures(0.8)),
        "known": ["edge2"],
        "partner": None,
        "candidates": [Candidate(BrokerId(f"{LONG}2"), BrokerId("head"), "output", 0.4)],
    }
    return NextStep(**usual | given)


def shown(capsys: pytest.CaptureFixture[str], one: NextStep, *, is_dry_run: bool = True) -> str:
    _show(one, is_dry_run=is_dry_run)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    return " ".join(text.split())


def test_a_dry_run_says_who_would_move_and_what_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    would = WouldMove(
        acceptor="edge2",
        action="output",
        clients=40,
        names=[f"[bold]client{number}" for number in range(20)],
        why="it is even",
        donor_before=Figures(**figures(0.8)),
        donor_after=Figures(**figures(0.6)),
        acceptor_before=Figures(**figures(0.4)),
        acceptor_after=Figures(**figures(0.6)),
    )
    text = shown(capsys, step(would_move=would))
    assert "has more to do than others" in text
    assert "would move 40 clients to edge2: [bold]client0, [bold]client1, [bold]client2 and 37 more" in text
    assert "here now in 10.0% out 80.0%" in text
    assert "then in 10.0% out 60.0%" in text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"smoothed": None, "candidates": []}, "has not measured its load yet"),
        ({"known": [], "candidates": [], "verdict": "balanced"}, "has heard of no other edge"),
        ({"verdict": "busy", "partner": "edge2", "candidates": []}, "is in a session with edge2"),
        ({"declined": {"edge2": "BUSY"}, "why": "nobody takes anything over"}, "edge2 would take nothing: BUSY"),
        ({"why": "nobody takes anything over"}, "nobody would move: nobody takes anything over"),
        ({"is_automatic": False}, "moves nobody by itself"),
        ({"role": "head", "smoothed": None, "verdict": "balanced"}, "its cluster is even with the others"),
    ],
)
def test_why_nothing_would_happen_is_said(capsys: pytest.CaptureFixture[str], given: dict[str, Any], says: str) -> None:
    assert says in shown(capsys, step(**given))


def test_without_a_dry_run_it_says_whom_it_asks(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, step(candidates=[Candidate(BrokerId("e2"), BrokerId("h"), "match", 0.4)]), is_dry_run=False)
    assert "asks e2: the matching delay differs by 0.4" in text


def test_a_network_in_which_nobody_balances_is_refused() -> None:
    with pytest.raises(BadConfiguration, match='Set balancing = "peer"'):
        _refuse_unbalanced(network(answered("a")))
    _refuse_unbalanced(network(answered("a"), answered("b", balance=balance())))


def test_top_has_a_line_for_balancing_if_somebody_balances() -> None:
    """Conditions, sessions by what came of them, clients moved, and how far predictions were off."""
    assert "balancing" not in "\n".join(screen(View(), network(answered("a"))))
    look = network(answered("a", balance=balance()), answered("b", balance=balance(condition="N/A")))
    text = "\n".join(screen(View(), look))
    assert "balancing  1 OK  1 N/A  sessions 6/4/2  clients moved 60  off by in 1% out 2%" in text
    assert "delay" in "\n".join(screen(View(chosen="a"), look))
