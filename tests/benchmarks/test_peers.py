"""Peers are unpacked, started, measured and ended, with all that descends from them."""

import hashlib
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tidewire.benchmarks.certificates import certificates
from tidewire.benchmarks.load import Traffic, run_load
from tidewire.benchmarks.peers import CACHE, PEERS, Broker, Peer
from tidewire.benchmarks.processes import ServerProcess, cpu_s, free_port, process_tree, rss_bytes
from tidewire.benchmarks.secure import TLS_PEERS
from tidewire.benchmarks.unpack import _keep_links_inside, unpack_debian, unpack_wheel
from tidewire.model.errors import Unavailable

ROOT = Path(__file__).resolve().parents[2]
SLOW = {"rabbitmq", "activemq"}


def _has_ended(pid: int) -> bool:
    """Gone, or dead and waiting for its parent to notice."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in "ZX"


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in PEERS])
def test_a_peer_delivers_what_is_published(name: str) -> None:
    peer = PEERS[name](ROOT / CACHE)
    try:
        peer.fetch()
    except Unavailable as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(problem.message)
    assert peer.is_available()
    port = free_port()
    peer.start(port)
    try:
        pids = peer.pids()
        traffic = Traffic(events=200, subscribers=2)
        loaded = run_load(peer.dialect, traffic, port=port, subject="bench.000001", server_cpu_s=peer.cpu_s)
        assert (loaded.deliveries, loaded.lost, loaded.out_of_order, loaded.errors) == (400, 0, 0, [])
        assert loaded.server_cpu_s > 0
        assert peer.rss_bytes() > 1 << 20
        assert peer.version[0].isdigit()
    finally:
        peer.stop()
    assert all(map(_has_ended, pids))


@pytest.mark.parametrize("name", TLS_PEERS)
def test_a_peer_with_certificates_speaks_tls_and_nothing_else(name: str) -> None:
    with certificates() as own:
        peer = PEERS[name](ROOT / CACHE, certificates=own)
        try:
            peer.fetch()
        except Unavailable as problem:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(problem.message)
        port, traffic = free_port(), Traffic(events=200, subscribers=2)
        peer.start(port)
        try:
            loaded = run_load(peer.dialect, traffic, port=port, subject="bench.000001", authority=peer.authority)
            assert (loaded.deliveries, loaded.lost, loaded.errors) == (400, 0, [])
            with pytest.raises(Unavailable):
                run_load(peer.dialect, traffic, port=port, subject="bench.000001")
        finally:
            peer.stop()


class Loafer(Peer):
    """Ends before it listens."""

    name = "loafer"

    def _unpack(self, into: Path) -> str:
        (into / "program").write_text("#!/bin/sh\necho nothing to do\n", encoding="utf-8")
        (into / "program").chmod(0o755)
        return "1.0"

    def _launch(self, port: int, folder: Path) -> None:
        self._run([self._inside("program")], folder)


def test_a_peer_that_does_not_come_up_is_unavailable_with_what_it_said(tmp_path: Path) -> None:
    peer = Loafer(tmp_path)
    assert (peer.is_available(), peer.version) == (False, "missing")
    peer.fetch()
    assert (peer.is_available(), peer.version) == (True, "1.0")
    with pytest.raises(Unavailable, match="nothing to do"):
        peer.start(free_port())
    assert peer.pids() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loafer"]


class Unreachable(Loafer):
    """Cannot be downloaded."""

    def _unpack(self, into: Path) -> str:
        raise Unavailable("no network")


def test_a_failed_download_leaves_nothing_behind(tmp_path: Path) -> None:
    peer = Unreachable(tmp_path)
    with pytest.raises(Unavailable, match="no network"):
        peer.fetch()
    assert not peer.is_available()
    assert list(tmp_path.iterdir()) == []


def test_the_whole_family_is_ended(tmp_path: Path) -> None:
    """Also a child that ignores the wish to end."""
    stubborn = "trap '' TERM; while :; do sleep 0.05; done"
    process = ServerProcess(["/bin/sh", "-c", f'sh -c "{stubborn}" & wait'], env={"PATH": os.defpath}, folder=tmp_path)
    deadline = time.monotonic() + 10
    while len(family := process_tree(process.pid)) < 2 and time.monotonic() < deadline:
        pass
    assert family[0] == process.pid
    assert len(family) >= 2
    process.end()
    process.end()
    assert all(map(_has_ended, family))


def test_cpu_time_is_that_of_the_process() -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        spent, memory = cpu_s([process.pid]), rss_bytes([process.pid])
        process.communicate(b"\n")
    assert 0.19 <= spent < 2.0
    assert memory > 1 << 20
    assert (cpu_s([process.pid]), rss_bytes([process.pid])) == (0.0, 0)


def test_links_to_the_system_stay_inside_where_their_target_was_unpacked(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "usr" / "lib").mkdir(parents=True)
    (tmp_path / "etc" / "settings").write_text("ours", encoding="utf-8")
    inside, outside, near = (tmp_path / "usr" / "lib" / name for name in ("inside", "outside", "near"))
    inside.symlink_to("/etc/settings")
    outside.symlink_to("/etc/passwd")
    near.symlink_to("inside")
    _keep_links_inside(tmp_path)
    assert inside.readlink() == Path("../../etc/settings")
    assert outside.readlink() == Path("/etc/passwd")
    assert near.readlink() == Path("inside")
    assert near.read_text(encoding="utf-8") == "ours"


def test_tools_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="this machine has no apt-get"):
        unpack_debian(tmp_path / "x", ["redis-server"], cache=tmp_path)


def _wheel(folder: Path) -> str:
    """Writes a wheel with a program into the folder; its hash."""
    path = folder / "tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tool-1.0.data/scripts/tool", "#!/bin/sh\n")
        wheel.writestr("tool-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
        wheel.writestr("tool-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_wheel_is_unpacked_only_if_its_hash_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = _wheel(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    into = tmp_path / "unpacked"
    with pytest.raises(Unavailable, match=r"pip failed: .*Expected sha256"):
        unpack_wheel(into, "tool==1.0", ["0" * 64])
    assert not into.exists()
    assert unpack_wheel(into, "tool==1.0", ["0" * 64, digest]) == "1.0"
    assert os.access(into / "tool-1.0.data/scripts/tool", os.X_OK)


def test_our_broker_is_available_when_the_command_is() -> None:
    broker = Broker()
    assert broker.name == "tidewire"
    if not broker.is_available():
        with pytest.raises(Unavailable, match="tidewire broker"):
            broker.fetch()
