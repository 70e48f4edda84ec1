"""`tidewire dataset`: what is declared is there, what cannot be is refused with a code, and nothing is half done."""

import json
from pathlib import Path
from typing import Any

import pytest

from tidewire.cli import main


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the document."""
    monkeypatch.setattr("sys.argv", ["tidewire", "dataset", *words, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return int(ended.value.code or 0), found


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_create_load_list_and_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Reference data, from a file to what is shown."""
    folder = ("--folder", f"{scheme}{tmp_path / 'data'}")
    file = tmp_path / "shelters.csv"
    file.write_text("name,places\nschool,100\nhall,20\n")
    code, made = run(capsys, monkeypatch, "create", "shelters", "name string, places int", "--key", "name", *folder)
    assert (code, made["dataset"]["columns"][1]) == (0, {"name": "places", "type": "bigint"})
    assert run(capsys, monkeypatch, "load", "shelters", str(file), *folder)[1]["loaded"] == 2
    file.write_text("name,places\nhall,30\n")
    assert run(capsys, monkeypatch, "load", "shelters", str(file), *folder)[1]["loaded"] == 1
    [listed] = run(capsys, monkeypatch, "list", *folder)[1]["datasets"]
    assert (listed["name"], listed["rows"], listed["aside"], listed["feed"]) == ("shelters", 2, 0, None)
    shown = run(capsys, monkeypatch, "show", "shelters", *folder)[1]["newest"]
    assert {row["name"]: row["places"] for row in shown} == {"school": 100, "hall": 30}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("create", "d", "a number"), "unknown-name"),
        (("create", "d", "a bigint", "--feed", "class ="), "filter-syntax"),
        (("create", "d", "a bigint", "--time", "a"), "configuration"),
        (("create", "d", "a bigint", "--feed", "a = 1", "--since", "noon"), "configuration"),
        (("load", "d", "rows.csv"), "unknown-name"),
        (("show", "d"), "unknown-name"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(
    words: tuple[str, ...],
    code: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the code of what is wrong."""
    ended, told = run(capsys, monkeypatch, *words, "--folder", str(tmp_path / "data"))
    assert (ended, told["error"]["code"]) == (2, code)
    assert not (tmp_path / "data").exists()


NOBODY = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hidden"}


@pytest.mark.parametrize(
    ("where", "variables", "code", "said"),
    [
        ("ftp://host/x", {}, "configuration", "s3://bucket/path"),
        ("s3:/bucket/x", {}, "configuration", "in full"),
        ("s3://a:hidden@bucket/x", {}, "configuration", "AWS_SECRET_ACCESS_KEY"),
        ("s3://bucket/x", NOBODY, "configuration", "AWS_ALLOW_HTTP"),
        ("s3://bucket/x", {**NOBODY, "AWS_ALLOW_HTTP": "true"}, "unavailable", "cannot be reached"),
    ],
)
def test_a_place_that_cannot_be_is_told_with_what_to_do(
    where: str,
    variables: dict[str, str],
    code: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And never with a key."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ended, told = run(capsys, monkeypatch, "list", "--folder", where)
    assert (ended, told["error"]["code"]) == (2, code)
    assert said in told["error"]["message"]
    assert "hidden" not in told["error"]["message"]
