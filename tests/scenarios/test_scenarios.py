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


@pytest.mark.parametrize("text", ["ann dances\n----\n", "ann@A dances\n----\n", "link A B\n----\nann is happy\n"])
def test_what_is_no_scenario_is_refused(text: str) -> None:
    """A line that says nothing is no expectation, and no deed."""
    with pytest.raises(UsageError):
        Scenario(text).play()
