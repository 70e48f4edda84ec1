"""The commands as people run them: processes in a terminal, told to end by a signal."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

WAIT_S = 30.0


class Running:
    """A command that goes on; what it says with --json, document by document, and beside that."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, lines: Any) -> None:
        for line in lines:
            self._lines.put(line)

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next document that is so."""
        while True:
            line = self._lines.get(timeout=WAIT_S)
            document: dict[str, Any] = json.loads(line) if line.startswith("{") else {"what": line}
            if wanted(document):
                return document

    def end(self) -> int:
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT_S)


def says(what: str, **facts: Any) -> Callable[[dict[str, Any]], bool]:
    """Is it a document with these?"""
    return lambda one: one.get("what") == what and all(one.get(name) == value for name, value in facts.items())


def carries(**attributes: Any) -> Callable[[dict[str, Any]], bool]:
    """Is it an event with just these?"""
    return lambda one: one.get("event") == attributes


@contextmanager
def running(*arguments: str, folder: Path) -> Iterator[Running]:
    """This command, ended with the test at the latest."""
    command = [sys.executable, "-m", "tidewire", *arguments, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder) as process:
        try:
            yield Running(process)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(WAIT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise


def told(*arguments: str, folder: Path, code: int | None = 0, typed: str = "") -> Any:
    """The one document of a command that ends, beside which nothing is said if it fails (without a code: as it may)."""
    done = subprocess.run(
        [sys.executable, "-m", "tidewire", *arguments, "--json"],
        input=typed,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=WAIT_S,
        check=False,
    )
    assert code is None or done.returncode == code, done.stderr
    assert done.returncode == 0 or not done.stderr
    return json.loads(done.stdout)


def shell(*arguments: str, folder: Path, typed: str = "") -> str:
    """What a command that ends well says to people."""
    command = [sys.executable, "-m", "tidewire", *arguments]
    return subprocess.run(
        command, input=typed, capture_output=True, text=True, cwd=folder, timeout=WAIT_S, check=True
    ).stdout


def process_with(words: str) -> int:
    """The process whose command line has these."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and words in (entry / "cmdline").read_bytes().decode().replace("\0", " "):
                return int(entry.name)
    raise AssertionError(f"no process with {words}")


def free_ports(count: int) -> int:
    """The first of so many in a row that nobody listens on."""
    for first in range(20_000 + os.getpid() % 5_000, 60_000, count):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


def test_a_network_in_one_terminal(tmp_path: Path) -> None:
    """It comes up, carries events, empties a broker, starts a killed one again, and ends by Ctrl-C."""
    port = free_ports(5)
    head, edge = f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
    with running("up", "--port", str(port), folder=tmp_path) as network:
        up = network.until(says("tidewire is up"))
        assert (up["head"], up["edges"]) == (head, [edge, f"127.0.0.1:{port + 2}"])
        assert up["console"] == f"http://127.0.0.1:{port + 4}"
        look = httpx.get(f"{up['console']}/v1/overlay", timeout=WAIT_S, trust_env=False).json()
        assert [one["broker"] for one in look["brokers"]] == ["edge1", "edge2", "head"]
        with running("sub", "magnitude >= 6", "--at", edge, "--count", "2", folder=tmp_path) as subscriber:
            subscriber.until(lambda one: one.get("what", "").startswith("subscribed at edge1"))
            done = told("pub", '{"magnitude": 6.5}', '{"magnitude": 5.5}', "--at", head, folder=tmp_path)
            assert (done["published"], done["broker"]) == (2, "head")
            event = subscriber.until(lambda one: "event" in one)
            assert event["event"]["magnitude"] == 6.5
            drained = told("drain", edge, folder=tmp_path)
            assert drained == {"drained": edge}
            told("pub", '{"magnitude": 7.5}', "--at", head, folder=tmp_path)
            subscriber.until(lambda one: one.get("event", {}).get("magnitude") == 7.5)
            assert subscriber.process.wait(WAIT_S) == 0
        taken = told("up", "--port", str(port), folder=tmp_path, code=2)
        assert "--port" in taken["error"]["message"]
        os.kill(process_with(f"--name edge2 --listen 127.0.0.1:{port + 2}"), signal.SIGKILL)
        network.until(lambda one: one.get("node") == "edge2" and "starts again" in one["what"])
        network.until(says("neighbour up", node="head", broker="edge2"))
        assert network.end() == 0


