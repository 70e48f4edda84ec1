"""What others wrote steers no terminal and forges no line, wherever it is shown."""

from __future__ import annotations

import io
from types import SimpleNamespace

import msgspec
import pytest
from rich.console import Console

from tests.observe.examples import answered, network
from tidewire.broker.decisions import Decision
from tidewire.broker.status import SlowConsumer
from tidewire.cli import doctor, listening, overlay, talk
from tidewire.cli.serve import FACT_MAX, Speaker
from tidewire.cli.shell import _show_error, print_json
from tidewire.cli.top_view import View, draw
from tidewire.client.events import Tell
from tidewire.observe.findings import Finding
from tidewire.observe.network import CoordinatorView, Unanswered

EVIL = "ann\x1b[2J\x1b]0;mine\x07\x9b31m\u202e\nforged  [red]line[/red]"


def is_harmless(text: str) -> bool:
    return not any(one in text for one in "\x1b\x07\x9b\u202e") and "\nforged" not in text


@pytest.mark.parametrize("as_json", [False, True])
def test_a_log(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    Speaker(as_json=as_json).say("slow subscriber", {"client": EVIL, EVIL: 3, "much": "x" * 10 * FACT_MAX})
    told = capsys.readouterr().out
    assert is_harmless(told)
    assert "[red]line" in told
    assert len(told.splitlines()) == 1
    assert len(told) < 2 * FACT_MAX


@pytest.mark.parametrize("as_json", [False, True])
def test_events_and_notices(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    one = SimpleNamespace(
        attributes={EVIL: EVIL}, subscriptions=[SimpleNamespace(number=0)], latency=0.001, deadline=None, is_late=False
    )
    listening._show(one, ["true"], 0, as_json=as_json)  # type: ignore[arg-type]
    talk.show_notice(Tell("goodbye", {"reason": EVIL}))
    shown = capsys.readouterr()
    assert "ann" in shown.out
    assert is_harmless(shown.out)
    assert is_harmless(shown.err)
    assert len(shown.out.splitlines()) == len(shown.err.splitlines()) == 1


def test_every_view_of_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    slow = SlowConsumer(name=EVIL, queued_bytes=10, dropped=1, dropped_age_s=1.0)
    decision = Decision(age_s=1.0, at_unix_s=None, what=EVIL, times=1, facts={EVIL: EVIL})
    lost = Unanswered(broker=EVIL, address=EVIL, code="unavailable", reason=EVIL, named_by="a")
    view = CoordinatorView(address=EVIL, members=[], reason=EVIL)
    seen = network(answered(EVIL, slow=[slow], slow_clients=1, decisions=[decision]), silent=(lost,))
    look = msgspec.structs.replace(seen, coordinators=[view])
    drawn = Console(file=io.StringIO(), width=400)
    drawn.print(draw(look, View(), height=40))
    assert isinstance(drawn.file, io.StringIO)
    assert is_harmless(drawn.file.getvalue())
    overlay.show(look)
    doctor._show([Finding(check="x", level="warning", message=EVIL, advice=EVIL)], 0, 1)
    print_json({"name": EVIL})
    assert is_harmless(capsys.readouterr().out)


def test_an_error_keeps_its_lines_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    _show_error("peer", "first\n  ^\x1b[2J\x9b", as_json=False)
    told = capsys.readouterr().err
    assert "first\n  ^" in told
    assert is_harmless(told)
