"""What others wrote is what its table says, with its licence beside it."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["src/tidewire/console/static/vendor", "tests/browser/vendor"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_vendored_file_is_in_the_table_with_its_hash(folder: str) -> None:
    """Nobody edits these files by hand: tools/vendor.sh writes them, and the table is changed with them."""
    root = ROOT / folder
    table = (root / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| (\S+) \| `([0-9a-f]{64})` \|$", table, re.MULTILINE))
    files = sorted(path for path in root.glob("*/**/*") if path.is_file())
    assert told == {path.relative_to(root).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_vendored_library_has_its_licence_and_is_in_the_notice(folder: str) -> None:
    """Its version is said twice, by the table and by the script that fetches it: they agree."""
    root = ROOT / folder
    table = (root / "README.md").read_text(encoding="utf-8")
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8").lower()
    libraries = [path for path in root.iterdir() if path.is_dir()]
    assert libraries
    for library in libraries:
        assert (library / "LICENSE").stat().st_size > 500
        assert library.name in notice
        version = re.search(rf"^\| {library.name} \| (\S+) \|", table, re.MULTILINE)
        assert version
        assert f"{library.name}@{version[1]} " in (ROOT / "tools" / "vendor.sh").read_text(encoding="utf-8")
