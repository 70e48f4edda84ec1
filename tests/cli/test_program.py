"""The program as people run it: exit codes, one document on standard output, quiet endings."""

import ast
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import tidewire
from tidewire.cli import shell

PUBLIC: list[str] = vars(tidewire)["__all__"]
TIDEWIRE = Path(sys.executable).parent / "tidewire"


def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([TIDEWIRE, *arguments], input=given, capture_output=True, check=False, timeout=60)


def test_it_says_its_version() -> None:
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout.startswith(b"tidewire ")


def test_alone_it_shows_its_commands() -> None:
    result = run()
    assert b"explain" in result.stdout + result.stderr
    assert b"error" not in result.stderr


COMMANDS = ["", "explain", "bench", "bench match", "demo", "pub", "sub", "broker", "coordinator", "up", "drain", "sim"]
COMMANDS += ["top", "overlay", "doctor"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_there_and_teaches(command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.returncode == 0
    if command not in ("", "bench"):
        assert b"tidewire " + command.encode() in result.stdout
        assert b"Examples" in result.stdout


@pytest.mark.parametrize("command", [*COMMANDS, "forget", "console", "token", "certificate", "paper"])
def test_help_fits_into_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is cut off; no argument is shown as a Python name."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*command.split(), "--help").stdout.decode()
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert "......" not in shown
    assert "...}..." not in shown


def test_an_error_is_one_document_if_asked() -> None:
    result = run("explain", "a >", "--json")
    assert result.returncode == 2
    assert json.loads(result.stdout)["error"]["code"] == "filter-syntax"


def test_an_error_shows_where() -> None:
    result = run("explain", "a > > 3")
    assert result.returncode == 2
    assert result.stdout == b""
    assert b"filter-syntax" in result.stderr
    assert b"    ^" in result.stderr
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e300", "0"])
def test_a_time_that_no_simulation_can_take(seconds: str) -> None:
    result = run("sim", "--brokers", "2", "--seconds", seconds)
    assert result.returncode == 2
    assert b"--seconds" in result.stderr
    assert b"Traceback" not in result.stderr


def test_bytes_that_are_no_text_do_not_end_in_a_traceback() -> None:
    result = subprocess.run([TIDEWIRE, "explain", b"x = '\xff\xfe'"], capture_output=True, check=False, timeout=60)
    assert result.returncode in (0, 2)
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["explain", "a = 1"], 1), (["explain", "a = ", "--json"], 2), (["sub", "--nosuch", "--json"], 2)],
)
def test_a_reader_that_goes_away_is_no_error(arguments: list[str], code: int) -> None:
    with subprocess.Popen([TIDEWIRE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == code


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Design §7.20: Spark workers load no asyncio; neither do they load what they do not use."""
    script = "import sys, tidewire; print([m for m in ('asyncio', 'msgspec', 'numpy', 'typer') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=60)
    assert result.stdout.strip() == b"[]"


def test_every_public_name_can_be_had() -> None:
    assert all(getattr(tidewire, name) is not None for name in PUBLIC)
    assert set(PUBLIC) <= set(dir(tidewire))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(tidewire, "nonsense")  # noqa: B009 - mypy knows that it is not there


def test_the_stub_names_what_the_package_gives() -> None:
    stub = Path(tidewire.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imported = {alias.name for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported | {"__version__"} == set(PUBLIC)


class Measured(msgspec.Struct, rename="camel"):
    """As reports are."""

    most_s: float
    by_rate: dict[int, float | None]


@pytest.mark.parametrize("print_one", [shell.print_json, shell.print_json_line])
def test_a_number_that_json_does_not_know_is_a_string_and_never_null(
    print_one: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same strings as over HTTP, in every command; null is what is missing."""
    print_one({"a": math.inf, "b": [-math.inf, (math.nan, None, 1.5)], "report": Measured(math.inf, {7: None, 8: 2.0})})
    assert msgspec.json.decode(capsys.readouterr().out) == {
        "a": "Infinity",
        "b": ["-Infinity", ["NaN", None, 1.5]],
        "report": {"mostS": "Infinity", "byRate": {"7": None, "8": 2.0}},
    }