def test_a_second_one_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    """What commands in that folder need stays that of the first; with a folder of its own there is room for both."""
    port, other = free_ports(3), free_ports(6) + 3
    small = ["--edges", "0", "--no-console", "--port"]
    profile = tmp_path / ".tidewire" / "client.toml"
    with running("up", *small, str(port), folder=tmp_path) as first:
        first.until(says("tidewire is up"))
        known = profile.read_text()
        refused = told("up", *small, str(other), folder=tmp_path, code=2)["error"]
        assert refused["code"] == "store-locked"
        assert "tidewire up --state DIR --port PORT" in refused["message"]
        assert profile.read_text() == known
        with running("up", *small, str(other), "--state", "second", folder=tmp_path) as second:
            second.until(says("tidewire is up"))
            assert second.end() == 0
        assert profile.read_text() == known
        assert told("pub", '{"n": 1}', folder=tmp_path)["broker"] == "head"
        assert first.end() == 0
    with running("up", *small, str(port), folder=tmp_path) as again:
        again.until(says("tidewire is up"))
        assert again.end() == 0


@pytest.mark.parametrize("flags", [[], ["--secure"]])
@pytest.mark.parametrize("state", [".tidewire", "a state"])
def test_what_it_says_to_try_can_be_typed_as_it_stands(state: str, flags: list[str], tmp_path: Path) -> None:
    """Also with a state in another place, and a space in its name."""
    arguments = ["up", "--edges", "0", "--no-console", "--port", str(free_ports(3)), "--state", state, *flags]
    with subprocess.Popen(
        [sys.executable, "-m", "tidewire", *arguments], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as up:
        lines = typed_hints(up, "token create" if flags else "tidewire pub")
        try:
            assert ("export" in lines[0]) is (state != ".tidewire")
            assert len(lines) == 2 + bool(flags) + (state != ".tidewire")
            type_all([line + " --seconds 0.1" if " sub " in line else line for line in lines], folder=tmp_path)
        finally:
            up.send_signal(signal.SIGINT)


def typed_hints(process: subprocess.Popen[str], last: str) -> list[str]:
    """The lines that it says to try, up to one with these words."""
    found = []
    assert process.stdout is not None
    for line in process.stdout:
        found += [line.strip()] if line.startswith("  ") else []
        if last in line:
            return found
    raise AssertionError(f"it never said {last}")


def type_all(lines: list[str], *, folder: Path) -> None:
    """In a shell, one after the other: each must go well."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", "\n".join(lines)], cwd=folder, timeout=WAIT_S, check=False, capture_output=True, text=True,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_who_is_killed_leaves_no_node_behind(tmp_path: Path) -> None:
    """Nodes that are children end by themselves, and cleanly: the next one has their ports, and their logs."""
    port = free_ports(4)
    arguments = ["up", "--edges", "1", "--port", str(port)]
    with running(*arguments, folder=tmp_path) as up:
        up.until(says("tidewire is up"))
        nodes = [process_with(f"--listen 127.0.0.1:{port + at}") for at in range(4)]
        assert len(set(nodes)) == 4
        up.process.kill()
        up.process.wait(WAIT_S)
    until_gone(nodes)
    with running(*arguments, folder=tmp_path) as up:
        up.until(says("tidewire is up"))
        assert up.end() == 0


def until_gone(processes: list[int]) -> None:
    """Each of them has ended."""
    end_s = time.monotonic() + WAIT_S
    while left := [one for one in processes if is_there(one)]:
        assert time.monotonic() < end_s, left
        time.sleep(0.05)


def is_there(process: int) -> bool:
    """And is more than a name that nobody has asked for yet."""
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("flags", [[], ["--secure"]])
def test_beside_up_the_coordinator_says_which_broker_to_use(flags: list[str], tmp_path: Path) -> None:
    """Commands and the console find it by themselves: subscribers go to the edges in turn, and so do HTTP's users."""
    port = free_ports(5)
    with running("up", "--port", str(port), *flags, folder=tmp_path) as network, ExitStack() as stack:
        up = network.until(says("tidewire is up"))
        ears = [stack.enter_context(running("sub", "n > 0", "--count", "1", folder=tmp_path)) for _ in range(2)]
        places = [one.until(lambda said: said.get("what", "").startswith("subscribed at "))["what"] for one in ears]
        assert sorted(place.split(";")[0] for place in places) == ["subscribed at edge1", "subscribed at edge2"]
        assert told("pub", '{"n": 1}', folder=tmp_path)["broker"] == "head"
        assert [one.process.wait(WAIT_S) for one in ears] == [0, 0]
        token = tmp_path / ".tidewire" / "security" / "first.token"
        headers = {"Authorization": f"Bearer {token.read_text().strip()}"} if flags else {}
        with httpx.Client(base_url=up["console"], headers=headers, timeout=WAIT_S, trust_env=False) as client:
            assert client.post("/v1/registeruser", json={"user": "ann"}).json() == {"user": "ann"}
            found = [client.post("/v1/requestbroker", json={"user": "ann"}).json()["broker"] for _ in range(2)]
            assert sorted(found) == ["edge1", "edge2"]
        findings = told("doctor", folder=tmp_path, code=None)["findings"]
        [about] = [one["message"] for one in findings if one["check"] == "coordinator"]
        assert f"the coordinator at 127.0.0.1:{port + 3} knows 3 brokers, all connected" in about
        assert "newcomers get a broker by round-robin" in about
        assert network.end() == 0


def test_nodes_from_files(tmp_path: Path) -> None:
    """A coordinator and two brokers by their settings."""
    (tmp_path / "coordinator.toml").write_text('address = "127.0.0.1:0"\nstore = "members.json"\n')
    with running("coordinator", "--config", "coordinator.toml", folder=tmp_path) as coordinator:
        where = coordinator.until(says("coordinator"))["address"]
        for name, role in (("hub", "head"), ("rim", "edge")):
            (tmp_path / f"{name}.toml").write_text(
                f'broker = "{name}"\naddress = "127.0.0.1:0"\nrole = "{role}"\ncoordinator = "{where}"\n'
            )
        with running("broker", "--config", "hub.toml", folder=tmp_path) as hub:
            assert hub.until(says("broker"))["role"] == "head"
            with running("broker", "--config", "rim.toml", "--slow-subscriber", "end", folder=tmp_path) as rim:
                assert rim.until(says("broker"))["slow_subscriber"] == "end"
                hub.until(says("neighbour up", broker="rim"))
                assert (rim.end(), hub.end(), coordinator.end()) == (0, 0, 0)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('rolle = "head"', "there is no setting rolle; did you mean role?"),
        ('role = "king"', "role must be one of auto, head, edge, both"),
        ("broker = 7", "broker: Expected str, got int"),
        ("heartbeat_s = -1", "heartbeat_s = -1"),
        ("cpu_share = 2", "cpu_share = 2.0: it is a share of one core, from 1e-06 to 1"),
        (
            "matching_slope_s = -1",
            "matching_slope_s = -1.0: it is what a subscription adds to the matching of an event, from 0 to 1 s",
        ),
        ("output_bytes_s = nan", "output_bytes_s = nan: it must be at least 1"),
        ('release = "never"', "release must be one of acknowledged, retention"),
        ("retain_s = nan", "retain_s = nan: it must be from 0 to"),
        ("congestion = 3", "congestion: Expected object, got int"),
        (
            'congestion.rate_policy = "pdc"',
            "no rate policy named 'pdc'; known: pdcc, pdcc-direct, pdcc-settled, unlimited",
        ),
        ('congestion.window_policy = "x"', "no window policy named 'x'; known: sdcc, sdcc-probing, unlimited"),
        ("congestion.quiets = 1", "there is no setting congestion.quiets; did you mean quiet_s?"),
        ("congestion.nack_rise = inf", "nack_rise = inf: it must be a number above 0"),
        ('congestion.query_s = "x"', "congestion.query_s: Expected float, got str"),
        ("role = ", "hub.toml"),
        ('neighbours = ["127.0.0.1:7600", "foo:bar"]', "neighbours: 'foo:bar' is no address"),
        ('coordinator = "127.0.0.1:70000"', "coordinator: '127.0.0.1:70000' is no address"),
    ],
)
def test_a_setting_that_cannot_be(line: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "hub.toml").write_text(line + "\n")
    refused = told("broker", "--config", "hub.toml", folder=tmp_path, code=2)
    assert "hub.toml" in refused["error"]["message"]
    assert says in refused["error"]["message"]


