"""Is there a Java that Spark runs on? If not, it is said what to do."""

from pathlib import Path

import pytest

from tidewire.model.errors import Unavailable
from tidewire.spark.java import java_version


def java_home(folder: Path, said: str) -> str:
    """A Java that says so."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    return str(folder)


def test_a_java_that_will_do(tmp_path: Path) -> None:
    """By what it says of itself."""
    assert java_version(java_home(tmp_path, 'openjdk version "21.0.2" 2024-01-16')) == 21


def test_one_that_is_too_old_or_not_there(tmp_path: Path) -> None:
    """The error says which was found, and how to get another."""
    with pytest.raises(Unavailable, match="openjdk-17-jre-headless"):
        java_version(str(tmp_path / "nowhere"))
    with pytest.raises(Unavailable, match="is Java 11, too old"):
        java_version(java_home(tmp_path, 'openjdk version "11.0.2" 2019-01-15'))
