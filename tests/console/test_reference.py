"""The examples of the reference work, as they stand."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.console.serving import served_in_thread
from tidewire.console.errors import STATUSES, UnknownPath

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "http.md"
STATUSES_HOME = UnknownPath.__module__
THERE = "http://127.0.0.1:7604"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_what_people_are_told_to_type() -> None:
    """Every block with curl in it, against a live door: none is an error."""
    blocks = [block for block in re.findall(r"```sh\n(.*?)```", REFERENCE.read_text(), re.DOTALL) if "curl" in block]
    assert len(blocks) >= 6
    with served_in_thread() as url:
        for block in blocks:
            assert THERE in block
            done = subprocess.run(
                ["bash", "-euc", block.replace(THERE, url)], capture_output=True, text=True, timeout=30, check=False
            )
            assert done.returncode == 0, done.stderr
            assert '"error"' not in done.stdout, block + done.stdout


def test_errors_of_the_door_are_in_the_reference() -> None:
    text = REFERENCE.read_text()
    own = [kind.code for kind, _ in STATUSES if kind.__module__ == STATUSES_HOME]
    assert len(own) == 7
    assert [code for code in own if f"`{code}`" not in text] == []
