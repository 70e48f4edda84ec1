"""Operators look at a secured network, as processes: with what `up` left, with a token, and with too little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_commands import free_ports, running, says, told
from tests.integration.test_operators import Terminal
from tidewire.cli.shell import ERROR_EXIT, VIOLATION_EXIT

LOOKS = (("top", "--once", "--every", "0.2"), ("overlay", "--seconds", "0"))
"""Commands that show a network; `doctor` judges it."""


class Secured:
    """A head and an edge that ask who one is, with their keys in a folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.at = f"127.0.0.1:{port}"

    def token(self, name: str, *flags: str) -> Path:
        """A file with a token of this name, that may do this."""
        file = self.folder / f"{name}.token"
        told("token", "create", name, *flags, "--out", str(file), folder=self.folder)
        return file


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One network for all; nobody changes it."""
    folder, port = tmp_path_factory.mktemp("secured"), free_ports(3)
    with running("up", "--secure", "--edges", "1", "--no-console", "--port", str(port), folder=folder) as up:
        up.until(says("tidewire is up"))
        yield Secured(folder, port)
        assert up.end() == 0


def _names(look: Any) -> list[str]:
    return [one["status"]["broker"] for one in look["brokers"]]


@pytest.mark.parametrize("command", LOOKS, ids=lambda words: words[0])
def test_the_whole_network_is_seen(command: tuple[str, ...], there: Secured) -> None:
    """By what `up` left, from any of its brokers; and by a token that allows no more than to look."""
    watcher = str(there.token("watcher", "--observe"))
    for more in ([], ["--at", there.at], ["--token-file", watcher]):
        look = told(*command, *more, folder=there.folder)
        assert (_names(look), look["silent"]) == (["edge1", "head"], [])
        members = {one["broker"]: one["is_alive"] for one in look["coordinators"][0]["members"]}
        assert members == {"edge1": True, "head": True}


@pytest.mark.parametrize("command", LOOKS, ids=lambda words: words[0])
def test_who_may_not_look_is_told_why(command: tuple[str, ...], there: Secured, tmp_path: Path) -> None:
    reader, nobody = there.token("reader", "--subscribe", "*"), tmp_path / "nobody.token"
    nobody.write_text("not.a.token")
    for shown, code in ((reader, "not-permitted"), (nobody, "not-authenticated")):
        refused = told(*command, "--token-file", str(shown), folder=there.folder, code=ERROR_EXIT)
        assert refused["error"]["code"] == code
        assert "observe" in refused["error"]["message"] or shown is nobody


@pytest.mark.parametrize("command", LOOKS, ids=lambda words: words[0])
def test_from_elsewhere_it_is_known_by_nothing(command: tuple[str, ...], there: Secured, tmp_path: Path) -> None:
    """Without the authority's certificate a broker is trusted as little as it trusts; in clear, it says nothing."""
    for at in (f"tidewires://{there.at}", there.at):
        refused = told(*command, "--at", at, folder=tmp_path, code=ERROR_EXIT)
        assert refused["error"]["code"] == "unavailable", at


def test_doctor_finds_it_well(there: Secured) -> None:
    diagnosis = told("doctor", folder=there.folder)
    assert diagnosis["problems"] == 0
    said = [one["message"] for one in diagnosis["findings"]]
    assert "secured by the keys in .tidewire/security" in said
    ports = [one["message"].split(" is ")[1] for one in diagnosis["findings"] if one["check"] == "port"]
    assert ports[:3] == ["that of broker head", "that of broker edge1", "that of the coordinator"]


def test_doctor_says_what_keeps_it_from_looking(there: Secured, tmp_path: Path) -> None:
    """A token that does not allow it, none at all, and a key that others can read."""
    reader = there.token("guest", "--subscribe", "*")
    diagnosis = told("doctor", "--token-file", str(reader), "--at", there.at, folder=there.folder, code=VIOLATION_EXIT)
    (answers,) = [one for one in diagnosis["findings"] if one["level"] == "problem"]
    assert (answers["check"], "lacks the permission to observe" in answers["message"]) == ("answers", True)
    diagnosis = told("doctor", "--at", f"tidewires://{there.at}", folder=tmp_path, code=VIOLATION_EXIT)
    assert [one["check"] for one in diagnosis["findings"] if one["level"] == "problem"] == ["answers"]
    key = there.folder / ".tidewire" / "security" / "head.key"
    key.chmod(0o644)
    try:
        diagnosis = told("doctor", folder=there.folder, code=VIOLATION_EXIT)
    finally:
        key.chmod(0o600)
    (loose,) = [one for one in diagnosis["findings"] if one["level"] == "problem"]
    assert "head.key can be read by others" in loose["message"]


def test_top_in_a_terminal(there: Secured) -> None:
    terminal = Terminal("--every", "0.3", folder=there.folder)
    try:
        terminal.until("2 brokers", "edge1", "head", "q end")
        terminal.press("q")
        assert terminal.ended() == (0, True)
    finally:
        terminal.close()