def test_a_data_cluster_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said once, and all else goes on; commands about channels say that there is none."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    port = free_ports(4)
    with running("up", "--data-cluster", "--no-console", "--edges", "1", "--port", str(port), folder=tmp_path) as up:
        warning = up.until(says("warning"))["why"]
        assert "no channels" in warning
        assert "JAVA_HOME" in warning
        assert "data_cluster" not in up.until(says("tidewire is up"))
        told("pub", '{"n": 1}', folder=tmp_path)
        refused = told("channel", "list", folder=tmp_path, code=2)
        assert "has no data cluster" in refused["error"]["message"]
        assert up.end() == 0


def test_an_address_that_is_none_on_the_command_line(tmp_path: Path) -> None:
    refused = told("broker", "--listen", "127.0.0.1:0", "--neighbour", "foo:bar", folder=tmp_path, code=2)
    assert "the flags: neighbours: 'foo:bar' is no address" in refused["error"]["message"]


@pytest.mark.parametrize("arguments", [[], ["--secure"]])
def test_a_state_that_cannot_be_written(arguments: list[str], tmp_path: Path) -> None:
    """Nothing is started, and it is told at once."""
    (tmp_path / "file").write_text("no folder")
    port = free_ports(5)
    refused = told("up", "--port", str(port), "--state", "file/state", *arguments, folder=tmp_path, code=2)
    assert "--state file/state: what must survive a restart cannot be written there" in refused["error"]["message"]


