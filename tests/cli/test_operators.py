"""What operators see: screens that fit, trees that hold everyone, completion, checks that can fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pytest
from rich.console import Console

from tests.observe.examples import answered, channels, load, neighbour, network
from tidewire.broker.decisions import Decision
from tidewire.broker.status import SlowConsumer
from tidewire.cli import installation
from tidewire.cli.app import COMMANDS
from tidewire.cli.app import load as load_command
from tidewire.cli.figures import ago, bar, short, size
from tidewire.cli.installation import Place, examine
from tidewire.cli.overlay import show
from tidewire.cli.top import ORDERS
from tidewire.cli.top_view import ALL, SORTS, View, draw
from tidewire.console.overlay import overlay_document
from tidewire.dataplane.protocol import WhenFull
from tidewire.model.messages import DeclaredRole
from tidewire.observe.network import Network, Unanswered
from tidewire.simulator.world import ENGINES

TIDEWIRE = Path(sys.executable).parent / "tidewire"


def busy(brokers: int, slow: int, silent: int = 0) -> Network:
    """Many brokers with long names in one line, slow clients with longer ones, and decisions."""
    names = [f"{number:02}-broker-with-a-long-name" for number in range(brokers)]
    clients = [
        SlowConsumer(name=f"{'client ' * 9}{n}", queued_bytes=10**7 - n, dropped=10**6, dropped_age_s=3.0)
        for n in range(slow)
    ]
    decision = Decision(age_s=3.0, at_unix_s=None, what="client moves", times=12, facts={"client": "x" * 64, "to": "y"})
    made = []
    for at, name in enumerate(names):
        near = [neighbour(other) for other in names[max(0, at - 1) : at] + names[at + 1 : at + 2]]
        busy_load = load(cpu_utilisation=0.95, input_utilisation=7.0)
        made.append(
            answered(
                name,
                neighbours=near,
                clients=10_000,
                slow=clients,
                slow_clients=slow,
                load=busy_load,
                decisions=[decision] * 30,
                queued_bytes=10**9,
            )
        )
    lost = [
        Unanswered(broker=f"lost{n}", address="127.0.0.1:9", code="unavailable", reason="r" * 200, named_by="a")
        for n in range(silent)
    ]
    return network(*made, silent=tuple(lost))


def screen(view: View, look: Network, *, height: int = 24, plain: bool = False) -> list[str]:
    """The lines of a terminal of 80 columns."""
    out = Console(width=80, height=height, file=StringIO())
    out.print(draw(look, view, height=height, plain=plain), end="")
    assert isinstance(out.file, StringIO)
    return out.file.getvalue().splitlines()


@pytest.mark.parametrize(("brokers", "slow", "silent"), [(1, 0, 0), (3, 2, 1), (50, 30, 3)])
def test_top_fits_a_terminal_of_80_by_24(brokers: int, slow: int, silent: int) -> None:
    """With a line left for the keys; brokers, slow clients and decisions all have their place."""
    lines = screen(View(), busy(brokers, slow, silent))
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "what happened" in text
    assert "client moves x12" in text
    assert ("slow consumer  " in text) == bool(slow)
    assert text.count(" is unreachable: ") == silent


def test_a_broker_is_in_one_state_and_every_screen_has_its_word(capsys: pytest.CaptureFixture[str]) -> None:
    """Draining is graver than full; who just serves has its role alone."""
    neighbours = [neighbour(name, is_full=name != "calm") for name in ("calm", "busy", "gone")]
    look = network(
        answered("calm", role="edge"),
        answered("busy", role="edge"),
        answered("gone", role="edge", is_leaving=True),
        answered("head", role="head", neighbours=neighbours),
        silent=(Unanswered(broker="lost", address="127.0.0.1:1", code="unavailable", reason="no", named_by="head"),),
    )
    assert look.states() == {"calm": "serving", "busy": "full", "gone": "draining", "head": "serving"}
    top = "\n".join(screen(View(), look))
    show(look)
    shown = capsys.readouterr().out
    for name, in_top, in_overlay in [
        ("calm", "edge", "edge"), ("busy", "full", "edge full"), ("gone", "drain", "edge draining"),
    ]:  # fmt: skip
        assert re.search(rf"^{name} +{in_top} ", top, re.MULTILINE), top
        assert re.search(rf"{name} +{in_overlay} ", shown), shown
    assert "lost at 127.0.0.1:1 is unreachable: no" in top
    assert "lost 127.0.0.1:1 is unreachable: no" in shown
    documents = {one.broker: one.state for one in overlay_document(look).brokers}
    assert documents == {**look.states(), "lost": "unreachable"}


def test_the_chosen_broker_is_on_the_screen() -> None:
    """However far down it is; what is below is its own."""
    look, view = busy(50, 0), View()
    for _ in range(45):
        view.move(look, 1)
    assert any(line.startswith(view.chosen[:12]) for line in screen(view, look))
    for _ in range(100):
        view.move(look, -1)
    assert view.chosen == ALL


def test_orders_are_those_that_are_offered() -> None:
    """Each is different from the others, and the last is followed by the first."""
    assert tuple(SORTS) == ORDERS
    view = View()
    for name in [*ORDERS[1:], ORDERS[0]]:
        view.next_sort()
        assert view.sort == name
    quiet = answered("a", clients=1, load=load(cpu_utilisation=0.1), queued_bytes=1)
    loud = answered("b", clients=9, load=load(cpu_utilisation=0.9), queued_bytes=9)
    for name in ("clients", "load", "queued"):
        assert [one.status.broker for one in View(sort=name).sorted(network(quiet, loud))] == ["b", "a"]


def test_a_terminal_without_unicode_gets_plain_bars() -> None:
    look = network(answered("a", load=load(cpu_utilisation=0.95)))
    assert all(line.isascii() for line in screen(View(), look, plain=True))
    assert "#####" in screen(View(), look, plain=True)[3]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (0.26, "0.3"),
        (7, "7"),
        (12.3, "12"),
        (999.6, "1.0k"),
        (3450, "3.5k"),
        (1.2e6, "1.2M"),
        (9.9e11, "990G"),
    ],
)
def test_short_numbers(number: float, shown: str) -> None:
    assert short(number) == shown


def test_sizes_ages_and_bars() -> None:
    assert [size(n) for n in (0, 999, 1500, 8.4e6, 3e9)] == ["0B", "999B", "1.5kB", "8.4MB", "3.0GB"]
    assert [ago(s) for s in (0.4, 59, 61, 7200, 200_000)] == ["0s", "59s", "1m", "2h", "2d"]
    assert [bar(share, 4, plain=True).plain for share in (0, 0.5, 7)] == ["....", "##..", "####"]
    assert all(len(bar(share, 5)) == 5 for share in (0, 0.01, 0.33, 0.99, 1, 9))


def test_the_data_cluster_stands_below_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    show(network(answered("a", channels=channels()), answered("b", channels=channels(is_connected=False))))
    [line] = [one for one in capsys.readouterr().out.splitlines() if "data cluster" in one]
    assert line.strip() == "data cluster 127.0.0.1:7605: 1 of 2 brokers, 2 channels, 80 subscriptions"
    assert len(line) <= 80


def test_the_tree_holds_everyone_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A circle of three with an edge, and a broker of its own; the link that is no branch is told."""
    look = network(
        answered("a", neighbours=[neighbour("b"), neighbour("c")]),
        answered("b", neighbours=[neighbour("a"), neighbour("c")]),
        answered("c", neighbours=[neighbour("a"), neighbour("b"), neighbour("e")]),
        answered("e", role="edge", neighbours=[neighbour("c")]),
        answered("lone", role="both"),
    )
    show(look)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0:2] for line in lines[3:6]] == [["c", "head"], ["├", "a"], ["├", "b"]]
    assert sum("also linked" in line for line in lines) == 1
    for name in ("└ e ", "lone "):
        assert sum(line.startswith(name) for line in lines) == 1
    assert max(map(len, lines)) <= 80


