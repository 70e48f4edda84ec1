"""Every text in this folder comes out as it says, with either engine."""

from pathlib import Path

import pytest

from tidewire.model.errors import UsageError
from tidewire.simulator.scenario import Scenario

HERE = Path(__file__).parent
TEXTS = sorted(HERE.glob("*.txt"))


@pytest.mark.parametrize("engine", ["reference", "kernel"])
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_a_scenario(path: Path, engine: str) -> None:
    """What the text expects, and every checker (peer A1, A2, A3, A4, A5, A6, A7, A8, M3, M5, M6, L9, L11)."""
    assert Scenario(path.read_text(encoding="utf-8"), engine=engine).play() == []


def test_a_scenario_can_fail() -> None:
    """An expectation that does not hold is told with its line."""
    story = "ann@A subscribe price > 10\nbob@A publish price=15\n"
    text = f"{story}----\nann receives nothing\nann receives price=15 via A\n"
    assert Scenario(text).play() == ["line 4: ann receives nothing: ann received {'price': 15}"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ann dances\n----\n", "line 1: ann dances: ann is nobody yet"),
        ("ann@A dances\n----\n", "line 1: ann@A dances: nobody can dances"),
        ("ann@A\n----\n", "line 1: ann@A: nobody can"),
        ("link A B\n----\nann is happy\n", "line 3: this says nothing"),
        ("link A B\n----\nall is well\nbob receives x=1\n", "line 4: bob receives x=1: there is no client named 'bob'"),
        ("link A B\n----\nbob is brought 3 events\n", "line 3: .*no client named 'bob'"),
        ("link A B\n----\nC is head\n", "line 3: C is head: there is no broker named 'C'"),
        ("link A B\n----\nroutes A of C: 1\n", "line 3: .*no broker named 'C'"),
        ("link A B\nmigrate bob B\n----\n", "line 2: migrate bob B: there is no client named 'bob'"),
        ("link A B\ncut A C\n----\n", "line 2: cut A C: there is no node named 'C'"),
        ("link A\n----\n", "line 1: link A: link has NAME NAME behind it"),
        ("wait soon\n----\n", "line 1: wait soon: 'soon': a number"),
        ("wait inf\n----\n", "line 1: wait inf: 'inf': a number"),
        ("broker A colour=red\n----\n", "line 1: .*no setting named 'colour'"),
        ("broker A role\n----\n", "line 1: .*a setting is NAME=VALUE"),
        ("ann@A unsubscribe everything\n----\n", "line 1: .*'everything': a number"),
    ],
)
def test_what_is_no_scenario_is_refused(text: str, says: str) -> None:
    """A line that says nothing is no expectation, and no deed; which one it is, is told."""
    with pytest.raises(UsageError, match=says):
        Scenario(text).play()