def test_tables_that_cannot_be_where_they_are_said_to_be(tmp_path: Path) -> None:
    """Before anything is started."""
    flags = ["--no-console", "--edges", "0", "--port", str(free_ports(3)), "--tables", "ftp://host/x"]
    assert "--data-cluster" in told("up", *flags, folder=tmp_path, code=2)["error"]["message"]
    refused = told("up", *flags, "--data-cluster", folder=tmp_path, code=2)["error"]["message"]
    assert "ftp://host/x: tables are in a folder" in refused
    assert not (tmp_path / ".tidewire").exists()


@pytest.mark.parametrize("command", ["broker", "coordinator"])
def test_other_machines_are_kept_out(command: str, tmp_path: Path) -> None:
    """With ``--insecure`` it goes on to listen. Here it cannot: no machine has an address for documents."""
    refused = told(command, "--listen", "192.0.2.1:0", folder=tmp_path, code=2)
    assert "--insecure" in refused["error"]["message"]
    failed = told(command, "--listen", "192.0.2.1:0", "--insecure", folder=tmp_path, code=2)
    assert "cannot listen on 192.0.2.1:0" in failed["error"]["message"]


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_a_door_beside_each_node(signal_: signal.Signals, tmp_path: Path) -> None:
    """A coordinator and a broker, each with HTTP beside it; both speak of the same network, and end together."""
    with running("coordinator", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", folder=tmp_path) as coordinator:
        where = coordinator.until(says("coordinator"))["address"]
        urls = [coordinator.until(says("console"))["address"]]
        flags = ["--listen", "127.0.0.1:0", "--name", "hub", "--coordinator", where, "--http", "127.0.0.1:0"]
        with running("broker", *flags, folder=tmp_path) as hub:
            urls.append(hub.until(says("console"))["address"])
            for url in urls:
                sent = httpx.post(f"{url}/v1/events", json={"n": 1}, timeout=WAIT_S, trust_env=False)
                assert sent.json()["accepted"] == 1, sent.text
                look = httpx.get(f"{url}/v1/overlay", timeout=WAIT_S, trust_env=False).json()
                assert [one["broker"] for one in look["brokers"]] == ["hub"]
            for node in (hub, coordinator):
                node.process.send_signal(signal_)
                assert node.process.wait(WAIT_S) == 0
        for url in urls:
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{url}/healthz", timeout=WAIT_S, trust_env=False)


def test_a_door_alone(tmp_path: Path) -> None:
    """Other machines are kept out, as from brokers; it comes up without a broker, and ends cleanly."""
    away = "192.0.2.1:0"
    for flags in (["console", "--listen", away], ["broker", "--listen", "127.0.0.1:0", "--http", away]):
        refused = told(*flags, folder=tmp_path, code=2)
        assert "--insecure" in refused["error"]["message"]
    port = free_ports(1)
    with running("console", "--at", f"127.0.0.1:{port}", "--listen", "127.0.0.1:0", folder=tmp_path) as door:
        url = door.until(says("console"))["address"]
        assert httpx.get(f"{url}/healthz", timeout=WAIT_S, trust_env=False).json() == {"status": "ok"}
        assert door.end() == 0


def test_nobody_there(tmp_path: Path) -> None:
    """The error says what to start."""
    port = free_ports(1)
    for command in (["pub", '{"a": 1}'], ["sub", "a = 1"]):
        failed = told(*command, "--at", f"127.0.0.1:{port}", folder=tmp_path, code=2)
        assert failed["error"]["code"] == "unavailable"


def test_a_coordinator_says_which_broker_to_use(tmp_path: Path) -> None:
    """Or that it knows none. Its address will do for --at, too."""
    with running("coordinator", "--listen", "127.0.0.1:0", folder=tmp_path) as coordinator:
        where = coordinator.until(says("coordinator"))["address"]
        asks = ["pub", '{"a": 1}', "--coordinator", where]
        failed = subprocess.run(
            [sys.executable, "-m", "tidewire", *asks], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert failed.returncode == 2
        assert f"no broker could be reached through the coordinator at {where}" in " ".join(failed.stderr.split())
        assert "no broker that takes subscribers is connected" in " ".join(failed.stderr.split())
        flags = ["--listen", "127.0.0.1:0", "--name", "hub", "--coordinator", where]
        with running("broker", *flags, folder=tmp_path) as hub:
            hub.until(says("broker"))
            assert told(*asks, folder=tmp_path)["broker"] == "hub"
            assert told("pub", '{"a": 1}', "--at", where, folder=tmp_path)["broker"] == "hub"
        assert coordinator.end() == 0
    missing = subprocess.run(
        [sys.executable, "-m", "tidewire", *asks], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert f"no broker could be reached through the coordinator at {where}" in " ".join(missing.stderr.split())


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    """And what has become of the lines before it; nothing after it is published."""
    flags = ["--listen", "127.0.0.1:0", "--store", str(tmp_path / "log")]
    with running("broker", *flags, folder=tmp_path) as broker:
        where = broker.until(says("broker"))["address"]
        typed = '{"a": 1}\n\n{"a": \n{"a": 3}\n'
        for how, became in (([], "1 published"), (["--guaranteed"], "1 durable")):
            failed = told("pub", "-", *how, "--at", where, folder=tmp_path, code=2, typed=typed)
            message = failed["error"]["message"]
            assert message.startswith("line 3 of standard input is no event: ")
            assert message.endswith(f"; of 1 events: {became}; none after them was begun")
            failed = told("pub", '{"a": 1}', '{"a": [2]}', '{"a": 3}', *how, "--at", where, folder=tmp_path, code=2)
            assert failed["error"]["code"] == "value-type"
            assert failed["error"]["message"].startswith("EVENT 2 of the command line is no event: ")
            assert failed["error"]["message"].endswith(f"; of 1 events: {became}; none after them was begun")
        assert broker.end() == 0


def test_publishing_says_how_many_were_acknowledged(tmp_path: Path) -> None:
    """None at all is no error, and is said."""
    flags = ["--listen", "127.0.0.1:0", "--store", str(tmp_path / "log")]
    with running("broker", *flags, folder=tmp_path) as broker:
        where = broker.until(says("broker"))["address"]
        for typed, how, published, durable in (("", [], 0, 0), ('{"a": 1}\n{"a": 2}', ["--guaranteed"], 2, 2)):
            done = told("pub", "-", *how, "--at", where, folder=tmp_path, typed=typed)
            assert (done["published"], done["durable"], done["refused"]) == (published, durable, 0)
            shown = shell("pub", "-", *how, "--at", where, folder=tmp_path, typed=typed)
            words = f"{durable} acknowledged" if durable else "nothing was published: standard input had no event"
            assert words in shown
        repeated = told("pub", "-", "--count", "2", "--at", where, folder=tmp_path, code=2)
        assert "standard input has its lines only once" in repeated["error"]["message"]
        assert broker.end() == 0


def test_a_line_is_published_when_it_comes(tmp_path: Path) -> None:
    """Not when the next one does: whoever types, or follows a file, would wait."""
    with running("broker", "--listen", "127.0.0.1:0", folder=tmp_path) as broker:
        where = broker.until(says("broker"))["address"]
        with running("sub", "a > 0", "--at", where, folder=tmp_path) as subscriber:
            subscriber.until(lambda one: one.get("what", "").startswith("subscribed at"))
            command = [sys.executable, "-m", "tidewire", "pub", "-", "--at", where]
            with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, cwd=tmp_path) as publisher:
                assert publisher.stdin is not None
                for n in (1, 2):
                    publisher.stdin.write(f'{{"a": {n}}}\n')
                    publisher.stdin.flush()
                    subscriber.until(carries(a=n))
                publisher.stdin.close()
                assert publisher.wait(WAIT_S) == 0
        assert broker.end() == 0


def test_a_publisher_whose_broker_has_gone_ends(tmp_path: Path) -> None:
    with running("broker", "--listen", "127.0.0.1:0", folder=tmp_path) as broker:
        where = broker.until(says("broker"))["address"]
        publish = ["pub", '{"a": 1}', "--count", "100000", "--rate", "100", "--at", where]
        with running(*publish, folder=tmp_path) as publisher:
            with running("sub", "a = 1", "--count", "1", "--at", where, folder=tmp_path) as subscriber:
                assert subscriber.process.wait(WAIT_S) == 0
            broker.process.kill()
            assert publisher.process.wait(WAIT_S) == 2