# -- the installation --------------------------------------------------------------------------------------------------


def findings(tmp_path: Path, look: Network | None = None) -> dict[str, str]:
    """The worst of each check."""
    place = Place(state=tmp_path / "state", at="127.0.0.1:1", network=look)
    worst: dict[str, str] = {}
    for one in examine(place):
        order = ["", "ok", "warning", "problem"]
        worst[one.check] = max(worst.get(one.check, ""), one.level, key=order.index)
    return worst


def test_this_installation_has_no_problem(tmp_path: Path) -> None:
    found = findings(tmp_path, network(answered("a")))
    assert "problem" not in found.values()
    machine = ["python", "packages", "kernel", "simd", "files"]
    assert list(found) == [*machine, "state", "clock", "data", "port", "exposure", "security"]


@pytest.mark.parametrize(
    ("check", "level", "what", "value"),
    [
        ("python", "problem", "PYTHON_MIN", (4, 0)),
        ("files", "warning", "getrlimit", lambda _: (64, 64)),
        ("state", "problem", "TOO_LITTLE_BYTES", 1 << 60),
        ("state", "warning", "LITTLE_BYTES", 1 << 60),
        ("clock", "problem", "time", lambda: 0.0),
    ],
)
def test_what_is_wrong_with_it_is_found(
    check: str, level: str, what: str, value: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installation, what, value)
    assert findings(tmp_path)[check] == level


@pytest.mark.parametrize("wanted", ["msgspec>=999", "not-there"])
def test_packages_that_are_missing_or_old_are_found(
    wanted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda _: [wanted])
    assert findings(tmp_path)["packages"] == "problem"


def test_a_kernel_older_than_its_sources_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As after an edit without a build."""
    from tidewire._kernel import _native

    old = tmp_path / "_native.so"
    old.touch()
    os.utime(old, (1, 1))
    monkeypatch.setattr(_native, "__file__", str(old))
    assert findings(tmp_path)["kernel"] == "warning"


def test_tables_that_nobody_can_serve_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without tables it is no matter that there is no Java."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert findings(tmp_path)["data"] == "ok"
    (tmp_path / "state" / "data").mkdir(parents=True)
    assert findings(tmp_path)["data"] == "warning"


def test_a_folder_that_is_none_is_found(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    assert findings(tmp_path)["state"] == "problem"


def test_other_machines_and_other_programs_are_told_of(tmp_path: Path) -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        place = Place(state=tmp_path, at=f"127.0.0.1:{port}", network=network(answered("a", address="0.0.0.0:7600")))
        found = [one.message for one in examine(place) if one.level == "warning"]
    assert any(f"port {port} is taken by" in message and f"process {os.getpid()}" in message for message in found)
    assert any("0.0.0.0:7600" in message for message in found)


# -- completion --------------------------------------------------------------------------------------------------------


def completed(line: str, shell: str = "bash") -> list[str]:
    """What a shell offers behind this."""
    words = line.split(" ")
    told = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    told |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TIDEWIRE_COMPLETE": f"complete_{shell}"}
    done = subprocess.run(
        [TIDEWIRE], env={**os.environ, **told}, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split("\n")


def test_commands_options_and_values_are_completed() -> None:
    assert [one for one in completed("tidewire ") if one] == list(COMMANDS)
    assert [one for one in completed("tidewire do") if one] == ["doctor"]
    assert {"--at", "--every", "--once", "--json"} <= set(completed("tidewire top --"))
    assert [one for one in completed("tidewire bench match --workload s") if one] == ["stock", "selective"]


def test_tokens_and_brokers_are_completed_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidewire.cli import talk
    from tidewire.identity.grants import EVERYTHING
    from tidewire.live.security import init_security
    from tidewire.live.tokens import issue, revoke_tokens

    keys = tmp_path / "keys"
    init_security(keys)
    for name in ("ann", "anton", "bob"):
        issue(keys, name, EVERYTHING, seconds=60)
    revoke_tokens(keys, ["anton"])
    monkeypatch.chdir(tmp_path)
    assert [one for one in completed("tidewire token revoke --security keys an") if one] == ["ann"]
    assert len([one for one in completed("tidewire token revoke --security keys ") if one]) == 4
    assert [one for one in completed("tidewire token revoke --security nowhere an") if one] == []
    assert [one for one in completed("tidewire drain e") if one] == []

    async def look(*_: object, **__: object) -> Network:
        return network(answered("edge1"), answered("edge2"), answered("head"))

    monkeypatch.setattr(talk, "_look", look)
    assert [name for name, _ in talk._running_brokers("e")] == ["edge1", "edge2"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_served(shell: str) -> None:
    """The script to install, and its answers."""
    made = subprocess.run(
        [TIDEWIRE, "--show-completion", shell],
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},  # it is named instead
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert f"_TIDEWIRE_COMPLETE=complete_{shell}" in made.stdout
    assert any("overlay" in one for one in completed("tidewire over", shell))


def test_values_that_are_completed_are_those_there_are() -> None:
    from tidewire.benchmarks.workloads import WORKLOADS

    for command, option, known in (
        ("sim", "engine", ENGINES),
        ("broker", "role", get_args(DeclaredRole)),
        ("broker", "slow-subscriber", get_args(WhenFull)),
        ("top", "sort", SORTS),
    ):
        offered = [one for one in completed(f"tidewire {command} --{option} ") if one]
        assert sorted(offered) == sorted(known)
    assert sorted(one for one in completed("tidewire bench match --workload ") if one) == sorted(WORKLOADS)


NEVER = ("numpy", "pydantic", "tidewire.language", "tidewire.live.connect", "tidewire.simulator")


@pytest.mark.parametrize(
    ("line", "offered", "heavy"),
    [
        ("tidewire do", "doctor", (*NEVER, "asyncio", "msgspec", "rich.console", "tidewire.live")),
        ("tidewire top --on", "--once", NEVER),
        ("tidewire sub --tok", "--token-file", NEVER),
        ("tidewire sim --cal", "--calm", NEVER),
        ("tidewire token create --ob", "--observe", NEVER),
        ("tidewire bench match --works", "", NEVER),
    ],
)
def test_completing_loads_little(line: str, offered: str, heavy: tuple[str, ...]) -> None:
    """Whoever presses Tab waits for it: not for what checks values, nor for what a command is made of."""
    script = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print([name for name in {heavy!r} if name in sys.modules]))\n"
        "from tidewire.cli import main\n"
        "main()\n"
    )
    told = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_TIDEWIRE_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert [one for one in done.stdout.splitlines() if one] == [*([offered] if offered else []), "[]"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there(name: str) -> None:
    command = load_command(name)
    assert command.name == name
    assert COMMANDS[name].line.split()[0] == (command.help or "").split()[0]


def test_nobody_there_is_an_error_that_says_what_to_start() -> None:
    for command in ("top", "overlay"):
        done = subprocess.run(
            [TIDEWIRE, command, "--at", "127.0.0.1:1", "--json"], capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 2
        error = json.loads(done.stdout)["error"]
        assert error["code"] == "unavailable"
        assert "tidewire up" in error["message"]
